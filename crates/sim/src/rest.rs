//! What must hold when everything has come to rest: nothing dangles, every accepted prompt was begun exactly
//! once, and every acknowledged answer was read by the model.

use holdpoint_ledger::Ledger;
use holdpoint_model::ids::{PromptId, SessionId};
use holdpoint_model::session::{Event, Question, Session, State, TurnEnd};

use crate::check::sessions;
use crate::durable::now;
use crate::store::{History, Record, Shared};

/// Checks that. `restore` is whether the last life had the flag.
pub(crate) fn at_rest(durable: &dyn Ledger, store: &Shared, restore: bool) {
    let known = sessions(durable);
    let mut problems = Vec::new();
    {
        let store = store.lock();
        for session in &known {
            let Some(history) = store.histories.get(&session.id) else { continue };
            if restore && session.open().next().is_some() {
                problems.push(format!("{} still waits", session.id));
            }
            for question in session.undelivered().filter(|question| is_owed(question)) {
                problems.push(format!(
                    "I4: the end of {} was never delivered: {:?}",
                    question.id, question.state
                ));
            }
            let begun = |prompt| {
                history
                    .0
                    .iter()
                    .any(|record| matches!(record, Record::User { prompt: Some(id) } if id == prompt))
            };
            let ended = ended(durable, &session.id);
            let stopped =
                |prompt: &PromptId| ended.iter().any(|(id, end)| id == prompt && end.need_not_begin());
            for (_, prompt) in store.accepted.iter().filter(|(of, _)| *of == session.id) {
                if !begun(prompt) && !stopped(prompt) {
                    problems.push(format!("D5: {prompt} was accepted and never begun"));
                }
            }
            problems.extend(goes_on(session, history, &ended));
        }
    }
    for problem in problems {
        store.violation(problem);
    }
}

/// Whether the model must read this end. What was closed for a repair need not be: the call may be asked anew.
fn is_owed(question: &Question) -> bool {
    question.body.is_question()
        && match &question.state {
            State::Open => false,
            State::Settled(_) => true,
            State::Closed { cause, .. } => cause.is_a_result(),
        }
}

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq)]
enum End {
    /// The agent said so.
    Completed(String),
    /// Otherwise.
    Broken,
    /// It was taken back.
    Removed,
}

impl End {
    /// Somebody stopped it or took it back before it was begun, or the agent refused it.
    fn need_not_begin(&self) -> bool {
        *self == Self::Removed || *self == Self::Completed("cancelled".to_owned())
    }
}

fn ended(durable: &dyn Ledger, session: &SessionId) -> Vec<(PromptId, End)> {
    let events = now(durable.events(session)).unwrap_or_default();
    let ends = events.into_iter().filter_map(|stored| match stored.event {
        Event::TurnEnded { prompt, outcome: TurnEnd::Completed { stop_reason, .. } } => {
            Some((prompt, End::Completed(stop_reason)))
        }
        Event::TurnEnded { prompt, .. } => Some((prompt, End::Broken)),
        Event::PromptRemoved { prompt } => Some((prompt, End::Removed)),
        _ => None,
    });
    ends.collect()
}

/// I10, R20: a turn that ended by itself ended with the model's word on what it had asked, unless all that it asked
/// was declined.
fn goes_on(session: &Session, history: &History, ended: &[(PromptId, End)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, record) in history.0.iter().enumerate() {
        let Record::Model { id, prompt: Some(prompt), calls } = record else { continue };
        let by_itself =
            ended.iter().any(|(id, end)| id == prompt && *end == End::Completed("end_turn".to_owned()));
        if calls.is_empty() || !by_itself {
            continue;
        }
        let mut declined = true;
        for call in calls {
            match history.results(&call.id).next() {
                Some(Record::Result { declined: one, repaired, .. }) => declined &= *one || *repaired,
                _ => problems.push(format!("I10: {} has no result of {}, and ended", session.id, call.id)),
            }
        }
        let next = history.0[at + 1..].iter().find(|record| !matches!(record, Record::Result { .. }));
        let went_on = matches!(next, Some(Record::Model { prompt: Some(of), .. }) if of == prompt);
        if !declined && !went_on {
            problems.push(format!("I10: {}: the model never read the results of {id}: {next:?}", session.id));
        }
    }
    problems
}

/// Everything that is durable in the end, for whoever reads a trace.
pub(crate) fn tell_all(durable: &dyn Ledger, store: &Shared) {
    let deleted = store.lock().deleted.clone();
    for session in sessions(durable).into_iter().map(|session| session.id).chain(deleted) {
        store.note(format!("session {session}"));
        for stored in now(durable.events(&session)).unwrap_or_default() {
            store.note(format!("  {} {} {:?}", stored.version, stored.at.0, stored.event));
        }
        let history = store.lock().histories.get(&session).cloned().unwrap_or_default();
        for record in history.0 {
            store.note(format!("  history {record:?}"));
        }
    }
}
