//! Which questions a list holds, and from which indexes SQLite reads them.

use crate::contract::{QuestionFilter, StateFilter};

/// Rows that an index gives in the list's order.
#[derive(Clone, Copy, PartialEq)]
struct Stream {
    index: &'static str,
    condition: &'static str,
}

/// The index of what is current; of one workspace it is another.
const CURRENT: &str = "questions_current";
const CURRENT_IN: &str = "questions_current_in";

/// Questions that wait.
const OPEN: Stream = Stream { index: CURRENT, condition: "list = 0 AND permission = 0 AND state = 0" };
/// Answered questions whose agent does not have the answer yet. Few.
const OWED: Stream = Stream { index: "questions_owed", condition: "list = 0 AND state = 1" };
/// Permissions that wait.
const OPEN_PERMISSIONS: Stream =
    Stream { index: CURRENT, condition: "list = 0 AND permission = 1 AND run = :run" };
/// Permissions that an earlier run left open: they are closed (V6).
const LEFT_PERMISSIONS: Stream =
    Stream { index: CURRENT, condition: "list = 0 AND permission = 1 AND run <> :run" };
/// What was decided, and is done with. The first condition is the index's own, word for word: SQLite draws no
/// conclusions there.
const SETTLED: Stream = Stream { index: "questions_ended", condition: "list > 0 AND list = 1" };
/// What ended without a decision.
const CLOSED: Stream = Stream { index: "questions_ended", condition: "list > 0 AND list = 2" };

/// How many wait, and when the first of them was asked. All of it is in the indexes.
pub(super) const COUNTS: &str = "SELECT \
     (SELECT count(*) FROM questions WHERE list = 0 AND permission = 0) \
     - (SELECT count(*) FROM questions WHERE list = 0 AND state = 1) \
     + (SELECT count(*) FROM questions WHERE list = 0 AND permission = 1 AND run = :run), \
     (SELECT min(asked_at) FROM (\
         SELECT * FROM (SELECT asked_at FROM questions WHERE list = 0 AND permission = 0 AND state = 0 \
                        ORDER BY asked_at, id LIMIT 1) \
         UNION ALL \
         SELECT * FROM (SELECT asked_at FROM questions WHERE list = 0 AND permission = 1 AND run = :run \
                        ORDER BY asked_at, id LIMIT 1)))";

/// What a list is merged from.
fn streams(filter: &QuestionFilter) -> Vec<Stream> {
    let all: &[Stream] = match filter.state {
        StateFilter::Open => &[OPEN, OPEN_PERMISSIONS],
        StateFilter::Settled => &[OWED, SETTLED],
        StateFilter::Undelivered => &[OWED],
        StateFilter::Closed => &[LEFT_PERMISSIONS, CLOSED],
        StateFilter::Any => &[OPEN, OWED, OPEN_PERMISSIONS, LEFT_PERMISSIONS, SETTLED, CLOSED],
    };
    let of_kind = |stream: &Stream| match filter.user_questions {
        Some(true) => ![OPEN_PERMISSIONS, LEFT_PERMISSIONS].contains(stream),
        Some(false) => ![OPEN, OWED].contains(stream),
        None => true,
    };
    all.iter().copied().filter(of_kind).collect()
}

/// A query of the rows of a list, `columns` of each, in order; `joins` are the tables beside `questions q`. `None`
/// where the filter excludes everything.
pub(super) fn sql(filter: &QuestionFilter, columns: &str, joins: &str) -> Option<String> {
    let mut also = String::new();
    match filter.user_questions {
        Some(true) => also.push_str(" AND permission = 0"),
        Some(false) => also.push_str(" AND permission = 1"),
        None => {}
    }
    if filter.workspace_cwd.is_some() {
        also.push_str(" AND workspace = (SELECT ref FROM workspaces WHERE path = :workspace)");
    }
    if filter.ending.is_some() {
        // No `LIKE`: it has signs of its own, and small letters are large ones to it.
        also.push_str(" AND substr(id, length(id) - length(:ending) + 1) = :ending");
    }
    if filter.after.is_some() {
        also.push_str(" AND (asked_at, id) > (:asked_at, :id)");
    }
    let select = |index: &str, condition: &str| {
        format!("SELECT ref, asked_at, id FROM questions INDEXED BY {index} WHERE {condition}{also}")
    };
    let streams = streams(filter);
    let places = if streams.is_empty() {
        return None;
    } else if filter.session.is_some() {
        // A session has few questions: its own index is the better one, whatever their states are.
        let any = streams.iter().map(|stream| stream.condition).collect::<Vec<_>>().join(" OR ");
        let of_session = "session = (SELECT ref FROM sessions WHERE id = :session)";
        select("questions_session", &format!("{of_session} AND ({any})"))
    } else {
        let select = |stream: &Stream| {
            let in_workspace = filter.workspace_cwd.is_some() && stream.index == CURRENT;
            select(if in_workspace { CURRENT_IN } else { stream.index }, stream.condition)
        };
        // SQLite merges what is in order already, and stops at the limit.
        streams.iter().map(select).collect::<Vec<_>>().join(" UNION ALL ")
    };
    Some(format!(
        "SELECT {columns} FROM ({places} ORDER BY asked_at, id LIMIT :limit) place \
         JOIN questions q ON q.ref = place.ref {joins} ORDER BY place.asked_at, place.id"
    ))
}
