//! Identities, each a type of its own (`ARCHITECTURE`, "Identities").
//!
//! The core never makes one: a new id comes in with the command, so that `decide` stays a function.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a text is not an id of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {problem}")]
pub struct InvalidId {
    /// What was expected, in words.
    pub kind: &'static str,
    /// What is wrong with the text.
    pub problem: &'static str,
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        impl $name {
            /// Reads an id.
            ///
            /// # Errors
            /// The text is not an id of this kind.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidId> {
                let text: String = text.into();
                let check: fn(&str) -> Result<(), &'static str> = $check;
                match check(&text) {
                    Ok(()) => Ok(Self(text.into_boxed_str())),
                    Err(problem) => Err(InvalidId { kind: $kind, problem }),
                }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.into_string()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Longest opaque id that we keep, in bytes: ids of providers are far shorter, and a longer one is abuse.
const OPAQUE_MAX: usize = 512;

fn opaque(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        Err("is empty")
    } else if text.len() > OPAQUE_MAX {
        Err("is longer than 512 bytes")
    } else if text.chars().any(char::is_control) {
        Err("holds a control character")
    } else {
        Ok(())
    }
}

fn label(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.len() > 128 {
        return Err("must have 1 to 128 characters");
    }
    if text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-')) {
        Ok(())
    } else {
        Err("may hold only letters, digits and . _ : -")
    }
}

/// A session id becomes a file name, so the grammar is narrow: nothing in it can leave a directory.
fn session(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.len() > 128 {
        return Err("must have 1 to 128 characters");
    }
    if !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) {
        return Err("may hold only letters, digits, _ and -");
    }
    Ok(())
}

fn question(text: &str) -> Result<(), &'static str> {
    match text.strip_prefix("q_") {
        Some(rest)
            if !rest.is_empty() && rest.len() <= 64 && rest.bytes().all(|b| b.is_ascii_alphanumeric()) =>
        {
            Ok(())
        }
        _ => Err("must be q_ and then letters and digits"),
    }
}

text_id!(
    /// One conversation. Lives for ever, and names the transcript file.
    SessionId, "session id", session
);
text_id!(
    /// One question put to people: (session, model-turn record, call). `q_` in text; lives for ever and is
    /// never used again.
    QuestionId, "question id", question
);
text_id!(
    /// One tool call of a model turn, unique in its session.
    CallId, "call id", opaque
);
text_id!(
    /// One record of a transcript: its `uuid`.
    RecordId, "record id", opaque
);
text_id!(
    /// One *live* asking of a question over the wire. A re-hang has a new one; older ones of an open question
    /// stay its aliases (R17).
    RequestId, "request id", label
);
text_id!(
    /// Chosen by the answerer, so that a retry of the same answer gets the same receipt.
    ResponseId, "response id", label
);
text_id!(
    /// One attached client (`X-Qwen-Client-Id`). Issued by the daemon; kept over restarts (R16).
    ClientId, "client id", label
);
text_id!(
    /// One prompt: kept over a restart, so that whoever waits for it is told (R15).
    PromptId, "prompt id", label
);

/// Counts the questions of a session: 1, 2, 3 … A re-hang keeps it; a new call is a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point in time: microseconds since 1970-01-01T00:00:00Z. The core is given it; it never reads a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(pub i64);
