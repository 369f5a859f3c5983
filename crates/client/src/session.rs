//! Sessions, prompts, status and history.

use std::collections::BTreeMap;

use holdpoint_model::ids::{ClientId, PromptId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::Event;
use crate::question::OptionView;

/// What the daemon can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// The version of this document.
    pub v: u32,
    /// The tags of what is served; `durable_questions` says that there is a ledger.
    pub features: Vec<String>,
    /// The workspace that the daemon is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_cwd: Option<String>,
    /// Fields that this version doesn't know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Capabilities {
    /// Whether the daemon serves this.
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|tag| tag == feature)
    }
}

/// A session to make.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSession {
    /// Where it works; the daemon's workspace if not given. Absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its id, chosen by the caller (a UUID).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// `single` joins the workspace's default session, `thread` makes a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_scope: Option<&'static str>,
    /// `plan`, `default`, `auto-edit` or `yolo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_mode: Option<String>,
}

impl NewSession {
    /// A session of its own.
    pub fn thread() -> Self {
        Self { session_scope: Some("thread"), ..Self::default() }
    }
}

/// A session that this client is attached to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attached {
    /// The session.
    pub session_id: SessionId,
    /// Who this client is in it. Send it with every later call ([`crate::Daemon::with_client_id`]).
    pub client_id: ClientId,
    /// Where it works.
    #[serde(default)]
    pub workspace_cwd: String,
    /// Whether it was live before.
    #[serde(default)]
    pub attached: bool,
    /// Whether a turn runs or waits.
    #[serde(default)]
    pub has_active_prompt: bool,
    /// Where live events start after the replay (load and resume).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_id: Option<u64>,
    /// The epoch of that cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_epoch: Option<String>,
    /// The history, on a load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compacted_replay: Vec<Event>,
    /// What a live session did since, with its open questions, on a load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub live_journal: Vec<Event>,
    /// Whether there is more history than was sent.
    #[serde(default)]
    pub history_has_more: bool,
    /// What is missing of the history, where something could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_error: Option<String>,
    /// Fields that this version doesn't know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A prompt was accepted (202).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// Its identity; the end of its turn carries it, after a restart too (R15).
    pub prompt_id: PromptId,
    /// From where on the stream shows it.
    #[serde(default)]
    pub last_event_id: u64,
    /// The epoch of that cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_epoch: Option<String>,
}

/// The answer to `continue`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Continued {
    /// Whether a turn goes on.
    pub accepted: bool,
    /// What had interrupted it: `none`, `interrupted_prompt`, `interrupted_turn`.
    #[serde(default)]
    pub interruption: String,
    /// The prompt that goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<PromptId>,
    /// From where on the stream shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_id: Option<u64>,
    /// The epoch of that cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_epoch: Option<String>,
}

/// A prompt that runs or waits for its turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingPrompt {
    /// Its identity.
    pub prompt_id: PromptId,
    /// Its text.
    #[serde(default)]
    pub text: String,
    /// `queued` or `running`.
    #[serde(default)]
    pub state: String,
    /// Fields that this version doesn't know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A page of stored and live sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<SessionRow>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One session of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    /// The session.
    pub session_id: SessionId,
    /// Where it works.
    #[serde(default)]
    pub workspace_cwd: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// When it was made (ISO 8601).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// When something last happened in it (ISO 8601).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    /// How many clients are attached.
    #[serde(default)]
    pub client_count: u64,
    /// Whether a turn runs or waits.
    #[serde(default)]
    pub has_active_prompt: bool,
    /// Whether it waits for an answer.
    #[serde(default)]
    pub is_waiting_for_user_question: bool,
    /// Whether it waits for consent.
    #[serde(default)]
    pub is_waiting_for_permission: bool,
    /// How many decisions it waits for.
    #[serde(default)]
    pub pending_interaction_count: u64,
    /// How many of its questions are open, asked now or not; of a loaded session only.
    #[serde(default)]
    pub open_question_count: u64,
    /// Whether it is loaded. `None`: the daemon does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<bool>,
    /// Fields that this version doesn't know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A live session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStatus {
    /// The session.
    pub session_id: SessionId,
    /// Where it works.
    #[serde(default)]
    pub workspace_cwd: String,
    /// Whether a turn runs or waits.
    #[serde(default)]
    pub has_active_prompt: bool,
    /// Whether it waits for an answer.
    #[serde(default)]
    pub is_waiting_for_user_question: bool,
    /// Whether it waits for consent.
    #[serde(default)]
    pub is_waiting_for_permission: bool,
    /// The decisions that it waits for, as the wire has them.
    #[serde(default)]
    pub pending_interactions: Vec<PendingInteraction>,
    /// Fields that this version doesn't know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A decision that a live session waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingInteraction {
    /// The live asking.
    pub request_id: String,
    /// `user_question` or `permission`.
    #[serde(default)]
    pub kind: String,
    /// One line.
    #[serde(default)]
    pub title: String,
    /// What can be chosen.
    #[serde(default)]
    pub options: Vec<OptionView>,
    /// Fields that this version doesn't know (`questionId`, `generation`, `questions`, …).
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What part of a transcript to read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TranscriptQuery {
    /// At most so many records (1 to 500).
    pub limit: Option<u32>,
    /// Where the page starts.
    pub cursor: Option<String>,
    /// From the end towards the start.
    pub backward: bool,
}

/// A page of a transcript.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TranscriptPage {
    /// Events without ids, whose data is the update itself.
    pub events: Vec<Event>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Whether there is more.
    pub has_more: bool,
    /// Fields that this version doesn't know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A vote on a live asking, as the peer's route takes it (WIRE c.1).
#[derive(Clone, Debug, PartialEq)]
pub enum Vote {
    /// Choose an option; for a question `proceed_once` with the answers by index.
    Selected {
        /// The option.
        option_id: String,
        /// The answers.
        answers: Option<BTreeMap<String, String>>,
    },
    /// Decline.
    Cancelled,
}

impl Vote {
    pub(crate) fn body(&self) -> Value {
        match self {
            Self::Selected { option_id, answers } => {
                let mut body = serde_json::json!({"outcome": {"outcome": "selected", "optionId": option_id}});
                if let Some(answers) = answers {
                    body["answers"] = serde_json::json!(answers);
                }
                body
            }
            Self::Cancelled => serde_json::json!({"outcome": {"outcome": "cancelled"}}),
        }
    }
}
