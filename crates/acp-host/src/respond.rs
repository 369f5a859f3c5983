//! The way back for a request of an agent.

use std::sync::Arc;

use agent_client_protocol::{Error, ErrorCode, Responder};
use holdpoint_engine::port::Respond;
use serde_json::Value;

use crate::conn::Conn;

/// A request that waits for its answer.
///
/// The SDK answers a responder that is dropped with an error, which an agent could take for the end of the
/// question (trap 1). That answer is stopped by the writer, which lets only those pass that [`answer`] or
/// [`refuse`] announced. So dropping this leaves the request unanswered, and costs nothing.
pub(crate) struct AcpRespond {
    conn: Arc<Conn>,
    responder: Option<Responder<Value>>,
}

impl AcpRespond {
    /// For a request that [`Conn::open_request`] let in.
    pub(crate) fn new(conn: &Arc<Conn>, responder: Responder<Value>) -> Self {
        Self { conn: Arc::clone(conn), responder: Some(responder) }
    }
}

impl Respond for AcpRespond {
    fn respond(mut self: Box<Self>, result: Value) {
        if let Some(responder) = self.responder.take() {
            answer(&self.conn, responder, Ok(result));
        }
    }

    fn refuse(mut self: Box<Self>, message: String) {
        if let Some(responder) = self.responder.take() {
            refuse(&self.conn, responder, ErrorCode::INTERNAL_ERROR, message);
        }
    }
}

impl Drop for AcpRespond {
    fn drop(&mut self) {
        self.conn.close_request();
    }
}

/// Refuses a request.
pub(crate) fn refuse(conn: &Conn, responder: Responder<Value>, code: ErrorCode, message: String) {
    answer(conn, responder, Err(Error::new(code, message)));
}

fn answer(conn: &Conn, responder: Responder<Value>, result: Result<Value, Error>) {
    // Otherwise it is dropped here, and the writer drops what that makes of it.
    if conn.allow(responder.raw_id())
        && let Err(error) = responder.respond_with_result(result)
    {
        tracing::debug!(agent = conn.name, code = error.code.value(), "an answer came after the end");
    }
}
