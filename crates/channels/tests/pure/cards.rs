//! How cards look, and the rules that no checker of the platforms holds (CHANNELS 3.4).

use std::collections::BTreeSet;

use holdpoint_channels::binding::{Element, decode};
use holdpoint_channels::render::{Frame, discord, slack};
use holdpoint_channels::split::length;
use holdpoint_channels::words::outcome;
use holdpoint_model::question::Question as Part;
use holdpoint_model::session::{Decision, Question};
use insta::assert_json_snapshot;
use proptest::prelude::*;
use serde_json::Value;

use crate::sample::{part, permission, question, settled};

fn frame(question: &Question) -> Frame<'_> {
    Frame { question, revision: 1, link: Some("http://127.0.0.1:4170/q/q_019aa2f0"), asked: Some("<@U1>") }
}

#[test]
fn a_choice_is_buttons() {
    let asked = question(vec![part("Database", &["Postgres", "SQLite"], false)]);
    assert_json_snapshot!("slack_choice", slack::card(&frame(&asked)));
    assert_json_snapshot!("discord_choice", discord::card(&frame(&asked)));
    assert_json_snapshot!("slack_other", slack::form(&frame(&asked), 0).unwrap());
    assert_json_snapshot!("discord_other", discord::form(&asked, Element::Other { part: 0 }).unwrap());
}

#[test]
fn several_parts_are_inputs_with_one_confirm() {
    let asked = question(vec![
        part("Database", &["Postgres", "SQLite"], false),
        part("Checks", &["Unit tests", "Docs", "Bench"], true),
    ]);
    assert_json_snapshot!("slack_parts", slack::card(&frame(&asked)));
    assert_json_snapshot!("discord_parts", discord::card(&frame(&asked)));
    assert_json_snapshot!("discord_form", discord::form(&asked, Element::Form).unwrap());
}

#[test]
fn a_permission_shows_what_will_run() {
    let asked = permission("rm -rf target && echo '```' <!channel>");
    assert_json_snapshot!("slack_permission", slack::card(&frame(&asked)));
    assert_json_snapshot!("discord_permission", discord::card(&frame(&asked)));
}

#[test]
fn cr14_an_ended_question_has_no_control_left() {
    let asked = question(vec![part("Database", &["Postgres", "SQLite"], false)]);
    let ended = settled(asked, Decision::Declined { option_id: None });
    let outcome = outcome(&ended).unwrap();
    let (slack, discord) = (slack::ended(&ended, &outcome), discord::ended(&ended, &outcome));
    assert_json_snapshot!("slack_ended", slack);
    assert_json_snapshot!("discord_ended", discord);
    assert!(custom_ids(&discord).is_empty() && !slack.to_string().contains("action_id"));
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let text = prop_oneof![3 => "[A-Za-z ]{1,30}", 1 => "[<>&`*@a-z😀 ]{1,200}"];
    let labels = prop::collection::vec(text.clone(), 2..40);
    let one = (text, labels, any::<bool>());
    prop::collection::vec(one, 1..5).prop_map(|parts| {
        let made = parts.into_iter().map(|(header, labels, multi)| {
            let labels: Vec<_> = labels.iter().map(String::as_str).collect();
            part(&header, &labels, multi)
        });
        made.collect()
    })
}

/// Every object in a payload.
fn objects<'a>(value: &'a Value, found: &mut Vec<&'a serde_json::Map<String, Value>>) {
    match value {
        Value::Object(map) => {
            found.push(map);
            map.values().for_each(|value| objects(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| objects(value, found)),
        _ => {}
    }
}

fn custom_ids(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    objects(value, &mut found);
    found.iter().filter_map(|map| map.get("custom_id")?.as_str().map(str::to_owned)).collect()
}

fn text_of(value: &Value) -> usize {
    value["text"].as_str().map_or(0, length)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn slack_takes_every_card(parts in parts()) {
        let asked = question(parts);
        let card = slack::card(&frame(&asked));
        prop_assert!(text_of(&card) > 0, "every card has a text");
        let blocks = card["blocks"].as_array().unwrap();
        prop_assert!(blocks.len() <= 50);
        let mut confirms = 0;
        let mut ids = BTreeSet::new();
        for block in blocks {
            if let Some(id) = block["block_id"].as_str() {
                prop_assert!(id.len() <= 255 && ids.insert(id), "{id}");
                let (bound, revision) = id.rsplit_once('|').unwrap();
                prop_assert_eq!(revision, "1");
                prop_assert_eq!(&decode(bound).unwrap().0.question, &asked.id);
            }
            match block["type"].as_str().unwrap() {
                "section" => prop_assert!((1..=3000).contains(&text_of(&block["text"]))),
                "context" => prop_assert!((1..=3000).contains(&text_of(&block["elements"][0]))),
                "actions" => {
                    let elements = block["elements"].as_array().unwrap();
                    prop_assert!((1..=25).contains(&elements.len()));
                    for element in elements {
                        prop_assert_eq!(&element["type"], "button");
                        prop_assert!((1..=75).contains(&text_of(&element["text"])));
                        prop_assert!(element["value"].as_str().unwrap().len() <= 2000);
                        confirms += usize::from(element["action_id"] == "c");
                    }
                }
                "input" => {
                    let element = &block["element"];
                    prop_assert!((1..=2000).contains(&text_of(&block["label"])));
                    let options = element["options"].as_array().map_or(&[][..], Vec::as_slice);
                    let most = match element["type"].as_str().unwrap() {
                        "checkboxes" | "radio_buttons" => 10,
                        "static_select" | "multi_static_select" => 100,
                        "plain_text_input" => 0,
                        other => panic!("{other}"),
                    };
                    prop_assert!(options.len() <= most);
                    prop_assert!(element.get("max_selected_items").is_none());
                    for option in options {
                        prop_assert!((1..=75).contains(&text_of(&option["text"])));
                        prop_assert!(text_of(&option["description"]) <= 75);
                        prop_assert!(option["value"].as_str().unwrap().parse::<usize>().is_ok(), "a place, no text");
                    }
                }
                other => panic!("{other}"),
            }
        }
        prop_assert!(confirms <= 1);
    }

    #[test]
    fn discord_takes_every_card_and_form(parts in parts()) {
        let asked = question(parts);
        let card = discord::card(&frame(&asked));
        prop_assert!((1..=2000).contains(&length(card["content"].as_str().unwrap())));
        prop_assert_eq!(&card["allowed_mentions"]["parse"], &serde_json::json!([]));
        let ids = custom_ids(&card);
        prop_assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "one custom_id once");
        for id in &ids {
            prop_assert!(id.len() <= 100);
            prop_assert_eq!(&decode(id).unwrap().0.question, &asked.id);
        }
        let rows = card["components"].as_array().unwrap();
        prop_assert!(rows.len() <= 5);
        for row in rows {
            let components = row["components"].as_array().unwrap();
            prop_assert!((1..=5).contains(&components.len()));
            for component in components {
                match component["type"].as_u64().unwrap() {
                    2 => prop_assert!((1..=80).contains(&length(component["label"].as_str().unwrap()))),
                    3 => {
                        prop_assert_eq!(components.len(), 1, "a select has its row for itself");
                        check_select(component)?;
                    }
                    other => panic!("{other}"),
                }
            }
        }
        for element in [Element::Form, Element::Other { part: 0 }] {
            let form = discord::form(&asked, element).unwrap();
            prop_assert!(length(form["title"].as_str().unwrap()) <= 45);
            let labels = form["components"].as_array().unwrap();
            prop_assert!((1..=5).contains(&labels.len()));
            for label in labels {
                prop_assert!((1..=45).contains(&length(label["label"].as_str().unwrap())));
                prop_assert!(length(label["description"].as_str().unwrap()) <= 100);
                let component = &label["component"];
                match component["type"].as_u64().unwrap() {
                    3 => check_select(component)?,
                    21 | 22 => prop_assert!((1..=10).contains(&component["options"].as_array().unwrap().len())),
                    4 => prop_assert!(component["max_length"].as_u64().unwrap() <= 4000),
                    other => panic!("{other}"),
                }
            }
        }
    }
}

fn check_select(select: &Value) -> Result<(), TestCaseError> {
    let options = select["options"].as_array().unwrap();
    prop_assert!((1..=25).contains(&options.len()));
    prop_assert!(select["max_values"].as_u64().unwrap() as usize <= options.len());
    for option in options {
        prop_assert!((1..=100).contains(&length(option["label"].as_str().unwrap())));
        prop_assert!(length(option["description"].as_str().unwrap()) <= 100);
        prop_assert!(option["value"].as_str().unwrap().parse::<usize>().is_ok());
    }
    Ok(())
}
