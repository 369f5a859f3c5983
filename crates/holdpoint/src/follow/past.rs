//! The history of a session, with its questions and how they ended.

use std::collections::{HashMap, HashSet, VecDeque};

use holdpoint_client::{Event, EventKind, QuestionView, State, ToolCall, Update};
use holdpoint_model::question::{Question, parse_questions};
use serde_json::json;

use super::Follow;
use crate::render;

/// What is known of the questions in a history.
#[derive(Default)]
pub(super) struct Past {
    /// The daemon's own record of them, in the order of asking.
    records: VecDeque<QuestionView>,
    /// Calls that ask, and have not ended in what was read so far; with what they ask, where no record has it.
    calls: HashMap<String, Option<Vec<Question>>>,
    /// Of these, those that were shown.
    shown: HashSet<String>,
}

impl Follow<'_> {
    /// What the daemon has recorded of the session's questions: they are shown where they stand in the history.
    pub(crate) fn knows(&mut self, mut records: Vec<QuestionView>) {
        records.sort_by_key(|view| view.generation);
        self.past.records = records.into();
    }

    /// Shows an event of a history: no question of it is asked.
    pub(crate) fn show_past(&mut self, event: &Event) {
        match event.parse() {
            EventKind::Update(Update::Tool(frame))
                if frame.is_question() || self.past.calls.contains_key(&frame.id) =>
            {
                self.past_question(&frame);
            }
            EventKind::Update(update) => self.update(update),
            _ => {}
        }
    }

    fn past_question(&mut self, frame: &ToolCall) {
        let asks = self.past.calls.entry(frame.id.clone()).or_default();
        if let Some(input) = &frame.input
            && let Ok(parts) = parse_questions(input)
        {
            *asks = Some(parts);
        }
        if !self.past.shown.contains(&frame.id) {
            let same = |view: &QuestionView| view.tool_call_id.as_deref() == Some(frame.id.as_str());
            if let Some(at) = self.past.records.iter().position(same) {
                self.past.shown.insert(frame.id.clone());
                // One that is open is shown at the end, as what waits.
                if let Some(view) = self.past.records.remove(at).filter(|view| view.state != State::Open) {
                    self.ui.line(&json!({"type": "past_question", "question": view}));
                    let text = render::in_history(&view, self.ui.paint);
                    self.ui.block(&text);
                }
            }
        }
        if !matches!(frame.status.as_deref(), Some("completed" | "failed")) {
            return;
        }
        // Ids of calls come again in some models' histories.
        let parts = self.past.calls.remove(&frame.id).flatten();
        if !self.past.shown.remove(&frame.id)
            && let Some(parts) = parts
        {
            // A transcript of another tool: what it says itself.
            let answer = frame.text.as_deref();
            self.ui.line(&json!({"type": "past_question", "questions": parts, "text": answer}));
            let text = render::unrecorded(&parts, answer, self.ui.paint);
            self.ui.block(&text);
        }
    }
}
