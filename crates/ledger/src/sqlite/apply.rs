//! One append inside a transaction: the statements that write.

use std::collections::HashMap;

use holdpoint_model::ids::{QuestionId, SessionId};
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use crate::contract::SessionRow;
use crate::encode::{Encoded, EncodedQuestion, OPEN, SETTLED};

/// What became of one append.
#[derive(Debug, PartialEq)]
pub(super) enum Applied {
    /// It is in the transaction.
    Written,
    /// The session has another number of events; nothing of it was written.
    Conflict { actual: u64 },
}

/// Why an append could not be written.
#[derive(Debug)]
pub(super) enum ApplyError {
    /// It contradicts what is stored; others can go on without it.
    Refused(String),
    /// The store failed.
    Store(rusqlite::Error),
}

impl From<rusqlite::Error> for ApplyError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{ConstraintViolation, TooBig, TypeMismatch};
        match error.sqlite_error_code() {
            Some(ConstraintViolation | TooBig | TypeMismatch) => Self::Refused(error.to_string()),
            _ => Self::Store(error),
        }
    }
}

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    /// Its row, in the transaction so far.
    row: Option<i64>,
    /// How many events it has, in the transaction so far.
    version: u64,
    /// How many it had before the transaction.
    pub(super) stored: u64,
}

/// The places of the sessions that a batch has touched.
pub(super) type Places = HashMap<SessionId, Place>;

/// Where a question's row is.
#[derive(Clone, Copy, Debug)]
struct QuestionPlace {
    row: i64,
    session: i64,
    list: i64,
    run: u64,
    /// How many of its request ids are stored.
    requests: usize,
}

/// Rows that are remembered of each kind: those of a few thousand sessions that are busy at a time.
const REMEMBERED: usize = 4096;

/// Where rows are that the writer has touched lately. Nobody else writes them, so it need not look them up again;
/// what does not hold any more shows in the write itself.
#[derive(Debug, Default)]
pub(super) struct Memory {
    sessions: Places,
    questions: HashMap<QuestionId, QuestionPlace>,
}

impl Memory {
    /// After a commit: the sessions of the batch are stored as they are in it.
    pub(super) fn committed(&mut self, batch: Places) {
        if self.sessions.len() + batch.len() > REMEMBERED {
            self.sessions.clear();
        }
        let stored = |place: Place| Place { stored: place.version, ..place };
        self.sessions.extend(batch.into_iter().map(|(session, place)| (session, stored(place))));
        if self.questions.len() > REMEMBERED {
            self.questions.clear();
        }
    }

    /// After anything else: what was written since is not stored.
    pub(super) fn forget(&mut self) {
        self.sessions.clear();
        self.questions.clear();
    }
}

/// The place of a session as it is stored.
pub(super) fn stored_place(connection: &Connection, session: &SessionId) -> rusqlite::Result<Place> {
    let found = connection
        .prepare_cached("SELECT ref, version FROM sessions WHERE id = ?1")?
        .query_row([session.as_str()], |row| {
            let version = row.get(1)?;
            Ok(Place { row: Some(row.get(0)?), version, stored: version })
        })
        .optional()?;
    Ok(found.unwrap_or(Place { row: None, version: 0, stored: 0 }))
}

/// Writes one append.
pub(super) fn apply(
    connection: &Connection,
    append: &Encoded,
    places: &mut Places,
    memory: &mut Memory,
    run: u64,
) -> Result<Applied, ApplyError> {
    // Nobody is refused for what is only remembered.
    let remembered = || memory.sessions.get(&append.session).filter(|place| place.version == append.expected);
    let known = places.get(&append.session).or_else(remembered).copied();
    let place = match known {
        Some(place) => place,
        None => stored_place(connection, &append.session)?,
    };
    places.insert(append.session.clone(), place);
    if place.version != append.expected {
        return Ok(Applied::Conflict { actual: place.version });
    }
    let version = place.version + append.events.len() as u64;
    let session = write_session(connection, append, place.row, version)?;
    let mut statement = connection
        .prepare_cached("INSERT INTO events (session, version, at, event) VALUES (?1, ?2, ?3, ?4)")?;
    for (number, event) in (place.version..).zip(&append.events) {
        statement.execute(params![session, number, append.at.0, event])?;
    }
    for question in &append.questions {
        write_question(connection, session, &append.row, question, memory, run)?;
    }
    if append.row.deleted {
        forgive(connection, session, memory)?;
    }
    // Only now: a refusal half-way leaves the place as it was.
    places.insert(append.session.clone(), Place { row: Some(session), version, ..place });
    Ok(Applied::Written)
}

/// Changes the one row that a statement is about. One that is not there was taken away under the daemon: what was
/// remembered is not true any more.
fn update(connection: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<(), ApplyError> {
    match connection.prepare_cached(sql)?.execute(values)? {
        1 => Ok(()),
        _ => Err(ApplyError::Refused("a row of the ledger was changed by another program".to_owned())),
    }
}

fn write_session(
    connection: &Connection,
    append: &Encoded,
    stored: Option<i64>,
    version: u64,
) -> Result<i64, ApplyError> {
    let row = &append.row;
    match stored {
        Some(session) => {
            update(
                connection,
                "UPDATE sessions SET version = ?3, workspace_cwd = ?4, agent = ?5, title = ?6, created_at = ?7, \
                 updated_at = ?8, source_type = ?9, source_id = ?10, deleted = ?11 \
                 WHERE ref = ?1 AND version = ?2",
                params![
                    session,
                    append.expected,
                    version,
                    row.workspace_cwd,
                    row.agent,
                    row.title,
                    row.created_at.0,
                    row.updated_at.0,
                    row.source_type,
                    row.source_id,
                    row.deleted,
                ],
            )?;
            Ok(session)
        }
        None => Ok(connection
            .prepare_cached(
                "INSERT INTO sessions (id, version, workspace_cwd, agent, title, created_at, updated_at, source_type, \
                 source_id, deleted) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) RETURNING ref",
            )?
            .query_row(
                params![
                    row.session.as_str(),
                    version,
                    row.workspace_cwd,
                    row.agent,
                    row.title,
                    row.created_at.0,
                    row.updated_at.0,
                    row.source_type,
                    row.source_id,
                    row.deleted,
                ],
                |row| row.get(0),
            )?),
    }
}

fn write_question(
    connection: &Connection,
    session: i64,
    of: &SessionRow,
    row: &EncodedQuestion,
    memory: &mut Memory,
    run: u64,
) -> Result<(), ApplyError> {
    let question = row.question.as_ref();
    let list = row.list();
    let known = match memory.questions.get(&question.id) {
        Some(place) => Some(*place),
        None => stored_question(connection, &question.id)?,
    };
    let place = match known {
        Some(place) if place.session != session => {
            return Err(ApplyError::Refused(format!("the question {} is of another session", question.id)));
        }
        // What it asks, and when, is as it was: a question is never edited. SQLite writes an index anew for every
        // column of it that is named here, changed or not.
        Some(place) if (place.list, place.run) == (list, run) => {
            let sql = "UPDATE questions SET state = ?2, head = ?3 WHERE ref = ?1";
            update(connection, sql, params![place.row, row.state(), row.head])?;
            place
        }
        Some(place) => {
            let sql = "UPDATE questions SET state = ?2, head = ?3, list = ?4, run = ?5 WHERE ref = ?1";
            update(connection, sql, params![place.row, row.state(), row.head, list, run])?;
            place
        }
        None => {
            let row = insert_question(connection, session, of, row, run)?;
            QuestionPlace { row, session, list, run, requests: 0 }
        }
    };
    // A request id that was ever another question's stays its (R17: an alias never reaches another question).
    let mut statement = connection
        .prepare_cached("INSERT INTO requests (id, question) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING")?;
    for request in question.requests.iter().skip(place.requests) {
        statement.execute(params![request.as_str(), place.row])?;
    }
    let requests = question.requests.len();
    memory.questions.insert(question.id.clone(), QuestionPlace { list, run, requests, ..place });
    Ok(())
}

/// Nobody will ever take the answers that a deleted session's agent does not have: they are owed no more (D6).
fn forgive(connection: &Connection, session: i64, memory: &mut Memory) -> Result<(), ApplyError> {
    connection
        .prepare_cached("UPDATE questions SET list = ?2 WHERE session = ?1 AND list = ?3 AND state = ?2")?
        .execute(params![session, SETTLED, OPEN])?;
    memory.questions.retain(|_, place| place.session != session);
    Ok(())
}

fn stored_question(connection: &Connection, id: &QuestionId) -> rusqlite::Result<Option<QuestionPlace>> {
    connection
        .prepare_cached("SELECT ref, session, list, run FROM questions WHERE id = ?1")?
        .query_row([id.as_str()], |row| {
            Ok(QuestionPlace {
                row: row.get(0)?,
                session: row.get(1)?,
                list: row.get(2)?,
                run: row.get(3)?,
                requests: 0,
            })
        })
        .optional()
}

/// The row of a workspace, which is made with its first question.
fn workspace(connection: &Connection, path: &str) -> rusqlite::Result<i64> {
    let stored = connection
        .prepare_cached("SELECT ref FROM workspaces WHERE path = ?1")?
        .query_row([path], |row| row.get(0))
        .optional()?;
    match stored {
        Some(row) => Ok(row),
        None => connection
            .prepare_cached("INSERT INTO workspaces (path) VALUES (?1) RETURNING ref")?
            .query_row([path], |row| row.get(0)),
    }
}

fn insert_question(
    connection: &Connection,
    session: i64,
    of: &SessionRow,
    row: &EncodedQuestion,
    run: u64,
) -> Result<i64, ApplyError> {
    let question = row.question.as_ref();
    let body =
        row.body().map_err(|error| ApplyError::Refused(format!("question {}: {error}", question.id)))?;
    let stored: i64 = connection
        .prepare_cached(
            "INSERT INTO questions (id, session, workspace, asked_at, state, list, permission, run, head) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING ref",
        )?
        .query_row(
            params![
                question.id.as_str(),
                session,
                workspace(connection, &of.workspace_cwd)?,
                question.asked_at.0,
                row.state(),
                row.list(),
                !question.body.is_question(),
                run,
                row.head,
            ],
            |row| row.get(0),
        )?;
    connection
        .prepare_cached("INSERT INTO bodies (question, body) VALUES (?1, ?2)")?
        .execute(params![stored, body])?;
    Ok(stored)
}
