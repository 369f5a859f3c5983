//! A typed client of the daemon over HTTP and SSE, used by the command line and by tests.
//!
//! Answers are read tolerantly: fields that this version doesn't know are kept (`more`), values of closed
//! lists that it doesn't know become `Other`. Refusals are typed by what the caller can do ([`Refusal`]) and
//! carry the daemon's own words.

mod daemon;
mod error;
mod event;
mod login;
mod question;
mod scheme;
mod session;
mod sse;
mod subscription;

pub use daemon::{DEFAULT_URL, Daemon};
pub use error::{ApiError, ClientError, Refusal, Winner};
pub use event::{
    Event, EventKind, PermissionRequest, PermissionResolved, Resync, ToolCall, TurnComplete, TurnError,
    Update,
};
pub use login::LoginCode;
pub use question::{
    Action, Answer, AnswerRequest, AnswerValue, AnsweredBy, Filter, Inbox, Kind, OptionView, QuestionView,
    Receipt, ReceiptStatus, Shown, State, new_response_id,
};
pub use session::{
    Accepted, Attached, Capabilities, Continued, NewSession, PendingPrompt, SessionList, SessionRow,
    SessionStatus, TranscriptPage, TranscriptQuery, Vote,
};
pub use subscription::{Cursor, Signal, Subscription};
