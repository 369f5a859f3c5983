//! Bodies and headers as the routes read them, for the fuzz targets; nobody else's business.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use holdpoint_engine::bus::Cursor;
use holdpoint_engine::{AnswerRequest, VoteRequest};
use serde_json::{Map, Value};

use crate::body;
use crate::routes::{question, stream, vote};

const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

fn headers(named: &[(&'static str, &[u8])]) -> HeaderMap {
    let pairs = named.iter().filter_map(|(name, value)| {
        // What no HTTP header can hold is not there.
        Some((HeaderName::from_static(name), HeaderValue::from_bytes(value).ok()?))
    });
    pairs.collect()
}

fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(map)) => Some(body::clean(map)),
        _ => None,
    }
}

/// The body of a vote, and the value of `X-Qwen-Client-Id`; `None` where it is refused.
pub fn vote(body: &[u8], client: &[u8]) -> Option<VoteRequest> {
    vote::read(&object(body)?, &headers(&[("x-qwen-client-id", client)]), PEER).ok()
}

/// The body of an answer, likewise.
pub fn answer(body: &[u8], client: &[u8]) -> Option<AnswerRequest> {
    question::read_answer(&object(body)?, &headers(&[("x-qwen-client-id", client)]), PEER).ok()
}

/// The values of `Last-Event-ID` and `X-Qwen-Event-Epoch`.
pub fn cursor(last: &[u8], epoch: &[u8]) -> Option<Cursor> {
    stream::cursor(&headers(&[("last-event-id", last), ("x-qwen-event-epoch", epoch)]))
}
