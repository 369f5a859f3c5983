//! Cards in Discord's message components.
//!
//! A card is posted with the bot's own token, which has no deadline, and holds everything that a click needs in its
//! `custom_id`s. `allowed_mentions` is always empty: nothing that an agent writes mentions anybody.

use holdpoint_model::ids::Micros;
use holdpoint_model::question::Question as Part;
use holdpoint_model::session::{Body, Question};
use serde_json::{Value, json};

use super::{Frame, action};
use crate::binding::{Binding, Element, encode};
use crate::split::{fit, length};
use crate::words::{Outcome, Style, name};

/// Longest text of a message.
const CONTENT: usize = 2000;
/// Longest label of a button.
const BUTTON: usize = 80;
/// Longest label and description of an option of a select.
const OPTION: usize = 100;
/// Longest title of a form, and of a label in it.
const TITLE: usize = 45;
/// Most options that are buttons.
const BUTTONS: usize = 4;
/// Most options of a select.
const SELECT: usize = 25;
/// Most options of a group of radio buttons or checkboxes in a form.
const GROUP: usize = 10;
/// Most labels at the top of a form.
const FORM: usize = 5;

const ROW: u8 = 1;
const BUTTON_TYPE: u8 = 2;
const SELECT_TYPE: u8 = 3;
const TEXT_TYPE: u8 = 4;
const LABEL_TYPE: u8 = 18;
const RADIO_TYPE: u8 = 21;
const CHECKBOXES_TYPE: u8 = 22;

const PRIMARY: u8 = 1;
const SECONDARY: u8 = 2;
const SUCCESS: u8 = 3;
const DANGER: u8 = 4;
const LINK: u8 = 5;

/// A message: what a message is created or edited with.
pub fn card(frame: &Frame<'_>) -> Value {
    let question = frame.question;
    let binding = Binding { question: question.id.clone(), generation: question.generation };
    let mut rows = Vec::new();
    let mut last = Vec::new();
    match &question.body {
        Body::UserQuestion { questions } => match questions.as_slice() {
            [only] => {
                if !only.multi_select && only.options.len() <= BUTTONS {
                    rows.push(row(buttons(&binding, only)));
                } else {
                    rows.push(row(vec![select(&binding, only)]));
                }
                last.push(button(SECONDARY, "Other…", &encode(&binding, Element::Other { part: 0 })));
            }
            _ => last.push(button(PRIMARY, "Answer…", &encode(&binding, Element::Form))),
        },
        Body::Permission { .. } => {
            let options = (0..).zip(&question.options).map(|(option, offered)| {
                let style = if offered.rejects() { DANGER } else { SUCCESS };
                button(style, &offered.name, &encode(&binding, Element::Option { part: 0, option }))
            });
            for five in options.collect::<Vec<_>>().chunks(5).take(3) {
                rows.push(row(five.to_vec()));
            }
        }
    }
    if question.body.is_question() {
        last.push(button(DANGER, "Decline", &encode(&binding, Element::Decline)));
    }
    if let Some(link) = frame.link {
        last.push(json!({ "type": BUTTON_TYPE, "style": LINK, "label": "Open on the page", "url": link }));
    }
    if !last.is_empty() {
        rows.push(row(last));
    }
    json!({ "content": content(frame), "components": rows, "allowed_mentions": { "parse": [] } })
}

/// The same message once the question has ended: no control left.
pub fn ended(question: &Question, outcome: &Outcome) -> Value {
    let line = outcome.on_card(&Markdown);
    let room = CONTENT.saturating_sub(length(&line) + 64);
    let head = fit(&format!("**{}**\n{}", name(question), asked(question)), room.max(200));
    json!({
        "content": fit(&format!("{head}\n-# {line}"), CONTENT),
        "components": [],
        "allowed_mentions": { "parse": [] },
    })
}

/// The form of all parts, or of one part's other answer; `None` where there is none such.
pub fn form(question: &Question, element: Element) -> Option<Value> {
    let binding = Binding { question: question.id.clone(), generation: question.generation };
    let parts = question.body.questions();
    let labels = match element {
        Element::Other { part } => vec![text_field(part, parts.get(usize::from(part))?, true)],
        Element::Form if !parts.is_empty() => {
            // A text field beside each part where there is room for them: another answer is always allowed.
            let both = parts.len() * 2 <= FORM;
            let mut labels = Vec::new();
            for (place, part) in (0..).zip(parts) {
                labels.push(pick(place, part));
                if both {
                    labels.push(text_field(place, part, false));
                }
            }
            labels
        }
        _ => return None,
    };
    Some(json!({
        "custom_id": encode(&binding, element),
        "title": fit(&name(question), TITLE),
        "components": labels,
    }))
}

/// Discord's Markdown. It shows a time to everybody in their own zone; mentions are off in every message that we send.
#[derive(Clone, Copy, Debug)]
pub struct Markdown;

impl Style for Markdown {
    fn time(&self, at: Micros) -> String {
        format!("<t:{}:f>", at.0.div_euclid(1_000_000))
    }

    fn quoted(&self, text: &str) -> String {
        text.to_owned()
    }
}

fn content(frame: &Frame<'_>) -> String {
    let question = frame.question;
    let who = frame.asked.map_or_else(String::new, |who| format!("{who} "));
    let detail = match &question.body {
        Body::UserQuestion { questions } => match questions.as_slice() {
            [only] => described(only),
            many => {
                let lines = many.iter().map(|part| format!("- **{}**: {}", part.header, part.question));
                lines.collect::<Vec<_>>().join("\n")
            }
        },
        Body::Permission { .. } => {
            format!("```\n{}\n```", fit(&action(question).replace("```", "'''"), 1200))
        }
    };
    let hint = format!("\n-# {}", frame.hint());
    let body = format!("{who}**{}**\n{}\n{detail}", name(question), asked(question));
    format!("{}{hint}", fit(&body, CONTENT - length(&hint)))
}

fn asked(question: &Question) -> String {
    match &question.body {
        Body::UserQuestion { questions } => match questions.as_slice() {
            [only] => only.question.clone(),
            many => format!("{} questions", many.len()),
        },
        Body::Permission { .. } => question.title.clone(),
    }
}

fn described(part: &Part) -> String {
    let lines = (1..)
        .zip(&part.options)
        .map(|(number, option)| format!("{number}. **{}** – {}", option.label, option.description));
    lines.collect::<Vec<_>>().join("\n")
}

fn row(components: Vec<Value>) -> Value {
    json!({ "type": ROW, "components": components })
}

fn button(style: u8, label: &str, custom_id: &str) -> Value {
    json!({ "type": BUTTON_TYPE, "style": style, "label": fit(label, BUTTON), "custom_id": custom_id })
}

fn buttons(binding: &Binding, part: &Part) -> Vec<Value> {
    let options = (0..).zip(&part.options);
    options
        .map(|(option, choice)| {
            button(PRIMARY, &choice.label, &encode(binding, Element::Option { part: 0, option }))
        })
        .collect()
}

fn select(binding: &Binding, part: &Part) -> Value {
    let options: Vec<_> = options(part).into_iter().take(SELECT).collect();
    json!({
        "type": SELECT_TYPE,
        "custom_id": encode(binding, Element::Select { part: 0 }),
        "placeholder": fit(&part.header, 150),
        "min_values": 1,
        "max_values": if part.multi_select { options.len() } else { 1 },
        "options": options,
    })
}

fn options(part: &Part) -> Vec<Value> {
    let options = (0_usize..).zip(&part.options).map(|(place, choice)| {
        json!({
            "label": fit(&choice.label, OPTION),
            "description": fit(&choice.description, OPTION),
            "value": place.to_string(),
        })
    });
    options.collect()
}

fn pick(place: u8, part: &Part) -> Value {
    let options = options(part);
    let mut component = match (part.multi_select, options.len() <= GROUP) {
        (false, true) => json!({ "type": RADIO_TYPE }),
        (true, true) => json!({ "type": CHECKBOXES_TYPE, "min_values": 0, "max_values": options.len() }),
        (several, false) => json!({
            "type": SELECT_TYPE,
            "min_values": 0,
            "max_values": if several { options.len().min(SELECT) } else { 1 },
        }),
    };
    component["custom_id"] = json!(Element::Select { part: place }.to_string());
    component["options"] = options.into_iter().take(SELECT).collect();
    component["required"] = json!(false);
    label(&part.header, &part.question, component)
}

fn text_field(place: u8, part: &Part, required: bool) -> Value {
    let component = json!({
        "type": TEXT_TYPE,
        "custom_id": Element::Text { part: place }.to_string(),
        "style": 2,
        "max_length": 4000,
        "required": required,
    });
    let title = if required { part.header.clone() } else { format!("{}: other", part.header) };
    label(&title, &part.question, component)
}

fn label(title: &str, description: &str, component: Value) -> Value {
    json!({
        "type": LABEL_TYPE,
        "label": fit(title, TITLE),
        "description": fit(description, OPTION),
        "component": component,
    })
}
