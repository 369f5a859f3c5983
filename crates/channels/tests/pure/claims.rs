//! CR2: a payload is a claim, not a fact.

use holdpoint_channels::binding::Binding;
use holdpoint_channels::claim::{Card, Disbelieved, judge};
use holdpoint_channels::place::{Conversation, MessageId, Platform, Position};
use holdpoint_model::ids::{Generation, QuestionId};

fn binding(id: &str, generation: u64) -> Binding {
    Binding { question: QuestionId::new(format!("q_{id}")).unwrap(), generation: Generation(generation) }
}

fn card(binding: Binding, channel: &str, message: &str) -> Card {
    Card {
        binding,
        conversation: Conversation {
            platform: Platform::Discord,
            app: "7".to_owned(),
            channel: channel.to_owned(),
            root: None,
        },
        message: Some(MessageId(message.to_owned())),
        at: Position::discord(message),
        seq: 0,
    }
}

#[test]
fn cr2_swapped_forged_and_moved_controls_are_not_believed() {
    let (one, two) = (card(binding("a", 1), "8", "100"), card(binding("b", 2), "8", "101"));
    let message = |card: &Card| card.message.clone().unwrap();
    let claim = |stored: &Card, claimed: &Binding, app: &str, channel: &str, id: &MessageId| {
        judge(Some(stored), claimed, app, channel, id).map(|card| card.binding.clone())
    };
    assert_eq!(claim(&one, &one.binding, "7", "8", &message(&one)), Ok(one.binding.clone()));
    // The control of one card under the other's message.
    assert_eq!(claim(&one, &two.binding, "7", "8", &message(&one)), Err(Disbelieved::AnotherQuestion));
    // Another generation of the same question, and another question of the same generation.
    for forged in [binding("a", 2), binding("z", 1)] {
        assert_eq!(claim(&one, &forged, "7", "8", &message(&one)), Err(Disbelieved::AnotherQuestion));
    }
    // Moved to another channel, or sent by another app.
    assert_eq!(claim(&one, &one.binding, "7", "9", &message(&one)), Err(Disbelieved::AnotherPlace));
    assert_eq!(claim(&one, &one.binding, "6", "8", &message(&one)), Err(Disbelieved::AnotherPlace));
    // Of a message that is no card, or whose card has no message yet.
    assert_eq!(claim(&one, &one.binding, "7", "8", &message(&two)), Err(Disbelieved::NoSuchCard));
    let unsent = Card { message: None, at: None, ..one.clone() };
    assert_eq!(claim(&unsent, &one.binding, "7", "8", &message(&one)), Err(Disbelieved::NoSuchCard));
    assert_eq!(judge(None, &one.binding, "7", "8", &message(&one)), Err(Disbelieved::NoSuchCard));
}
