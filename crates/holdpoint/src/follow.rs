//! Following a session: the agent's words as they come, its questions, and the end of the turn.

mod over;
mod past;
mod questions;

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use holdpoint_client::{
    Daemon, Event, EventKind, QuestionView, Signal, Subscription, TurnComplete, TurnError, Update,
};
use holdpoint_model::ids::{PromptId, QuestionId, SessionId};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::ask::Asking;
use crate::exit::{Exit, Failure};
use crate::input::Input;
use crate::leave::Leave;
use crate::render;
use crate::ui::Ui;

/// What to do with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Ask the person at this terminal.
    Ask,
    /// Show it, leave it parked, and end.
    Park,
    /// Show it and go on.
    Show,
}

/// When to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// When this prompt's turn has ended.
    Prompt(PromptId),
    /// When a turn has ended.
    AnyTurn,
    /// Not by itself.
    Left,
}

/// Why it stopped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// The turn ended.
    Turn(TurnComplete),
    /// The turn failed. With what still waits, by the daemon's word.
    Failed(TurnError, Vec<QuestionView>),
    /// Questions wait.
    Waits(Vec<QuestionView>),
    /// The session was closed, or its agent died for good.
    Gone(String),
    /// The turn ended while the connection was away, and the stream does not tell how.
    Missed,
    /// The turn had ended before it was followed.
    Before,
    /// Ctrl-C, or another signal; with the exit code that says so.
    Left(Exit, Vec<QuestionView>),
    /// The person's input ended (Ctrl-D) with questions open.
    InputEnded(Vec<QuestionView>),
    /// Nobody reads the output any more.
    Unread,
}

/// The state of following one session.
pub(crate) struct Follow<'a> {
    daemon: Daemon,
    session: SessionId,
    events: Subscription,
    ui: &'a mut Ui,
    input: Input,
    leave: Leave,
    past: past::Past,
    mode: Mode,
    until: Until,
    tools: render::Seen,
    asking: Option<Asking>,
    waiting: VecDeque<QuestionView>,
    /// Questions that were shown here and are not known to have ended.
    open: Vec<QuestionView>,
    /// Answered from here: their end is no news.
    mine: HashSet<QuestionId>,
    /// When to stop waiting for more questions of a batch.
    park_at: Option<Instant>,
    /// Something may have been missed; looked into once everything there is was sent again.
    doubt: bool,
    /// When to look again whether the turn still goes on.
    look_at: Option<Instant>,
    /// When to believe that the turn is over, if its end does not come until then.
    over_at: Option<Instant>,
    /// It was said that an answer has not reached the agent.
    told_of_delivery: bool,
    /// It was said that the prompt is queued.
    told_of_queue: bool,
}

impl<'a> Follow<'a> {
    /// `daemon` speaks as the client that is attached to the session.
    pub(crate) fn new(
        daemon: Daemon,
        session: SessionId,
        events: Subscription,
        ui: &'a mut Ui,
        leave: Leave,
        (mode, until): (Mode, Until),
    ) -> Self {
        Self {
            daemon,
            session,
            events,
            ui,
            input: Input::terminal(),
            leave,
            past: past::Past::default(),
            mode,
            until,
            tools: render::Seen::default(),
            asking: None,
            waiting: VecDeque::new(),
            open: Vec::new(),
            mine: HashSet::new(),
            park_at: None,
            doubt: false,
            look_at: None,
            over_at: None,
            told_of_delivery: false,
            told_of_queue: false,
        }
    }

    /// Reads what the person types from here: two readers of one terminal would take each other's lines.
    pub(crate) fn with_input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// Follows until the end that was asked for, or a signal.
    ///
    /// # Errors
    /// The daemon refused, or was away for too long.
    pub(crate) async fn run(&mut self) -> Result<End, Failure> {
        loop {
            if self.ui.broken() {
                return Ok(End::Unread);
            }
            let (park_at, look_at, over_at) = (self.park_at, self.look_at, self.over_at);
            let end = tokio::select! {
                signal = self.events.next() => self.signal(signal?).await?,
                line = self.input.next(), if self.asking.is_some() => match line {
                    Some(line) => self.typed(&line).await?,
                    None => Some(End::InputEnded(std::mem::take(&mut self.open))),
                },
                () = at(park_at), if park_at.is_some() => self.park().await?,
                () = at(look_at), if look_at.is_some() => {
                    self.look().await?;
                    None
                }
                () = at(over_at), if over_at.is_some() => Some(match self.until {
                    Until::AnyTurn => End::Before,
                    Until::Prompt(_) | Until::Left => End::Missed,
                }),
                exit = self.leave.next() => Some(End::Left(exit, std::mem::take(&mut self.open))),
            };
            if let Some(end) = end {
                self.ui.end_line();
                return Ok(end);
            }
        }
    }

    async fn signal(&mut self, signal: Signal) -> Result<Option<End>, Failure> {
        match signal {
            Signal::Event(event) => self.event(&event).await,
            Signal::Lost { reason } => {
                self.ui.note(&format!("lost the daemon ({reason}); trying to come back"));
                Ok(None)
            }
            Signal::Back => {
                self.ui.note("connected again");
                self.reprompt();
                Ok(None)
            }
            Signal::Resumed(attached) => {
                self.daemon = self.daemon.with_client_id(attached.client_id.clone());
                self.ui.note("the daemon was restarted; the session is resumed");
                self.doubt = true;
                Ok(None)
            }
        }
    }

    async fn event(&mut self, event: &Event) -> Result<Option<End>, Failure> {
        let event = event.parse();
        if matches!(event, EventKind::Update(_) | EventKind::PromptStarted(_)) {
            self.over_at = None;
        }
        match event {
            EventKind::Update(update) => self.update(update),
            EventKind::PermissionRequest(request) => self.requested(*request).await,
            EventKind::PermissionResolved(resolved) => self.resolved(&resolved).await,
            EventKind::PromptQueued(prompt) if self.is_mine(prompt.as_ref()) => {
                self.ui.line(&json!({"type": "queued"}));
                if !std::mem::replace(&mut self.told_of_queue, true) {
                    self.ui.dim("queued behind the turn that runs or waits");
                }
            }
            EventKind::PromptCancelled => self.ui.dim("cancelled"),
            EventKind::TurnComplete(end) => return Ok(self.turn_ended(end)),
            EventKind::TurnError(error) => {
                if self.until != Until::Left && self.is_mine(error.prompt_id.as_ref()) {
                    let waits = self.still_open().await;
                    return Ok(Some(End::Failed(error, waits)));
                }
                self.ui.line(&json!({"type": "error", "message": error.message, "code": error.code}));
                self.ui.note(&format!("the turn failed: {}", error.message));
            }
            EventKind::SessionClosed { reason } => return Ok(Some(End::Gone(format!("closed: {reason}")))),
            // The stream ends, and the subscription sees whether the daemon comes back.
            EventKind::SessionDied { reason } if reason == "daemon_shutdown" => {
                self.ui.note("the daemon is stopping; what waits is kept");
            }
            EventKind::SessionDied { reason } => {
                return Ok(Some(End::Gone(format!("its agent died: {reason}"))));
            }
            EventKind::Resync(_) => self.doubt = true,
            EventKind::ReplayComplete if self.doubt => self.look().await?,
            EventKind::HistoryTruncated => self.ui.dim("(older history is left out)"),
            EventKind::ReplayComplete
            | EventKind::PromptQueued(_)
            | EventKind::PromptStarted(_)
            | EventKind::Evicted
            | EventKind::Other => {}
        }
        Ok(None)
    }

    fn is_mine(&self, prompt: Option<&PromptId>) -> bool {
        match &self.until {
            Until::Prompt(mine) => prompt == Some(mine),
            Until::AnyTurn | Until::Left => true,
        }
    }

    fn update(&mut self, update: Update) {
        match update {
            Update::AgentText(text) => self.ui.words(&text),
            Update::UserText(text) if self.until == Until::Left => {
                self.ui.line(&json!({"type": "user", "text": text}));
                let paint = self.ui.paint;
                let quoted: String = render::plain(&text)
                    .lines()
                    .map(|line| format!("{}\n", paint.bold(&format!("> {line}"))))
                    .collect();
                self.ui.block(&format!("\n{quoted}"));
            }
            Update::Tool(frame) => {
                // What the agent says before a call and after it are two messages.
                if !self.ui.json {
                    self.ui.end_line();
                }
                if let Some(line) = render::tool_line(&mut self.tools, &frame) {
                    self.ui.line(&json!({"type": "tool", "toolCallId": frame.id, "toolName": frame.tool,
                        "status": frame.status, "text": line}));
                    // What is shown of a session is one document, in order; beside a turn's words they are remarks.
                    if self.until == Until::Left {
                        let line = self.ui.paint.dim(&format!("{line}\n"));
                        self.ui.block(&line);
                    } else {
                        self.ui.dim(&line);
                    }
                }
            }
            Update::UserText(_) | Update::Thought(_) | Update::Other => {}
        }
    }

    fn turn_ended(&mut self, end: TurnComplete) -> Option<End> {
        if self.until != Until::Left && self.is_mine(end.prompt_id.as_ref()) {
            return Some(if end.parked {
                End::Waits(std::mem::take(&mut self.open))
            } else {
                End::Turn(end)
            });
        }
        self.ui.line(&json!({"type": "end", "stopReason": end.stop_reason, "parked": end.parked}));
        self.ui.end_line();
        match end.stop_reason.as_str() {
            "end_turn" => {}
            "cancelled" if end.parked => self.ui.dim("the turn is parked: its question still waits"),
            other => self.ui.dim(&format!("the turn ended: {other}")),
        }
        None
    }

    /// Gives the client's place back, unless a signal says that even this takes too long.
    pub(crate) async fn detach(&mut self) {
        detach(&self.daemon, &self.session, &mut self.leave).await;
    }
}

/// Gives a client's place in a session back. Nothing depends on it, so it may fail, but not take long.
pub(crate) async fn detach(daemon: &Daemon, session: &SessionId, leave: &mut Leave) {
    let _ = tokio::time::timeout(Duration::from_secs(2), leave.unless(daemon.detach(session))).await;
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The end as a line for scripts.
pub(crate) fn end_line(end: &End) -> Value {
    let waits = |views: &[QuestionView]| {
        let ids: Vec<&str> = views.iter().map(|view| view.question_id.as_str()).collect();
        json!(ids)
    };
    match end {
        End::Turn(end) => json!({"type": "end", "stopReason": end.stop_reason}),
        End::Failed(error, views) => {
            json!({"type": "end", "error": error.message, "code": error.code, "waits": waits(views)})
        }
        End::Waits(views) => json!({"type": "end", "waits": waits(views)}),
        End::Gone(reason) => json!({"type": "end", "gone": reason}),
        End::Missed => json!({"type": "end", "missed": true}),
        End::Before => json!({"type": "end", "before": true}),
        End::Left(_, views) | End::InputEnded(views) => {
            json!({"type": "end", "left": true, "waits": waits(views)})
        }
        End::Unread => Value::Null,
    }
}

#[cfg(test)]
mod tests;
