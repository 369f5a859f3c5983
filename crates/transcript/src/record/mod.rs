//! One record of a transcript, read leniently and written exactly.

mod fast;
mod read;

use holdpoint_model::history::Content;
use holdpoint_model::ids::{CallId, PromptId, RecordId, SessionId};
use holdpoint_model::restore::TailResult;
use serde_json::{Map, Value, json};

pub(crate) use read::{read_contents, read_line, read_slim, whole_prefix};

/// The format that we write and the newest that we read. It stands in `holdpoint.v` of each record of ours; a
/// record without one is another tool's.
pub const FORMAT: u64 = 1;

/// The key of our additions.
const OWN: &str = "holdpoint";

/// What a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A prompt, or a notice that stands for one.
    User,
    /// A model turn.
    Assistant,
    /// Results of calls.
    ToolResult,
    /// Something about the session that no model reads.
    System,
    /// A type that we do not know. Kept in the chain, shown to nobody.
    Other(String),
}

impl Kind {
    /// The name in the file.
    pub fn as_str(&self) -> &str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::ToolResult => "tool_result",
            Self::System => "system",
            Self::Other(name) => name,
        }
    }

    fn parse(text: &str) -> Self {
        match text {
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool_result" => Self::ToolResult,
            "system" => Self::System,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// What stands before a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parent {
    /// Nothing: the record starts a conversation (`parentUuid: null`).
    Root,
    /// The record of this id.
    Of(RecordId),
    /// The record does not say: then it is the one before it in the file.
    Unsaid,
}

/// Who or what is the author of a result (I3), in `holdpoint.cause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A person answered the question.
    Answered,
    /// A person declined the question.
    Declined,
    /// The turn was cancelled while the question was open, or before or while the call ran.
    Cancelled,
    /// The time-out of the question.
    TimedOut,
    /// Orphan repair.
    OrphanRepair,
    /// A person did not allow the call.
    NotAllowed,
    /// The policy of the session refused the call.
    Policy,
    /// The call could not be understood (Q2).
    Invalid,
    /// The tool ran.
    Ran,
}

impl Cause {
    const ALL: [Self; 9] = [
        Self::Answered,
        Self::Declined,
        Self::Cancelled,
        Self::TimedOut,
        Self::OrphanRepair,
        Self::NotAllowed,
        Self::Policy,
        Self::Invalid,
        Self::Ran,
    ];

    /// The name in the file and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Declined => "declined",
            Self::Cancelled => "cancelled_before_answer",
            Self::TimedOut => "timed_out",
            Self::OrphanRepair => "orphan_repair",
            Self::NotAllowed => "not_allowed",
            Self::Policy => "policy",
            Self::Invalid => "invalid_call",
            Self::Ran => "ran",
        }
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == text)
    }

    /// What it means for the end of a transcript that the call ended so.
    pub fn tail_result(self) -> TailResult {
        match self {
            Self::Declined => TailResult::Declined,
            Self::Cancelled => TailResult::Cancelled,
            Self::OrphanRepair => TailResult::Repaired,
            Self::Answered | Self::TimedOut | Self::NotAllowed | Self::Policy | Self::Invalid | Self::Ran => {
                TailResult::Other
            }
        }
    }
}

/// How a call ended, beside the response that the model reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCallResult {
    /// The call.
    pub call_id: Option<CallId>,
    /// `success`, `error` or `cancelled`.
    pub status: Option<String>,
    /// `success`, `error`, `not_started` …
    pub execution_status: Option<String>,
    /// What a person is shown: a text or an object.
    pub result_display: Option<Value>,
    /// Everything else.
    pub extra: Map<String, Value>,
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its id. Files of other tools may lack it.
    pub uuid: Option<RecordId>,
    /// What stands before it.
    pub parent: Parent,
    /// The session, as the file says.
    pub session_id: Option<String>,
    /// When, as ISO 8601 text.
    pub timestamp: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// A finer kind.
    pub subtype: Option<String>,
    /// The workspace.
    pub cwd: Option<String>,
    /// The version of the program that wrote it.
    pub version: Option<String>,
    /// The prompt whose turn it belongs to.
    pub prompt_id: Option<PromptId>,
    /// What was said.
    pub message: Option<Content>,
    /// The model that said it.
    pub model: Option<String>,
    /// What it cost, in the names of the file (`promptTokenCount` …).
    pub usage: Option<Value>,
    /// How the call ended.
    pub tool_result: Option<ToolCallResult>,
    /// What a system record holds.
    pub system_payload: Option<Value>,
    /// Our additions without the version; `None` in a record of another tool.
    pub own: Option<Map<String, Value>>,
    /// Everything else, as it was read.
    pub extra: Map<String, Value>,
}

impl Record {
    /// A record of ours, to be filled in.
    pub fn new(kind: Kind, uuid: RecordId, session: &SessionId, at: jiff::Timestamp) -> Self {
        Self {
            uuid: Some(uuid),
            parent: Parent::Root,
            session_id: Some(session.to_string()),
            timestamp: Some(format!("{at:.3}")),
            kind,
            subtype: None,
            cwd: None,
            version: None,
            prompt_id: None,
            message: None,
            model: None,
            usage: None,
            tool_result: None,
            system_payload: None,
            own: Some(Map::new()),
            extra: Map::new(),
        }
    }

    /// Adds to our additions.
    pub fn set_own(&mut self, key: &str, value: impl Into<Value>) {
        self.own.get_or_insert_with(Map::new).insert(key.to_owned(), value.into());
    }

    /// One of our additions.
    pub fn own(&self, key: &str) -> Option<&Value> {
        self.own.as_ref()?.get(key)
    }

    /// The author of a result, where we wrote it.
    pub fn cause(&self) -> Option<Cause> {
        Cause::parse(self.own("cause")?.as_str()?)
    }

    /// Whether a model reads this record: it is a message of one of the two sides and says something.
    pub fn is_visible(&self) -> bool {
        matches!(self.kind, Kind::User | Kind::Assistant | Kind::ToolResult)
            && self.message.as_ref().is_some_and(|message| !message.parts.is_empty())
    }

    /// Whether this is a notice of background work that stands as a user's message.
    pub fn is_notice(&self) -> bool {
        self.kind == Kind::User
            && matches!(self.subtype.as_deref(), Some("notification" | "background_task_completed"))
    }

    /// What a record that follows this one names as its parent.
    pub fn as_parent(&self) -> Parent {
        self.uuid.clone().map_or(Parent::Unsaid, Parent::Of)
    }

    /// When, in milliseconds since 1970.
    pub fn millis(&self) -> Option<i64> {
        self.timestamp.as_deref()?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
    }

    /// The line, with its end.
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = Value::Object(self.to_map()).to_string().into_bytes();
        line.push(b'\n');
        line
    }

    fn to_map(&self) -> Map<String, Value> {
        let mut map = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(key.to_owned(), value);
            }
        };
        let text = |text: &Option<String>| text.clone().map(Value::String);
        put("uuid", self.uuid.as_ref().map(|id| json!(id)));
        match &self.parent {
            Parent::Root => put("parentUuid", Some(Value::Null)),
            Parent::Of(id) => put("parentUuid", Some(json!(id))),
            Parent::Unsaid => {}
        }
        put("sessionId", text(&self.session_id));
        put("timestamp", text(&self.timestamp));
        put("type", Some(json!(self.kind.as_str())));
        put("subtype", text(&self.subtype));
        put("cwd", text(&self.cwd));
        put("version", text(&self.version));
        put("daemonPromptId", self.prompt_id.as_ref().map(|id| json!(id)));
        put("message", self.message.as_ref().map(|message| json!(message)));
        put("model", text(&self.model));
        put("usageMetadata", self.usage.clone());
        put("toolCallResult", self.tool_result.as_ref().map(ToolCallResult::to_value));
        put("systemPayload", self.system_payload.clone());
        put(
            OWN,
            self.own.as_ref().map(|own| {
                let mut value = Map::from_iter([("v".to_owned(), json!(FORMAT))]);
                value.extend(own.clone());
                Value::Object(value)
            }),
        );
        map.extend(self.extra.clone());
        map
    }
}

impl ToolCallResult {
    fn to_value(&self) -> Value {
        let mut map = Map::new();
        let texts = [("status", &self.status), ("executionStatus", &self.execution_status)];
        if let Some(id) = &self.call_id {
            map.insert("callId".to_owned(), json!(id));
        }
        for (key, value) in texts {
            if let Some(value) = value {
                map.insert(key.to_owned(), json!(value));
            }
        }
        if let Some(display) = &self.result_display {
            map.insert("resultDisplay".to_owned(), display.clone());
        }
        map.extend(self.extra.clone());
        Value::Object(map)
    }
}

/// The format that a record names, if it names one. What is no whole number is nothing that we know.
fn format_of(map: &Map<String, Value>) -> Option<u64> {
    map.get(OWN)?.get("v").map(version)
}

fn version(value: &Value) -> u64 {
    value.as_u64().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use holdpoint_model::history::Role;

    use super::*;

    fn only(line: &str) -> Record {
        let mut read = read_line(line.as_bytes());
        assert!(!read.damaged);
        read.records.remove(0).1
    }

    #[test]
    fn a_record_of_another_tool_keeps_every_field() {
        let line = r#"{"uuid":"u","parentUuid":"p","sessionId":"s","timestamp":"2026-01-02T03:04:05.678Z","type":"assistant","subtype":"x","cwd":"/w","version":"1","daemonPromptId":"pp","message":{"role":"model","parts":[{"text":"hi"},{"functionCall":{"id":"c","name":"glob","args":{"a":1}}},{"inlineData":{"mimeType":"image/png","data":"AA=="}}]},"model":"m","usageMetadata":{"promptTokenCount":1},"toolCallResult":{"callId":"c","status":"success","executionStatus":"success","resultDisplay":"x","errorType":"t"},"systemPayload":{"a":1},"gitBranch":"main","provenance":{"k":"v"}}"#;
        let record = only(line);
        assert_eq!(Value::Object(record.to_map()), serde_json::from_str::<Value>(line).unwrap());
        assert_eq!(record.millis(), Some(1_767_323_045_678));
        assert_eq!(record.extra.len(), 2);
    }

    #[test]
    fn a_record_of_ours_names_its_format_and_reads_back() {
        let session = SessionId::new("s").unwrap();
        let at = jiff::Timestamp::from_millisecond(1_767_323_045_678).unwrap();
        let mut record = Record::new(Kind::User, RecordId::new("u").unwrap(), &session, at);
        record.message = Some(Content::user_text("hi"));
        record.set_own("cause", Cause::Answered.as_str());
        let line = record.to_line();
        let read = only(std::str::from_utf8(&line).unwrap().trim_end());
        assert_eq!(read, record);
        assert_eq!(read.cause(), Some(Cause::Answered));
        assert_eq!(read.timestamp.as_deref(), Some("2026-01-02T03:04:05.678Z"));
        assert!(String::from_utf8(line).unwrap().contains(r#""holdpoint":{"v":1,"#));
    }

    #[test]
    fn fields_of_a_wrong_type_are_kept_and_not_fatal() {
        let record = only(
            r#"{"uuid":7,"parentUuid":9,"type":"user","timestamp":12,"message":"x","toolCallResult":1,"holdpoint":3}"#,
        );
        assert_eq!((record.uuid.as_ref(), &record.parent), (None, &Parent::Unsaid));
        assert_eq!(record.extra.get("message"), Some(&json!("x")));
        let record = only(
            r#"{"type":"assistant","message":{"parts":["bare",{"functionCall":{"id":"","name":"glob"}},{"functionCall":{}},7]}}"#,
        );
        let message = record.message.unwrap();
        assert_eq!(message.role, Role::Model);
        assert_eq!(message.parts.len(), 3);
        assert_eq!(message.parts[1].function_call.as_ref().unwrap().id, None);
        assert!(message.parts[2].extra.contains_key("functionCall"));
    }

    #[test]
    fn a_damaged_newline_loses_neither_record_beside_it() {
        let line = br#"{"uuid":"a","type":"user"}*{"uuid":"b","type":"user"}"#;
        let read = read_line(line);
        let ids: Vec<_> = read.records.iter().map(|(_, r)| r.uuid.clone().unwrap().to_string()).collect();
        assert_eq!((ids, read.damaged), (vec!["a".to_owned(), "b".to_owned()], true));
    }
}
