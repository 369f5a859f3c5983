//! Those who read a session's stream, and compare what it tells with what is durable (I1), and one frame with the
//! next.

use std::sync::Arc;

use holdpoint_engine::Engine;
use holdpoint_engine::bus::{Cursor, Subscription};
use holdpoint_engine::frame::Frame;
use holdpoint_ledger::{Ledger, QuestionRow};
use holdpoint_model::ids::{QuestionId, SessionId};
use holdpoint_model::session::{Event, State};
use serde_json::{Value, json};

use crate::crash::Crash;
use crate::durable::now;
use crate::store::Shared;

/// A reader.
pub(crate) struct Reader {
    /// Of this daemon.
    pub(crate) engine: Engine,
    /// Of this session.
    pub(crate) session: SessionId,
    /// What is durable.
    pub(crate) durable: Arc<dyn Ledger>,
    /// What survives.
    pub(crate) store: Shared,
    /// When the daemon dies: what it sends to people is a send.
    pub(crate) crash: Crash,
    /// After so many frames it breaks off, and comes back with its cursor; 0 is never.
    pub(crate) breaks_off_after: u64,
}

impl Reader {
    /// Reads to the end of the stream.
    pub(crate) async fn read(self) {
        let mut cursor: Option<Cursor> = None;
        let mut breaks_off = self.breaks_off_after;
        loop {
            let Ok(stream) = self.engine.subscribe(&self.session, cursor.clone(), 256, None).await else {
                return;
            };
            match self.follow(stream, cursor.as_ref(), breaks_off).await {
                Some(place) => cursor = Some(place),
                None => return,
            }
            breaks_off = 0;
        }
    }

    /// Reads; the place where it broke off, or `None` at the end.
    async fn follow(&self, mut stream: Subscription, from: Option<&Cursor>, most: u64) -> Option<Cursor> {
        let epoch = stream.epoch.to_string();
        let mut last = from.filter(|cursor| cursor.epoch.as_ref() == Some(&epoch)).map(|cursor| cursor.last);
        let mut read = 0;
        while let Some(frame) = stream.next().await {
            let crashed = self.crash.point();
            if crashed == Some(false) {
                return None;
            }
            let value: Value = serde_json::from_slice(&frame.json).unwrap_or_default();
            self.holds(&frame, &value);
            if frame.kind == "state_resync_required" {
                last = None;
            }
            if let Some(id) = frame.id {
                if let Some(last) = last
                    && id != last + 1
                {
                    self.store.violation(format!("b.4: {} has the frame {id} after {last}", self.session));
                }
                last = Some(id);
            }
            if crashed.is_some() {
                return None;
            }
            read += 1;
            if read == most {
                return Some(Cursor { last: last.unwrap_or(0), epoch: Some(epoch) });
            }
        }
        None
    }

    /// I1: what a stream tells is durable when it is told.
    fn holds(&self, frame: &Frame, value: &Value) {
        let data = &value["data"];
        let question = data["questionId"].as_str().and_then(|id| QuestionId::new(id).ok());
        let row = |fits: &dyn Fn(&QuestionRow) -> bool| {
            let row = question.as_ref().and_then(|id| now(self.durable.question(id)).ok().flatten());
            row.is_some_and(|row| fits(&row))
        };
        let event = |fits: &dyn Fn(&Event) -> bool| {
            let events = now(self.durable.events(&self.session)).unwrap_or_default();
            events.iter().any(|stored| fits(&stored.event))
        };
        let durable = match frame.kind {
            "permission_request" => {
                row(&|row| row.question.requests.iter().any(|request| data["requestId"] == json!(request)))
            }
            "permission_resolved" if data.get("answeredBy").is_some() => {
                row(&|row| matches!(row.question.state, State::Settled(_)))
            }
            // Nobody decided: it is only not asked any more, and a permission ends with the process that asked for
            // it, whatever is written: each start finds so (V6).
            "permission_resolved" if data.get("open").is_some() || data["cause"] == "process_restarted" => {
                true
            }
            "permission_resolved" => row(&|row| !row.question.is_open()),
            "permission_partial_vote" => event(&|event| matches!(event, Event::Voted { .. })),
            "pending_prompt_added" => event(
                &|event| matches!(event, Event::PromptQueued { prompt } if json!(prompt.id) == data["promptId"]),
            ),
            "turn_complete" => event(
                &|event| matches!(event, Event::TurnEnded { prompt, .. } if json!(prompt) == data["promptId"]),
            ),
            _ => true,
        };
        if !durable {
            self.store.violation(format!("I1: told, and not durable: {value}"));
        }
    }
}
