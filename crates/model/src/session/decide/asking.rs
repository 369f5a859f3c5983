//! Asking, asking again, and the ends of an asking that nobody decided.

use std::collections::BTreeSet;

use crate::ids::{CallId, Generation, QuestionId, RequestId};
use crate::policy::Capture;
use crate::question::MAX_AT_ONCE;
use crate::session::command::Context;
use crate::session::event::{Event, UnaskedCause};
use crate::session::rejection::Rejection;
use crate::session::state::{Asking, Body, CallKey, CloseCause, Question, Session, State, VoteOption};

pub(super) struct Ask {
    pub question: QuestionId,
    pub request: RequestId,
    pub call: CallKey,
    pub title: String,
    pub body: Body,
    pub options: Vec<VoteOption>,
}

pub(super) fn ask(
    session: &Session,
    life: u64,
    ask: Ask,
    context: &Context,
) -> Result<Vec<Event>, Rejection> {
    if life != session.life {
        return Err(Rejection::StaleLife);
    }
    let known = session.by_call(&ask.call).filter(|known| is_the_same(session, known, &ask));
    match known {
        Some(known) if known.is_open() => {
            if !session.asked_now().any(|(asked, _)| asked.generation == known.generation) {
                room(session)?;
            }
            let asking = issue(session, ask.request, known.author.as_ref(), context);
            Ok(vec![Event::Reasked { generation: known.generation, asking }])
        }
        // Asks nobody, so it needs no room.
        Some(known) if !known.delivered && is_an_end_for_the_agent(known) => {
            Ok(vec![Event::Reissued { generation: known.generation, request: ask.request }])
        }
        _ => {
            room(session)?;
            Ok(ask_anew(session, ask, context))
        }
    }
}

fn room(session: &Session) -> Result<(), Rejection> {
    let pending = session.asked_now().count();
    if pending < MAX_AT_ONCE { Ok(()) } else { Err(Rejection::TooManyPending(pending)) }
}

fn ask_anew(session: &Session, ask: Ask, context: &Context) -> Vec<Event> {
    let turn = session.running();
    let author = turn.and_then(|turn| turn.origin.client()).cloned();
    let mut events = Vec::new();
    // A call that asks something else under a key that is still open: a question is never edited, so the old
    // one ends (CR16).
    if let Some(old) = session.by_call(&ask.call).filter(|old| old.is_open()) {
        events.push(Event::Closed { generation: old.generation, cause: CloseCause::Withdrawn });
    }
    events.push(Event::Asked {
        question: ask.question,
        generation: Generation(session.generation.0 + 1),
        call: ask.call,
        prompt: turn.map(|turn| turn.origin.prompt().clone()),
        asking: issue(session, ask.request, author.as_ref(), context),
        author,
        title: ask.title,
        body: ask.body,
        options: ask.options,
    });
    events
}

/// Whether the agent asks for what is known. Where it does not name its model turn, a call id alone proves
/// nothing (providers repeat them), so the turn and the words must be the same too (I3).
fn is_the_same(session: &Session, known: &Question, ask: &Ask) -> bool {
    let same_words = known.body == ask.body;
    if ask.call.turn.is_some() {
        return same_words;
    }
    let prompt = session.running().map(|turn| turn.origin.prompt());
    same_words && (known.is_open() || known.prompt.as_ref() == prompt)
}

/// Whether a question's end is one that the agent must be told, instead of asking people again. Consent is
/// given once: a call that asks for it again is put to people again (V6).
fn is_an_end_for_the_agent(question: &Question) -> bool {
    match &question.state {
        _ if !question.body.is_question() => false,
        State::Open => false,
        State::Settled(_) => true,
        State::Closed { cause, .. } => cause.is_a_result(),
    }
}

fn issue(
    session: &Session,
    request: RequestId,
    author: Option<&crate::ids::ClientId>,
    context: &Context,
) -> Asking {
    let asker = session.running().and_then(|turn| turn.origin.client());
    let authors: BTreeSet<_> = author.into_iter().chain(asker).cloned().collect();
    Asking {
        request,
        life: session.life,
        since: context.now,
        capture: Capture::issue(context.strategy, authors, &session.present, context.quorum),
        ballots: Vec::new(),
    }
}

/// A person stops the turn. In first life that ends a question (R13); a restored one, and one that a client
/// only could not show (H9), stays open.
pub(super) fn cancel(session: &Session, unreachable: bool, context: &Context) -> Vec<Event> {
    let cause = if unreachable { CloseCause::UnreachableQuestion } else { CloseCause::CancelledBeforeAnswer };
    session
        .asked_now()
        .map(|(question, _)| {
            let generation = question.generation;
            let keeps =
                question.body.is_question() && context.restore && (unreachable || question.is_restored());
            if keeps {
                Event::Unasked { generation, cause: UnaskedCause::Aborted }
            } else {
                Event::Closed { generation, cause }
            }
        })
        .collect()
}

/// Askings end with nobody having decided: the question stays open with the flag on (R10). What happened to
/// the agent's process is never a decision, flag or not.
pub(super) fn end(
    session: &Session,
    which: Option<Generation>,
    cause: UnaskedCause,
    context: &Context,
) -> Vec<Event> {
    session
        .asked_now()
        .filter(|(question, _)| which.is_none_or(|which| which == question.generation))
        .map(|(question, _)| {
            let generation = question.generation;
            let keeps = context.restore || question.is_restored();
            match cause {
                UnaskedCause::AgentGone if question.body.is_question() => {
                    Event::Unasked { generation, cause }
                }
                UnaskedCause::AgentGone => Event::Closed { generation, cause: CloseCause::ProcessRestarted },
                _ if question.body.is_question() && keeps => Event::Unasked { generation, cause },
                UnaskedCause::TimedOut => Event::Closed { generation, cause: CloseCause::TimedOut },
                UnaskedCause::SessionClosed => Event::Closed { generation, cause: CloseCause::SessionClosed },
                UnaskedCause::Aborted => Event::Closed { generation, cause: CloseCause::Withdrawn },
            }
        })
        .collect()
}

/// The result of a call is in the history: its question's end was delivered. If the question was still open,
/// the agent ended it by itself.
pub(super) fn call_ended(
    session: &Session,
    life: u64,
    call: &CallId,
    repaired: bool,
) -> Result<Vec<Event>, Rejection> {
    if life != session.life {
        return Err(Rejection::StaleLife);
    }
    let newest = session.questions.values().rev().find(|question| question.call.call == *call);
    let Some(question) = newest.filter(|question| !question.delivered) else { return Ok(Vec::new()) };
    let generation = question.generation;
    let mut events = Vec::new();
    if question.is_open() {
        let cause = if repaired { CloseCause::OrphanRepair } else { CloseCause::Withdrawn };
        events.push(Event::Closed { generation, cause });
    }
    events.push(Event::Delivered { generation });
    Ok(events)
}
