//! JSON-RPC over two byte streams: bounded lines in, joined lines out, and a handle to send by.

mod lines;
mod link;
mod peer;

pub(crate) use link::{Link, LinkEnd, Pace, link};
pub(crate) use peer::{AskError, Peer, Sent};

use agent_client_protocol::Error;

/// The request is malformed or not possible now; the text says why.
pub(crate) fn invalid_request(text: impl Into<String>) -> Error {
    Error::new(-32600, text)
}

/// There is no such method.
pub(crate) fn method_not_found(method: &str) -> Error {
    Error::new(-32601, format!("there is no method {method:?}"))
}

/// The params are wrong; the text says which and how.
pub(crate) fn invalid_params(text: impl Into<String>) -> Error {
    Error::new(-32602, text)
}

/// Something failed on our side; the text says what and what to do.
pub(crate) fn internal(text: impl Into<String>) -> Error {
    Error::new(-32603, text)
}

/// What is named does not exist.
pub(crate) fn not_found(text: impl Into<String>) -> Error {
    Error::new(-32002, text)
}
