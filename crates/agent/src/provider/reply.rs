//! Puts one OpenAI-compatible reply together, chunk by chunk. Pure: bytes and time are elsewhere.
//!
//! Streams of models lie (trap 15 of the architecture): calls come without an index, with one index for all,
//! without an id or with one id for several, several in one chunk, with the name repeated in each piece. What
//! is certain decides: an entry of a chunk continues a call only if nothing about it contradicts that.

use holdpoint_model::history::{FunctionCall, Part};
use holdpoint_model::ids::CallId;
use serde_json::Value;

use super::{Delta, Finish, ModelTurn, ORIGIN_KEY, Usage, parse_arguments};

/// The value of [`ORIGIN_KEY`] for reasoning that came in `reasoning_content`.
pub(crate) const ORIGIN: &str = "openai";

/// Most calls that one reply may hold: far above any model's, and it bounds the work that a piece can make.
pub(crate) const CALLS_MAX: usize = 512;

/// A reply in the making.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    slots: Vec<Slot>,
    calls: Vec<Call>,
    finish: Option<String>,
    refused: bool,
    usage: Option<Usage>,
}

#[derive(Debug)]
enum Slot {
    Text(String),
    Thought(String),
    Call(usize),
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
    scan: JsonScan,
}

impl Reply {
    /// Whether the model has said that it is done.
    pub(crate) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Whether it holds more calls than any reply may.
    pub(crate) fn has_too_many_calls(&self) -> bool {
        self.calls.len() > CALLS_MAX
    }

    /// Takes the next chunk (or a whole reply that did not stream) and says what is new in it.
    pub(crate) fn apply(&mut self, chunk: &Value) -> Vec<Delta> {
        let mut news = Vec::new();
        if let Some(usage) = chunk.get("usage").and_then(read_usage) {
            self.usage = Some(usage);
        }
        let Some(choice) = chunk.get("choices").and_then(Value::as_array).and_then(|choices| {
            choices.iter().find(|choice| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0)
        }) else {
            return news;
        };
        let delta = choice.get("delta").filter(|delta| delta.is_object()).or_else(|| choice.get("message"));
        if let Some(delta) = delta {
            for key in ["reasoning_content", "reasoning"] {
                if let Some(text) = delta.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()) {
                    self.add_text(text, true, &mut news);
                    break;
                }
            }
            self.add_content(delta.get("content"), &mut news);
            if let Some(text) = delta.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty()) {
                self.refused = true;
                self.add_text(text, false, &mut news);
            }
            self.add_calls(delta.get("tool_calls"), &mut news);
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str).filter(|r| !r.is_empty()) {
            self.finish.get_or_insert_with(|| reason.to_owned());
        }
        news
    }

    /// The whole reply; `None` when the model has not said that it is done.
    pub(crate) fn finish(self) -> Option<ModelTurn> {
        let reason = self.finish?;
        let has_calls = !self.calls.is_empty();
        let finish = match reason.as_str() {
            _ if self.refused => Finish::Refusal,
            "content_filter" => Finish::Refusal,
            "length" | "max_tokens" => Finish::MaxTokens,
            _ if has_calls => Finish::ToolCalls,
            _ => Finish::Stop,
        };
        let mut calls: Vec<_> = self.calls.into_iter().map(Some).collect();
        let parts = self
            .slots
            .into_iter()
            .filter_map(|slot| match slot {
                Slot::Text(text) => Some(Part::text(text)),
                Slot::Thought(text) => {
                    let mut part = Part::thought(text);
                    part.extra.insert(ORIGIN_KEY.to_owned(), ORIGIN.into());
                    Some(part)
                }
                Slot::Call(at) => {
                    let call = calls.get_mut(at)?.take()?;
                    Some(Part::call(FunctionCall {
                        id: call.id.and_then(|id| CallId::new(id).ok()),
                        name: call.name,
                        args: parse_arguments(call.arguments),
                    }))
                }
            })
            .collect();
        Some(ModelTurn { parts, finish, usage: self.usage })
    }

    fn add_content(&mut self, content: Option<&Value>, news: &mut Vec<Delta>) {
        match content {
            Some(Value::String(text)) if !text.is_empty() => self.add_text(text, false, news),
            Some(Value::Array(items)) => {
                for item in items {
                    if let Some(text) = item.get("text").and_then(Value::as_str).filter(|t| !t.is_empty()) {
                        self.add_text(text, false, news);
                    }
                    for thought in item.get("thinking").and_then(Value::as_array).into_iter().flatten() {
                        if let Some(text) =
                            thought.get("text").and_then(Value::as_str).filter(|t| !t.is_empty())
                        {
                            self.add_text(text, true, news);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn add_text(&mut self, text: &str, thought: bool, news: &mut Vec<Delta>) {
        match (self.slots.last_mut(), thought) {
            (Some(Slot::Text(last)), false) | (Some(Slot::Thought(last)), true) => last.push_str(text),
            (_, false) => self.slots.push(Slot::Text(text.to_owned())),
            (_, true) => self.slots.push(Slot::Thought(text.to_owned())),
        }
        let text = text.to_owned();
        news.push(if thought { Delta::Thought(text) } else { Delta::Text(text) });
    }

    fn add_calls(&mut self, entries: Option<&Value>, news: &mut Vec<Delta>) {
        let entries = match entries {
            Some(Value::Array(entries)) => entries.as_slice(),
            Some(entry @ Value::Object(_)) => std::slice::from_ref(entry),
            _ => return,
        };
        // Two entries of one chunk are never one call.
        let mut taken = Vec::with_capacity(entries.len());
        for entry in entries {
            if self.has_too_many_calls() {
                return;
            }
            let Some(piece) = Piece::read(entry) else { continue };
            let at = match self.continues(&piece).filter(|at| !taken.contains(at)) {
                Some(at) => at,
                None => {
                    self.slots.push(Slot::Call(self.calls.len()));
                    self.calls.push(Call::default());
                    self.calls.len() - 1
                }
            };
            taken.push(at);
            let call = &mut self.calls[at];
            let unnamed = call.name.is_empty();
            call.take(piece);
            if unnamed && !call.name.is_empty() {
                news.push(Delta::ToolCallStarted { index: at, name: call.name.clone(), id: call.id.clone() });
            }
        }
    }

    /// The call that a piece continues.
    fn continues(&self, piece: &Piece<'_>) -> Option<usize> {
        let last_where = |wanted: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(wanted);
        let at = match (piece.index, piece.id) {
            (Some(index), _) => last_where(&|call| call.index == Some(index))?,
            (None, Some(id)) => last_where(&|call| call.id.as_deref() == Some(id))?,
            (None, None) => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[at];
        let other_id = matches!((piece.id, call.id.as_deref()), (Some(new), Some(old)) if new != old);
        let other_name = !piece.name.is_empty() && !call.name.is_empty() && piece.name != call.name;
        // A complete object that is followed by another one is followed by another call, if it is named.
        let begins_again = !piece.name.is_empty() && call.scan.is_complete() && piece.opens_object();
        (!other_id && !other_name && !begins_again).then_some(at)
    }
}

impl Call {
    fn take(&mut self, piece: Piece<'_>) {
        self.index = self.index.or(piece.index);
        if self.id.is_none() {
            self.id = piece.id.map(str::to_owned);
        }
        if self.name.is_empty() {
            piece.name.clone_into(&mut self.name);
        }
        self.scan.push(&piece.arguments);
        self.arguments.push_str(&piece.arguments);
    }
}

/// One entry of `tool_calls` in one chunk.
struct Piece<'a> {
    index: Option<u64>,
    id: Option<&'a str>,
    name: &'a str,
    arguments: std::borrow::Cow<'a, str>,
}

impl<'a> Piece<'a> {
    fn read(entry: &'a Value) -> Option<Self> {
        let function = entry.get("function")?;
        Some(Self {
            index: entry.get("index").and_then(Value::as_u64),
            id: entry.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()),
            name: function.get("name").and_then(Value::as_str).unwrap_or(""),
            arguments: match function.get("arguments") {
                Some(Value::String(text)) => text.as_str().into(),
                Some(object @ Value::Object(_)) => object.to_string().into(),
                _ => "".into(),
            },
        })
    }

    fn opens_object(&self) -> bool {
        self.arguments.trim_start().starts_with('{')
    }
}

/// Follows the depth of a JSON object as it arrives, so that its end is known without reading it again.
#[derive(Debug, Default)]
struct JsonScan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    started: bool,
}

impl JsonScan {
    fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => {
                    self.depth = self.depth.saturating_add(1);
                    self.started = true;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.started && self.depth == 0 && !self.in_string
    }
}

fn read_usage(value: &Value) -> Option<Usage> {
    let number = |pointer: &str| value.pointer(pointer).and_then(Value::as_u64);
    if !value.is_object() {
        return None;
    }
    let input = number("/prompt_tokens").unwrap_or(0);
    let output = number("/completion_tokens").unwrap_or(0);
    Some(Usage {
        input,
        output,
        total: number("/total_tokens").unwrap_or(input.saturating_add(output)),
        thought: number("/completion_tokens_details/reasoning_tokens").unwrap_or(0),
        cached_read: number("/prompt_tokens_details/cached_tokens")
            .or_else(|| number("/prompt_cache_hit_tokens"))
            .unwrap_or(0),
    })
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
