//! One event of a session's stream, serialised once for all who read it (WIRE b.1).

use bytes::Bytes;
use holdpoint_model::ids::{ClientId, Micros, PromptId, SessionId};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

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

    /// The event as a frame.
    pub fn frame(&self, id: Option<u64>, now: Micros) -> Frame {
        let envelope = Envelope {
            id,
            v: VERSION,
            r#type: self.kind,
            prompt_id: self.prompt.as_ref(),
            data: &self.data,
            originator_client_id: self.originator.as_ref(),
            meta: Meta { more: &self.meta, server_timestamp: now.0 / 1000 },
        };
        let json = serde_json::to_vec(&envelope).expect("an envelope can be written as JSON");
        Frame { id, kind: self.kind, json: Bytes::from(json) }
    }
}

/// The version of the envelope.
const VERSION: u8 = 1;

/// The envelope, as it is sent; what is in it is not copied.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a, Data> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    v: u8,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_id: Option<&'a PromptId>,
    data: Data,
    #[serde(skip_serializing_if = "Option::is_none")]
    originator_client_id: Option<&'a ClientId>,
    #[serde(rename = "_meta")]
    meta: Meta<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(flatten)]
    more: &'a Map<String, Value>,
    /// In milliseconds since 1970.
    server_timestamp: i64,
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

    /// The envelope, to be written into another text.
    pub fn raw(&self) -> &RawValue {
        serde_json::from_slice(&self.json).expect("a frame is JSON")
    }
}

/// The envelope of an update that is text already: histories are long, and are not taken apart for this.
pub(crate) fn update_envelope(
    session: &SessionId,
    update: &RawValue,
    id: Option<u64>,
    now: Micros,
) -> Box<RawValue> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Update<'a> {
        session_id: &'a SessionId,
        update: &'a RawValue,
    }
    let envelope = Envelope {
        id,
        v: VERSION,
        r#type: "session_update",
        prompt_id: None,
        data: Update { session_id: session, update },
        originator_client_id: None,
        meta: Meta { more: &Map::new(), server_timestamp: now.0 / 1000 },
    };
    to_raw_value(&envelope).expect("an envelope can be written as JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_ways_make_the_same_envelope_of_an_update() {
        let session = SessionId::new("s").unwrap();
        let update =
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a\"\n"}});
        let raw = to_raw_value(&update).unwrap();
        for id in [None, Some(7)] {
            let told = Event::new("session_update", crate::wire::session::update(&session, update.clone()));
            let expected = told.frame(id, Micros(5_000_123));
            assert_eq!(update_envelope(&session, &raw, id, Micros(5_000_123)).get(), expected.raw().get());
        }
    }
}
