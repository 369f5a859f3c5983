//! The handle by which a session speaks to the client.

use std::sync::Arc;

use agent_client_protocol::{
    ConnectionTo, Error, SentRequest, UntypedMessage, UntypedRole, is_connection_terminated,
    is_incoming_transport_closed,
};
use serde_json::Value;

use super::link::Pace;

/// Sends to the client. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    connection: ConnectionTo<UntypedRole>,
    pace: Arc<Pace>,
}

/// Why a question has no answer. Neither is ever read as one (trap 1).
#[derive(Debug)]
pub(crate) enum AskError {
    /// The connection is gone.
    Gone,
    /// The client answered with an error.
    Refused(Error),
}

/// A request on its way. Dropping it withdraws the request at the client.
pub(crate) struct Sent(SentRequest<Value>);

impl Peer {
    pub(crate) fn new(connection: ConnectionTo<UntypedRole>, pace: Arc<Pace>) -> Self {
        Self { connection, pace }
    }

    /// Sends a notification, waiting while the client does not read. What cannot be sent any more is lost;
    /// the end of the connection ends the process.
    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.pace.room().await;
        let message = UntypedMessage { method: method.to_owned(), params };
        if let Err(error) = self.connection.send_notification(message) {
            tracing::debug!(code = i32::from(error.code), method, "a notification could not be sent");
        }
    }

    /// Sends a `session/update`.
    pub(crate) async fn update(&self, session: &str, update: Value) {
        self.notify("session/update", serde_json::json!({ "sessionId": session, "update": update })).await;
    }

    /// Sends a request; its answer is awaited apart, so that several go out in order and at once.
    pub(crate) fn ask(&self, method: &str, params: Value) -> Sent {
        self.pace.count();
        let message = UntypedMessage { method: method.to_owned(), params };
        Sent(self.connection.send_request(message))
    }
}

impl Sent {
    /// The answer.
    pub(crate) async fn answer(self) -> Result<Value, AskError> {
        self.0.block_task().await.map_err(|error| {
            if is_incoming_transport_closed(&error) || is_connection_terminated(&error) {
                AskError::Gone
            } else {
                AskError::Refused(error)
            }
        })
    }
}
