//! What a control on a card is bound to (CR1): the whole of it is in the control, so that a click can be judged after
//! any number of restarts.
//!
//! The text form is `1|question|generation|element`, at most [`MAX`] characters of ASCII, so that it fits a
//! `custom_id` of Discord (100) as well as a `block_id` (255) or `value` (2000) of Slack.

use std::fmt;

use holdpoint_model::ids::{Generation, QuestionId};
use serde::{Deserialize, Serialize};

/// Longest text form, in characters: Discord's limit for a `custom_id`.
pub const MAX: usize = 100;

/// The version of the text form. Another one is of a program that we are not.
const VERSION: &str = "1";

/// The digits of numbers and ids: without letters that look like others.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Which question a card, a control or a message is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Binding {
    /// The question.
    pub question: QuestionId,
    /// Its generation.
    pub generation: Generation,
}

/// One control of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Element {
    /// A button that picks an option of a part (or of a permission, whose only part is 0).
    Option {
        /// Which of the questions of the call.
        part: u8,
        /// Which of its options, by place: never its text (CR18).
        option: u16,
    },
    /// A control that picks one or several options of a part.
    Select {
        /// Which part.
        part: u8,
    },
    /// A field for text of a part.
    Text {
        /// Which part.
        part: u8,
    },
    /// A button that opens a form for another answer to a part.
    Other {
        /// Which part.
        part: u8,
    },
    /// A button that opens the form of all parts.
    Form,
    /// A button that submits what is filled in.
    Confirm,
    /// A button that declines.
    Decline,
}

/// Why a text is no binding of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this control is not one of ours")]
pub struct NotOurs;

/// The text form of a control of a card.
pub fn encode(binding: &Binding, element: Element) -> String {
    let text = format!(
        "{VERSION}|{}|{}|{element}",
        question_text(binding.question.as_str()),
        number_text(u128::from(binding.generation.0))
    );
    debug_assert!(text.len() <= MAX, "{text}");
    text
}

/// Reads it back.
///
/// # Errors
/// It is not what [`encode`] makes, to the letter.
pub fn decode(text: &str) -> Result<(Binding, Element), NotOurs> {
    let mut fields = text.split('|');
    let mut next = || fields.next().ok_or(NotOurs);
    let (version, question, generation, element) = (next()?, next()?, next()?, next()?);
    if fields.next().is_some() || version != VERSION {
        return Err(NotOurs);
    }
    let generation = u64::try_from(number(generation)?).map_err(|_| NotOurs)?;
    let binding = Binding { question: question_of(question)?, generation: Generation(generation) };
    let element = element_of(element)?;
    // One control has one text: another spelling of the same is not ours.
    if encode(&binding, element) == text { Ok((binding, element)) } else { Err(NotOurs) }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option { part, option } => write!(f, "o{part}.{option}"),
            Self::Select { part } => write!(f, "s{part}"),
            Self::Text { part } => write!(f, "t{part}"),
            Self::Other { part } => write!(f, "x{part}"),
            Self::Form => f.write_str("f"),
            Self::Confirm => f.write_str("c"),
            Self::Decline => f.write_str("d"),
        }
    }
}

impl From<Element> for String {
    fn from(element: Element) -> Self {
        element.to_string()
    }
}

impl TryFrom<String> for Element {
    type Error = NotOurs;

    fn try_from(text: String) -> Result<Self, NotOurs> {
        element_of(&text)
    }
}

fn element_of(text: &str) -> Result<Element, NotOurs> {
    let kind = text.get(..1).ok_or(NotOurs)?;
    let rest = &text[1..];
    let part = || rest.parse().map_err(|_| NotOurs);
    Ok(match kind {
        "o" => {
            let (part, option) = rest.split_once('.').ok_or(NotOurs)?;
            let part = part.parse().map_err(|_| NotOurs)?;
            Element::Option { part, option: option.parse().map_err(|_| NotOurs)? }
        }
        "s" => Element::Select { part: part()? },
        "t" => Element::Text { part: part()? },
        "x" => Element::Other { part: part()? },
        "f" if rest.is_empty() => Element::Form,
        "c" if rest.is_empty() => Element::Confirm,
        "d" if rest.is_empty() => Element::Decline,
        _ => return Err(NotOurs),
    })
}

/// Our ids are a UUID in hexadecimal: 26 characters instead of 34. Any other stays as it is, after a `_`, which is
/// none of the digits.
fn question_text(id: &str) -> String {
    let name = id.strip_prefix("q_").unwrap_or(id);
    let is_uuid = name.len() == 32 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match u128::from_str_radix(name, 16) {
        Ok(value) if is_uuid => format!("{:0>26}", number_text(value)),
        _ => format!("_{name}"),
    }
}

fn question_of(text: &str) -> Result<QuestionId, NotOurs> {
    let id = match text.strip_prefix('_') {
        Some(name) => format!("q_{name}"),
        None => format!("q_{:032x}", number(text)?),
    };
    QuestionId::new(id).map_err(|_| NotOurs)
}

fn number_text(mut value: u128) -> String {
    let mut text = Vec::new();
    loop {
        text.push(DIGITS[(value % 32) as usize]);
        value /= 32;
        if value == 0 {
            break;
        }
    }
    text.iter().rev().map(|digit| char::from(*digit)).collect()
}

fn number(text: &str) -> Result<u128, NotOurs> {
    let mut value: u128 = 0;
    for byte in text.bytes() {
        let digit = DIGITS.iter().position(|digit| *digit == byte).ok_or(NotOurs)?;
        value = value.checked_mul(32).and_then(|value| value.checked_add(digit as u128)).ok_or(NotOurs)?;
    }
    if text.is_empty() { Err(NotOurs) } else { Ok(value) }
}
