//! One event of a session's stream, serialised once for all who read it (WIRE b.1).

use bytes::Bytes;
use holdpoint_model::ids::{ClientId, Micros, PromptId, SessionId};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
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

/// A stored history as events. Histories are long: the envelopes are only there while they are written.
#[derive(Clone, Debug)]
pub struct Told {
    pub(crate) session: SessionId,
    /// What comes before the updates.
    pub(crate) notice: Option<Frame>,
    /// The updates, as text.
    pub(crate) updates: Vec<Box<RawValue>>,
    /// Whether the updates have the first ids of the stream.
    pub(crate) numbered: bool,
    pub(crate) now: Micros,
}

impl Told {
    /// About how long it is when it is written, in bytes.
    pub fn size_hint(&self) -> usize {
        const ENVELOPE: usize = 192;
        self.updates.iter().map(|update| update.get().len() + ENVELOPE).sum()
    }
}

impl Serialize for Told {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Update<'a> {
            session_id: &'a SessionId,
            update: &'a RawValue,
        }
        let more = Map::new();
        let mut events = serializer.serialize_seq(None)?;
        if let Some(notice) = &self.notice {
            events.serialize_element(notice.raw())?;
        }
        for (i, update) in self.updates.iter().enumerate() {
            events.serialize_element(&Envelope {
                id: self.numbered.then_some(i as u64 + 1),
                v: VERSION,
                r#type: "session_update",
                prompt_id: None,
                data: Update { session_id: &self.session, update },
                originator_client_id: None,
                meta: Meta { more: &more, server_timestamp: self.now.0 / 1000 },
            })?;
        }
        events.end()
    }
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
        let now = Micros(5_000_123);
        let raw = serde_json::value::to_raw_value(&update).unwrap();
        for id in [None, Some(1)] {
            let numbered = id.is_some();
            let told =
                Told { session: session.clone(), notice: None, updates: vec![raw.clone()], numbered, now };
            let event = Event::new("session_update", crate::wire::session::update(&session, update.clone()));
            let expected = format!("[{}]", event.frame(id, now).raw().get());
            assert_eq!(serde_json::to_string(&told).unwrap(), expected);
        }
    }
}
