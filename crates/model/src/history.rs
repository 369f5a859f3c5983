//! The model-visible history: what a provider is sent, and what a transcript record holds in `message`.
//!
//! The shape is that of the transcript files (`WIRE` section f.1): a role and parts, where a part is text, a
//! call of a tool, or the response to one. Fields that we do not know are kept, so that a file written by
//! another tool is read and sent on whole.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::CallId;

/// Who speaks in one entry of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person, a notice of the daemon, or the results of tool calls.
    User,
    /// The model.
    Model,
}

/// One entry of the history: everything that one side said before the other spoke again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
}

impl Content {
    /// An entry of the user's side that holds one text.
    pub fn user_text(text: impl Into<String>) -> Self {
        Self { role: Role::User, parts: vec![Part::text(text)] }
    }

    /// An entry of the user's side that holds the response to one call.
    pub fn response(response: FunctionResponse) -> Self {
        Self { role: Role::User, parts: vec![Part::response(response)] }
    }

    /// The calls of this entry, in order.
    pub fn calls(&self) -> impl Iterator<Item = &FunctionCall> {
        self.parts.iter().filter_map(|part| part.function_call.as_ref())
    }

    /// The responses of this entry, in order.
    pub fn responses(&self) -> impl Iterator<Item = &FunctionResponse> {
        self.parts.iter().filter_map(|part| part.function_response.as_ref())
    }
}

/// One part of an entry. Exactly one of `text`, `function_call` and `function_response` is set in what we
/// write; a part of another kind (an image, say) is carried in `extra`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// Text, or the text of a thought when `thought` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// `true` marks `text` as the model's reasoning: stored (I10), shown apart, and sent back only to a
    /// provider that wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<bool>,
    /// An opaque signature by which a provider recognises its own reasoning. It may sit on any kind of part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<String>,
    /// A call of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_call: Option<FunctionCall>,
    /// The response to a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_response: Option<FunctionResponse>,
    /// Everything else, as it was read.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Part {
    /// A part of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// A part of the model's reasoning.
    pub fn thought(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), thought: Some(true), ..Self::default() }
    }

    /// A part that calls a tool.
    pub fn call(call: FunctionCall) -> Self {
        Self { function_call: Some(call), ..Self::default() }
    }

    /// A part that answers a call.
    pub fn response(response: FunctionResponse) -> Self {
        Self { function_response: Some(response), ..Self::default() }
    }

    /// The text of this part if a person may read it as the speaker's words (a thought is not).
    pub fn visible_text(&self) -> Option<&str> {
        if self.thought == Some(true) { None } else { self.text.as_deref() }
    }
}

/// A call of a tool by the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The call's id. Our agent always sets one that is unique in the session; files of other tools may
    /// lack it, and a call without an id can never be asked again (E3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<CallId>,
    /// The name of the tool.
    pub name: String,
    /// The arguments as the model gave them. Not an object where the model sent broken JSON: then a string.
    #[serde(default)]
    pub args: Value,
}

/// The response to a call: `{"output": …}` or `{"error": …}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionResponse {
    /// The id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<CallId>,
    /// The name of the tool.
    pub name: String,
    /// What the tool returned.
    #[serde(default)]
    pub response: Value,
}

impl FunctionResponse {
    /// A response that carries a result.
    pub fn output(id: CallId, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: Some(id), name: name.into(), response: serde_json::json!({ "output": text.into() }) }
    }

    /// A response that carries an error.
    pub fn error(id: CallId, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: Some(id), name: name.into(), response: serde_json::json!({ "error": text.into() }) }
    }

    /// The text that the model reads, whichever of the two it is.
    pub fn text(&self) -> String {
        for key in ["output", "error"] {
            if let Some(value) = self.response.get(key) {
                return value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            }
        }
        self.response.to_string()
    }

    /// Whether the response carries an error.
    pub fn is_error(&self) -> bool {
        self.response.get("error").is_some()
    }
}
