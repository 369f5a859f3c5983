//! CR4–CR6, CR8, C3, C4: which question a message is meant for.

use holdpoint_channels::binding::Binding;
use holdpoint_channels::place::{MessageId, Position};
use holdpoint_channels::receipt::{Bound, How, Incoming, Kind, Open, Why, address, bind};
use holdpoint_model::ids::{Generation, QuestionId};
use proptest::prelude::*;

fn open(generation: u64, kind: Kind, at: Option<u64>, sender_may: bool) -> Open {
    Open {
        binding: Binding {
            question: QuestionId::new(format!("q_{generation}")).unwrap(),
            generation: Generation(generation),
        },
        message: at.map(|at| MessageId(at.to_string())),
        at: at.map(Position),
        kind,
        sender_may,
    }
}

fn bare(at: u64) -> Incoming {
    Incoming { at: Position(at), replies_to: None, names: None, quiet: false }
}

fn to(open: &Open, by: How) -> Bound {
    Bound::To { binding: open.binding.clone(), by }
}

fn free(why: Why) -> Bound {
    Bound::Free { why }
}

#[test]
fn cr6_the_matrix_of_bare_texts() {
    // {0, 1, 2 open} × {takes a text?} × {sender may?} × {card delivered?}
    for count in 0..=2_u64 {
        for text in [true, false] {
            for may in [true, false] {
                for delivered in [true, false] {
                    let kind = if text { Kind::OnePart } else { Kind::Parts };
                    let at = |n| delivered.then_some(10 * n);
                    let all: Vec<_> = (1..=count).map(|n| open(n, kind, at(n), may)).collect();
                    let expected = match (count, text, may, delivered) {
                        (0, ..) => free(Why::NothingOpen),
                        (2, ..) => free(Why::Several),
                        (_, _, _, false) => free(Why::NotShownYet),
                        (_, _, false, _) => free(Why::NotAllowed),
                        (_, false, ..) => free(Why::Parts),
                        (_, true, true, true) => to(&all[0], How::Only),
                    };
                    assert_eq!(bind(&all, &bare(100)), expected, "{count} {text} {may} {delivered}");
                }
            }
        }
    }
}

#[test]
fn cr5_a_message_from_before_the_card_is_never_its_answer() {
    let q2 = open(2, Kind::OnePart, Some(50), true);
    for (at, expected) in
        [(49, free(Why::NotShownYet)), (50, free(Why::NotShownYet)), (51, to(&q2, How::Only))]
    {
        assert_eq!(bind(std::slice::from_ref(&q2), &bare(at)), expected, "{at}");
        let named = Incoming { names: Some(2), ..bare(at) };
        let by_number = if at == 51 { to(&q2, How::Number) } else { free(Why::NotShownYet) };
        assert_eq!(bind(std::slice::from_ref(&q2), &named), by_number, "{at}");
    }
}

#[test]
fn c4_a_permission_is_never_answered_by_a_message() {
    let permission = open(1, Kind::Permission, Some(10), true);
    let question = open(2, Kind::OnePart, Some(20), true);
    let only = std::slice::from_ref(&permission);
    assert_eq!(bind(only, &bare(100)), free(Why::OnlyPermissions));
    let reply = Incoming { replies_to: permission.message.clone(), ..bare(100) };
    assert_eq!(bind(only, &reply), free(Why::Permission));
    assert_eq!(bind(only, &Incoming { names: Some(1), ..bare(100) }), free(Why::Permission));
    // Beside it the one question is the only one (C2).
    let both = [permission, question.clone()];
    assert_eq!(bind(&both, &bare(100)), to(&question, How::Only));
}

#[test]
fn cr6_explicit_beats_implicit_and_means_what_it_names_or_nothing() {
    let (one, two) = (open(1, Kind::OnePart, Some(10), true), open(2, Kind::OnePart, Some(20), true));
    let both = [one.clone(), two.clone()];
    let reply = |to: &str| Incoming { replies_to: Some(MessageId(to.to_owned())), ..bare(100) };
    assert_eq!(bind(&both, &reply("10")), to(&one, How::Reply));
    assert_eq!(bind(&both, &reply("20")), to(&two, How::Reply));
    assert_eq!(bind(&both, &Incoming { names: Some(2), ..reply("10") }), to(&one, How::Reply));
    assert_eq!(bind(&both, &Incoming { names: Some(2), ..bare(100) }), to(&two, How::Number));
    assert_eq!(bind(&both, &Incoming { names: Some(2), ..reply("77") }), to(&two, How::Number));
    // Of something that is not open here: never another one instead.
    assert_eq!(bind(&both[..1], &reply("77")), free(Why::NotOpen));
    assert_eq!(bind(&both[..1], &Incoming { names: Some(2), ..bare(100) }), free(Why::NotOpen));
    assert_eq!(bind(&[], &Incoming { names: Some(2), ..bare(100) }), free(Why::NotOpen));
    // With nothing open a reply is an ordinary message.
    assert_eq!(bind(&[], &reply("77")), free(Why::NothingOpen));
}

#[test]
fn cr8_bare_text_is_held_in_the_quiet_gap_and_explicit_text_is_not() {
    let two = open(2, Kind::OnePart, Some(20), true);
    let all = std::slice::from_ref(&two);
    let quiet = Incoming { quiet: true, ..bare(100) };
    assert_eq!(bind(all, &quiet), free(Why::Quiet));
    assert_eq!(bind(all, &Incoming { names: Some(2), ..quiet.clone() }), to(&two, How::Number));
    assert_eq!(bind(all, &Incoming { replies_to: two.message.clone(), ..quiet }), to(&two, How::Reply));
}

#[test]
fn cr6_an_address_is_a_number_and_then_what_is_said() {
    for (text, expected) in [
        ("#3 blue", (Some(3), "blue")),
        ("  #12: 2", (Some(12), "2")),
        ("#3\nblue", (Some(3), "blue")),
        ("#3", (None, "#3")),
        ("#3 ", (None, "#3 ")),
        ("#3blue", (None, "#3blue")),
        ("# 3 blue", (None, "# 3 blue")),
        ("3 blue", (None, "3 blue")),
        ("#99999999999999999999999 x", (None, "#99999999999999999999999 x")),
        ("", (None, "")),
    ] {
        assert_eq!(address(text), expected, "{text:?}");
    }
}

fn opens() -> impl Strategy<Value = Vec<Open>> {
    let kind = prop_oneof![Just(Kind::OnePart), Just(Kind::Parts), Just(Kind::Permission)];
    let one = (kind, prop::option::of(1..20_u64), any::<bool>());
    prop::collection::vec(one, 0..4).prop_map(|all| {
        // Messages have different places, as they have on a platform.
        let place = |number: u64, at: u64| at * 8 + number;
        (1..)
            .zip(all)
            .map(|(number, (kind, at, may))| open(number, kind, at.map(|at| place(number, at)), may))
            .collect()
    })
}

fn messages() -> impl Strategy<Value = Incoming> {
    let names = prop::option::weighted(0.3, 1..6_u64);
    let reply = prop::option::weighted(0.3, 1..170_u64);
    (1..200_u64, reply, names, any::<bool>()).prop_map(|(at, reply, names, quiet)| Incoming {
        at: Position(at),
        replies_to: reply.map(|id| MessageId(id.to_string())),
        names,
        quiet,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    /// What must hold of any binding, said the other way round: not how it is found, but what it may never be.
    #[test]
    fn cr4_cr5_cr6_c4_c6_a_binding_is_always_one_that_its_author_meant(open in opens(), message in messages()) {
        let Bound::To { binding, by } = bind(&open, &message) else { return Ok(()) };
        let bound: Vec<_> = open.iter().filter(|one| one.binding == binding).collect();
        prop_assert_eq!(bound.len(), 1, "of something that is open");
        let bound = bound[0];
        prop_assert!(bound.kind == Kind::OnePart, "one text answers it");
        prop_assert!(bound.sender_may);
        prop_assert!(bound.at.is_some_and(|card| message.at > card), "its author can have seen it");
        match by {
            How::Reply => prop_assert_eq!(&bound.message, &message.replies_to),
            How::Number => prop_assert_eq!(Some(bound.binding.generation.0), message.names),
            How::Only => {
                prop_assert!(message.names.is_none() && message.replies_to.is_none() && !message.quiet);
                let questions = open.iter().filter(|one| one.kind != Kind::Permission).count();
                prop_assert_eq!(questions, 1);
            }
        }
    }

    /// What opens or closes elsewhere never turns a message to one question into an answer to another.
    #[test]
    fn cr6_an_explicit_message_never_moves(open in opens(), message in messages(), gone in any::<prop::sample::Index>()) {
        if message.names.is_none() && message.replies_to.is_none() {
            return Ok(());
        }
        let Bound::To { binding, .. } = bind(&open, &message) else { return Ok(()) };
        let mut fewer = open.clone();
        fewer.remove(gone.index(open.len()));
        if let Bound::To { binding: now, by } = bind(&fewer, &message)
            && now != binding
        {
            // Only a message that says both: it replies to what is gone, and names what is not.
            prop_assert!(by == How::Number && message.replies_to.is_some());
        }
    }
}
