//! Tests of eligibility, interruption and repair.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn call_id(text: &str) -> CallId {
    CallId::new(text).unwrap()
}

fn args() -> Value {
    json!({"questions": [{"question": "Which?", "header": "Pick", "options": [
        {"label": "A", "description": "a"}, {"label": "B", "description": "b"}]}]})
}

fn call(id: Option<&str>, name: &str, args: Value, result: Option<TailResult>) -> TailCall {
    TailCall { id: id.map(call_id), name: name.to_owned(), args, result }
}

fn turn(calls: Vec<TailCall>) -> TailTurn {
    TailTurn { record: RecordId::new("r").unwrap(), calls, ended: false, notices_after: false }
}

fn question(id: &str) -> TailCall {
    call(Some(id), TOOL_NAME, args(), None)
}

fn done(mut call: TailCall, result: TailResult) -> TailCall {
    call.result = Some(result);
    call
}

fn asked(tail: &Tail) -> Vec<String> {
    match assess(tail) {
        Ok(Restore::Ask { questions, .. }) => questions.iter().map(|q| q.call.to_string()).collect(),
        other => panic!("not asked: {other:?}"),
    }
}

#[test]
fn e2_only_a_trailing_model_turn_is_restored() {
    assert_eq!(assess(&Tail::Empty), Err(NotRestorable::NoModelTurn));
    assert_eq!(assess(&Tail::User), Err(NotRestorable::NoModelTurn));
    assert_eq!(assess(&Tail::Model(turn(vec![]))), Err(NotRestorable::NoCalls));
    let noticed = TailTurn { notices_after: true, ..turn(vec![question("a")]) };
    assert_eq!(assess(&Tail::Model(noticed)), Err(NotRestorable::NoticeFollows));
}

#[test]
fn e3_settled_calls_of_other_tools_do_not_count_and_dangling_ones_do() {
    let settled = done(call(Some("w"), "write_file", json!({}), None), TailResult::Other);
    let tail = Tail::Model(turn(vec![settled, question("a"), call(None, "glob", json!({}), None)]));
    assert_eq!(asked(&tail), ["a"]);
    let mixed = Tail::Model(turn(vec![question("a"), call(Some("w"), "write_file", json!({}), None)]));
    assert!(matches!(assess(&mixed), Err(NotRestorable::OtherToolDangles { .. })));
}

#[test]
fn e4_one_bad_question_closes_the_batch_but_a_settled_one_does_not() {
    let bad = call(Some("b"), TOOL_NAME, json!({"questions": []}), None);
    let tail = Tail::Model(turn(vec![question("a"), bad.clone()]));
    assert!(matches!(assess(&tail), Err(NotRestorable::Unreadable { .. })));
    let tail = Tail::Model(turn(vec![question("a"), done(bad, TailResult::Other)]));
    assert_eq!(asked(&tail), ["a"]);
}

#[test]
fn r18_only_the_unanswered_questions_of_a_batch_are_asked() {
    let tail = Tail::Model(turn(vec![done(question("a"), TailResult::Other), question("b"), question("c")]));
    assert_eq!(asked(&tail), ["b", "c"]);
}

#[test]
fn r20_a_settled_batch_goes_on_unless_its_turn_is_over() {
    let settled = turn(vec![done(question("a"), TailResult::Other)]);
    assert!(matches!(assess(&Tail::Model(settled.clone())), Ok(Restore::GoOn { .. })));
    let over = TailTurn { ended: true, ..settled };
    assert_eq!(assess(&Tail::Model(over)), Err(NotRestorable::TurnOver));
    let other = turn(vec![done(call(Some("w"), "run_shell_command", json!({}), None), TailResult::Other)]);
    assert_eq!(assess(&Tail::Model(other)), Err(NotRestorable::NoQuestion));
}

#[test]
fn r20_what_nobody_decided_does_not_go_on_by_itself() {
    for result in [TailResult::Cancelled, TailResult::Repaired] {
        r20_stopped(result);
    }
}

fn r20_stopped(result: TailResult) {
    // R13: the turn was cancelled, and the process died before it could say so; or it went on without the question.
    let stopped = done(question("a"), result);
    let tail = Tail::Model(turn(vec![stopped.clone()]));
    assert_eq!(assess(&tail), Err(NotRestorable::TurnStopped));
    assert_eq!(interruption(&tail), Interruption::InterruptedPrompt, "a person can have it go on");
    let beside_an_answer = turn(vec![done(question("a"), TailResult::Other), stopped.clone()]);
    assert_eq!(assess(&Tail::Model(beside_an_answer)), Err(NotRestorable::TurnStopped));
    // What still dangles is asked all the same.
    assert_eq!(asked(&Tail::Model(turn(vec![stopped, question("b")]))), ["b"]);
}

#[test]
fn r20_r21_a_call_that_was_cut_off_beside_an_answer_is_repaired_and_the_turn_goes_on() {
    let shell = || call(Some("w"), "run_shell_command", json!({}), None);
    let answered = || done(question("a"), TailResult::Other);
    let goes_on = |calls| match assess(&Tail::Model(turn(calls))) {
        Ok(Restore::GoOn { cut_off, .. }) => {
            Some(cut_off.iter().map(ToString::to_string).collect::<Vec<_>>())
        }
        _ => None,
    };
    assert_eq!(goes_on(vec![answered(), shell()]), Some(vec!["w".to_owned()]));
    assert_eq!(
        goes_on(vec![shell(), answered(), done(question("b"), TailResult::Declined)]),
        Some(vec!["w".to_owned()])
    );
    // After the repair, and a crash behind it.
    assert_eq!(goes_on(vec![done(shell(), TailResult::Repaired), answered()]), Some(vec![]));
    // A cancel, a decline alone, and a question that nobody has answered are another matter.
    assert_eq!(goes_on(vec![done(shell(), TailResult::Cancelled), answered()]), None);
    assert_eq!(goes_on(vec![shell(), done(question("a"), TailResult::Declined)]), None);
    assert_eq!(goes_on(vec![shell(), answered(), question("b")]), None);
}

#[test]
fn r10_a_parked_turn_is_asked_again_although_something_of_it_ended() {
    let parked = TailTurn { ended: true, ..turn(vec![question("a")]) };
    assert_eq!(asked(&Tail::Model(parked)), ["a"]);
}

#[test]
fn q7_a_batch_of_declines_ends_without_the_model() {
    let (a, b) = (call_id("a"), call_id("b"));
    let (declined, other) = (Some(TailResult::Declined), Some(TailResult::Other));
    assert_eq!(settlement([(Some(&a), declined), (Some(&b), declined)]), Settlement::AllDeclined);
    assert_eq!(settlement([(Some(&a), declined), (Some(&b), other)]), Settlement::CallModel);
    assert_eq!(settlement([(Some(&a), declined), (Some(&b), None)]), Settlement::Open);
    assert_eq!(settlement([(None, None)]), Settlement::CallModel);
}

#[test]
fn r11_interruption_classes_of_the_generic_continue() {
    let class = |calls| interruption(&Tail::Model(turn(calls)));
    assert_eq!(interruption(&Tail::Empty), Interruption::None);
    assert_eq!(interruption(&Tail::User), Interruption::InterruptedPrompt);
    assert_eq!(class(vec![]), Interruption::None);
    assert_eq!(class(vec![call(None, "glob", json!({}), None)]), Interruption::None);
    assert_eq!(class(vec![question("a")]), Interruption::InterruptedTurn);
    assert_eq!(class(vec![done(question("a"), TailResult::Other)]), Interruption::InterruptedPrompt);
    assert_eq!(
        class(vec![done(question("a"), TailResult::Other), question("b")]),
        Interruption::InterruptedTurn
    );
}

fn model(calls: &[(&str, &str)]) -> Entry {
    let parts = calls
        .iter()
        .map(|(id, name)| {
            Part::call(FunctionCall {
                id: (!id.is_empty()).then(|| call_id(id)),
                name: (*name).to_owned(),
                args: json!({}),
            })
        })
        .collect();
    Entry::bare(Content { role: Role::Model, parts })
}

fn response(id: &str, name: &str, text: &str) -> Entry {
    Entry::bare(Content::response(FunctionResponse {
        id: (!id.is_empty()).then(|| call_id(id)),
        name: name.to_owned(),
        response: json!({ "output": text }),
    }))
}

fn user(text: &str) -> Entry {
    Entry::bare(Content::user_text(text))
}

/// The texts of the responses behind each model entry.
fn shape(repaired: &Repaired) -> Vec<String> {
    repaired
        .entries
        .iter()
        .map(|entry| match entry.content.role {
            Role::Model => "model".to_owned(),
            Role::User => entry
                .content
                .parts
                .iter()
                .map(|part| match &part.function_response {
                    Some(response) => response.text(),
                    None => part.text.clone().unwrap_or_default(),
                })
                .collect::<Vec<_>>()
                .join("|"),
        })
        .collect()
}

#[test]
fn r2_r21_each_kind_of_missing_result_has_its_own_text_and_the_spared_have_none() {
    let history = vec![
        user("go"),
        model(&[("q", TOOL_NAME), ("w", "write_file"), ("r", "read_file"), ("s", TOOL_NAME)]),
        user("next"),
    ];
    let spare = BTreeSet::from([call_id("s")]);
    let repaired = repair(history, &spare);
    let expected = [texts::REPAIRED_QUESTION, texts::REPAIRED_CALL, texts::REPAIRED_READ].join("|");
    assert_eq!(shape(&repaired), ["go", "model", &expected, "next"]);
    assert_eq!(repaired.synthetic.len(), 3);
    assert!(repaired.synthetic.iter().all(|made| made.entry == 1 && made.response.is_error()));
}

#[test]
fn r21_results_are_put_in_call_order_and_late_ones_moved_up() {
    let history = vec![
        model(&[("a", "glob"), ("b", "glob")]),
        response("b", "glob", "B"),
        user("between"),
        response("a", "glob", "A"),
        response("a", "glob", "A again"),
        response("zzz", "glob", "of no call"),
    ];
    let repaired = repair(history, &BTreeSet::new());
    assert_eq!(shape(&repaired), ["model", "A|B", "between"]);
    assert!(repaired.synthetic.is_empty());
}

#[test]
fn r21_a_repeated_id_finds_the_result_of_its_own_turn() {
    let history = vec![
        model(&[("call_0", "write_file")]),
        user("again"),
        model(&[("call_0", "write_file")]),
        response("call_0", "write_file", "second"),
    ];
    let repaired = repair(history, &BTreeSet::new());
    assert_eq!(shape(&repaired), ["model", texts::REPAIRED_CALL, "again", "model", "second"]);
}

#[test]
fn calls_without_ids_are_answered_by_name_in_order() {
    let history = vec![
        model(&[("", "glob"), ("", "glob")]),
        response("", "glob", "first"),
        response("", "glob", "second"),
    ];
    assert_eq!(shape(&repair(history, &BTreeSet::new())), ["model", "first|second"]);
}

// The oracle of `assess`, written as the sentences of RULES E2–E4 and R20 are, over counts instead of a walk.
fn oracle(tail: &Tail) -> &'static str {
    let Tail::Model(turn) = tail else { return "no" };
    let with_id = || turn.calls.iter().filter(|c| c.id.is_some());
    let dangling: Vec<_> = with_id().filter(|c| c.result.is_none()).collect();
    let all_questions = dangling.iter().all(|c| c.name == "ask_user_question");
    let all_parse = dangling.iter().all(|c| parse_questions(&c.args).is_ok());
    let had_question = with_id().any(|c| c.name == "ask_user_question");
    let stopped = turn.calls.iter().any(|c| {
        c.result == Some(TailResult::Cancelled)
            || (c.name == "ask_user_question" && c.result == Some(TailResult::Repaired))
    });
    let no_question_dangles = dangling.iter().all(|c| c.name != "ask_user_question");
    // An answer, not a decline.
    let answered = with_id().any(|c| c.name == "ask_user_question" && c.result == Some(TailResult::Other));
    match (turn.notices_after, with_id().count(), dangling.len()) {
        (true, ..) | (_, 0, _) => "no",
        (_, _, 0) if !turn.ended && !stopped && had_question => "go on",
        (_, _, 0) => "no",
        _ if all_questions && all_parse => "ask",
        // What was cut off beside an answer is repaired, and the turn goes on.
        _ if no_question_dangles && answered && !turn.ended && !stopped => "go on",
        _ => "no",
    }
}

fn any_call() -> impl Strategy<Value = TailCall> {
    let name = prop_oneof![3 => Just(TOOL_NAME), 1 => Just("write_file"), 1 => Just("read_file")];
    let arguments = prop_oneof![4 => Just(args()), 1 => Just(json!({})), 1 => Just(json!("broken"))];
    let result = prop_oneof![
        4 => Just(None), 2 => Just(Some(TailResult::Declined)), 3 => Just(Some(TailResult::Other)),
        1 => Just(Some(TailResult::Cancelled)), 1 => Just(Some(TailResult::Repaired))
    ];
    (proptest::option::weighted(0.8, 0u8..6), name, arguments, result).prop_map(|(id, name, args, result)| {
        call(id.map(|id| format!("c{id}")).as_deref(), name, args, result)
    })
}

fn any_tail() -> impl Strategy<Value = Tail> {
    let turn = (proptest::collection::vec(any_call(), 0..5), any::<bool>(), proptest::bool::weighted(0.1))
        .prop_map(|(calls, ended, notices_after)| {
            Tail::Model(TailTurn { ended, notices_after, ..turn(calls) })
        });
    prop_oneof![1 => Just(Tail::Empty), 1 => Just(Tail::User), 8 => turn]
}

/// A random history out of few ids and names, so that repeats, duplicates and strays are common.
fn any_history() -> impl Strategy<Value = Vec<Entry>> {
    let id = || prop_oneof![1 => Just(""), 5 => prop::sample::select(vec!["a", "b", "c", "d"])];
    let name = || prop::sample::select(vec!["glob", "write_file", TOOL_NAME]);
    let entry = prop_oneof![
        proptest::collection::vec((id(), name()), 0..4).prop_map(|calls| model(&calls)),
        (id(), name(), "[a-z]{1,6}").prop_map(|(id, name, text)| response(id, name, &text)),
        "[a-z]{1,6}".prop_map(|text| user(&text)),
    ];
    proptest::collection::vec(entry, 0..14)
}

proptest! {
    #[test]
    fn e2_e3_e4_r20_assess_agrees_with_the_sentences(tail in any_tail()) {
        let got = match assess(&tail) {
            Ok(Restore::Ask { questions, .. }) => {
                let ids: Vec<_> = questions.iter().map(|q| q.call.clone()).collect();
                prop_assert_eq!(ids, tail.turn().unwrap().open());
                "ask"
            }
            Ok(Restore::GoOn { .. }) => "go on",
            Err(_) => "no",
        };
        prop_assert_eq!(got, oracle(&tail));
    }

    // R3, I10: what every repaired history is, said without the algorithm.
    #[test]
    fn r3_a_repaired_history_is_acceptable_and_loses_no_result(history in any_history()) {
        let words = |entries: &[Entry]| {
            entries.iter().flat_map(|e| &e.content.parts).filter_map(|p| p.text.clone()).collect::<Vec<_>>()
        };
        let before = words(&history);
        let repaired = repair(history.clone(), &BTreeSet::new());
        prop_assert_eq!(before, words(&repaired.entries));
        let mut entries = repaired.entries.iter().peekable();
        while let Some(entry) = entries.next() {
            let mut expected: Vec<_> = Vec::new();
            for c in entry.content.calls() {
                if c.id.is_none() || !expected.contains(&(c.id.clone(), c.name.clone()))
                    && !expected.iter().any(|(id, _)| *id == c.id) {
                    expected.push((c.id.clone(), c.name.clone()));
                }
            }
            if expected.is_empty() {
                continue;
            }
            let next = entries.next().expect("calls are followed by their responses");
            let got: Vec<_> = next.content.responses().map(|r| (r.id.clone(), r.id.is_none().then(|| r.name.clone()))).collect();
            let expected: Vec<_> =
                expected.into_iter().map(|(id, name)| { let n = id.is_none().then_some(name); (id, n) }).collect();
            prop_assert_eq!(got, expected);
        }
        // A response that stands anywhere behind an unrepeated call of its id is used, never made up (R21).
        for id in ["a", "b", "c", "d"] {
            let id = call_id(id);
            let called = history.iter().flat_map(|e| e.content.calls()).filter(|c| c.id.as_ref() == Some(&id)).count();
            let at = history.iter().position(|e| e.content.calls().any(|c| c.id.as_ref() == Some(&id)));
            let answered = at.is_some_and(|at| history[at..].iter()
                .flat_map(|e| e.content.responses()).any(|r| r.id.as_ref() == Some(&id)));
            if called == 1 {
                let made_up = repaired.synthetic.iter().any(|s| s.response.id.as_ref() == Some(&id));
                prop_assert_eq!(made_up, !answered);
            }
        }
        // To repair again changes nothing.
        let again = repair(repaired.entries.clone(), &BTreeSet::new());
        prop_assert!(again.synthetic.is_empty());
        let contents = |r: &Repaired| r.entries.iter().map(|e| e.content.clone()).collect::<Vec<_>>();
        prop_assert_eq!(contents(&again), contents(&repaired));
    }
}
