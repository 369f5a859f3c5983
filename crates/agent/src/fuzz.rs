//! What a client sends as our agent reads it, for the fuzz targets; nobody else's business.

use agent_client_protocol::TransportFrame;
use futures::StreamExt as _;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;

use crate::params;
use crate::rpc::link;

/// Sends these bytes, then nothing more; how many messages got through, and what was answered to the others.
pub async fn talk(sent: &[u8]) -> (usize, Vec<u8>) {
    let (source, sink) = (std::io::Cursor::new(sent.to_vec()), tokio::io::duplex(4096));
    let (mut client, ours) = sink;
    let link = link(source, ours);
    let (mut incoming, outgoing) = (link.channel.rx, link.channel.tx);
    let taking = async {
        let mut messages = 0;
        while let Some(frame) = incoming.next().await {
            if let TransportFrame::Single(message) = frame {
                messages += 1;
                look_into(&serde_json::to_value(&message).unwrap_or_default()["params"]);
            }
        }
        // Nothing more is said, so the writer ends when it has written all.
        drop(outgoing);
        messages
    };
    let mut answers = Vec::new();
    let (messages, read) = tokio::join!(taking, client.read_to_end(&mut answers));
    debug_assert!(read.is_ok(), "a pipe in memory cannot fail");
    (messages, answers)
}

/// Reads params as each request's.
fn look_into(value: &Value) {
    let _ = params::session_id(value);
    let _ = params::cwd(value);
    let _ = params::mode(value);
    let _ = params::prompt_id(value);
    let _ = params::Open::read(value, true);
    let _ = params::Open::read(value, false);
}
