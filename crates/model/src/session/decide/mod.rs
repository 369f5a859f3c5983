//! Which events follow from a command, or why none do.

mod answering;
mod asking;
mod lifecycle;
mod turns;

pub use answering::late_answer;

use super::command::{Command, Context};
use super::event::Event;
use super::rejection::Rejection;
use super::state::Session;

/// Decides a command. A pure function: the same state, command and context give the same events.
///
/// An empty list means that what is wanted is so already.
///
/// # Errors
/// Why the command is refused; nothing changes.
pub fn decide(session: &Session, command: Command, context: &Context) -> Result<Vec<Event>, Rejection> {
    if session.deleted {
        return Err(Rejection::Deleted);
    }
    if session.info.is_none() && !matches!(command, Command::Open { .. }) {
        return Err(Rejection::NotOpen);
    }
    match command {
        Command::Open { info } => lifecycle::open(session, info),
        Command::StartLife => Ok(lifecycle::start_life(session)),
        Command::Recover => Ok(lifecycle::recover(session)),
        Command::Attach { presented, minted } => Ok(lifecycle::attach(session, presented, minted)),
        Command::Title { title } => Ok(vec![Event::Titled { title }]),
        Command::Delete => Ok(lifecycle::delete(session)),
        Command::Reconcile { tail } => Ok(lifecycle::reconcile(session, &tail, context)),
        Command::Prompt { prompt, hold } => turns::prompt(session, prompt, hold, context),
        Command::StartNext => Ok(turns::start_next(session)),
        Command::RemovePrompt { id } => turns::remove(session, id),
        Command::AdmitRestore { fresh, client } => turns::admit_restore(session, fresh, client),
        Command::AdmitContinue { fresh, client } => turns::admit_continue(session, fresh, client),
        Command::EndTurn { life, prompt, outcome } => turns::end(session, life, prompt, outcome, context),
        Command::Ask { life, question, request, call, title, body, options } => {
            let ask = asking::Ask { question, request, call, title, body, options };
            asking::ask(session, life, ask, context)
        }
        Command::NoteShown { question, generation, surface } => {
            answering::shown(session, &question, generation, surface)
        }
        Command::NoteRefusal { generation, by, reason } => {
            answering::note_refusal(session, generation, by, reason)
        }
        Command::Cancel { unreachable } => Ok(asking::cancel(session, unreachable, context)),
        Command::EndAsking { generation, cause } => Ok(asking::end(session, generation, cause, context)),
        Command::CallEnded { life, call, repaired } => asking::call_ended(session, life, &call, repaired),
        Command::Vote { request, voter, by, option, answers } => {
            let vote = answering::Vote { voter, by, option, answers };
            answering::vote(session, &request, vote, context)
        }
        Command::Answer { question, generation, voter, by, choice, response } => {
            let answer = answering::Answer { generation, voter, by, choice, response };
            answering::answer(session, &question, answer, context)
        }
    }
}
