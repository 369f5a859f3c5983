//! What an agent sends: one handler for everything, called by the SDK's loop one message at a time. It waits for
//! room in a session's sink and for nothing else (trap 10).

use std::sync::Arc;

use agent_client_protocol::{
    Agent, ConnectionTo, Dispatch, Error, ErrorCode, HandleDispatchFrom, Handled, Responder, UntypedMessage,
};
use holdpoint_engine::port::FromAgent;
use serde_json::Value;

use crate::conn::Conn;
use crate::respond::{AcpRespond, refuse};
use crate::routes::Known;
use crate::wire;

/// The handler.
pub(crate) struct Inbound {
    conn: Arc<Conn>,
}

impl Inbound {
    pub(crate) fn new(conn: Arc<Conn>) -> Self {
        Self { conn }
    }

    async fn notification(&self, message: UntypedMessage) {
        let (method, params) = message.into_parts();
        if method != "session/update" {
            tracing::trace!(agent = self.conn.name, method, "a notification that is none of ours");
            return;
        }
        match wire::session_update(params) {
            Some((session, update)) => self.conn.deliver(&session, FromAgent::Update(update)).await,
            None => tracing::debug!(agent = self.conn.name, "a session/update without session or update"),
        }
    }

    async fn request(&self, message: UntypedMessage, responder: Responder<Value>) {
        let (method, params) = message.into_parts();
        if method != "session/request_permission" {
            let message = format!("this client has no method {}", short(&method));
            refuse(&self.conn, responder, ErrorCode::METHOD_NOT_FOUND, message);
            return;
        }
        let Some(session) = params["sessionId"].as_str().map(str::to_owned) else {
            refuse(&self.conn, responder, ErrorCode::INVALID_PARAMS, "sessionId is missing".into());
            return;
        };
        match self.conn.routes.known(&session) {
            Known::Routed => {}
            // Its turn is over for us, but a refusal could be written down as the end of a question.
            Known::Closed => return,
            Known::No => {
                let message = format!("this client has no session {}", short(&session));
                refuse(&self.conn, responder, ErrorCode::INVALID_PARAMS, message);
                return;
            }
        }
        if !self.conn.open_request() {
            tracing::error!(session = %short(&session), "the agent asks more than it may have open; refused");
            let message = "too many requests of this agent wait for an answer".to_owned();
            refuse(&self.conn, responder, ErrorCode::INTERNAL_ERROR, message);
            return;
        }
        let responder = Box::new(AcpRespond::new(&self.conn, responder));
        self.conn.deliver(&session, FromAgent::Ask { params, responder }).await;
    }
}

/// Enough of a text of the agent to recognise it.
fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// Tells the reader that there may be room, however the handler ends.
struct Handling<'a>(&'a Conn);

impl Drop for Handling<'_> {
    fn drop(&mut self) {
        self.0.handled.notify_one();
    }
}

impl HandleDispatchFrom<Agent> for Inbound {
    async fn handle_dispatch_from(
        &mut self,
        message: Dispatch,
        _connection: ConnectionTo<Agent>,
    ) -> Result<Handled<Dispatch>, Error> {
        let _handling = Handling(&self.conn);
        match message {
            // Once it is being stopped nobody listens, and nobody answers.
            Dispatch::Notification(_) | Dispatch::Request(..) if self.conn.stopping.is_cancelled() => {}
            Dispatch::Notification(message) => self.notification(message).await,
            Dispatch::Request(message, responder) => self.request(message, responder).await,
            // Whoever waited may be gone; then there is nobody to tell.
            Dispatch::Response(result, router) => drop(router.route_with_result(result)),
        }
        Ok(Handled::Yes)
    }

    fn describe_chain(&self) -> impl std::fmt::Debug {
        "holdpoint-acp-host"
    }
}
