//! Answers, as requests that are ready to be sent.

use std::net::SocketAddr;

use serde_json::json;

use crate::daemon::{Asked, Session};
use crate::http::request;

/// A vote on the peer's route.
pub(crate) fn vote(host: SocketAddr, session: &Session, asked: &Asked) -> Vec<u8> {
    let body = json!({ "outcome": { "outcome": "selected", "optionId": "proceed_once" }, "answers": { "0": "Blue" } });
    let path = format!("/session/{}/permission/{}", session.id, asked.request);
    request(host, &path, Some(&session.client), &body.to_string())
}

/// An answer by the question's durable identity.
pub(crate) fn answer(host: SocketAddr, asked: &Asked) -> Vec<u8> {
    let body = json!({
        "generation": asked.generation,
        "answers": { "0": "Blue" },
        "responseId": format!("bench-{}", asked.id),
    });
    request(host, &format!("/questions/{}/answer", asked.id), None, &body.to_string())
}
