//! Prompts, their queue, and the one turn that runs (D5, I6).

use super::asking;
use crate::ids::{ClientId, PromptId};
use crate::session::command::Context;
use crate::session::event::{Event, UnaskedCause};
use crate::session::rejection::Rejection;
use crate::session::state::{CloseCause, Origin, Prompt, Session, TurnEnd};

/// Longest title made of a prompt, in characters.
const TITLE_CHARS: usize = 80;

pub(super) fn prompt(
    session: &Session,
    prompt: Prompt,
    hold: bool,
    context: &Context,
) -> Result<Vec<Event>, Rejection> {
    match session.given.said(&prompt) {
        // It was accepted before: whoever sends it again learns so, and nothing more happens.
        Some(true) => return Ok(Vec::new()),
        Some(false) => return Err(Rejection::PromptIdReused(prompt.id)),
        None if session.knows_prompt(&prompt.id) => return Err(Rejection::PromptIdReused(prompt.id)),
        None => {}
    }
    let pending = session.queue.len() + usize::from(session.running().is_some());
    if let Some(limit) = context.max_prompts
        && pending >= limit
    {
        return Err(Rejection::QueueFull { limit, pending });
    }
    let mut events = Vec::new();
    if session.title.is_none()
        && let Some(title) = title_of(&prompt)
    {
        events.push(Event::Titled { title });
    }
    let first = session.queue.front().unwrap_or(&prompt).clone();
    events.push(Event::PromptQueued { prompt });
    if !hold && session.running().is_none() {
        start(session, Origin::Client { prompt: first }, &mut events);
    }
    Ok(events)
}

pub(super) fn start_next(session: &Session) -> Vec<Event> {
    let mut events = Vec::new();
    if session.running().is_none()
        && let Some(prompt) = session.queue.front()
    {
        start(session, Origin::Client { prompt: prompt.clone() }, &mut events);
    }
    events
}

/// Starts a turn that nothing stands in the way of. What a crash left behind ends now: something else goes to
/// the model, so nobody will go on with it; and what nobody answered is repaired (R2). It is closed here, before
/// the repair is written, so that no answer can be accepted for a call that is being repaired (I4).
fn start(session: &Session, origin: Origin, events: &mut Vec<Event>) {
    // One that is asked now is asked beside the turns, by an agent that waits for it.
    let asked: Vec<_> = session.asked_now().map(|(question, _)| question.generation).collect();
    let left = session.open().filter(|question| !asked.contains(&question.generation));
    for question in left.filter(|question| question.body.is_question()) {
        events.push(Event::Closed { generation: question.generation, cause: CloseCause::OrphanRepair });
    }
    if let Some(turn) = session.interrupted() {
        let prompt = turn.origin.prompt().clone();
        events.push(Event::TurnEnded { prompt, outcome: TurnEnd::Interrupted });
    }
    events.push(Event::TurnStarted { origin });
}

pub(super) fn remove(session: &Session, id: PromptId) -> Result<Vec<Event>, Rejection> {
    if session.queue.iter().any(|prompt| prompt.id == id) {
        Ok(vec![Event::PromptRemoved { prompt: id }])
    } else {
        Err(Rejection::UnknownPrompt(id))
    }
}

/// The restore goes before everything that waits; only a turn that runs now stands in its way (R6).
pub(super) fn admit_restore(
    session: &Session,
    fresh: PromptId,
    client: Option<ClientId>,
) -> Result<Vec<Event>, Rejection> {
    if session.running().is_some() {
        return Err(Rejection::Busy);
    }
    let id = session.interrupted().map_or(fresh, |turn| turn.origin.prompt().clone());
    Ok(vec![Event::TurnStarted { origin: Origin::Restore { id, client } }])
}

pub(super) fn admit_continue(
    session: &Session,
    fresh: PromptId,
    client: Option<ClientId>,
) -> Result<Vec<Event>, Rejection> {
    if session.running().is_some() || !session.queue.is_empty() {
        return Err(Rejection::Busy);
    }
    let mut events = Vec::new();
    start(session, Origin::Continue { id: fresh, client }, &mut events);
    Ok(events)
}

/// Ends the running turn, and what it still asks: the agent waits for nothing any more.
pub(super) fn end(
    session: &Session,
    life: u64,
    prompt: PromptId,
    outcome: TurnEnd,
    context: &Context,
) -> Result<Vec<Event>, Rejection> {
    if life != session.life {
        return Err(Rejection::StaleLife);
    }
    if session.running().is_none_or(|turn| *turn.origin.prompt() != prompt) {
        return Err(Rejection::UnknownPrompt(prompt));
    }
    let mut events = asking::end(session, None, UnaskedCause::Aborted, context);
    let parks = session.open().any(|question| {
        question.body.is_question()
            && question.prompt.as_ref() == Some(&prompt)
            && !events.iter().any(|event| {
                matches!(event, Event::Closed { generation, .. } if *generation == question.generation)
            })
    });
    let outcome = match outcome {
        TurnEnd::Completed { stop_reason, .. } => TurnEnd::Completed { stop_reason, parked: parks },
        other => other,
    };
    events.push(Event::TurnEnded { prompt, outcome });
    Ok(events)
}

fn title_of(prompt: &Prompt) -> Option<String> {
    let text = prompt.blocks.iter().find_map(|block| block.get("text")?.as_str())?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let mut title: String = line.chars().filter(|c| !c.is_control()).take(TITLE_CHARS).collect();
    if line.chars().count() > TITLE_CHARS {
        title.push('…');
    }
    Some(title)
}
