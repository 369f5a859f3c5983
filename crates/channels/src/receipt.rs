//! Which question a message is meant for, decided when it is stored, from what was open and shown then (CR4–CR6, C3, C4).
//! What happens to it later only compares with that.

use serde::{Deserialize, Serialize};

use crate::binding::Binding;
use crate::place::{MessageId, Position};

/// A question or permission that is open in the conversation, as its newest card shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// Which.
    pub binding: Binding,
    /// Its message; `None` until the platform has said which.
    pub message: Option<MessageId>,
    /// The card's place in the platform's order; `None` until the platform has taken it: nobody has seen it yet.
    pub at: Option<Position>,
    /// What it takes.
    pub kind: Kind,
    /// Whether this sender may answer it (C6).
    pub sender_may: bool,
}

/// What kind of thing is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A question of one part, which takes a text.
    OnePart,
    /// A question of several parts, which no single text answers.
    Parts,
    /// A permission: never answered by a plain message (C4).
    Permission,
}

/// A plain message, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Its place in the platform's order.
    pub at: Position,
    /// The message that it is a reply to, where the platform has such a thing (Discord).
    pub replies_to: Option<MessageId>,
    /// The generation that it begins with, as `#3 …`, where this conversation has had such a question: else it is the
    /// number of something else.
    pub names: Option<u64>,
    /// Whether a question that this conversation was showing was settled elsewhere a moment ago (CR8).
    pub quiet: bool,
}

/// What a message is meant for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "bound", rename_all = "snake_case")]
pub enum Bound {
    /// This question.
    To {
        /// Which.
        #[serde(flatten)]
        binding: Binding,
        /// What says so.
        by: How,
    },
    /// No question; the message is handled as the reason says.
    Free {
        /// Why.
        why: Why,
    },
}

/// What binds a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It replies to the card.
    Reply,
    /// It names the question by number.
    Number,
    /// Nothing else was open.
    Only,
}

/// Why a message is not an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Nothing is open: an ordinary turn (C4).
    NothingOpen,
    /// Only permissions are: the message is queued, and its author told what waits (C4).
    OnlyPermissions,
    /// Several questions are: a picker.
    Several,
    /// The only question has several parts: the person is shown its form.
    Parts,
    /// The card was not out when the message was written (CR5, CR6).
    NotShownYet,
    /// This person may not answer it.
    NotAllowed,
    /// A question was settled elsewhere a moment ago, and the message may have been for that one (CR8).
    Quiet,
    /// The card that it replies to, or the number, is of something that is not open here.
    NotOpen,
    /// What it names is a permission (C4).
    Permission,
}

/// Binds a message. Explicit beats implicit (CR6): a reply or a number means what it names or nothing, and is never
/// taken for another question. A reply to anything but an open card is no answer while something is open.
pub fn bind(open: &[Open], message: &Incoming) -> Bound {
    let card = |id: &MessageId| open.iter().find(|one| one.message.as_ref() == Some(id));
    let replied = message.replies_to.as_ref().map(card);
    match (replied, message.names) {
        (Some(Some(named)), _) => explicitly(named, How::Reply, message),
        (_, Some(number)) => match open.iter().find(|one| one.binding.generation.0 == number) {
            Some(named) => explicitly(named, How::Number, message),
            None => free(Why::NotOpen),
        },
        (Some(None), None) if !open.is_empty() => free(Why::NotOpen),
        _ => implicitly(open, message),
    }
}

fn explicitly(named: &Open, by: How, message: &Incoming) -> Bound {
    match named.kind {
        Kind::Permission => free(Why::Permission),
        _ if !named.sender_may => free(Why::NotAllowed),
        _ if named.at.is_none_or(|card| message.at <= card) => free(Why::NotShownYet),
        Kind::Parts => free(Why::Parts),
        Kind::OnePart => Bound::To { binding: named.binding.clone(), by },
    }
}

fn implicitly(open: &[Open], message: &Incoming) -> Bound {
    let mut questions = open.iter().filter(|one| one.kind != Kind::Permission);
    let Some(only) = questions.next() else {
        return free(if open.is_empty() { Why::NothingOpen } else { Why::OnlyPermissions });
    };
    if questions.next().is_some() {
        return free(Why::Several);
    }
    if only.at.is_none_or(|card| message.at <= card) {
        return free(Why::NotShownYet);
    }
    if message.quiet {
        return free(Why::Quiet);
    }
    if !only.sender_may {
        return free(Why::NotAllowed);
    }
    match only.kind {
        Kind::OnePart => Bound::To { binding: only.binding.clone(), by: How::Only },
        _ => free(Why::Parts),
    }
}

fn free(why: Why) -> Bound {
    Bound::Free { why }
}

/// The generation that a text begins with, as `#3 blue`, and the rest of it. `#3` alone picks an option, and is no
/// address.
pub fn address(text: &str) -> (Option<u64>, &str) {
    let plain = (None, text);
    let Some(rest) = text.trim_start().strip_prefix('#') else { return plain };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, said) = rest.split_at(digits);
    let separated = said.starts_with(|c: char| c.is_whitespace() || c == ':');
    let said = said.trim_start_matches(|c: char| c.is_whitespace() || c == ':');
    match number.parse() {
        Ok(number) if separated && !said.is_empty() => (Some(number), said),
        _ => plain,
    }
}
