//! Any event after any other: what cannot follow is refused, and changes nothing.

use std::collections::BTreeSet;

use holdpoint_model::answers::Answers;
use holdpoint_model::ids::{Generation, Micros};
use holdpoint_model::policy::{Ballot, Capture, Forbidden};
use holdpoint_model::session::{
    Asking, Body, CloseCause, Decision, Event, Info, Origin, Session, Settlement, TurnEnd, UnaskedCause,
};
use proptest::prelude::*;

use crate::common::{by, id, key, prompt_of, question_options, questions};

/// Ids out of so few that they often meet.
fn event((kind, a, b): (u8, u8, u8)) -> Event {
    let generation = Generation(u64::from(a % 4));
    let prompt = format!("p{}", a % 3);
    let request = format!("r{}", b % 6);
    let asking = Asking {
        request: id(request.clone()),
        life: u64::from(b % 3),
        since: Micros(0),
        capture: Capture::Consensus { clients: BTreeSet::from([id("ann")]), quorum: 2 },
        ballots: Vec::new(),
    };
    match kind % 21 {
        0 => Event::Opened {
            info: Info {
                workspace_cwd: "/".into(),
                agent: "a".into(),
                source_type: None,
                source_id: None,
                approval_mode: None,
            },
        },
        1 => Event::LifeStarted { life: u64::from(a % 5), recovered: b % 2 == 0 },
        2 => Event::ClientRegistered { client: id("ann") },
        3 => Event::Titled { title: "t".into() },
        4 => Event::PromptQueued { prompt: prompt_of(&prompt, None) },
        5 => Event::PromptRemoved { prompt: id(prompt) },
        6 => Event::TurnStarted {
            origin: match b % 3 {
                0 => Origin::Client { prompt: prompt_of(&prompt, None) },
                1 => Origin::Restore { id: id(prompt), client: None },
                _ => Origin::Continue { id: id(prompt), client: None },
            },
        },
        7 => Event::TurnRequeued { prompt: id(prompt) },
        8 => Event::TurnEnded { prompt: id(prompt), outcome: TurnEnd::Interrupted },
        9 | 10 => Event::Asked {
            question: id(format!("q_{b}")),
            generation,
            call: key(None, "c"),
            prompt: None,
            author: None,
            title: "t".into(),
            body: Body::UserQuestion { questions: questions("This?") },
            options: question_options(),
            asking,
        },
        11 => Event::Reasked { generation, asking },
        12 => Event::Reissued { generation, request: id(request) },
        13 => Event::Unasked { generation, cause: UnaskedCause::Aborted },
        14 => Event::Voted { generation, ballot: Ballot { client: id("ann"), choice: "x".into() }, by: None },
        15 => Event::Refused { generation, by: by(None), reason: Forbidden::DesignatedMismatch },
        16 => Event::Settled {
            generation,
            settlement: Settlement {
                decision: match Answers::from_pairs([(0, "A".to_owned())]) {
                    Some(answers) if b % 2 == 0 => Decision::Answered { answers },
                    _ => Decision::Declined { option_id: None },
                },
                by: by(None),
                at: Micros(1),
                response: None,
                policy: None,
            },
        },
        17 => Event::Closed { generation, cause: CloseCause::OrphanRepair },
        18 => Event::Delivered { generation },
        19 => Event::Shown { generation, surface: format!("s{}", b % 2) },
        _ if b % 8 == 0 => Event::Deleted,
        _ => Event::Titled { title: "u".into() },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn i2_an_event_that_cannot_follow_changes_nothing(script in proptest::collection::vec(any::<(u8, u8, u8)>(), 0..80), opened in proptest::bool::weighted(0.9)) {
        let mut session = Session::empty(id("ses_1"));
        if opened {
            session.evolve(&event((0, 0, 0)), Micros(0)).expect("the first event opens");
        }
        for (at, step) in script.into_iter().enumerate() {
            let event = event(step);
            let before = session.clone();
            match session.evolve(&event, Micros(at as i64)) {
                Err(illegal) => {
                    prop_assert_eq!(&session, &before);
                    prop_assert_eq!(illegal.event, event.name());
                    prop_assert_eq!(illegal.version, before.version);
                }
                Ok(()) => {
                    prop_assert!(!before.deleted);
                    let opens = matches!(event, Event::Opened { .. });
                    prop_assert_ne!(before.info.is_some(), opens);
                    prop_assert_eq!(session.version, before.version + 1);
                    for (generation, was) in before.questions.iter().filter(|(_, was)| !was.is_open()) {
                        prop_assert_eq!(&session.questions[generation].state, &was.state);
                    }
                }
            }
        }
    }
}
