//! Cards in Slack's Block Kit.
//!
//! The rules that no checker of Slack's holds (CHANNELS 3.4): `actions` holds buttons only; checkboxes and radio buttons
//! have ten options at most, and nothing that bounds how many are picked; one Confirm a card; a `block_id` that is new
//! with every version; a `text` that is never empty.

use holdpoint_model::ids::Micros;
use holdpoint_model::question::Question as Part;
use holdpoint_model::session::{Body, Question};
use serde_json::{Value, json};

use super::{Frame, action};
use crate::binding::{Binding, Element, encode};
use crate::split::{fit, length};
use crate::words::{Outcome, Style, name};

/// Longest text of a button and of an option.
const LABEL: usize = 75;
/// Longest text of a section.
const SECTION: usize = 3000;
/// Longest text of a header block and of a label of an input.
const HEADER: usize = 150;
/// Most options that are buttons; more are radio buttons.
const BUTTONS: usize = 5;
/// Most options of radio buttons and checkboxes.
const CHOICES: usize = 10;
/// Most options of a select.
const SELECT: usize = 100;

/// A message: what `chat.postMessage` and `chat.update` take beside where it goes.
pub fn card(frame: &Frame<'_>) -> Value {
    let question = frame.question;
    let binding = Binding { question: question.id.clone(), generation: question.generation };
    let mut blocks = vec![section(&head(frame))];
    match &question.body {
        Body::UserQuestion { questions } => match questions.as_slice() {
            [only] if !only.multi_select && only.options.len() <= BUTTONS => {
                blocks.push(section(&described(only)));
                blocks.push(buttons(frame, &binding, only));
            }
            parts => {
                for (place, part) in (0..).zip(parts) {
                    blocks.extend(inputs(frame, &binding, place, part, parts.len()));
                }
                blocks.push(actions(
                    frame,
                    &binding,
                    &[("Confirm", Element::Confirm, Some("primary")), ("Decline", Element::Decline, None)],
                ));
            }
        },
        Body::Permission { .. } => {
            blocks.push(section(&code(&action(question))));
            let options = (0..).zip(&question.options).map(|(option, offered)| {
                let style = if offered.rejects() { Some("danger") } else { None };
                (offered.name.as_str(), Element::Option { part: 0, option }, style)
            });
            blocks.push(actions(frame, &binding, &options.collect::<Vec<_>>()));
        }
    }
    let hint = match frame.link {
        Some(link) => format!("{} <{link}|Open on the page>", frame.hint()),
        None => frame.hint().to_owned(),
    };
    blocks.push(context(&hint));
    json!({ "text": fallback(question), "blocks": blocks, "unfurl_links": false, "unfurl_media": false })
}

/// The same message once the question has ended: no control left.
pub fn ended(question: &Question, outcome: &Outcome) -> Value {
    let line = outcome.on_card(&Mrkdwn);
    let blocks = [section(&format!("*{}*\n{}", escape(&name(question)), asked(question))), context(&line)];
    json!({ "text": fit(&format!("{}\n{line}", escape(&name(question))), SECTION), "blocks": blocks })
}

/// The form behind *Other…* and for long answers: what `views.open` takes as its `view`.
pub fn form(frame: &Frame<'_>, part: u8) -> Option<Value> {
    let question = frame.question;
    let asked = question.body.questions().get(usize::from(part))?;
    let binding = Binding { question: question.id.clone(), generation: question.generation };
    Some(json!({
        "type": "modal",
        "private_metadata": encode(&binding, Element::Other { part }),
        "title": plain_text(&asked.header, 24),
        "submit": plain_text("Submit", 24),
        "close": plain_text("Back", 24),
        "blocks": [{
            "type": "input",
            "block_id": block_id(frame, &binding, Element::Text { part }),
            "label": plain_text(&asked.question, 2000),
            "element": {
                "type": "plain_text_input",
                "action_id": Element::Text { part }.to_string(),
                "multiline": true,
                "max_length": 3000,
            },
        }],
    }))
}

/// Slack's mrkdwn. It shows a time to everybody in their own zone.
#[derive(Clone, Copy, Debug)]
pub struct Mrkdwn;

impl Style for Mrkdwn {
    fn time(&self, at: Micros) -> String {
        let seconds = at.0.div_euclid(1_000_000);
        format!("<!date^{seconds}^{{date_short_pretty}} {{time}}|{seconds}>")
    }

    fn quoted(&self, text: &str) -> String {
        escape(text)
    }
}

/// Slack's three escapes: with them, nothing that an agent writes can mention anybody or hide where a link goes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn head(frame: &Frame<'_>) -> String {
    let who = frame.asked.map_or_else(String::new, |who| format!("{who} "));
    format!("{who}*{}*\n{}", escape(&name(frame.question)), asked(frame.question))
}

fn asked(question: &Question) -> String {
    match &question.body {
        Body::UserQuestion { questions } => match questions.as_slice() {
            [only] => escape(&only.question),
            many => format!("{} questions", many.len()),
        },
        Body::Permission { .. } => escape(&question.title),
    }
}

fn fallback(question: &Question) -> String {
    fit(&format!("{}: {}", name(question), question.title), SECTION)
}

/// The options with what they mean, and whole labels where a control has to shorten them.
fn described(part: &Part) -> String {
    let lines = (1..).zip(&part.options).map(|(number, option)| {
        format!("{number}. *{}* – {}", escape(&option.label), escape(&option.description))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn buttons(frame: &Frame<'_>, binding: &Binding, part: &Part) -> Value {
    let options = (0..).zip(&part.options);
    let mut controls: Vec<_> = options
        .map(|(option, choice)| (choice.label.as_str(), Element::Option { part: 0, option }, None))
        .collect();
    controls.push(("Other…", Element::Other { part: 0 }, None));
    controls.push(("Decline", Element::Decline, Some("danger")));
    actions(frame, binding, &controls)
}

fn actions(frame: &Frame<'_>, binding: &Binding, controls: &[(&str, Element, Option<&str>)]) -> Value {
    let elements = controls.iter().map(|(label, element, style)| {
        let mut button = json!({
            "type": "button",
            "text": plain_text(label, LABEL),
            "action_id": element.to_string(),
            "value": encode(binding, *element),
        });
        if let Some(style) = style {
            button["style"] = json!(style);
        }
        button
    });
    json!({
        "type": "actions",
        "block_id": block_id(frame, binding, Element::Form),
        "elements": elements.collect::<Vec<_>>(),
    })
}

/// A part as inputs: one that picks, and one for another answer.
fn inputs(frame: &Frame<'_>, binding: &Binding, place: u8, part: &Part, parts: usize) -> Vec<Value> {
    let title = if parts > 1 { format!("{}: {}", part.header, part.question) } else { part.header.clone() };
    let options = (0_usize..).zip(&part.options).map(|(option, choice)| {
        let mut shown = json!({ "text": plain_text(&choice.label, LABEL), "value": option.to_string() });
        shown["description"] = plain_text(&choice.description, LABEL);
        shown
    });
    let options: Vec<_> = options.take(SELECT).collect();
    let kind = match (part.multi_select, options.len() <= CHOICES) {
        (true, true) => "checkboxes",
        (true, false) => "multi_static_select",
        (false, true) => "radio_buttons",
        (false, false) => "static_select",
    };
    let long = part
        .options
        .iter()
        .any(|choice| length(&choice.label) > LABEL || length(&choice.description) > LABEL);
    let mut blocks = Vec::new();
    if long {
        blocks.push(section(&described(part)));
    }
    // Neither is required by itself: what was left out is said by name, in private, when it is submitted.
    blocks.push(json!({
        "type": "input",
        "optional": true,
        "block_id": block_id(frame, binding, Element::Select { part: place }),
        "label": plain_text(&title, 2000),
        "element": { "type": kind, "action_id": Element::Select { part: place }.to_string(), "options": options },
    }));
    blocks.push(json!({
        "type": "input",
        "optional": true,
        "block_id": block_id(frame, binding, Element::Text { part: place }),
        "label": plain_text(&fit(&format!("{}: other", part.header), HEADER), 2000),
        "element": {
            "type": "plain_text_input",
            "action_id": Element::Text { part: place }.to_string(),
            "max_length": 3000,
        },
    }));
    blocks
}

/// New with every version of the card, so that what somebody filled into an older one is not taken over.
fn block_id(frame: &Frame<'_>, binding: &Binding, element: Element) -> String {
    format!("{}|{}", encode(binding, element), frame.revision)
}

fn section(text: &str) -> Value {
    json!({ "type": "section", "text": { "type": "mrkdwn", "text": fit(text, SECTION) } })
}

fn context(text: &str) -> Value {
    json!({ "type": "context", "elements": [{ "type": "mrkdwn", "text": fit(text, SECTION) }] })
}

fn code(text: &str) -> String {
    format!("```{}```", fit(&escape(&text.replace("```", "'''")), SECTION - 6))
}

fn plain_text(text: &str, limit: usize) -> Value {
    json!({ "type": "plain_text", "text": fit(text, limit), "emoji": false })
}
