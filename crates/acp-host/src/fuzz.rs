//! The output of an agent process as the daemon reads it, for the fuzz targets; nobody else's business.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_client_protocol::{Channel, RawJsonRpcMessage, TransportFrame};
use futures::StreamExt as _;
use holdpoint_model::ids::SessionId;
use serde_json::Value;

use crate::config::{Limits, Restore};
use crate::conn::Conn;
use crate::stderr::Redactor;
use crate::transport::{self, End};
use crate::wire;

/// What was read.
#[derive(Debug)]
pub struct Read {
    /// How many messages got through.
    pub messages: usize,
    /// How long they are, and what was made of them, in bytes of JSON.
    pub bytes: usize,
    /// Why the agent was given up, if it was.
    pub broken: Option<String>,
}

/// Reads an agent's whole output, with lines of at most `max` bytes, and everything that we read of a message.
pub async fn read(output: &[u8], max: usize) -> Read {
    let limits = Limits { max_frame: max, ..Limits::default() };
    let conn = Arc::new(Conn::new("fuzz", 0, Restore::Native, limits));
    let (ours, mut sdks) = Channel::duplex();
    let (_from_sdk, to_sdk) = ours.into_parts();
    let redactor = Arc::new(Redactor::new(&BTreeMap::new()));
    let reading = transport::read(Arc::clone(&conn), output, to_sdk, redactor);
    let taking = async {
        let (mut messages, mut bytes) = (0, 0);
        while let Some(frame) = sdks.rx.next().await {
            conn.handled.notify_one();
            if let TransportFrame::Single(message) = frame {
                messages += 1;
                bytes += look_into(&message);
            }
        }
        (messages, bytes)
    };
    let ((end, _), (messages, bytes)) = tokio::join!(reading, taking);
    let broken = match end {
        End::Closed => None,
        End::Broken(why) => Some(why),
    };
    Read { messages, bytes, broken }
}

/// Reads a message as each kind that it could be; how long it is, and what was made of it.
fn look_into(message: &RawJsonRpcMessage) -> usize {
    let value = serde_json::to_value(message).unwrap_or_default();
    let mut bytes = value.to_string().len();
    let part = |name: &str| value.get(name).cloned().unwrap_or_default();
    for mut value in [part("params"), part("result"), value] {
        let _ = wire::hello(&value);
        let _ = wire::new_session_id(&value);
        let _ = wire::prompt_end(value.clone());
        if let Ok(session) = SessionId::new("fuzz") {
            let _ = wire::taken_up(session, value.clone(), Restore::Native);
        }
        let _ = wire::weight(&value);
        let replay: Option<Vec<Value>> = wire::bulk_replay(&mut value.clone());
        bytes += replay.iter().flatten().map(|update| update.to_string().len()).sum::<usize>();
        let _ = wire::session_update(value.take());
    }
    bytes
}
