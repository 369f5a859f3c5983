//! The question tool's arguments (Q1), and what is wrong with them (Q2).

use holdpoint_model::question::{parameters_schema, parse_questions, title};
use serde_json::{Value, json};

fn one() -> Value {
    json!({"question": "Which?", "header": "Pick", "options": [
        {"label": "A", "description": "a"}, {"label": "B", "description": "b"}]})
}

fn with(path: &str, value: Value) -> Value {
    let mut args = json!({ "questions": [one(), one()] });
    *args.pointer_mut(path).expect("the place exists") = value;
    args
}

fn without(path: &str, field: &str) -> Value {
    let mut args = json!({ "questions": [one(), one()] });
    args.pointer_mut(path).and_then(Value::as_object_mut).expect("the place exists").remove(field);
    args
}

fn options(count: usize) -> Value {
    Value::from_iter((0..count).map(|n| json!({"label": format!("L{n}"), "description": "d"})))
}

#[test]
fn q1_one_to_four_questions_of_two_to_four_options() {
    for count in 1..=4 {
        let args = json!({"questions": vec![one(); count]});
        assert_eq!(parse_questions(&args).unwrap().len(), count);
    }
    for count in 2..=4 {
        assert!(parse_questions(&with("/questions/1/options", options(count))).is_ok());
    }
}

#[test]
fn q1_unknown_fields_are_ignored_and_multi_select_is_read() {
    let mut args = json!({"questions": [one()], "extra": 1});
    args["questions"][0]["hint"] = json!({"x": []});
    args["questions"][0]["options"][0]["icon"] = json!("x");
    let parsed = parse_questions(&args).unwrap();
    assert!(!parsed[0].multi_select);
    args["questions"][0]["multiSelect"] = json!(true);
    let parsed = parse_questions(&args).unwrap();
    assert!(parsed[0].multi_select);
    // What is parsed is written as it was: the wire carries it back (Q5).
    let written = json!({ "questions": parsed });
    assert_eq!(parse_questions(&written).unwrap(), parsed);
}

#[test]
fn q2_each_malformed_argument_is_named_with_its_place() {
    let cases = [
        json!([]),
        json!(null),
        json!("questions"),
        json!({}),
        json!({"questions": {}}),
        json!({"questions": "Which?"}),
        json!({"questions": []}),
        json!({"questions": vec![one(); 5]}),
        json!({"questions": ["Which?"]}),
        with("/questions/1", json!(null)),
        without("/questions/1", "question"),
        with("/questions/1/question", json!(7)),
        with("/questions/1/question", json!("  ")),
        without("/questions/0", "header"),
        with("/questions/0/header", json!("")),
        without("/questions/1", "options"),
        with("/questions/1/options", json!({"label": "A"})),
        with("/questions/1/options", options(0)),
        with("/questions/1/options", options(1)),
        with("/questions/1/options", options(5)),
        with("/questions/1/options/0", json!("A")),
        without("/questions/1/options/1", "label"),
        with("/questions/1/options/1/label", json!("\t")),
        without("/questions/0/options/0", "description"),
        with("/questions/0/options/0/description", json!("")),
        json!({"questions": [{"question": "Q", "header": "H", "options": options(2), "multiSelect": "yes"}]}),
        json!({"questions": [{"question": "Q", "header": "H", "options": options(2), "multiSelect": null}]}),
    ];
    let said: Vec<_> = cases.iter().map(|args| parse_questions(args).unwrap_err().to_string()).collect();
    insta::assert_snapshot!(said.join("\n").replace("invalid arguments of ask_user_question: ", ""), @r#"
    arguments: must be a JSON object with a field "questions"
    arguments: must be a JSON object with a field "questions"
    arguments: must be a JSON object with a field "questions"
    questions: is missing; give a list of 1 to 4 questions
    questions: must be a list of 1 to 4 questions
    questions: must be a list of 1 to 4 questions
    questions: must hold 1 to 4 questions, not 0
    questions: must hold 1 to 4 questions, not 5
    questions[0]: must be an object with question, header and options
    questions[1]: must be an object with question, header and options
    questions[1].question: is missing or not a text
    questions[1].question: is missing or not a text
    questions[1].question: must not be empty
    questions[0].header: is missing or not a text
    questions[0].header: must not be empty
    questions[1].options: must be a list of 2 to 4 options
    questions[1].options: must be a list of 2 to 4 options
    questions[1].options: must hold 2 to 4 options, not 0
    questions[1].options: must hold 2 to 4 options, not 1
    questions[1].options: must hold 2 to 4 options, not 5
    questions[1].options[0].label: is missing or not a text
    questions[1].options[1].label: is missing or not a text
    questions[1].options[1].label: must not be empty
    questions[0].options[0].description: is missing or not a text
    questions[0].options[0].description: must not be empty
    questions[0].multiSelect: must be true or false
    questions[0].multiSelect: must be true or false
    "#);
}

#[test]
fn q1_the_schema_that_models_see_allows_what_the_parser_takes() {
    insta::assert_json_snapshot!(parameters_schema());
}

#[test]
fn d1_a_title_is_one_line() {
    let titled = |args: Value| title(&parse_questions(&args).unwrap());
    assert_eq!(titled(json!({"questions": [one()]})), "Which?");
    assert_eq!(titled(json!({"questions": [one(), one()]})), "2 questions: Pick, Pick");
    let long = with("/questions/0/question", json!("First line,\n\n  and a second?\n"));
    let only = json!({"questions": [long["questions"][0]]});
    assert_eq!(titled(only), "First line, and a second?");
}
