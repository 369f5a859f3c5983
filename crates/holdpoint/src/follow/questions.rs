//! The questions of a session that is followed: shown, asked at the terminal, answered from here or elsewhere, parked.

use std::time::Duration;

use holdpoint_client::{
    Answer, AnswerRequest, ClientError, Filter, PermissionRequest, PermissionResolved, QuestionView, Refusal,
    State, new_response_id,
};
use holdpoint_model::ids::QuestionId;
use serde_json::json;
use tokio::time::Instant;

use super::{End, Follow, Mode, Until};
use crate::ask::{Asking, Step};
use crate::exit::Failure;
use crate::render::{self, answered_by, one_line};

/// Questions of one batch come one after the other; after so long without another one they are all there.
const BATCH: Duration = Duration::from_millis(300);

impl Follow<'_> {
    /// Shows what is already open in the session.
    pub(crate) fn show_open(&mut self, questions: Vec<QuestionView>) {
        for view in questions {
            self.arrived(view);
        }
    }

    /// Shows what the session waits for, and that the prompt waits behind it.
    pub(crate) fn waits_first(&mut self, questions: Vec<QuestionView>) {
        self.ui.note("the session waits for a decision; the prompt is queued behind it");
        self.told_of_queue = true;
        self.show_open(questions);
    }

    /// This question was answered from here before.
    pub(crate) fn answered(&mut self, id: &QuestionId) {
        self.mine.insert(id.clone());
    }

    /// A decision is wanted. The daemon's own record says whether it still is.
    pub(super) async fn requested(&mut self, request: PermissionRequest) {
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
        let command = view.takes_answers().then(|| render::answer_command(&view));
        self.ui.line(&json!({"type": "question", "question": view, "answerCommand": command}));
        match self.mode {
            Mode::Park => self.park_at = Some(Instant::now() + BATCH),
            Mode::Ask if view.takes_answers() && self.asking.is_none() => self.ask(view),
            Mode::Ask if view.takes_answers() => self.waiting.push_back(view),
            // What takes no answer is not asked for one.
            Mode::Ask | Mode::Show => {
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
    pub(super) fn reprompt(&mut self) {
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
    pub(super) async fn still_open(&mut self) -> Vec<QuestionView> {
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
    pub(super) async fn resolved(&mut self, resolved: &PermissionResolved) {
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
        if self.until == Until::Left && self.asking.is_none() {
            // A part of what is shown of the session.
            self.ui.block(&format!("{text}\n"));
        } else {
            self.ui.note(&text);
        }
        self.forget(&view.question_id);
        if self.open.is_empty() {
            self.park_at = None;
        }
    }

    pub(super) async fn typed(&mut self, line: &str) -> Result<Option<End>, Failure> {
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
    pub(super) async fn park(&mut self) -> Result<Option<End>, Failure> {
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
}
