//! Random lives of a session, each step compared with a book that keeps the rules in another way.

mod fuzz;
mod oracle;
mod script;

use holdpoint_model::policy::{Capture, Strategy};
use holdpoint_model::session::{Decision, Event, Origin, Question, Session, State, TurnEnd, decide};
use proptest::prelude::*;

use crate::common::{self, Driven};
use oracle::{Book, Fate, Live, Policy, Row, Snapshot, Work};
use script::{Op, ops};

fn strategy_of(policy: Policy) -> Strategy {
    match policy {
        Policy::First => Strategy::FirstResponder,
        Policy::Designated => Strategy::Designated,
        Policy::Consensus => Strategy::Consensus,
        Policy::Local => Strategy::LocalOnly,
    }
}

/// A question of the session, written as the book writes it.
fn row_of(question: &Question) -> Row {
    let words = match question.body.questions() {
        [] => "consent".to_owned(),
        [first, ..] => first.question.clone(),
    };
    let live = question.asking.as_ref().map(|asking| Live {
        request: asking.request.to_string(),
        life: asking.life,
        who: match &asking.capture {
            Capture::FirstResponder => Snapshot::Anybody,
            Capture::LocalOnly => Snapshot::Here,
            Capture::Designated { clients } => {
                Snapshot::Only(clients.iter().map(ToString::to_string).collect())
            }
            Capture::Consensus { clients, quorum } => {
                Snapshot::Quorum(clients.iter().map(ToString::to_string).collect(), *quorum)
            }
        },
        // The form of a ballot's choice is the core's own; who voted is compared, what for shows in the outcome.
        votes: asking.ballots.iter().map(|ballot| (ballot.client.to_string(), String::new())).collect(),
    });
    let fate = match &question.state {
        State::Open => Fate::Waiting,
        State::Closed { cause, .. } => Fate::Ended(cause.as_str()),
        State::Settled(settlement) => Fate::Decided {
            what: match &settlement.decision {
                Decision::Answered { answers } => format!("answer {}", answers.get(0).unwrap_or_default()),
                Decision::Selected { option_id } => format!("yes {option_id}"),
                Decision::Declined { option_id: None } => "no".to_owned(),
                Decision::Declined { option_id: Some(option) } => format!("no {option}"),
            },
            response: settlement.response.as_ref().map(ToString::to_string),
        },
    };
    Row {
        id: question.id.to_string(),
        turn: question.call.turn.as_ref().map(ToString::to_string),
        call: question.call.call.to_string(),
        words,
        consent: !question.body.is_question(),
        prompt: question.prompt.as_ref().map(ToString::to_string),
        author: question.author.as_ref().map(ToString::to_string),
        requests: question.requests.iter().map(ToString::to_string).collect(),
        live,
        fate,
        in_history: question.delivered,
    }
}

fn work_of(session: &Session) -> Option<Work> {
    session.turn.as_ref().map(|turn| Work {
        prompt: turn.origin.prompt().to_string(),
        client: turn.origin.client().map(ToString::to_string),
        kind: match turn.origin {
            Origin::Client { .. } => oracle::Kind::Client,
            Origin::Restore { .. } => oracle::Kind::Restore,
            Origin::Continue { .. } => oracle::Kind::Continue,
        },
        life: turn.life,
    })
}

fn assert_is_the_book(session: &Session, book: &Book) {
    let rows: Vec<Row> = session.questions.values().map(|question| row_of(question)).collect();
    let mut expected = book.rows.clone();
    for live in expected.iter_mut().filter_map(|row| row.live.as_mut()) {
        live.votes.iter_mut().for_each(|(_, what)| what.clear());
    }
    assert_eq!(rows, expected, "the questions");
    assert_eq!(work_of(session), book.turn, "the turn");
    let queue: Vec<_> = session
        .queue
        .iter()
        .map(|prompt| (prompt.id.to_string(), prompt.client.as_ref().map(ToString::to_string)))
        .collect();
    assert_eq!(queue, book.queue, "the queue");
    let names =
        |clients: &std::collections::BTreeSet<_>| clients.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&session.clients), book.clients, "the known clients");
    assert_eq!(names(&session.present), book.present, "the clients that are there");
    assert_eq!((session.life, session.deleted), (book.life, book.deleted));
    let asked: Vec<_> = session.asked_now().map(|(question, _)| question.generation.0 as usize).collect();
    let expected: Vec<_> =
        book.rows.iter().zip(1..).filter(|(row, _)| book.asked_now(row)).map(|(_, at)| at).collect();
    assert_eq!(asked, expected, "what is being asked");
}

/// What must hold between any state and the next, whatever the command was.
fn assert_lawful(before: &Session, after: &Session, events: &[Event]) {
    // I6: one turn, and it is either running or interrupted.
    assert!(!(after.running().is_some() && after.interrupted().is_some()));
    // Generations count 1, 2, 3 …, and none is used again.
    let generations: Vec<_> = after.questions.keys().map(|generation| generation.0).collect();
    assert_eq!(generations, (1..=after.generation.0).collect::<Vec<_>>());
    // A request id is one question's (R17).
    let mut requests: Vec<_> =
        after.questions.values().flat_map(|question| question.requests.iter()).collect();
    let all = requests.len();
    requests.sort();
    requests.dedup();
    assert_eq!(requests.len(), all, "a request id names two questions");
    for (generation, was) in &before.questions {
        let is = &after.questions[generation];
        // A question is never edited, and an end is for ever (I2).
        assert_eq!(
            (&is.id, &is.call, &is.title, &is.body, &is.options, is.asked_at),
            (&was.id, &was.call, &was.title, &was.body, &was.options, was.asked_at)
        );
        assert!(is.requests.starts_with(&was.requests));
        assert!(is.delivered || !was.delivered);
        if !was.is_open() {
            assert_eq!(is.state, was.state);
        }
    }
    for question in after.questions.values() {
        match &question.state {
            State::Open => assert!(!question.delivered),
            // I3: an end has an author, or a cause.
            State::Settled(settlement) => {
                assert!(question.asking.is_none());
                assert!(!settlement.by.surface.is_empty());
            }
            State::Closed { cause, .. } => {
                assert!(question.asking.is_none());
                assert!(!cause.as_str().is_empty());
            }
        }
    }
    let settled = events.iter().filter(|event| matches!(event, Event::Settled { .. })).count();
    assert!(settled <= 1, "one vote decided two questions");
}

/// I4: an answer that a person gave is never asked for again while the agent may not have it.
fn assert_no_answer_is_asked_for_again(before: &Session, events: &[Event]) {
    for event in events {
        let Event::Asked { call, body, .. } = event else { continue };
        let answered = before.by_call(call).filter(|known| {
            call.turn.is_some()
                && body.is_question()
                && known.body == *body
                && !known.delivered
                && matches!(known.state, State::Settled(_))
        });
        assert!(answered.is_none(), "asked again: {answered:?}");
    }
}

fn ends(events: &[Event]) -> Vec<(String, Option<bool>)> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::TurnEnded { prompt, outcome: TurnEnd::Completed { parked, .. } } => {
                Some((prompt.to_string(), Some(*parked)))
            }
            Event::TurnEnded { prompt, .. } => Some((prompt.to_string(), None)),
            _ => None,
        })
        .collect()
}

fn live(flag: bool, policy: Policy, quorum: Option<usize>, script: Vec<Op>) {
    let mut context = common::context(flag, strategy_of(policy));
    context.quorum = quorum;
    let mut driven = Driven::new(context);
    let mut book = Book::new(flag, policy, quorum);
    for (step, op) in script.into_iter().enumerate() {
        driven.context.now.0 += 1;
        let before = driven.session.clone();
        let (command, expected) = script::play(&op, step, &mut driven, &mut book);
        let decided = decide(&driven.session, command.clone(), &driven.context);
        assert_eq!(
            decided,
            decide(&driven.session, command.clone(), &driven.context),
            "decide is a function"
        );
        let events = driven.run(command.clone());
        let named = events.as_ref().map(|_| ()).map_err(script::name_of);
        assert_eq!(named, expected, "{command:?}");
        let events = events.unwrap_or_default();
        if named.is_err() {
            assert_eq!(driven.session, before);
        }
        assert_is_the_book(&driven.session, &book);
        assert_lawful(&before, &driven.session, &events);
        assert_no_answer_is_asked_for_again(&before, &events);
    }
    let happened: Vec<Event> = driven.events.iter().map(|(_, event)| event.clone()).collect();
    assert_eq!(ends(&happened), book.ended, "the ends of turns");
    // R10, R15: a prompt ends once on the stream, whatever crashes lie between.
    let mut ended: Vec<_> = book.ended.iter().map(|(prompt, _)| prompt).collect();
    ended.sort();
    let count = ended.len();
    ended.dedup();
    assert_eq!(ended.len(), count, "a prompt ended twice");
    assert_replays(&driven);
}

/// What the ledger stores folds to the live state, also by way of its JSON.
fn assert_replays(driven: &Driven) {
    let stored = driven.events.iter().map(|(at, event)| {
        let text = serde_json::to_string(event).expect("an event is JSON");
        (*at, serde_json::from_str::<Event>(&text).expect("an event is read back"))
    });
    let folded = Session::fold(driven.session.id.clone(), stored).expect("the stored events follow");
    assert_eq!(folded, driven.session);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn i2_i3_i4_i6_r10_r13_r15_r17_r18_s3_v6_a_session_lives_by_the_book(
        flag in any::<bool>(),
        policy in script::policies(),
        quorum in proptest::option::of(0..4usize),
        script in ops(90),
    ) {
        live(flag, policy, quorum, script);
    }
}
