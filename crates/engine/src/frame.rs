//! One event of a session's stream, serialised once for all who read it (WIRE b.1).

use bytes::Bytes;
use holdpoint_model::ids::{ClientId, Micros, PromptId};
use serde_json::{Map, Value, json};

/// An event before it has an id.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its type.
    pub kind: &'static str,
    /// Its data.
    pub data: Value,
    /// The turn it belongs to.
    pub prompt: Option<PromptId>,
    /// The client that caused it.
    pub originator: Option<ClientId>,
    /// More `_meta`.
    pub meta: Map<String, Value>,
}

impl Event {
    /// An event of this type.
    pub fn new(kind: &'static str, data: Value) -> Self {
        Self { kind, data, prompt: None, originator: None, meta: Map::new() }
    }

    /// Of this turn.
    #[must_use]
    pub fn of_prompt(mut self, prompt: Option<&PromptId>) -> Self {
        self.prompt = prompt.cloned();
        self
    }

    /// Caused by this client.
    #[must_use]
    pub fn by(mut self, client: Option<&ClientId>) -> Self {
        self.originator = client.cloned();
        self
    }

    /// With this in `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: &str, value: Value) -> Self {
        self.meta.insert(key.to_owned(), value);
        self
    }

    /// The envelope, as it is sent.
    pub fn envelope(&self, id: Option<u64>, now: Micros) -> Value {
        self.clone().into_envelope(id, now)
    }

    /// The envelope, as it is sent; what is in it is not copied.
    pub fn into_envelope(self, id: Option<u64>, now: Micros) -> Value {
        let mut object = Map::new();
        if let Some(id) = id {
            object.insert("id".to_owned(), json!(id));
        }
        object.insert("v".to_owned(), json!(1));
        object.insert("type".to_owned(), json!(self.kind));
        if let Some(prompt) = &self.prompt {
            object.insert("promptId".to_owned(), json!(prompt));
        }
        object.insert("data".to_owned(), self.data);
        if let Some(client) = &self.originator {
            object.insert("originatorClientId".to_owned(), json!(client));
        }
        let mut meta = self.meta;
        meta.insert("serverTimestamp".to_owned(), json!(now.0 / 1000));
        object.insert("_meta".to_owned(), Value::Object(meta));
        Value::Object(object)
    }

    /// The event as a frame.
    pub fn frame(&self, id: Option<u64>, now: Micros) -> Frame {
        let json = self.envelope(id, now).to_string();
        Frame { id, kind: self.kind, json: Bytes::from(json) }
    }
}

/// An event as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Its place in the stream; `None` for frames that are one subscriber's own.
    pub id: Option<u64>,
    /// Its type.
    pub kind: &'static str,
    /// The envelope: one line of JSON.
    pub json: Bytes,
}

impl Frame {
    /// What it weighs in a queue, in bytes.
    pub fn weight(&self) -> usize {
        self.json.len()
    }

    /// The envelope, parsed.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or(Value::Null)
    }
}
