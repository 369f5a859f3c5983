//! What a platform sends about a card is a claim, not a fact (CR2): it counts only for a card that we posted there.

use serde::{Deserialize, Serialize};

use crate::binding::Binding;
use crate::place::{Conversation, MessageId, Position};

/// A card as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Which question it shows.
    pub binding: Binding,
    /// The conversation that it was posted in.
    pub conversation: Conversation,
    /// Its message there; `None` until the platform has said which.
    pub message: Option<MessageId>,
    /// Its place in the platform's order; `None` until the platform has said which.
    pub at: Option<Position>,
    /// How many cards of this question were posted in this conversation before it.
    pub seq: u32,
}

/// Why a claim is not believed. It is logged; the person is told that the card is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disbelieved {
    /// No card of ours is that message.
    #[error("no card was posted as this message")]
    NoSuchCard,
    /// The card shows another question, or another generation of it.
    #[error("the card that was posted as this message shows another question")]
    AnotherQuestion,
    /// The card was posted elsewhere.
    #[error("the card was posted in another conversation")]
    AnotherPlace,
}

/// Judges a click on `message` in `channel` of `app` that says it is about `claimed`, against the card that is stored for
/// that message.
///
/// # Errors
/// The claim is not what was posted.
pub fn judge<'a>(
    stored: Option<&'a Card>,
    claimed: &Binding,
    app: &str,
    channel: &str,
    message: &MessageId,
) -> Result<&'a Card, Disbelieved> {
    let card = stored.filter(|card| card.message.as_ref() == Some(message)).ok_or(Disbelieved::NoSuchCard)?;
    if card.conversation.app != app || card.conversation.channel != channel {
        return Err(Disbelieved::AnotherPlace);
    }
    if card.binding != *claimed {
        return Err(Disbelieved::AnotherQuestion);
    }
    Ok(card)
}
