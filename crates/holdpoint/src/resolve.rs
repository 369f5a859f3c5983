//! From what a person calls a question or a session to the thing itself.
//!
//! An answer belongs to the question that the person saw. Questions of the same minute *begin* alike, since
//! their ids are in the order of time: a beginning that meant one question means the next one as soon as the
//! first has ended. So a question is named by its whole id or by the *end* of it, which is random, and those
//! that have ended count as well as those that are open.

use holdpoint_client::{Daemon, Filter, QuestionView, Refusal};
use holdpoint_model::ids::{QuestionId, SessionId};

use crate::cli::whole_session_id;
use crate::exit::{Exit, Failure};
use crate::render::one_line;

/// Fewest characters of a short id, as it is shown and as it is taken. In hexadecimal digits: one in four
/// thousand million.
pub(crate) const SHORTEST: usize = 8;
/// Pages of sessions that are searched for a beginning: 1000 sessions.
const SESSION_PAGES: usize = 10;

/// What a person may call a question.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    Whole(QuestionId),
    Ending(String),
}

impl Name {
    fn read(text: &str) -> Result<Self, Failure> {
        let text = text.trim();
        let none = || {
            Failure::usage(format!("{:?} is no question id", one_line(text, 80)))
                .hint("`holdpoint inbox` lists the questions that wait")
        };
        let dots = |text: &str| text.strip_prefix('…').or(text.strip_prefix("...")).map(str::to_owned);
        let ending = match text.strip_prefix("q_") {
            Some(rest) => match dots(rest) {
                Some(ending) => ending,
                None if text.ends_with('…') || text.ends_with("...") => return Err(beginning(text)),
                None => return QuestionId::new(text).map(Self::Whole).map_err(|_| none()),
            },
            None => dots(text).unwrap_or_else(|| text.to_owned()),
        };
        if ending.ends_with('…') || ending.ends_with("...") {
            return Err(beginning(text));
        }
        if QuestionId::new(format!("q_{ending}")).is_err() {
            return Err(none());
        }
        if ending.len() < SHORTEST {
            return Err(Failure::usage(format!("{ending:?} is too short to name a question"))
                .hint(format!("give the whole id, or at least its last {SHORTEST} characters")));
        }
        Ok(Self::Ending(ending))
    }
}

/// Why a beginning names nothing.
fn beginning(text: &str) -> Failure {
    Failure::usage(format!("{} is the beginning of an id, and names no question", one_line(text, 80)))
        .hint(WHOLE_OR_END)
}

const WHOLE_OR_END: &str = "give the whole id, or the end of it as `holdpoint inbox` shows it: the beginning may \
     soon be that of another question";

/// A question by its whole id, or by the unique end of one, be it open or not.
pub(crate) async fn question(daemon: &Daemon, text: &str) -> Result<QuestionView, Failure> {
    let ending = match Name::read(text)? {
        Name::Whole(id) => {
            return match daemon.question(&id).await {
                Err(error) if error.refusal() == Some(&Refusal::NotFound) => Err(unknown(id.as_str())),
                other => Ok(other?),
            };
        }
        Name::Ending(ending) => ending,
    };
    let mut found = ending_so(daemon, &ending).await?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(unknown(&ending)),
        count => {
            let ids = found.iter().map(|view| view.question_id.as_str());
            Err(ambiguous(format!("{ending} is the end of {count} ids"), "give the whole id", count, ids))
        }
    }
}

fn unknown(name: &str) -> Failure {
    Failure::new(Exit::Error, "question_not_found", format!("there is no question {name}"))
        .hint("`holdpoint inbox` lists the questions that wait")
        .hint(WHOLE_OR_END)
}

/// Questions whose id ends so, of all that were ever asked. There is more than one only by a rare chance.
async fn ending_so(daemon: &Daemon, ending: &str) -> Result<Vec<QuestionView>, Failure> {
    let filter = Filter { ending: Some(ending.to_owned()), ..Filter::all() };
    let mut found = daemon.questions(&filter).await?.questions;
    // Whatever the daemon made of the filter: an answer goes to the question that was named, or to none.
    found.retain(|view| view.question_id.as_str().ends_with(ending));
    Ok(found)
}

/// A session by its id, or by the unique beginning of one: ids of sessions are random from the start.
pub(crate) async fn session(daemon: &Daemon, text: &str) -> Result<SessionId, Failure> {
    let text = text.trim().trim_end_matches('…').trim_end_matches("...");
    if let Some(id) = whole_session_id(text) {
        return Ok(id);
    }
    let Ok(exact) = SessionId::new(text) else {
        return Err(Failure::usage(format!("{:?} is no session id", one_line(text, 80)))
            .hint("`holdpoint sessions` lists them"));
    };
    let mut ids: Vec<SessionId> = Vec::new();
    if let Some(cwd) = daemon.capabilities().await?.workspace_cwd {
        let mut cursor = None;
        for _ in 0..SESSION_PAGES {
            let page = daemon.sessions(&cwd, 100, cursor.as_deref()).await?;
            ids.extend(page.sessions.into_iter().map(|row| row.session_id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    ids.extend(daemon.all_questions(&Filter::open()).await?.into_iter().map(|view| view.session_id));
    ids.sort();
    ids.dedup();
    if ids.contains(&exact) {
        return Ok(exact);
    }
    if text.len() < SHORTEST {
        // With so few a session that is new could be taken for the one that was meant.
        return Err(Failure::usage(format!("{text:?} is too short to name a session"))
            .hint(format!("give the whole id, or at least its first {SHORTEST} characters")));
    }
    ids.retain(|id| id.as_str().starts_with(text));
    match ids.len() {
        1 => Ok(ids.remove(0)),
        // Not in the list is not the same as not there: the daemon has the last word.
        0 => Ok(exact),
        count => {
            let what = format!("{text} is the beginning of {count} ids");
            Err(ambiguous(what, "give more of it", count, ids.iter().map(SessionId::as_str)))
        }
    }
}

fn ambiguous<'a>(what: String, hint: &str, count: usize, ids: impl Iterator<Item = &'a str>) -> Failure {
    let some: Vec<&str> = ids.take(5).collect();
    let more = if count > some.len() { ", …" } else { "" };
    Failure::new(Exit::Usage, "ambiguous_id", what).hint(format!("{hint}: {}{more}", some.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_named_by_its_whole_id_or_the_end_of_it() {
        let ending = |text: &str| Ok(Name::Ending(text.to_owned()));
        let read = |text: &str| Name::read(text).map_err(|failure| failure.exit);
        for text in ["0f3a2b1c", " 0f3a2b1c ", "…0f3a2b1c", "...0f3a2b1c", "q_…0f3a2b1c", "q_...0f3a2b1c"]
        {
            assert_eq!(read(text), ending("0f3a2b1c"), "{text}");
        }
        assert_eq!(read("q_01a22e6c"), Ok(Name::Whole(QuestionId::new("q_01a22e6c").unwrap())));
        for text in ["01a22e6c…", "q_01a22e6c…", "q_01a22e6c...", "…01a22e6c…"] {
            assert_eq!(read(text), Err(Exit::Usage), "{text}");
            assert!(Name::read(text).unwrap_err().message.contains("beginning"), "{text}");
        }
        for text in ["", "q_", "…", "q_…", "1", "0f3a2b1", "…0f3a2b1", "0f3a-b1c2", "q_!", "../questions"]
        {
            assert_eq!(read(text), Err(Exit::Usage), "{text}");
        }
    }
}
