//! The queries.

use holdpoint_model::ids::{Micros, QuestionId, RequestId, SessionId};
use rusqlite::types::{FromSql, ToSql};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};

use super::lists;
use crate::contract::{
    Counts, QuestionFilter, QuestionRow, ReadError, SessionFilter, SessionRow, StoredEvent,
};
use crate::encode;

/// A failure inside a query: the store's, or what a row holds.
#[derive(Debug)]
pub(super) enum QueryError {
    Store(rusqlite::Error),
    Damaged(String),
}

impl From<rusqlite::Error> for QueryError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error)
    }
}

impl From<QueryError> for ReadError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Damaged(what) => Self::Damaged(what),
            QueryError::Store(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                    Self::Damaged(error.to_string())
                }
                _ => Self::Unavailable(error.to_string()),
            },
        }
    }
}

type Result<T> = std::result::Result<T, QueryError>;

/// A column's value; one of another type is damage, and says in which row.
fn get<T: FromSql>(row: &Row<'_>, column: &str, name: &dyn Fn() -> String) -> Result<T> {
    row.get(column).map_err(|error| match error {
        rusqlite::Error::SqliteFailure(..) => QueryError::Store(error),
        other => QueryError::Damaged(format!("{}, column {column}: {other}", name())),
    })
}

fn damaged<'a, E: std::fmt::Display>(
    name: &'a dyn Fn() -> String,
    column: &'a str,
) -> impl FnOnce(E) -> QueryError + 'a {
    move |error| QueryError::Damaged(format!("{}, column {column}: {error}", name()))
}

const SESSION_COLUMNS: &str = "s.ref AS session_ref, s.id AS session_id, s.workspace_cwd, s.agent, s.title, \
     s.created_at, s.updated_at, s.source_type, s.source_id, s.deleted";

fn session_row(row: &Row<'_>) -> Result<SessionRow> {
    let number: i64 = get(row, "session_ref", &|| "a row of sessions".to_owned())?;
    let name = || format!("sessions row {number}");
    let id: String = get(row, "session_id", &name)?;
    Ok(SessionRow {
        session: SessionId::new(id).map_err(damaged(&name, "id"))?,
        workspace_cwd: get(row, "workspace_cwd", &name)?,
        agent: get(row, "agent", &name)?,
        title: get(row, "title", &name)?,
        created_at: Micros(get(row, "created_at", &name)?),
        updated_at: Micros(get(row, "updated_at", &name)?),
        source_type: get(row, "source_type", &name)?,
        source_id: get(row, "source_id", &name)?,
        deleted: get(row, "deleted", &name)?,
    })
}

/// All events of a session. One that is missing, at the end too, is damage: a session folded from the rest
/// would ask again for what was answered (I4).
pub(super) fn events(connection: &Connection, session: &SessionId) -> Result<Vec<StoredEvent>> {
    // One transaction, so that the number of events and the events are of the same moment.
    let transaction = connection.unchecked_transaction()?;
    let found: Option<(i64, u64)> = transaction
        .prepare_cached("SELECT ref, version FROM sessions WHERE id = ?1")?
        .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((session_ref, version)) = found else { return Ok(Vec::new()) };
    let mut statement = transaction
        .prepare_cached("SELECT ref, version, at, event FROM events WHERE session = ?1 ORDER BY version")?;
    let mut rows = statement.query([session_ref])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let number: i64 = row.get("ref")?;
        let name = || format!("events row {number} (session {session}, version {})", events.len());
        let found: u64 = get(row, "version", &name)?;
        if found != events.len() as u64 {
            let missing = events.len();
            return Err(QueryError::Damaged(format!(
                "session {session}: event {missing} of {version} is missing"
            )));
        }
        let text: String = get(row, "event", &name)?;
        let event = StoredEvent {
            version: found,
            at: Micros(get(row, "at", &name)?),
            event: serde_json::from_str(&text).map_err(damaged(&name, "event"))?,
        };
        events.push(event);
    }
    if events.len() as u64 != version {
        let there = events.len();
        return Err(QueryError::Damaged(format!("session {session}: {there} events are there of {version}")));
    }
    Ok(events)
}

const QUESTION_COLUMNS: &str = "q.ref, q.id, q.asked_at, q.run, q.head, b.body";
/// The body by an outer join: a question whose body is missing is damage, and must not look like no question.
const QUESTION_JOINS: &str = "JOIN sessions s ON s.ref = q.session LEFT JOIN bodies b ON b.question = q.ref";

fn question_row(row: &Row<'_>) -> Result<QuestionRow> {
    let number: i64 = get(row, "ref", &|| "a row of questions".to_owned())?;
    let name = || format!("questions row {number}");
    let id: String = get(row, "id", &name)?;
    let id = QuestionId::new(id).map_err(damaged(&name, "id"))?;
    let name = || format!("questions row {number} ({id})");
    let head: String = get(row, "head", &name)?;
    let body: Option<String> = get(row, "body", &name)?;
    let body = body.ok_or_else(|| QueryError::Damaged(format!("{}: what it asks is missing", name())))?;
    let asked_at = Micros(get(row, "asked_at", &name)?);
    let question = encode::decode_question(id.clone(), asked_at, &head, &body)
        .map_err(damaged(&name, "head or body"))?;
    Ok(QuestionRow { question, session: session_row(row)?, run: get(row, "run", &name)? })
}

fn one_question(connection: &Connection, condition: &str, id: &str) -> Result<Option<QuestionRow>> {
    let sql = format!(
        "SELECT {QUESTION_COLUMNS}, {SESSION_COLUMNS} FROM questions q {QUESTION_JOINS} WHERE {condition}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([id])?;
    rows.next()?.map(question_row).transpose()
}

pub(super) fn question(connection: &Connection, id: &QuestionId) -> Result<Option<QuestionRow>> {
    one_question(connection, "q.id = ?1", id.as_str())
}

pub(super) fn question_by_request(connection: &Connection, id: &RequestId) -> Result<Option<QuestionRow>> {
    let condition = "q.ref = (SELECT question FROM requests WHERE id = ?1)";
    one_question(connection, condition, id.as_str())
}

/// The query of a list; `None` where it is empty by its filter.
pub(super) fn list_sql(filter: &QuestionFilter) -> Option<String> {
    lists::sql(filter, &format!("{QUESTION_COLUMNS}, {SESSION_COLUMNS}"), QUESTION_JOINS)
}

pub(super) fn questions(
    connection: &Connection,
    filter: &QuestionFilter,
    run: u64,
) -> Result<Vec<QuestionRow>> {
    let Some(sql) = list_sql(filter) else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(&sql)?;
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let mut values: Vec<(&str, &dyn ToSql)> = vec![(":limit", &limit)];
    if sql.contains(":run") {
        values.push((":run", &run));
    }
    let session = filter.session.as_ref().map(SessionId::as_str);
    if let Some(session) = &session {
        values.push((":session", session));
    }
    if let Some(workspace) = &filter.workspace_cwd {
        values.push((":workspace", workspace));
    }
    if let Some(ending) = &filter.ending {
        values.push((":ending", ending));
    }
    let after = filter.after.as_ref().map(|after| (after.asked_at.0, after.id.as_str()));
    if let Some((asked_at, id)) = &after {
        values.push((":asked_at", asked_at));
        values.push((":id", id));
    }
    let mut rows = statement.query(values.as_slice())?;
    let mut list = Vec::new();
    while let Some(row) = rows.next()? {
        list.push(question_row(row)?);
    }
    Ok(list)
}

pub(super) fn session(connection: &Connection, id: &SessionId) -> Result<Option<SessionRow>> {
    let sql = format!("SELECT {SESSION_COLUMNS} FROM sessions s WHERE s.id = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([id.as_str()])?;
    rows.next()?.map(session_row).transpose()
}

pub(super) fn sessions(connection: &Connection, filter: &SessionFilter) -> Result<Vec<SessionRow>> {
    let mut sql = format!("SELECT {SESSION_COLUMNS} FROM sessions s WHERE s.deleted = 0");
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let mut values: Vec<(&str, &dyn ToSql)> = vec![(":limit", &limit)];
    if let Some(workspace) = &filter.workspace_cwd {
        sql.push_str(" AND s.workspace_cwd = :workspace");
        values.push((":workspace", workspace));
    }
    let before = filter.before.as_ref().map(|(at, id)| (at.0, id.as_str()));
    if let Some((at, id)) = &before {
        sql.push_str(" AND (s.updated_at, s.id) < (:at, :id)");
        values.push((":at", at));
        values.push((":id", id));
    }
    sql.push_str(" ORDER BY s.updated_at DESC, s.id DESC LIMIT :limit");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(values.as_slice())?;
    let mut list = Vec::new();
    while let Some(row) = rows.next()? {
        list.push(session_row(row)?);
    }
    Ok(list)
}

pub(super) fn counts(connection: &Connection, run: u64) -> Result<Counts> {
    Ok(connection.prepare_cached(lists::COUNTS)?.query_row(params![run], |row| {
        Ok(Counts { open: row.get(0)?, oldest: row.get::<_, Option<i64>>(1)?.map(Micros) })
    })?)
}
