//! One record of a transcript, read leniently and written exactly.

use holdpoint_model::history::{Content, Part, Role};
use holdpoint_model::ids::{CallId, PromptId, RecordId, SessionId};
use serde_json::{Map, Value, json};

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

    fn from_map(mut map: Map<String, Value>) -> Self {
        let kind = take_text(&mut map, "type").map_or(Kind::Other(String::new()), |text| Kind::parse(&text));
        let parent = match map.get("parentUuid") {
            None => Parent::Unsaid,
            Some(Value::Null) => Parent::Root,
            Some(_) => take_text(&mut map, "parentUuid")
                .and_then(|text| RecordId::new(text).ok())
                .map_or(Parent::Unsaid, Parent::Of),
        };
        map.shift_remove("parentUuid");
        let message = match map.shift_remove("message") {
            Some(Value::Object(message)) => Some(read_message(message, &kind)),
            Some(other) => {
                map.insert("message".to_owned(), other);
                None
            }
            None => None,
        };
        let tool_result = match map.shift_remove("toolCallResult") {
            Some(Value::Object(result)) => Some(ToolCallResult::from_map(result)),
            Some(other) => {
                map.insert("toolCallResult".to_owned(), other);
                None
            }
            None => None,
        };
        let own = match map.shift_remove(OWN) {
            Some(Value::Object(mut own)) => {
                own.shift_remove("v");
                Some(own)
            }
            _ => None,
        };
        Self {
            uuid: take_text(&mut map, "uuid").and_then(|text| RecordId::new(text).ok()),
            parent,
            session_id: take_text(&mut map, "sessionId"),
            timestamp: take_text(&mut map, "timestamp"),
            kind,
            subtype: take_text(&mut map, "subtype"),
            cwd: take_text(&mut map, "cwd"),
            version: take_text(&mut map, "version"),
            prompt_id: take_text(&mut map, "daemonPromptId").and_then(|text| PromptId::new(text).ok()),
            message,
            model: take_text(&mut map, "model"),
            usage: map.shift_remove("usageMetadata"),
            tool_result,
            system_payload: map.shift_remove("systemPayload"),
            own,
            extra: map,
        }
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

    fn from_map(mut map: Map<String, Value>) -> Self {
        Self {
            call_id: take_text(&mut map, "callId").and_then(|text| CallId::new(text).ok()),
            status: take_text(&mut map, "status"),
            execution_status: take_text(&mut map, "executionStatus"),
            result_display: map.shift_remove("resultDisplay").filter(|display| !display.is_null()),
            extra: map,
        }
    }
}

/// Takes a text out of a map; anything else stays where it is.
fn take_text(map: &mut Map<String, Value>, key: &str) -> Option<String> {
    if !map.get(key)?.is_string() {
        return None;
    }
    match map.shift_remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn read_message(mut message: Map<String, Value>, kind: &Kind) -> Content {
    let role = match message.get("role").and_then(Value::as_str) {
        Some("model" | "assistant") => Role::Model,
        Some(_) => Role::User,
        None if *kind == Kind::Assistant => Role::Model,
        None => Role::User,
    };
    let parts = match message.shift_remove("parts") {
        Some(Value::Array(parts)) => parts.into_iter().filter_map(read_part).collect(),
        Some(Value::String(text)) => vec![Part::text(text)],
        _ => Vec::new(),
    };
    Content { role, parts }
}

/// Reads a list of entries as a compressed history holds them.
pub(crate) fn read_contents(value: &Value) -> Option<Vec<Content>> {
    let list = value.as_array()?.iter().filter_map(Value::as_object);
    Some(list.map(|message| read_message(message.clone(), &Kind::User)).collect())
}

/// Reads one part. An id that is none of ours makes a call without an id, and a part that is no part at all is
/// kept as it is.
fn read_part(value: Value) -> Option<Part> {
    if let Value::String(text) = value {
        return Some(Part::text(text));
    }
    if let Ok(part) = serde_json::from_value::<Part>(value.clone()) {
        return Some(part);
    }
    let Value::Object(mut map) = value else { return None };
    for key in ["functionCall", "functionResponse"] {
        if let Some(inner) = map.get_mut(key).and_then(Value::as_object_mut) {
            inner.shift_remove("id");
        }
    }
    match serde_json::from_value::<Part>(Value::Object(map.clone())) {
        Ok(part) => Some(part),
        Err(_) => Some(Part { extra: map, ..Part::default() }),
    }
}

/// The format that a record names, if it names one.
fn format_of(map: &Map<String, Value>) -> Option<u64> {
    map.get(OWN)?.get("v")?.as_u64()
}

/// What a line turned out to be.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// The records on it, with the offset of each in the line: one, or two where the newline between them was
    /// damaged.
    pub(crate) records: Vec<(usize, Record)>,
    /// Something on it could not be read.
    pub(crate) damaged: bool,
    /// A format newer than ours.
    pub(crate) newer: Option<u64>,
}

/// Reads a line without its end. A blank one is no record and no damage.
pub(crate) fn read_line(line: &[u8]) -> Line {
    let mut read = Line::default();
    if line.iter().all(u8::is_ascii_whitespace) {
        return read;
    }
    if let Ok(Value::Object(map)) = serde_json::from_slice(line) {
        read.take(0, map);
        return read;
    }
    read.damaged = true;
    // A record is whole up to the damage: if the line starts with one, only what follows is lost; and where
    // the damage is the newline itself, what follows is whole too.
    let mut values = serde_json::Deserializer::from_slice(line).into_iter::<Value>();
    let first = values.next();
    let end = values.byte_offset();
    if let Some(Ok(Value::Object(map))) = first {
        read.take(0, map);
        let rest = line.get(end + 1..).unwrap_or_default();
        if let Ok(Value::Object(map)) = serde_json::from_slice(rest) {
            read.take(end + 1, map);
        }
    }
    read
}

/// What the path through a file needs of a record.
#[derive(Debug)]
pub(crate) struct Slim {
    /// Where the record starts on its line.
    pub(crate) at: usize,
    /// How long it is.
    pub(crate) length: usize,
    pub(crate) uuid: Option<RecordId>,
    pub(crate) parent: Parent,
}

/// [`Line`] for a reader that wants the path only.
#[derive(Debug, Default)]
pub(crate) struct SlimLine {
    pub(crate) records: Vec<Slim>,
    pub(crate) damaged: bool,
    pub(crate) newer: Option<u64>,
}

/// [`read_line`], without building what is not needed: this runs over whole files. Whatever is unusual goes
/// through [`read_line`].
pub(crate) fn read_slim(line: &[u8]) -> SlimLine {
    /// The fields, where they are what we write; anything else fails, and takes the slow way.
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields {
        uuid: RecordId,
        parent_uuid: RecordId,
        holdpoint: Option<Own>,
    }
    #[derive(serde::Deserialize)]
    struct Own {
        v: u64,
    }
    match serde_json::from_slice::<Fields>(line) {
        Ok(Fields { uuid, parent_uuid, holdpoint })
            if holdpoint.as_ref().is_none_or(|own| own.v <= FORMAT) =>
        {
            let slim = Slim { at: 0, length: line.len(), uuid: Some(uuid), parent: Parent::Of(parent_uuid) };
            SlimLine { records: vec![slim], damaged: false, newer: None }
        }
        _ => {
            let read = read_line(line);
            let mut ends = read.records.iter().skip(1).map(|(at, _)| at - 1).collect::<Vec<_>>();
            ends.push(line.len());
            // Of a damaged line only its first record may be followed by rubbish.
            if read.damaged && read.records.len() == 1 {
                ends[0] = whole_prefix(line).unwrap_or(line.len());
            }
            let records = read
                .records
                .into_iter()
                .zip(ends)
                .map(|((at, record), end)| Slim {
                    at,
                    length: end - at,
                    uuid: record.uuid,
                    parent: record.parent,
                })
                .collect();
            SlimLine { records, damaged: read.damaged, newer: read.newer }
        }
    }
}

/// The length of the whole record that a line without an end starts with, if it does.
pub(crate) fn whole_prefix(line: &[u8]) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_slice(line).into_iter::<Value>();
    match values.next() {
        Some(Ok(Value::Object(_))) => Some(values.byte_offset()),
        _ => None,
    }
}

impl Line {
    fn take(&mut self, at: usize, map: Map<String, Value>) {
        match format_of(&map) {
            Some(found) if found > FORMAT => self.newer = Some(found),
            _ => self.records.push((at, Record::from_map(map))),
        }
    }
}

#[cfg(test)]
mod tests {
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
