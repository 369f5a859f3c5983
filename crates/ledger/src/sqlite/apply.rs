//! One append inside a transaction: the statements that write.

use std::collections::HashMap;

use holdpoint_model::ids::SessionId;
use rusqlite::{Connection, OptionalExtension, params};

use crate::encode::{Encoded, EncodedQuestion};

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
    run: u64,
) -> Result<Applied, ApplyError> {
    let place = match places.get(&append.session) {
        Some(place) => *place,
        None => {
            let place = stored_place(connection, &append.session)?;
            places.insert(append.session.clone(), place);
            place
        }
    };
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
        write_question(connection, session, question, run)?;
    }
    // Only now: a refusal half-way leaves the place as it was.
    places.insert(append.session.clone(), Place { row: Some(session), version, ..place });
    Ok(Applied::Written)
}

fn write_session(
    connection: &Connection,
    append: &Encoded,
    stored: Option<i64>,
    version: u64,
) -> rusqlite::Result<i64> {
    let row = &append.row;
    match stored {
        Some(session) => {
            connection
                .prepare_cached(
                    "UPDATE sessions SET version = ?2, workspace_cwd = ?3, agent = ?4, title = ?5, created_at = ?6, \
                     updated_at = ?7, source_type = ?8, source_id = ?9, deleted = ?10 WHERE ref = ?1",
                )?
                .execute(params![
                    session,
                    version,
                    row.workspace_cwd,
                    row.agent,
                    row.title,
                    row.created_at.0,
                    row.updated_at.0,
                    row.source_type,
                    row.source_id,
                    row.deleted,
                ])?;
            Ok(session)
        }
        None => connection
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
            ),
    }
}

fn write_question(
    connection: &Connection,
    session: i64,
    row: &EncodedQuestion,
    run: u64,
) -> Result<(), ApplyError> {
    let question = row.question.as_ref();
    let stored: Option<(i64, i64)> = connection
        .prepare_cached("SELECT ref, session FROM questions WHERE id = ?1")?
        .query_row([question.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let stored = match stored {
        Some((_, of)) if of != session => {
            return Err(ApplyError::Refused(format!("the question {} is of another session", question.id)));
        }
        Some((stored, _)) => {
            // What it asks, and when, is as it was: a question is never edited.
            connection
                .prepare_cached("UPDATE questions SET state = ?2, run = ?3, head = ?4 WHERE ref = ?1")?
                .execute(params![stored, row.state(), run, row.head])?;
            stored
        }
        None => insert_question(connection, session, row, run)?,
    };
    // A request id that was ever another question's stays its (R17: an alias never reaches another question).
    let mut statement = connection
        .prepare_cached("INSERT INTO requests (id, question) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING")?;
    for request in &question.requests {
        statement.execute(params![request.as_str(), stored])?;
    }
    Ok(())
}

fn insert_question(
    connection: &Connection,
    session: i64,
    row: &EncodedQuestion,
    run: u64,
) -> Result<i64, ApplyError> {
    let question = row.question.as_ref();
    let body =
        row.body().map_err(|error| ApplyError::Refused(format!("question {}: {error}", question.id)))?;
    let stored: i64 = connection
        .prepare_cached(
            "INSERT INTO questions (id, session, asked_at, state, permission, run, head) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING ref",
        )?
        .query_row(
            params![
                question.id.as_str(),
                session,
                question.asked_at.0,
                row.state(),
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
