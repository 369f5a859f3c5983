//! Lines to records: leniently, since other tools write such files too, and fast, since whole windows of a
//! session are read at once.

use holdpoint_model::history::{Content, FunctionCall, FunctionResponse, Part, Role};
use holdpoint_model::ids::{CallId, PromptId, RecordId};
use serde_json::{Map, Value};

use super::fast::Fast;
use super::{FORMAT, Kind, OWN, Parent, Record, ToolCallResult, format_of};

impl Record {
    /// A record of which nothing is known yet.
    pub(super) fn empty() -> Self {
        Self {
            uuid: None,
            parent: Parent::Unsaid,
            session_id: None,
            timestamp: None,
            kind: Kind::Other(String::new()),
            subtype: None,
            cwd: None,
            version: None,
            prompt_id: None,
            message: None,
            model: None,
            usage: None,
            tool_result: None,
            system_payload: None,
            own: None,
            extra: Map::new(),
        }
    }

    /// Takes an object apart: what has a wrong type is kept as it is.
    fn from_map(map: Map<String, Value>) -> Self {
        let mut record = Self::empty();
        let mut message = None;
        for (key, value) in map {
            match (key.as_str(), value) {
                ("uuid", Value::String(id)) => record.uuid = RecordId::new(id).ok(),
                ("parentUuid", Value::Null) => record.parent = Parent::Root,
                ("parentUuid", Value::String(id)) => {
                    record.parent = RecordId::new(id).map_or(Parent::Unsaid, Parent::Of);
                }
                ("parentUuid", _) => {}
                ("sessionId", Value::String(text)) => record.session_id = Some(text),
                ("timestamp", Value::String(text)) => record.timestamp = Some(text),
                ("type", Value::String(text)) => record.kind = Kind::parse(&text),
                ("subtype", Value::String(text)) => record.subtype = Some(text),
                ("cwd", Value::String(text)) => record.cwd = Some(text),
                ("version", Value::String(text)) => record.version = Some(text),
                ("daemonPromptId", Value::String(id)) => record.prompt_id = PromptId::new(id).ok(),
                ("message", Value::Object(map)) => message = Some(map),
                ("model", Value::String(text)) => record.model = Some(text),
                ("usageMetadata", value) => record.usage = Some(value),
                ("toolCallResult", Value::Object(map)) => {
                    record.tool_result = Some(ToolCallResult::from_map(map));
                }
                ("systemPayload", value) => record.system_payload = Some(value),
                (OWN, Value::Object(mut own)) => {
                    own.shift_remove("v");
                    record.own = Some(own);
                }
                // Unknown, or of a type that it should not have.
                (_, value) => {
                    record.extra.insert(key, value);
                }
            }
        }
        record.message = message.map(|message| read_message(message, &record.kind));
        record
    }
}

impl ToolCallResult {
    fn from_map(map: Map<String, Value>) -> Self {
        let mut result = Self::default();
        for (key, value) in map {
            match (key.as_str(), value) {
                ("callId", Value::String(id)) => result.call_id = CallId::new(id).ok(),
                ("status", Value::String(text)) => result.status = Some(text),
                ("executionStatus", Value::String(text)) => result.execution_status = Some(text),
                ("resultDisplay", Value::Null) => {}
                ("resultDisplay", value) => result.result_display = Some(value),
                (_, value) => {
                    result.extra.insert(key, value);
                }
            }
        }
        result
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

/// Reads one part. An id that is none of ours makes a call without an id, and what is no part is kept as it
/// is.
fn read_part(value: Value) -> Option<Part> {
    let map = match value {
        Value::String(text) => return Some(Part::text(text)),
        Value::Object(map) => map,
        _ => return None,
    };
    let mut part = Part::default();
    for (key, value) in map {
        match (key.as_str(), value) {
            ("text", Value::String(text)) => part.text = Some(text),
            ("thought", Value::Bool(thought)) => part.thought = Some(thought),
            ("thoughtSignature", Value::String(text)) => part.thought_signature = Some(text),
            ("functionCall", value) => match Invoked::read(value, "args") {
                Ok(Invoked { id, name, value }) => {
                    part.function_call = Some(FunctionCall { id, name, args: value });
                }
                Err(value) => {
                    part.extra.insert(key, value);
                }
            },
            ("functionResponse", value) => match Invoked::read(value, "response") {
                Ok(Invoked { id, name, value }) => {
                    part.function_response = Some(FunctionResponse { id, name, response: value });
                }
                Err(value) => {
                    part.extra.insert(key, value);
                }
            },
            (_, value) => {
                part.extra.insert(key, value);
            }
        }
    }
    Some(part)
}

/// What a call and a response have in common.
struct Invoked {
    id: Option<CallId>,
    name: String,
    value: Value,
}

impl Invoked {
    /// Reads one; gives back what names no tool.
    fn read(value: Value, content: &str) -> Result<Self, Value> {
        let Some(name) = value.get("name").and_then(Value::as_str).map(str::to_owned) else {
            return Err(value);
        };
        let Value::Object(mut map) = value else { return Err(value) };
        let id = map.get("id").and_then(Value::as_str).and_then(|id| CallId::new(id).ok());
        let value = map.get_mut(content).map(Value::take).unwrap_or_default();
        Ok(Self { id, name, value })
    }
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
    if let Ok(Fast { record, format }) = serde_json::from_slice(line) {
        match format {
            Some(found) if found > FORMAT => read.newer = Some(found),
            _ => read.records.push((0, record)),
        }
        return read;
    }
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

    /// What the slow way makes of a line.
    fn slowly(line: &str) -> Record {
        match serde_json::from_str(line).unwrap() {
            Value::Object(map) => Record::from_map(map),
            other => panic!("{other} is no record"),
        }
    }

    #[test]
    fn both_ways_make_the_same_of_a_line() {
        let whole = r#"{"uuid":"u","parentUuid":"p","sessionId":"s","timestamp":"t","type":"assistant","subtype":"x","cwd":"/w","version":"1","daemonPromptId":"pp","message":{"role":"model","parts":[{"text":"h\u00e9","thought":true,"thoughtSignature":"sig","more":[1]},{"functionCall":{"id":"c","name":"glob","args":{"a":1},"more":2}},{"functionResponse":{"id":"c","name":"glob","response":{"output":"x"}}},{"inlineData":{"mimeType":"image/png","data":"AA=="}}],"more":3},"model":"m","usageMetadata":{"n":1},"toolCallResult":{"callId":"c","status":"success","executionStatus":"success","resultDisplay":null,"errorType":"t"},"systemPayload":{"a":1},"holdpoint":{"v":1,"cause":"ran"},"gitBranch":"main"}"#;
        let lines = [
            whole.to_owned(),
            whole.replace(r#""parentUuid":"p""#, r#""parentUuid":null"#),
            whole.replace(r#""parentUuid":"p","#, ""),
            // What the fast way refuses.
            whole.replace(r#""role":"model""#, r#""role":"assistant""#),
            whole.replace(r#""role":"model","#, ""),
            whole.replace(r#""uuid":"u""#, r#""uuid":7"#),
            whole.replace(r#""id":"c","#, r#""id":"","#),
            whole.replace(r#""name":"glob","#, ""),
            whole.replace(r#""message":{"#, r#""message":7,"other":{"#),
            r#"{"type":"weather"}"#.to_owned(),
            "{}".to_owned(),
        ];
        for line in lines {
            let read = read_line(line.as_bytes());
            assert_eq!(read.records[0].1, slowly(&line), "{line}");
            assert!(!read.damaged);
        }
    }
}
