//! Opening, taking up, reconciling and deleting a session.

use crate::ids::ClientId;
use crate::session::command::{Context, Tail};
use crate::session::event::Event;
use crate::session::rejection::Rejection;
use crate::session::state::{CloseCause, Info, Origin, Session, State, TurnEnd};

pub(super) fn open(session: &Session, info: Info) -> Result<Vec<Event>, Rejection> {
    if session.info.is_some() { Err(Rejection::AlreadyOpen) } else { Ok(vec![Event::Opened { info }]) }
}

/// A new fencing token. Consent is never carried over (V6); questions are, and are simply not asked yet.
pub(super) fn start_life(session: &Session) -> Vec<Event> {
    let mut events = close_permissions(session);
    events.push(Event::LifeStarted { life: session.life + 1, recovered: false });
    events
}

/// What another process of the daemon asked or ran is over, and who was attached to that one is not attached
/// now (V2). A session that it had put away is left as it is.
pub(super) fn recover(session: &Session) -> Vec<Event> {
    let mut events = close_permissions(session);
    let was_live = session.running().is_some() || session.asked_now().next().is_some();
    if was_live || !session.present.is_empty() {
        events.push(Event::LifeStarted { life: session.life + 1, recovered: true });
    }
    events
}

fn close_permissions(session: &Session) -> Vec<Event> {
    session
        .open()
        .filter(|question| !question.body.is_question())
        .map(|question| Event::Closed {
            generation: question.generation,
            cause: CloseCause::ProcessRestarted,
        })
        .collect()
}

pub(super) fn attach(session: &Session, presented: Option<ClientId>, minted: ClientId) -> Vec<Event> {
    match presented {
        Some(client) if session.present.contains(&client) => Vec::new(),
        Some(client) if session.clients.contains(&client) => vec![Event::ClientRegistered { client }],
        _ => vec![Event::ClientRegistered { client: minted }],
    }
}

pub(super) fn delete(session: &Session) -> Vec<Event> {
    let mut events: Vec<_> = session
        .open()
        .map(|question| Event::Closed { generation: question.generation, cause: CloseCause::SessionDeleted })
        .collect();
    events.push(Event::Deleted);
    events
}

/// Brings the ledger and the history together after a crash. The history is the agent's word on what was
/// written; the ledger is ours on what was decided.
pub(super) fn reconcile(session: &Session, tail: &Tail, context: &Context) -> Vec<Event> {
    if session.running().is_some() {
        // The history has moved on since, and a question that it does not hold may be asked now.
        return Vec::new();
    }
    // An agent that does not name its turns tells us nothing about calls of earlier ones.
    let dangles = |question: &crate::session::Question| {
        question.call.turn.is_none()
            || (question.call.turn == tail.turn && tail.open.contains(&question.call.call))
    };
    let mut events = Vec::new();
    for question in session.undelivered().filter(|question| !dangles(question)) {
        events.push(Event::Delivered { generation: question.generation });
    }
    let mut waits = false;
    for question in session.open().filter(|question| question.body.is_question()) {
        if dangles(question) {
            waits |= !tail.given_up;
        } else {
            events.push(Event::Closed { generation: question.generation, cause: CloseCause::OrphanRepair });
            events.push(Event::Delivered { generation: question.generation });
        }
    }
    // What was decided since is on its way to the agent, and then the turn goes on by itself (R20): under the prompt
    // id that its client waits for (R15).
    waits |=
        session.undelivered().filter(|question| dangles(question)).any(|question| match &question.state {
            State::Settled(_) => question.body.is_question(),
            State::Open | State::Closed { .. } => false,
        });
    if let Some(turn) = session.interrupted() {
        let id = turn.origin.prompt();
        let begun = tail.last_prompt.as_ref() == Some(id);
        match &turn.origin {
            Origin::Client { .. } if !begun => events.push(Event::TurnRequeued { prompt: id.clone() }),
            // With the flag off nobody goes on with it (S3).
            _ if (waits && context.restore) || tail.restoring => {}
            _ => events.push(Event::TurnEnded { prompt: id.clone(), outcome: TurnEnd::Interrupted }),
        }
    }
    events
}
