//! Records to updates.

use std::collections::BTreeSet;

use holdpoint_model::answers::Answers;
use holdpoint_model::history::{FunctionCall, FunctionResponse, Part};
use holdpoint_model::ids::CallId;
use holdpoint_model::question::{Question, TOOL_NAME};
use serde_json::{Map, Value, json};

use crate::record::{Kind, Record};

/// What becomes of calls that have no result where a replay ends (f.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finalise {
    /// They stay in progress: their turn is running, or this is a page in the middle.
    Leave,
    /// They become failed, except those that will really be asked again (R1, R2, R4).
    Close {
        /// The calls that stay in progress.
        spare: BTreeSet<CallId>,
    },
}

impl Finalise {
    /// Every open call becomes failed.
    pub fn all() -> Self {
        Self::Close { spare: BTreeSet::new() }
    }
}

/// The text of a call that a replay closes.
const MISSING: &str = "The result of this call is missing from the saved history.";

/// How a call is shown before its tool has looked at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// In a line, what it does.
    pub title: String,
    /// The kind, as ACP names it.
    pub kind: &'static str,
}

/// Describes a call by its name and arguments alone, the same live and on replay.
pub fn describe(name: &str, args: &Value) -> Description {
    let text = |key: &str| args.get(key).and_then(Value::as_str).map(one_line);
    let with = |verb: &str, keys: &[&str]| {
        keys.iter().find_map(|key| text(key)).map_or_else(|| verb.to_owned(), |what| format!("{verb} {what}"))
    };
    let (kind, title) = match name {
        TOOL_NAME => {
            let count = args.get("questions").and_then(Value::as_array).map_or(0, Vec::len);
            ("think", format!("Ask user {count} question(s)"))
        }
        "read_file" => ("read", with("Read", &["path", "file_path", "absolute_path"])),
        "list_directory" => ("read", with("List", &["path", "directory"])),
        "glob" => ("search", with("Find", &["pattern"])),
        "grep_search" => ("search", with("Search for", &["pattern"])),
        "write_file" => ("edit", with("Write", &["path", "file_path"])),
        "edit" => ("edit", with("Edit", &["path", "file_path"])),
        "run_shell_command" => ("execute", with("Run", &["command"])),
        other => ("other", other.to_owned()),
    };
    Description { title, kind }
}

/// The first line of a text, cut to what a title has room for.
fn one_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut cut: String = line.chars().take(200).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// The `rawOutput` and `resultDisplay` of an answered question.
pub fn question_answers(questions: &[Question], answers: &Answers, text: &str) -> Value {
    let list: Vec<Value> = questions
        .iter()
        .enumerate()
        .filter_map(|(i, question)| {
            answers.get(i).map(|answer| json!({ "question": question.question, "answer": answer }))
        })
        .collect();
    json!({ "type": "ask_user_question_answers", "text": text, "answers": list })
}

/// What a turn cost, in the names of the wire, from the names of the file.
pub fn usage_of(metadata: &Value) -> Option<Value> {
    let names = [
        ("inputTokens", "promptTokenCount"),
        ("outputTokens", "candidatesTokenCount"),
        ("totalTokens", "totalTokenCount"),
        ("thoughtTokens", "thoughtsTokenCount"),
        ("cachedReadTokens", "cachedContentTokenCount"),
    ];
    let usage: Map<String, Value> = names
        .into_iter()
        .filter_map(|(wire, file)| Some((wire.to_owned(), json!(metadata.get(file)?.as_u64()?))))
        .collect();
    (!usage.is_empty()).then_some(Value::Object(usage))
}

/// Turns records, in order, into updates. Remembers which calls are open.
#[derive(Debug, Default)]
pub struct Converter {
    open: Vec<OpenCall>,
    finalise: Option<BTreeSet<CallId>>,
    /// Updates name the records that they come from, as pages of a transcript do (`WIRE` a.4).
    sources: bool,
}

#[derive(Debug)]
struct OpenCall {
    /// The id on the wire.
    shown: String,
    id: Option<CallId>,
    name: String,
    meta: Map<String, Value>,
}

impl Converter {
    /// A converter for one replay.
    pub fn new(finalise: &Finalise) -> Self {
        let finalise = match finalise {
            Finalise::Leave => None,
            Finalise::Close { spare } => Some(spare.clone()),
        };
        Self { open: Vec::new(), finalise, sources: false }
    }

    /// Has each update name its source records, as `qwenTranscript` of a page does.
    #[must_use]
    pub fn with_sources(mut self) -> Self {
        self.sources = true;
        self
    }

    /// The updates of one record, appended to `out`.
    pub fn record(&mut self, record: &Record, out: &mut Vec<Value>) {
        if !record.is_visible() {
            return;
        }
        let Some(message) = &record.message else { return };
        let has_responses = message.responses().next().is_some();
        if !has_responses && self.finalise.is_some() {
            // The next message: what has no result by now gets none (results stand behind their call). It is not
            // at the end either, so its id, should the last turn repeat it, spares it nothing.
            for call in std::mem::take(&mut self.open) {
                close(call, out);
            }
        }
        let meta = meta_of(record, self.sources);
        for (index, part) in message.parts.iter().enumerate() {
            if let Some(call) = &part.function_call {
                self.call(record, index, call, &meta, out);
            } else if let Some(response) = &part.function_response {
                self.response(record, response, &meta, out);
            } else if let Some(content) = content_of(part) {
                let thought = part.thought == Some(true);
                let kind = match record.kind {
                    Kind::Assistant if thought => "agent_thought_chunk",
                    Kind::Assistant => "agent_message_chunk",
                    _ => "user_message_chunk",
                };
                let mut meta = meta.clone();
                if let Some(subtype) = &record.subtype {
                    put(&mut meta, "qwen.session.subtype", subtype.clone());
                }
                out.push(chunk(kind, content, meta));
            }
        }
        if let Some(usage) = record.usage.as_ref().and_then(usage_of) {
            let mut meta = meta;
            put(&mut meta, "usage", usage);
            out.push(chunk("agent_message_chunk", text_block(String::new()), meta));
        }
    }

    /// Ends the replay: the calls that are still open become failed, if they are to, and the ids of those
    /// that stay open are given back.
    pub fn finish(mut self, out: &mut Vec<Value>) -> Vec<CallId> {
        if let Some(spare) = &self.finalise {
            let spared = |open: &OpenCall| open.id.as_ref().is_some_and(|id| spare.contains(id));
            let (kept, closed): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.open).into_iter().partition(spared);
            self.open = kept;
            for call in closed {
                close(call, out);
            }
        }
        self.open.into_iter().filter_map(|open| open.id).collect()
    }

    fn call(
        &mut self,
        record: &Record,
        index: usize,
        call: &FunctionCall,
        meta: &Map<String, Value>,
        out: &mut Vec<Value>,
    ) {
        let shown = call.id.as_ref().map_or_else(
            || {
                let of = record.uuid.as_ref().map_or("record", |id| id.as_str());
                format!("{of}#{index}")
            },
            ToString::to_string,
        );
        let mut meta = meta.clone();
        put(&mut meta, "toolName", call.name.clone());
        put(&mut meta, "provenance", "builtin");
        let Description { title, kind } = describe(&call.name, &call.args);
        let mut update = Map::with_capacity(9);
        put(&mut update, "sessionUpdate", "tool_call");
        put(&mut update, "toolCallId", shown.clone());
        put(&mut update, "status", "in_progress");
        put(&mut update, "title", title);
        put(&mut update, "kind", kind);
        put(&mut update, "content", Vec::<Value>::new());
        put(&mut update, "locations", Vec::<Value>::new());
        put(&mut update, "rawInput", call.args.clone());
        put(&mut update, "_meta", meta.clone());
        out.push(Value::Object(update));
        self.open.push(OpenCall { shown, id: call.id.clone(), name: call.name.clone(), meta });
    }

    fn response(
        &mut self,
        record: &Record,
        response: &FunctionResponse,
        meta: &Map<String, Value>,
        out: &mut Vec<Value>,
    ) {
        let result = record.tool_result.as_ref();
        let id = response.id.as_ref().or_else(|| result?.call_id.as_ref());
        let at = self.open.iter().position(|open| match id {
            Some(id) => open.id.as_ref() == Some(id),
            None => open.id.is_none() && open.name == response.name,
        });
        let shown = match (at.map(|at| self.open.remove(at)), id) {
            (Some(open), _) => open.shown,
            (None, Some(id)) => id.to_string(),
            (None, None) => return,
        };
        let success = match result.and_then(|result| result.status.as_deref()) {
            Some(status) => status == "success",
            None => !response.is_error(),
        };
        let mut meta = meta.clone();
        put(&mut meta, "toolName", response.name.clone());
        if let Some(cause) = record.own("cause") {
            put(&mut meta, "holdpoint.cause", cause.clone());
        }
        let display = result.and_then(|result| result.result_display.as_ref());
        let mut update = Map::with_capacity(6);
        put(&mut update, "sessionUpdate", "tool_call_update");
        put(&mut update, "toolCallId", shown);
        put(&mut update, "status", if success { "completed" } else { "failed" });
        put(&mut update, "content", result_content(record, response, display));
        if let Some(display) = display
            && display.get("type").and_then(Value::as_str) == Some("ask_user_question_answers")
        {
            put(&mut update, "rawOutput", display.clone());
        }
        put(&mut update, "_meta", meta);
        out.push(Value::Object(update));
    }
}

/// Shows a call as closed without a result.
fn close(call: OpenCall, out: &mut Vec<Value>) {
    out.push(json!({
        "sessionUpdate": "tool_call_update",
        "toolCallId": call.shown,
        "status": "failed",
        "content": [text_content(MISSING.to_owned())],
        "_meta": call.meta,
    }));
}

/// Adds a field. Windows hold thousands of updates, so they are built without a detour.
fn put(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    map.insert(key.to_owned(), value.into());
}

fn chunk(kind: &str, content: Value, meta: Map<String, Value>) -> Value {
    let mut update = Map::with_capacity(3);
    put(&mut update, "sessionUpdate", kind);
    put(&mut update, "content", content);
    put(&mut update, "_meta", meta);
    Value::Object(update)
}

fn text_block(text: String) -> Value {
    let mut block = Map::with_capacity(2);
    put(&mut block, "type", "text");
    put(&mut block, "text", text);
    Value::Object(block)
}

fn text_content(text: String) -> Value {
    let mut content = Map::with_capacity(2);
    put(&mut content, "type", "content");
    put(&mut content, "content", text_block(text));
    Value::Object(content)
}

/// What a result shows: what was shown live where the record kept it, a diff where it tells one, else its
/// text.
fn result_content(record: &Record, response: &FunctionResponse, display: Option<&Value>) -> Value {
    if let Some(content) = record.own("content").filter(|content| content.is_array()) {
        return content.clone();
    }
    let of = |key: &str| display.and_then(|display| display.get(key)).and_then(Value::as_str);
    match (of("fileName"), of("newContent")) {
        (Some(path), Some(new)) => {
            json!([{ "type": "diff", "path": path, "oldText": of("originalContent"), "newText": new }])
        }
        _ => Value::Array(vec![text_content(response.text())]),
    }
}

fn meta_of(record: &Record, sources: bool) -> Map<String, Value> {
    let mut meta = Map::with_capacity(6);
    if let Some(prompt) = &record.prompt_id {
        put(&mut meta, "promptId", prompt.as_str());
    }
    if let Some(millis) = record.millis() {
        put(&mut meta, "timestamp", millis);
    }
    if let Some(id) = &record.uuid {
        put(&mut meta, "qwen.session.recordId", id.as_str());
        if sources {
            let mut from = Map::with_capacity(1);
            put(&mut from, "sourceRecordIds", vec![id.as_str()]);
            put(&mut meta, "qwenTranscript", from);
        }
    }
    meta
}

/// The content block of a part that a person can be shown.
fn content_of(part: &Part) -> Option<Value> {
    if let Some(text) = &part.text {
        return (!text.is_empty()).then(|| text_block(text.clone()));
    }
    let data = part.extra.get("inlineData")?;
    let (mime, bytes) = (data.get("mimeType")?.as_str()?, data.get("data")?.as_str()?);
    let kind = match mime.split('/').next() {
        Some("image") => "image",
        Some("audio") => "audio",
        _ => return None,
    };
    Some(json!({ "type": kind, "mimeType": mime, "data": bytes }))
}
