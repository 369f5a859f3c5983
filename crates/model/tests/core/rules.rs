//! Single rules, each in the shortest life of a session that shows it.

use std::sync::Arc;

use crate::common::{Driven, by, context, id, voter};
use holdpoint_model::ids::Generation;
use holdpoint_model::policy::{Capture, Forbidden, Strategy};
use holdpoint_model::session::{
    Choice, CloseCause, Command, Event, Rejection, SETTLED_KEPT, Session, State, TurnEnd, UnaskedCause,
};
use serde_json::json;

fn on() -> Driven {
    Driven::new(context(true, Strategy::FirstResponder))
}

fn off() -> Driven {
    Driven::new(context(false, Strategy::FirstResponder))
}

fn cause(driven: &Driven, generation: u64) -> Option<CloseCause> {
    match driven.session.questions[&Generation(generation)].state {
        State::Closed { cause, .. } => Some(cause),
        State::Open | State::Settled(_) => None,
    }
}

fn is_open(driven: &Driven, generation: u64) -> bool {
    driven.session.questions[&Generation(generation)].is_open()
}

/// A process dies in the middle of a question and another takes the session up.
fn crash(driven: &mut Driven, prompt: &str) {
    driven.restart();
    driven.reconcile(Some("t1"), &["c1"], Some(prompt), true);
}

#[test]
fn i4_an_answer_that_the_agent_may_not_have_is_told_again_and_not_asked_for() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "c1", "This?");
    driven.vote("r1", None, Some("proceed_once")).unwrap();
    crash(&mut driven, "p1");
    driven.go(Command::AdmitRestore { fresh: id("p2"), client: None });
    let events = driven.ask(Some("t1"), "c1", "This?");
    assert_eq!(events, [Event::Reissued { generation: Generation(1), request: id("r2") }]);
    // Once it is in the history, the same call id is a new question (I3).
    driven.go(Command::CallEnded { life: driven.session.life, call: id("c1"), repaired: false });
    assert_eq!(driven.ask(Some("t1"), "c1", "This?")[0].name(), "asked");
}

/// An answer that came while a load without a client was under way: the agent has not written it yet, and is told of it
/// next. To end the turn here would give what follows another prompt id, and after a crash the prompt would look as if it
/// had never been begun (D5).
#[test]
fn r15_r20_an_answer_that_is_on_its_way_keeps_its_turn() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "c1", "This?");
    driven.restart();
    driven.vote("r1", None, Some("proceed_once")).unwrap();
    assert_eq!(driven.reconcile(Some("t1"), &["c1"], Some("p1"), false), []);
    // The agent has written it, and hints.
    let events = driven.reconcile(Some("t1"), &[], Some("p1"), true);
    assert_eq!(events, [Event::Delivered { generation: Generation(1) }]);
    driven.go(Command::AdmitRestore { fresh: id("p2"), client: None });
    assert_eq!(driven.session.running().unwrap().origin.prompt(), &id("p1"));
}

#[test]
fn i3_an_answer_never_reaches_other_words_of_the_same_call() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "c1", "This?");
    driven.vote("r1", None, Some("proceed_once")).unwrap();
    assert_eq!(driven.ask(Some("t1"), "c1", "That?")[0].name(), "asked");
    // Neither does it reach the agent as what is still to be written.
    assert_eq!(driven.session.undelivered().count(), 0);
    // And an open one whose words are replaced ends.
    assert_eq!(driven.ask(Some("t1"), "c1", "And this?")[0].name(), "closed");
    assert_eq!(cause(&driven, 2), Some(CloseCause::Withdrawn));
}

#[test]
fn i3_without_a_turn_record_a_repeated_call_id_proves_nothing_in_another_turn() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(None, "call_0", "This?");
    driven.vote("r1", None, Some("proceed_once")).unwrap();
    assert_eq!(driven.ask(None, "call_0", "This?")[0].name(), "reissued");
    driven.end_turn("p1");
    driven.prompt("p2", None);
    assert_eq!(driven.ask(None, "call_0", "This?")[0].name(), "asked");
}

#[test]
fn v6_consent_is_never_given_twice() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask_permission(None, "call_0");
    driven.vote("r1", None, Some("proceed_once")).unwrap();
    driven.restart();
    driven.go(Command::AdmitRestore { fresh: id("p2"), client: None });
    assert_eq!(driven.ask_permission(None, "call_0")[0].name(), "asked");
}

#[test]
fn v6_an_open_permission_of_an_earlier_process_is_closed_when_the_next_one_looks() {
    for flag in [true, false] {
        let mut driven = Driven::new(context(flag, Strategy::FirstResponder));
        driven.prompt("p1", None);
        driven.ask_permission(Some("t1"), "c1");
        driven.ask(Some("t1"), "c2", "This?");
        assert_eq!(driven.names(Command::Recover), ["closed", "life_started"]);
        assert_eq!(cause(&driven, 1), Some(CloseCause::ProcessRestarted));
        assert!(is_open(&driven, 2));
        let late = driven.vote("r1", None, Some("proceed_once"));
        assert!(matches!(late, Err(Rejection::Closed { cause: CloseCause::ProcessRestarted, .. })));
    }
}

#[test]
fn d3_a_new_process_does_not_take_what_the_last_one_asked_for_asked() {
    let mut driven = off();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "c1", "This?");
    driven.go(Command::Recover);
    assert_eq!(driven.session.asked_now().count(), 0);
    assert!(driven.session.running().is_none() && driven.session.interrupted().is_some());
    let answer = driven.answer("q_1", 1, Choice::Answers(json!({"0": "Red"})), None);
    assert_eq!(answer, Err(Rejection::RestoreDisabled));
    // R17: with the flag off the earlier request id is nobody's.
    assert_eq!(driven.vote("r1", None, Some("proceed_once")), Err(Rejection::StaleRequest));
    driven.context.restore = true;
    assert_eq!(driven.vote("r1", None, Some("proceed_once")).unwrap()[0].name(), "settled");
    // A second look finds nothing to do: a read writes nothing (I7).
    assert_eq!(driven.names(Command::Recover), [""; 0]);
}

#[test]
fn r17_an_alias_settles_its_own_question_only() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "c1", "This?");
    driven.ask(Some("t1"), "c2", "That?");
    driven.restart();
    driven.reconcile(Some("t1"), &["c1", "c2"], Some("p1"), true);
    driven.go(Command::AdmitRestore { fresh: id("p2"), client: None });
    driven.ask(Some("t1"), "c1", "This?");
    driven.ask(Some("t1"), "c2", "That?");
    let events = driven.vote("r2", None, Some("proceed_once")).unwrap();
    assert_eq!(events[0].generation(), Some(Generation(2)));
    assert!(is_open(&driven, 1), "R18: only that one is settled");
    // I2: nothing settles it again, through whatever id.
    for request in ["r2", "r4"] {
        let again = driven.vote(request, None, Some("cancel"));
        assert!(matches!(again, Err(Rejection::AlreadySettled(question)) if question.generation.0 == 2));
    }
}

#[test]
fn r10_with_the_flag_on_no_unattended_end_is_an_end() {
    let causes =
        [UnaskedCause::TimedOut, UnaskedCause::SessionClosed, UnaskedCause::Aborted, UnaskedCause::AgentGone];
    for cause in causes {
        let mut driven = on();
        driven.prompt("p1", None);
        driven.ask(Some("t1"), "c1", "This?");
        let events = driven.go(Command::EndAsking { generation: None, cause });
        assert_eq!(events, [Event::Unasked { generation: Generation(1), cause }]);
        assert!(is_open(&driven, 1));
    }
}

#[test]
fn s3_with_the_flag_off_time_outs_and_closes_are_ends_and_a_lost_agent_is_none() {
    let table = [
        (UnaskedCause::TimedOut, Some(CloseCause::TimedOut), true),
        (UnaskedCause::SessionClosed, Some(CloseCause::SessionClosed), true),
        (UnaskedCause::Aborted, Some(CloseCause::Withdrawn), false),
        (UnaskedCause::AgentGone, None, false),
    ];
    for (unasked, closed, is_a_result) in table {
        let mut driven = off();
        driven.prompt("p1", None);
        driven.ask(Some("t1"), "c1", "This?");
        driven.go(Command::EndAsking { generation: None, cause: unasked });
        assert_eq!(cause(&driven, 1), closed);
        if let Some(closed) = closed {
            assert_eq!(closed.is_a_result(), is_a_result);
            // What the model must read is told again; what it need not is asked anew.
            let again = if is_a_result { "reissued" } else { "asked" };
            assert_eq!(driven.ask(Some("t1"), "c1", "This?")[0].name(), again);
        }
    }
}

#[test]
fn s3_an_interrupted_turn_ends_where_the_flag_is_off_and_its_question_stays() {
    for flag in [true, false] {
        let mut driven = Driven::new(context(flag, Strategy::FirstResponder));
        driven.prompt("p1", None);
        driven.ask(Some("t1"), "c1", "This?");
        driven.restart();
        driven.reconcile(Some("t1"), &["c1"], Some("p1"), false);
        assert!(is_open(&driven, 1));
        assert_eq!(driven.session.interrupted().is_some(), flag);
    }
}

#[test]
fn r10_r15_a_turn_keeps_its_id_over_a_crash_and_gets_a_new_one_after_it_was_parked() {
    let mut driven = on();
    driven.prompt("p1", Some("ann"));
    driven.ask(Some("t1"), "c1", "This?");
    crash(&mut driven, "p1");
    driven.go(Command::AdmitRestore { fresh: id("p2"), client: None });
    driven.ask(Some("t1"), "c1", "This?");
    let parked = |events: &[Event], name: &str| {
        events.iter().any(|event| {
            matches!(event, Event::TurnEnded { prompt, outcome: TurnEnd::Completed { parked: true, .. } }
                if prompt.as_str() == name)
        })
    };
    driven.go(Command::EndAsking { generation: None, cause: UnaskedCause::TimedOut });
    let events = driven.end_turn("p1");
    assert!(parked(&events, "p1"), "{events:?}");
    // The id was completed on a stream.
    driven.go(Command::AdmitRestore { fresh: id("p3"), client: None });
    driven.ask(Some("t1"), "c1", "This?");
    driven.go(Command::EndAsking { generation: None, cause: UnaskedCause::TimedOut });
    let events = driven.end_turn("p3");
    assert!(parked(&events, "p3"), "the restored turn stops with its question open, too: {events:?}");
}

#[test]
fn r13_a_cancel_ends_a_question_in_first_life_and_only_aborts_a_restored_one() {
    // (flag, restored, unreachable) → the cause that it closes with.
    let table = [
        (true, false, false, Some(CloseCause::CancelledBeforeAnswer)),
        (true, false, true, None),
        (true, true, false, None),
        (true, true, true, None),
        (false, false, false, Some(CloseCause::CancelledBeforeAnswer)),
        (false, false, true, Some(CloseCause::UnreachableQuestion)),
    ];
    for (flag, restored, unreachable, closes) in table {
        let mut driven = Driven::new(context(flag, Strategy::FirstResponder));
        driven.prompt("p1", None);
        driven.ask(Some("t1"), "c1", "This?");
        if restored {
            crash(&mut driven, "p1");
            driven.go(Command::AdmitRestore { fresh: id("p2"), client: None });
            driven.ask(Some("t1"), "c1", "This?");
        }
        driven.go(Command::Cancel { unreachable });
        assert_eq!(cause(&driven, 1), closes, "{flag} {restored} {unreachable}");
        assert_eq!(driven.session.asked_now().count(), 0);
    }
}

#[test]
fn h9_a_halt_ends_a_permission() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask_permission(Some("t1"), "c1");
    driven.go(Command::Cancel { unreachable: true });
    assert_eq!(cause(&driven, 1), Some(CloseCause::UnreachableQuestion));
}

#[test]
fn d5_a_prompt_that_the_agent_never_had_waits_again_before_all_others() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.prompt("p2", None);
    driven.restart();
    driven.reconcile(None, &[], Some("p0"), false);
    let waits: Vec<_> = driven.session.queue.iter().map(|prompt| prompt.id.as_str()).collect();
    assert_eq!(waits, ["p1", "p2"]);
    driven.go(Command::StartNext);
    driven.restart();
    // This time it has: a turn that was begun is never begun twice.
    driven.reconcile(None, &[], Some("p1"), false);
    let waits: Vec<_> = driven.session.queue.iter().map(|prompt| prompt.id.as_str()).collect();
    assert_eq!((waits, driven.session.turn.is_none()), (vec!["p2"], true));
}

#[test]
fn r2_a_question_that_nobody_asks_is_repaired_when_something_else_is_sent() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "c1", "This?");
    driven.go(Command::EndAsking { generation: None, cause: UnaskedCause::TimedOut });
    driven.end_turn("p1");
    driven.prompt("p2", None);
    assert_eq!(cause(&driven, 1), Some(CloseCause::OrphanRepair));
    let ended =
        driven.names(Command::CallEnded { life: driven.session.life, call: id("c1"), repaired: true });
    assert_eq!(ended, ["delivered"]);
}

#[test]
fn r2_a_question_that_is_asked_beside_the_turns_outlives_the_start_of_one() {
    let mut driven = on();
    driven.ask(None, "call_0", "This?");
    driven.prompt("p1", None);
    assert!(is_open(&driven, 1));
}

#[test]
fn r2_nothing_is_reconciled_while_a_turn_runs() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t2"), "c1", "This?");
    assert_eq!(driven.reconcile(Some("t1"), &[], Some("p0"), false), []);
    assert!(is_open(&driven, 1));
}

#[test]
fn c4_the_sixty_fifth_question_is_refused_and_what_asks_nobody_is_not() {
    let mut driven = on();
    driven.prompt("p1", None);
    for call in 0..64 {
        driven.ask(Some("t1"), &format!("c{call}"), "This?");
    }
    driven.vote("r1", None, Some("proceed_once")).unwrap();
    driven.ask(Some("t1"), "c64", "This?");
    let body = driven.session.questions[&Generation(1)].body.clone();
    let next = driven.ask_command(Some("t1"), "c65", body.clone());
    assert_eq!(driven.run(next), Err(Rejection::TooManyPending(64)));
    assert_eq!(driven.ask(Some("t1"), "c0", "This?")[0].name(), "reissued");
    assert_eq!(driven.ask(Some("t1"), "c2", "This?")[0].name(), "reasked");
}

#[test]
fn d2_the_same_response_gets_the_same_receipt_and_another_is_refused() {
    let red = || Choice::Answers(json!({"0": "Red"}));
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "c1", "This?");
    let stale = driven.answer("q_1", 2, red(), Some("res"));
    assert_eq!(stale, Err(Rejection::StaleGeneration { actual: Generation(1) }));
    assert_eq!(driven.answer("q_9", 1, red(), None), Err(Rejection::UnknownQuestion));
    assert_eq!(driven.answer("q_1", 1, red(), Some("res")).unwrap().len(), 1);
    assert_eq!(driven.answer("q_1", 1, red(), Some("res")).unwrap(), []);
    // A list of one pick is the same answer.
    assert_eq!(driven.answer("q_1", 1, Choice::Answers(json!({"0": ["Red"]})), Some("res")).unwrap(), []);
    for choice in [Choice::Answers(json!({"0": "Blue"})), Choice::Decline, Choice::Answers(json!({}))] {
        assert_eq!(driven.answer("q_1", 1, choice, Some("res")), Err(Rejection::ResponseIdReused));
    }
    for response in [None, Some("other")] {
        assert!(matches!(driven.answer("q_1", 1, red(), response), Err(Rejection::AlreadySettled(_))));
    }
    let stale = driven.answer("q_1", 7, red(), Some("res"));
    assert_eq!(stale, Err(Rejection::StaleGeneration { actual: Generation(1) }));
}

#[test]
fn v2_a_reask_captures_anew_and_counts_the_clients_of_this_life() {
    let mut driven = Driven::new(context(true, Strategy::Consensus));
    for client in ["ann", "bob", "cyd"] {
        driven.attach(client);
    }
    driven.prompt("p1", Some("ann"));
    driven.ask(Some("t1"), "c1", "This?");
    driven.vote("r1", Some("ann"), Some("proceed_once")).unwrap();
    crash(&mut driven, "p1");
    // R16: an id from before is known, and counts from when it is back.
    assert_eq!(
        driven.names(Command::Attach { presented: Some(id("ann")), minted: id("x") }),
        ["client_registered"]
    );
    assert_eq!(driven.names(Command::Attach { presented: Some(id("ann")), minted: id("x") }), [""; 0]);
    assert!(driven.session.clients.contains("cyd") && !driven.session.clients.contains("x"));
    driven.go(Command::AdmitRestore { fresh: id("p2"), client: None });
    driven.ask(Some("t1"), "c1", "This?");
    let asking = driven.session.questions[&Generation(1)].asking.clone().unwrap();
    assert_eq!(asking.capture, Capture::Consensus { clients: [id("ann")].into(), quorum: 1 });
    assert_eq!(asking.ballots, []);
    assert_eq!(driven.vote("r2", Some("ann"), Some("proceed_once")).unwrap()[0].name(), "settled");
}

#[test]
fn v2_a_restored_question_is_designated_to_its_author_and_to_whose_load_asked_again() {
    let mut driven = Driven::new(context(true, Strategy::Designated));
    driven.prompt("p1", Some("ann"));
    driven.ask(Some("t1"), "c1", "This?");
    crash(&mut driven, "p1");
    driven.go(Command::AdmitRestore { fresh: id("p2"), client: Some(id("bob")) });
    driven.ask(Some("t1"), "c1", "This?");
    let asking = driven.session.questions[&Generation(1)].asking.clone().unwrap();
    assert_eq!(asking.capture, Capture::Designated { clients: [id("ann"), id("bob")].into() });
}

#[test]
fn v5_a_refusal_is_noted_for_a_question_that_was_asked() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "c1", "This?");
    let note = |generation| Command::NoteRefusal {
        generation: Generation(generation),
        by: by(Some("eve")),
        reason: Forbidden::DesignatedMismatch,
    };
    assert_eq!(driven.names(note(1)), ["refused"]);
    assert_eq!(driven.run(note(0)), Err(Rejection::UnknownQuestion));
    assert_eq!(driven.run(note(2)), Err(Rejection::UnknownQuestion));
}

#[test]
fn v5_who_is_refused_for_ever_does_not_fill_the_audit() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "c1", "This?");
    driven.ask(Some("t1"), "c2", "That?");
    let note = |generation| Command::NoteRefusal {
        generation: Generation(generation),
        by: by(Some("eve")),
        reason: Forbidden::DesignatedMismatch,
    };
    let noted = (0..1000).filter(|_| !driven.names(note(1)).is_empty()).count();
    assert_eq!(noted, 256);
    assert_eq!(driven.names(note(2)), ["refused"], "each question has its own");
}

#[test]
fn d6_a_deleted_session_closes_its_questions_and_takes_nothing_more() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "c1", "This?");
    driven.ask_permission(Some("t1"), "c2");
    assert_eq!(driven.names(Command::Delete), ["closed", "closed", "deleted"]);
    assert_eq!(cause(&driven, 2), Some(CloseCause::SessionDeleted));
    for command in [Command::Delete, Command::StartLife, Command::Recover, Command::StartNext] {
        assert_eq!(driven.run(command), Err(Rejection::Deleted));
    }
}

#[test]
fn a_session_that_was_never_opened_takes_nothing_and_is_opened_once() {
    let empty = Session::empty(id("ses_2"));
    let refused = holdpoint_model::session::decide(
        &empty,
        Command::StartLife,
        &context(true, Strategy::FirstResponder),
    );
    assert_eq!(refused, Err(Rejection::NotOpen));
    let mut driven = on();
    let info = driven.session.info.clone().unwrap();
    assert_eq!(driven.run(Command::Open { info }), Err(Rejection::AlreadyOpen));
}

#[test]
fn d5_the_running_prompt_counts_as_one_that_is_held() {
    let mut driven = on();
    driven.context.max_prompts = Some(2);
    driven.prompt("p1", None);
    driven.prompt("p2", None);
    let next = Command::Prompt { prompt: crate::common::prompt_of("p3", None), hold: false };
    assert_eq!(driven.run(next.clone()), Err(Rejection::QueueFull { limit: 2, pending: 2 }));
    driven.end_turn("p1");
    assert_eq!(driven.go(next).last().map(Event::name), Some("turn_started"));
    assert_eq!(driven.session.running().map(|turn| turn.origin.prompt().as_str()), Some("p2"), "in order");
}

#[test]
fn d5_the_same_prompt_again_is_one_turn_whatever_became_of_it() {
    let mut driven = on();
    driven.context.max_prompts = Some(2);
    let again = |name: &str| Command::Prompt { prompt: crate::common::prompt_of(name, None), hold: false };
    driven.prompt("p1", None);
    driven.prompt("p2", None);
    // One that runs, and one that waits; the queue is full, and they are no more of it.
    for name in ["p1", "p2"] {
        assert_eq!(driven.run(again(name)), Ok(Vec::new()), "{name}");
    }
    driven.go(Command::RemovePrompt { id: id("p2") });
    driven.end_turn("p1");
    // One that ended, and one that was taken back: over a new process too, which folds what the ledger holds.
    driven.go(Command::Recover);
    for name in ["p1", "p2"] {
        assert_eq!(driven.run(again(name)), Ok(Vec::new()), "{name}");
    }
    let mut other = crate::common::prompt_of("p1", None);
    other.blocks = vec![serde_json::json!({"type": "text", "text": "something else"})];
    let other = Command::Prompt { prompt: other, hold: false };
    assert_eq!(driven.run(other), Err(Rejection::PromptIdReused(id("p1"))));
    assert!(driven.session.queue.is_empty() && driven.session.turn.is_none());
}

#[test]
fn i2_old_ends_are_forgotten_and_open_and_undelivered_ones_never() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "open", "This?");
    driven.ask(Some("t1"), "decided", "This?");
    driven.vote("r2", None, Some("cancel")).unwrap();
    for n in 0..SETTLED_KEPT + 8 {
        let call = format!("c{n}");
        driven.ask(Some("t1"), &call, "This?");
        driven.vote(&format!("r{}", n + 3), None, Some("cancel")).unwrap();
        driven.go(Command::CallEnded { life: driven.session.life, call: id(call), repaired: false });
    }
    assert_eq!(driven.session.questions.len(), SETTLED_KEPT);
    assert!(is_open(&driven, 1));
    assert_eq!(driven.session.undelivered().map(|question| question.generation.0).collect::<Vec<_>>(), [2]);
    assert!(driven.session.by_request(&id("r3")).is_none());
    assert_eq!(driven.vote("r3", None, Some("cancel")), Err(Rejection::UnknownQuestion));
    let kept: Vec<_> = driven.session.questions.values().map(Arc::clone).collect();
    assert_eq!(kept.last().map(|question| question.generation.0), Some(SETTLED_KEPT as u64 + 10));
}

#[test]
fn q6_a_vote_with_nothing_valid_leaves_the_question_open() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "c1", "This?");
    for answers in [None, Some(json!({})), Some(json!({"9": "Red"})), Some(json!({"0": 1}))] {
        let vote = driven.vote_with("r1", voter(None), Some("proceed_once"), answers);
        assert!(matches!(vote, Err(Rejection::InvalidAnswers(_))), "{vote:?}");
    }
    assert!(is_open(&driven, 1));
}

#[test]
fn d4_a_surface_has_shown_a_question_once() {
    let mut driven = on();
    driven.prompt("p1", None);
    driven.ask(Some("t1"), "c1", "This?");
    let shown = |generation, surface: &str| Command::NoteShown {
        question: id("q_1"),
        generation: Generation(generation),
        surface: surface.to_owned(),
    };
    assert_eq!(driven.names(shown(1, "web")), ["shown"]);
    assert_eq!(driven.names(shown(1, "web")), [""; 0]);
    assert_eq!(driven.names(shown(1, "slack")), ["shown"]);
    assert_eq!(driven.run(shown(2, "web")), Err(Rejection::StaleGeneration { actual: Generation(1) }));
    driven.vote("r1", None, Some("cancel")).unwrap();
    assert!(matches!(driven.run(shown(1, "cli")), Err(Rejection::AlreadySettled(_))));
    assert_eq!(driven.session.questions[&Generation(1)].shown.len(), 2);
}
