//! Answers to a question: how they are read from the wire (Q6), and what the model reads back (Q7).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::question::Question;

/// Longest answer to one question, in bytes: far more than a person types, far less than a context window.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Answers by the index of their question. Never empty. On the wire and on disk: a map from the decimal index
/// to text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Answers(BTreeMap<u8, String>);

// By way of text keys, since a tagged enum around this type has no numbers for keys when it is read.
impl TryFrom<BTreeMap<String, String>> for Answers {
    type Error = String;

    fn try_from(map: BTreeMap<String, String>) -> Result<Self, String> {
        let pairs = map.into_iter().map(|(key, text)| {
            let index = key.parse::<u8>().map_err(|_| format!("{key:?} is not the index of a question"))?;
            Ok((index, text))
        });
        let pairs = pairs.collect::<Result<Vec<_>, String>>()?;
        Self::from_pairs(pairs).ok_or_else(|| "there are no answers".to_owned())
    }
}

impl From<Answers> for BTreeMap<String, String> {
    fn from(answers: Answers) -> Self {
        answers.0.into_iter().map(|(index, text)| (index.to_string(), text)).collect()
    }
}

/// Why answers are refused. The question stays open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAnswers {
    /// Not a map from index to text.
    #[error("answers must be an object from the question's index (\"0\", \"1\", …) to the answer's text")]
    NotAMap,
    /// Nothing valid was left.
    #[error("no valid answer: give at least one of the keys {keys} a text")]
    Nothing {
        /// The keys that this question has.
        keys: String,
    },
    /// A key that no question has.
    #[error("answers: unknown key {key:?}; this question has the keys {keys}")]
    UnknownKey {
        /// The key.
        key: String,
        /// The keys that this question has.
        keys: String,
    },
    /// A question without an answer.
    #[error("answers: question {key} ({header}) has no answer")]
    Missing {
        /// The question's key.
        key: String,
        /// Its header.
        header: String,
    },
    /// An answer that is no text, or no list of texts.
    #[error(
        "answers: the answer to question {key} must be a text, or a list of texts where several may be picked"
    )]
    NotText {
        /// The question's key.
        key: String,
    },
    /// An answer without content.
    #[error("answers: the answer to question {key} is empty")]
    Empty {
        /// The question's key.
        key: String,
    },
    /// An answer that is too long.
    #[error("answers: the answer to question {key} is longer than {MAX_ANSWER_BYTES} bytes")]
    TooLong {
        /// The question's key.
        key: String,
    },
    /// Several picks where one is allowed.
    #[error("answers: question {key} takes one choice, and several were picked")]
    TwoPicks {
        /// The question's key.
        key: String,
    },
    /// A character that nobody types: an arrow key that a terminal sent, or NUL, which not every store can hold.
    #[error("answers: the answer to question {key} holds a control character")]
    Control {
        /// The question's key.
        key: String,
    },
}

/// Answers as the peer's vote route takes them, and the keys that were dropped (Q6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LenientAnswers {
    /// What is kept.
    pub answers: Answers,
    /// What was dropped, as it was sent.
    pub dropped: Vec<String>,
}

impl Answers {
    /// Answers from pairs of index and text; `None` where there is none.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (u8, String)>) -> Option<Self> {
        let map: BTreeMap<_, _> = pairs.into_iter().collect();
        (!map.is_empty()).then_some(Self(map))
    }

    /// Reads the `answers` of a vote as the peer does (WIRE c.1): unknown keys and empty texts are dropped,
    /// one value that is no text drops the whole map.
    ///
    /// # Errors
    /// Nothing valid is left (beyond the peer, which uses the question up).
    pub fn lenient(value: Option<&Value>, questions: &[Question]) -> Result<LenientAnswers, InvalidAnswers> {
        let nothing = || InvalidAnswers::Nothing { keys: keys(questions) };
        let map = match value {
            None | Some(Value::Null) => return Err(nothing()),
            Some(Value::Object(map)) => map,
            Some(_) => return Err(InvalidAnswers::NotAMap),
        };
        if map.values().any(|value| !value.is_string()) {
            return Err(nothing());
        }
        let mut kept = BTreeMap::new();
        let mut dropped = Vec::new();
        for (key, value) in map {
            let text = value.as_str().unwrap_or_default();
            match index(key, questions) {
                Some(i) if check_text(key, text).is_ok() => {
                    kept.insert(i, text.to_owned());
                }
                _ => dropped.push(key.clone()),
            }
        }
        if kept.is_empty() { Err(nothing()) } else { Ok(LenientAnswers { answers: Self(kept), dropped }) }
    }

    /// Reads the `answers` of our own answer route: anything malformed is refused (Q6). A list of texts is
    /// several picks.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn strict(value: &Value, questions: &[Question]) -> Result<Self, InvalidAnswers> {
        let map: &Map<String, Value> = value.as_object().ok_or(InvalidAnswers::NotAMap)?;
        let mut kept = BTreeMap::new();
        for (key, value) in map {
            let Some(i) = index(key, questions) else {
                return Err(InvalidAnswers::UnknownKey { key: key.clone(), keys: keys(questions) });
            };
            kept.insert(i, picks(key, value, &questions[usize::from(i)])?);
        }
        for (i, question) in questions.iter().enumerate() {
            if !kept.keys().any(|k| usize::from(*k) == i) {
                return Err(InvalidAnswers::Missing { key: i.to_string(), header: question.header.clone() });
            }
        }
        Ok(Self(kept))
    }

    /// The answer to the question with this index.
    pub fn get(&self, index: usize) -> Option<&str> {
        u8::try_from(index).ok().and_then(|i| self.0.get(&i)).map(String::as_str)
    }

    /// The answers in the order of their questions.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &str)> {
        self.0.iter().map(|(i, text)| (usize::from(*i), text.as_str()))
    }

    /// What the model reads: each header and its answer (Q7). A question that was left out says so (I3).
    pub fn model_text(&self, questions: &[Question]) -> String {
        let mut text = String::from("The person answered:\n");
        for (i, question) in questions.iter().enumerate() {
            let answer = self.get(i).unwrap_or("(left without an answer)");
            text.push_str(&format!("\n**{}**: {answer}", question.header));
        }
        text
    }
}

/// The canonical key of a question: its decimal index.
fn index(key: &str, questions: &[Question]) -> Option<u8> {
    let i: u8 = key.parse().ok()?;
    (usize::from(i) < questions.len() && i.to_string() == key).then_some(i)
}

fn keys(questions: &[Question]) -> String {
    (0..questions.len()).map(|i| format!("\"{i}\"")).collect::<Vec<_>>().join(", ")
}

fn check_text(key: &str, text: &str) -> Result<(), InvalidAnswers> {
    let key = || key.to_owned();
    if text.trim().is_empty() {
        Err(InvalidAnswers::Empty { key: key() })
    } else if text.len() > MAX_ANSWER_BYTES {
        Err(InvalidAnswers::TooLong { key: key() })
    } else if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        Err(InvalidAnswers::Control { key: key() })
    } else {
        Ok(())
    }
}

fn picks(key: &str, value: &Value, question: &Question) -> Result<String, InvalidAnswers> {
    let not_text = || InvalidAnswers::NotText { key: key.to_owned() };
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let texts = list.iter().map(Value::as_str).collect::<Option<Vec<_>>>().ok_or_else(not_text)?;
            for text in &texts {
                check_text(key, text)?;
            }
            if texts.len() > 1 && !question.multi_select {
                return Err(InvalidAnswers::TwoPicks { key: key.to_owned() });
            }
            texts.join(", ")
        }
        _ => return Err(not_text()),
    };
    check_text(key, &text)?;
    if !question.multi_select && is_several_labels(&text, question) {
        return Err(InvalidAnswers::TwoPicks { key: key.to_owned() });
    }
    Ok(text)
}

/// Whether the text is two or more labels of the question, joined as several picks are.
fn is_several_labels(text: &str, question: &Question) -> bool {
    let is_label = |text: &str| question.options.iter().any(|option| option.label == text);
    !is_label(text) && text.contains(", ") && text.split(", ").all(is_label)
}
