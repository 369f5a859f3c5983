//! Following a session: the agent's words as they come, its questions, and the end of the turn.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use holdpoint_client::{
    Answer, AnswerRequest, ClientError, Daemon, Event, EventKind, Filter, PermissionRequest,
    PermissionResolved, QuestionView, Refusal, Signal, State, Subscription, TurnComplete, TurnError, Update,
    new_response_id,
};
use holdpoint_model::ids::{PromptId, QuestionId, SessionId};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::ask::{Asking, Step};
use crate::exit::Failure;
use crate::input::Input;
use crate::render::{self, answered_by, one_line};
use crate::ui::Ui;

/// Questions of one batch come one after the other; after so long without another one they are all there.
const BATCH: Duration = Duration::from_millis(300);
/// The end of a turn that the daemon calls over may still be on its way; after so long without it, it is not.
const ON_ITS_WAY: Duration = Duration::from_millis(500);
/// How often the daemon is asked whether an answer that is on its disk has reached the agent.
const DELIVERY: Duration = Duration::from_secs(2);

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
    /// Ctrl-C.
    Interrupted(Vec<QuestionView>),
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
}

impl<'a> Follow<'a> {
    /// `daemon` speaks as the client that is attached to the session.
    pub(crate) fn new(
        daemon: Daemon,
        session: SessionId,
        events: Subscription,
        ui: &'a mut Ui,
        mode: Mode,
        until: Until,
    ) -> Self {
        Self {
            daemon,
            session,
            events,
            ui,
            input: Input::terminal(),
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
        }
    }

    /// Reads what the person types from here: two readers of one terminal would take each other's lines.
    pub(crate) fn with_input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// Shows what is already open in the session.
    pub(crate) fn show_open(&mut self, questions: Vec<QuestionView>) {
        for view in questions {
            self.arrived(view);
        }
    }

    /// This question was answered from here before.
    pub(crate) fn answered(&mut self, id: &QuestionId) {
        self.mine.insert(id.clone());
    }

    /// The turn may have ended before it was followed. Ask once the events are connected.
    ///
    /// # Errors
    /// The daemon refused, or is away.
    pub(crate) async fn may_be_over(&mut self) -> Result<(), Failure> {
        self.look().await
    }

    /// Shows an event of a history: no question of it is asked.
    pub(crate) fn show_past(&mut self, event: &Event) {
        if let EventKind::Update(update) = event.parse() {
            self.update(update);
        }
    }

    /// Follows until the end that was asked for, or Ctrl-C.
    ///
    /// # Errors
    /// The daemon refused, or was away for too long.
    pub(crate) async fn run(&mut self) -> Result<End, Failure> {
        let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
            .map_err(|error| Failure::new(crate::exit::Exit::Error, "signals", error.to_string()))?;
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
                _ = interrupt.recv() => Some(End::Interrupted(std::mem::take(&mut self.open))),
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
                self.ui.dim("queued behind the turn that runs or waits");
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
                    self.ui.dim(&line);
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

    /// A decision is wanted. The daemon's own record says whether it still is.
    async fn requested(&mut self, request: PermissionRequest) {
        let view = match &request.question_id {
            Some(id) => match self.daemon.question(id).await {
                Ok(view) => Some(view),
                Err(error) if error.refusal() == Some(&Refusal::NotFound) => None,
                // The stream itself will notice that the daemon is away, and the question comes once more.
                Err(error) if error.is_outage() => return,
                // The turn is worth following whatever is wrong with one question.
                Err(error) => {
                    self.ui.note(&format!("the question {id} can't be shown: {error}"));
                    return;
                }
            },
            None => {
                let filter = Filter { session: Some(self.session.clone()), ..Filter::open() };
                let open = self.daemon.all_questions(&filter).await.unwrap_or_default();
                open.into_iter()
                    .find(|view| view.request_id.as_ref().is_some_and(|id| id.as_str() == request.request_id))
            }
        };
        match view {
            Some(view) if view.state == State::Open => {
                self.arrived(view.clone());
                // Only a note of the daemon's (D4): nobody waits for it, and a daemon that is away misses nothing.
                let daemon = self.daemon.clone();
                tokio::spawn(async move { daemon.shown(&view).await });
            }
            Some(_) => {}
            None => self.ui.note("the agent asks for a decision that the daemon keeps no record of"),
        }
    }

    fn arrived(&mut self, view: QuestionView) {
        if let Some(known) = self.open.iter_mut().find(|known| known.question_id == view.question_id) {
            let again = known.request_id.is_some() && known.request_id != view.request_id;
            *known = view;
            if again {
                let text = render::asked(known);
                self.ui.dim(&text);
                self.reprompt();
            }
            return;
        }
        if self.mine.contains(&view.question_id) {
            return;
        }
        self.open.push(view.clone());
        let command = render::answer_command(&view);
        self.ui.line(&json!({"type": "question", "question": view, "answerCommand": command}));
        match self.mode {
            Mode::Ask if self.asking.is_none() => self.ask(view),
            Mode::Ask => self.waiting.push_back(view),
            Mode::Park => self.park_at = Some(Instant::now() + BATCH),
            Mode::Show => {
                let text = format!(
                    "\n{}{}",
                    render::question(&view, false, self.ui.paint),
                    render::parked(&view, self.ui.paint)
                );
                self.ui.block(&text);
            }
        }
    }

    fn ask(&mut self, view: QuestionView) {
        let text = format!("\n{}", render::question(&view, true, self.ui.paint));
        self.ui.block(&text);
        self.asking = Some(Asking::new(view));
        self.input.forget();
        self.reprompt();
    }

    /// Puts the mark of the question that is being asked, if one is, before the cursor.
    fn reprompt(&mut self) {
        if let Some(asking) = &self.asking {
            let mark = asking.mark(self.ui.paint);
            self.ui.input_mark(&mark);
        }
    }

    fn ask_next(&mut self) {
        self.asking = None;
        if let Some(view) = self.waiting.pop_front() {
            self.ask(view);
        }
    }

    fn forget(&mut self, id: &QuestionId) {
        self.open.retain(|view| view.question_id != *id);
        self.waiting.retain(|view| view.question_id != *id);
        if self.asking.as_ref().is_some_and(|asking| asking.view.question_id == *id) {
            self.ask_next();
        }
    }

    /// Of the questions that were shown here, those that the daemon calls open. One that it says nothing of is
    /// left out: nothing is known of it.
    async fn still_open(&mut self) -> Vec<QuestionView> {
        let mut waits = Vec::new();
        for view in std::mem::take(&mut self.open) {
            match self.daemon.question(&view.question_id).await {
                Ok(view) if view.state == State::Open => waits.push(view),
                Ok(_) | Err(_) => {}
            }
        }
        waits
    }

    /// Somebody decided, or nobody can any more.
    async fn resolved(&mut self, resolved: &PermissionResolved) {
        let known = self.open.iter().find(|view| match &resolved.question_id {
            Some(id) => view.question_id == *id,
            None => view.request_id.as_ref().is_some_and(|id| id.as_str() == resolved.request_id),
        });
        let Some(view) = known.cloned() else { return };
        let who = match (&resolved.answered_by, &resolved.voter) {
            (Some(by), _) => answered_by(by),
            (None, Some(voter)) => one_line(voter, 60),
            (None, None) => "nobody".to_owned(),
        };
        let declined = resolved.outcome == "cancelled"
            || resolved.option_id.as_deref() == Some(holdpoint_model::question::OPTION_CANCEL);
        self.ui.line(&json!({"type": "settled", "questionId": view.question_id, "declined": declined && resolved.unasked.is_none(),
            "unasked": resolved.unasked, "answers": resolved.answers, "answeredBy": resolved.answered_by, "voterClientId": resolved.voter}));
        let text = match &resolved.unasked {
            Some(cause) => {
                render::unasked(&view, cause, self.daemon.question(&view.question_id).await.ok().as_ref())
            }
            None => {
                let option = resolved.option_id.as_deref();
                render::settled(&view, &who, declined, resolved.answers.as_ref(), option)
            }
        };
        self.ui.note(&text);
        self.forget(&view.question_id);
        if self.open.is_empty() {
            self.park_at = None;
        }
    }

    async fn typed(&mut self, line: &str) -> Result<Option<End>, Failure> {
        self.ui.typed();
        let Some(asking) = &mut self.asking else { return Ok(None) };
        match asking.take(line) {
            Step::Again(problem) => {
                self.ui.note(&problem);
                self.reprompt();
            }
            Step::Next => self.reprompt(),
            Step::Done(answer) => self.send(answer).await?,
        }
        Ok(None)
    }

    /// Sends the answer to the question that is being asked. What is refused leaves the question as it now is.
    async fn send(&mut self, answer: Answer) -> Result<(), Failure> {
        let Some(asking) = &self.asking else { return Ok(()) };
        let view = asking.view.clone();
        let request = AnswerRequest { generation: view.generation, response_id: new_response_id(), answer };
        // Its end may come on the stream before the receipt.
        self.mine.insert(view.question_id.clone());
        match self.daemon.answer(&view.question_id, &request).await {
            Ok(receipt) => {
                let text = render::receipt(&receipt, &view, self.ui.paint);
                self.ui.block(&text);
                self.forget(&view.question_id);
                return Ok(());
            }
            Err(error) => {
                self.mine.remove(&view.question_id);
                let again = error.is_outage()
                    || matches!(error.refusal(), Some(Refusal::Invalid | Refusal::TryLater));
                if !again && !matches!(error, ClientError::Refused(_)) {
                    return Err(error.into());
                }
                let failure = Failure::from(error);
                self.ui.note(&failure.message);
                for hint in failure.facts.iter().chain(&failure.hints) {
                    self.ui.dim(hint);
                }
                if again {
                    if let Some(asking) = &mut self.asking {
                        asking.restart();
                    }
                    self.reprompt();
                } else {
                    self.forget(&view.question_id);
                }
            }
        }
        Ok(())
    }

    /// The batch is complete: everything that waits in this session is left to others.
    async fn park(&mut self) -> Result<Option<End>, Failure> {
        self.park_at = None;
        let filter = Filter { session: Some(self.session.clone()), ..Filter::open() };
        let mut waits = match self.daemon.all_questions(&filter).await {
            Ok(open) => open,
            Err(error) if error.is_outage() => std::mem::take(&mut self.open),
            Err(error) => return Err(error.into()),
        };
        waits.sort_by_key(|view| view.generation);
        if waits.is_empty() {
            self.open.clear();
            return Ok(None);
        }
        Ok(Some(End::Waits(waits)))
    }

    /// After a doubt: whether the turn still runs, or will. If not, its end will not come.
    async fn look(&mut self) -> Result<(), Failure> {
        self.doubt = false;
        self.look_at = None;
        if self.until == Until::Left {
            return Ok(());
        }
        match self.daemon.status(&self.session).await {
            Ok(status) if status.has_active_prompt => return Ok(()),
            Ok(_) => {}
            // The stream says that the session is gone, or brings it back.
            Err(error) if error.refusal() == Some(&Refusal::NotFound) || error.is_outage() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let coming = match &self.until {
            Until::Prompt(mine) => match self.daemon.pending_prompts(&self.session).await {
                Ok(queued) => queued.iter().any(|prompt| prompt.prompt_id == *mine),
                Err(error) if error.is_outage() => return Ok(()),
                Err(error) => return Err(error.into()),
            },
            Until::AnyTurn | Until::Left => self.is_undelivered().await?,
        };
        if !coming {
            self.over_at = Some(Instant::now() + ON_ITS_WAY);
        }
        Ok(())
    }

    /// Whether an answer from here is on the daemon's disk, and the agent does not have it. Looked at again then:
    /// its arrival may start no turn.
    async fn is_undelivered(&mut self) -> Result<bool, Failure> {
        for id in &self.mine {
            let view = match self.daemon.question(id).await {
                Ok(view) => view,
                Err(error) if error.is_outage() => {
                    self.look_at = Some(Instant::now() + DELIVERY);
                    return Ok(true);
                }
                Err(error) => return Err(error.into()),
            };
            let delivered = view.outcome.as_ref().and_then(|outcome| outcome.get("delivered"));
            if delivered.and_then(Value::as_bool) == Some(false) {
                if !std::mem::replace(&mut self.told_of_delivery, true) {
                    self.ui.note("the answer is on disk, and the agent does not have it yet; waiting for it");
                }
                self.look_at = Some(Instant::now() + DELIVERY);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives the client's place back. Nothing depends on it, so it may fail, but not take long.
    pub(crate) async fn detach(&self) {
        let _ = tokio::time::timeout(Duration::from_secs(2), self.daemon.detach(&self.session)).await;
    }
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
        End::Interrupted(views) | End::InputEnded(views) => {
            json!({"type": "end", "left": true, "waits": waits(views)})
        }
        End::Unread => Value::Null,
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
