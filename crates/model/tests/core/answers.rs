//! How answers are read (Q6), and what the model reads back (Q7).

use holdpoint_model::answers::{Answers, InvalidAnswers, LenientAnswers, MAX_ANSWER_BYTES};
use holdpoint_model::asked::Asked;
use holdpoint_model::question::{Question, parse_questions};
use serde_json::{Value, json};

/// A single choice and a multi-select.
fn questions() -> Vec<Question> {
    let options = json!([
        {"label": "Red", "description": "r"},
        {"label": "Blue", "description": "b"},
        {"label": "Red, Blue", "description": "both"},
    ]);
    let two = &options.as_array().expect("a list")[..2];
    parse_questions(&json!({"questions": [
        {"question": "Which?", "header": "Colour", "options": two},
        {"question": "Which ones?", "header": "Several", "options": two, "multiSelect": true},
        {"question": "Odd?", "header": "Odd", "options": options},
    ]}))
    .expect("the questions are well-formed")
}

fn of(pairs: &[(u8, &str)]) -> Answers {
    Answers::from_pairs(pairs.iter().map(|(i, text)| (*i, (*text).to_owned()))).expect("there are some")
}

#[test]
fn q6_the_vote_route_drops_what_the_peer_drops_and_says_so() {
    let lenient = |value: Value| Answers::lenient(Some(&value), &questions());
    let kept = |pairs: &[(u8, &str)], dropped: &[&str]| {
        Ok(LenientAnswers {
            answers: of(pairs),
            dropped: dropped.iter().map(|key| (*key).to_owned()).collect(),
        })
    };
    assert_eq!(lenient(json!({"0": "Red"})), kept(&[(0, "Red")], &[]));
    // Free text, several picks, and a question that is left out.
    assert_eq!(
        lenient(json!({"0": "Mauve", "1": "Red, Blue"})),
        kept(&[(0, "Mauve"), (1, "Red, Blue")], &[])
    );
    // Keys are canonical decimal indexes.
    for key in ["3", "00", "01", "-1", "+0", "0 ", "256", "x", "", "Which?", "Colour"] {
        assert_eq!(lenient(json!({"0": "Red", key: "x"})), kept(&[(0, "Red")], &[key]), "{key:?}");
    }
    for text in ["", "  ", "\n\t", "a\0b"] {
        assert_eq!(lenient(json!({"0": text, "1": "Red"})), kept(&[(1, "Red")], &["0"]), "{text:?}");
    }
    let long = "x".repeat(MAX_ANSWER_BYTES + 1);
    assert_eq!(lenient(json!({"0": long, "1": "Red"})), kept(&[(1, "Red")], &["0"]));
}

#[test]
fn q6_a_vote_that_leaves_nothing_is_refused() {
    let nothing = Err(InvalidAnswers::Nothing { keys: "\"0\", \"1\", \"2\"".to_owned() });
    assert_eq!(Answers::lenient(None, &questions()), nothing);
    for value in [
        json!(null),
        json!({}),
        json!({"9": "Red"}),
        json!({"0": " "}),
        // One value that is no text drops the whole map.
        json!({"0": "Red", "1": 7}),
        json!({"0": "Red", "1": ["Red"]}),
        json!({"0": "Red", "1": null}),
    ] {
        assert_eq!(Answers::lenient(Some(&value), &questions()), nothing, "{value}");
    }
    for value in [json!([]), json!("Red"), json!(1), json!(true)] {
        assert_eq!(Answers::lenient(Some(&value), &questions()), Err(InvalidAnswers::NotAMap), "{value}");
    }
}

fn whole(first: Value) -> Value {
    json!({"0": first, "1": "Red", "2": "Blue"})
}

#[test]
fn q6_our_route_takes_texts_picks_and_free_text() {
    let strict = |value: Value| Answers::strict(&value, &questions());
    assert_eq!(strict(whole(json!("Red"))), Ok(of(&[(0, "Red"), (1, "Red"), (2, "Blue")])));
    assert_eq!(strict(whole(json!(["Red"]))), Ok(of(&[(0, "Red"), (1, "Red"), (2, "Blue")])));
    assert_eq!(strict(whole(json!("red, blue"))), Ok(of(&[(0, "red, blue"), (1, "Red"), (2, "Blue")])));
    let several = json!({"0": "Red", "1": ["Red", "Blue", "Mauve"], "2": "Red, Blue"});
    assert_eq!(strict(several), Ok(of(&[(0, "Red"), (1, "Red, Blue, Mauve"), (2, "Red, Blue")])));
    let longest = "x".repeat(MAX_ANSWER_BYTES);
    assert!(strict(whole(json!(longest))).is_ok());
}

#[test]
fn q6_our_route_refuses_everything_malformed_and_says_what() {
    let key = || "0".to_owned();
    let keys = || "\"0\", \"1\", \"2\"".to_owned();
    let unknown = |key: &str| InvalidAnswers::UnknownKey { key: key.to_owned(), keys: keys() };
    let missing =
        |key: &str, header: &str| InvalidAnswers::Missing { key: key.to_owned(), header: header.to_owned() };
    let cases = [
        (json!([]), InvalidAnswers::NotAMap),
        (json!(null), InvalidAnswers::NotAMap),
        (json!({"3": "Red"}), unknown("3")),
        (json!({"00": "Red"}), unknown("00")),
        (json!({"Which?": "Red"}), unknown("Which?")),
        (json!({}), missing("0", "Colour")),
        (json!({"0": "Red", "2": "Red"}), missing("1", "Several")),
        (whole(json!(null)), InvalidAnswers::NotText { key: key() }),
        (whole(json!(1)), InvalidAnswers::NotText { key: key() }),
        (whole(json!({"text": "Red"})), InvalidAnswers::NotText { key: key() }),
        (whole(json!(["Red", 1])), InvalidAnswers::NotText { key: key() }),
        (whole(json!("")), InvalidAnswers::Empty { key: key() }),
        (whole(json!(" \n")), InvalidAnswers::Empty { key: key() }),
        (whole(json!([])), InvalidAnswers::Empty { key: key() }),
        (whole(json!(["Red", ""])), InvalidAnswers::Empty { key: key() }),
        (whole(json!("a\0")), InvalidAnswers::Control { key: key() }),
        (whole(json!("\u{1b}[B")), InvalidAnswers::Control { key: key() }),
        (whole(json!("x".repeat(MAX_ANSWER_BYTES + 1))), InvalidAnswers::TooLong { key: key() }),
        (whole(json!(["Red", "Blue"])), InvalidAnswers::TwoPicks { key: key() }),
        (whole(json!("Red, Blue")), InvalidAnswers::TwoPicks { key: key() }),
    ];
    for (value, expected) in cases {
        let said = Answers::strict(&value, &questions());
        assert_eq!(said, Err(expected.clone()));
        assert!(!expected.to_string().is_empty());
    }
}

#[test]
fn q7_i3_the_model_reads_each_header_with_its_answer_and_what_was_left_out() {
    let text = of(&[(0, "Red"), (2, "**bold**\nline")]).model_text(&questions());
    insta::assert_snapshot!(text, @"
    The person answered:

    **Colour**: Red
    **Several**: (left without an answer)
    **Odd**: **bold**
    line
    ");
}

#[test]
fn q7_the_four_texts_of_ends_without_an_answer() {
    let ends = [Asked::Declined, Asked::CancelledBeforeAnswer, Asked::TimedOut];
    let mut texts: Vec<String> = Vec::new();
    for end in ends {
        let (text, is_error) = end.result(&questions()).unwrap();
        assert!(is_error);
        texts.push(text);
    }
    texts.push(holdpoint_model::asked::texts::REPAIRED_QUESTION.to_owned());
    insta::assert_snapshot!(texts.join("\n"), @"
    The person declined to answer this question. Nothing was chosen; do not assume an answer.
    Cancelled before the user answered: the turn was stopped while this question was open. Nothing was chosen.
    Timed out: nobody answered this question in the time that was set for it. Nothing was chosen.
    Not answered: the session went on without an answer to this question. Nothing was chosen.
    ");
    assert_eq!(Asked::Unattended.result(&questions()), None, "R10: nothing is written");
}

#[test]
fn i3_answers_are_read_back_only_as_they_are_written() {
    let read = |value: Value| serde_json::from_value::<Answers>(value);
    assert_eq!(read(json!({"0": "Red", "1": "Blue"})).unwrap(), of(&[(0, "Red"), (1, "Blue")]));
    for damaged in [json!({}), json!({"x": "Red"}), json!({"256": "Red"}), json!({"0": 1}), json!([])] {
        assert!(read(damaged.clone()).is_err(), "{damaged}");
    }
}

#[test]
fn r10_a_frame_that_is_no_answer_is_an_error_and_never_a_no() {
    let read = |frame: Value| Asked::from_response(&frame, &questions(), true);
    for frame in [
        json!({}),
        json!({"outcome": null}),
        json!({"outcome": {"outcome": "maybe"}}),
        json!({"outcome": {"outcome": "selected"}}),
        json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}}),
        json!({"outcome": {"outcome": "selected", "optionId": "proceed_once"}, "answers": {"9": "x"}}),
    ] {
        assert!(read(frame.clone()).is_err(), "{frame}");
    }
    let other = json!({"outcome": {"outcome": "selected", "optionId": "cancel"}});
    assert_eq!(read(other), Ok(Asked::Declined));
    // A cause that a later version may know is at least not a decision.
    let unknown = json!({"outcome": {"outcome": "cancelled"}, "_meta": {"holdpoint.cause": "moved"}});
    assert_eq!(read(unknown), Ok(Asked::Unattended));
}
