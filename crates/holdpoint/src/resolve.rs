//! From what a person calls a question or a session to the thing itself.

use holdpoint_client::{Daemon, Filter, QuestionView, Refusal, State};
use holdpoint_model::ids::{QuestionId, SessionId};

use crate::cli::whole_session_id;
use crate::exit::{Exit, Failure};
use crate::render::one_line;

/// Pages of sessions that are searched for a beginning: 1000 sessions.
const SESSION_PAGES: usize = 10;

/// A question by its id, or by the unique beginning of one (with or without `q_`). Open ones are looked at
/// first; among those that ended, an answer finds out how.
pub(crate) async fn question(daemon: &Daemon, text: &str) -> Result<QuestionView, Failure> {
    let text = text.trim().trim_end_matches('…');
    let beginning = if text.starts_with("q_") { text.to_owned() } else { format!("q_{text}") };
    let Ok(id) = QuestionId::new(beginning.clone()) else {
        return Err(Failure::usage(format!("{:?} is no question id", one_line(text, 80)))
            .hint("`holdpoint inbox` lists the questions that wait"));
    };
    match daemon.question(&id).await {
        Ok(view) => return Ok(view),
        Err(error) if error.refusal() == Some(&Refusal::NotFound) => {}
        Err(error) => return Err(error.into()),
    }
    let open = daemon.all_questions(&Filter::open()).await?;
    let mut found: Vec<QuestionView> = matching(open, &beginning);
    if found.is_empty() {
        for state in [State::Answered, State::Declined, State::Closed] {
            let filter = Filter { state: Some(state), limit: Some(100), ..Filter::default() };
            found.extend(matching(daemon.questions(&filter).await?.questions, &beginning));
        }
        // A daemon may list answered and declined ones together.
        found.sort_by(|a, b| a.question_id.cmp(&b.question_id));
        found.dedup_by(|a, b| a.question_id == b.question_id);
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            Err(Failure::new(Exit::Error, "question_not_found", format!("there is no question {beginning}"))
                .hint("`holdpoint inbox` lists the questions that wait"))
        }
        count => Err(ambiguous(&beginning, count, found.iter().map(|view| view.question_id.as_str()))),
    }
}

fn matching(questions: Vec<QuestionView>, beginning: &str) -> Vec<QuestionView> {
    questions.into_iter().filter(|view| view.question_id.as_str().starts_with(beginning)).collect()
}

/// A session by its id, or by the unique beginning of one.
pub(crate) async fn session(daemon: &Daemon, text: &str) -> Result<SessionId, Failure> {
    let text = text.trim().trim_end_matches('…');
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
    ids.retain(|id| id.as_str().starts_with(text));
    match ids.len() {
        1 => Ok(ids.remove(0)),
        // Not in the list is not the same as not there: the daemon has the last word.
        0 => Ok(exact),
        count => Err(ambiguous(text, count, ids.iter().map(SessionId::as_str))),
    }
}

fn ambiguous<'a>(beginning: &str, count: usize, ids: impl Iterator<Item = &'a str>) -> Failure {
    let some: Vec<&str> = ids.take(5).collect();
    Failure::new(Exit::Usage, "ambiguous_id", format!("{beginning} is the beginning of {count} ids"))
        .hint(format!("give more of it: {}{}", some.join(", "), if count > 5 { ", …" } else { "" }))
}
