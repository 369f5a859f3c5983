//! Time and fresh identities, so that nothing else in the engine reads a clock or draws a number.

use std::time::{SystemTime, UNIX_EPOCH};

use holdpoint_model::ids::{ClientId, Micros, PromptId, QuestionId, RequestId, SessionId};
use uuid::Uuid;

/// Where time and fresh identities come from.
pub trait World: Send + Sync + 'static {
    /// Now, by the wall clock.
    fn now(&self) -> Micros;
    /// A random UUID.
    fn uuid(&self) -> Uuid;
    /// A UUID that sorts by time.
    fn ordered_uuid(&self) -> Uuid;

    /// Whether the process was told to stop, even if the engine does not know it yet. What ends the process group ends
    /// the agents with it, and their end may be seen first.
    fn told_to_stop(&self) -> bool {
        false
    }

    /// A fresh session id.
    fn session_id(&self) -> SessionId {
        SessionId::new(self.uuid().to_string()).expect("a UUID is a session id")
    }

    /// A fresh client id: unguessable, so that nobody is another client by accident or by trying.
    fn client_id(&self) -> ClientId {
        ClientId::new(format!("client_{}", self.uuid())).expect("a UUID is a label")
    }

    /// A fresh prompt id.
    fn prompt_id(&self) -> PromptId {
        PromptId::new(self.uuid().to_string()).expect("a UUID is a label")
    }

    /// A fresh request id.
    fn request_id(&self) -> RequestId {
        RequestId::new(self.uuid().to_string()).expect("a UUID is a label")
    }

    /// A fresh question id. It sorts by the time of asking.
    fn question_id(&self) -> QuestionId {
        QuestionId::new(format!("q_{}", self.ordered_uuid().simple())).expect("q_ and hexadecimal digits")
    }
}

/// The real one.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemWorld;

impl World for SystemWorld {
    fn now(&self) -> Micros {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn ordered_uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
}
