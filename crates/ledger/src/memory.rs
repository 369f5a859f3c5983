//! A ledger in memory: no threads, no clock, no disk. Every append is committed when it is made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdpoint_model::ids::{QuestionId, RequestId, SessionId};
use holdpoint_model::session::{Question, State};

use crate::contract::{
    Append, AppendError, Counts, Ledger, QuestionCursor, QuestionFilter, QuestionRow, ReadError, Reply,
    SessionFilter, SessionRow, StateFilter, StoredEvent,
};
use crate::encode;

/// A ledger that forgets when its last handle is dropped; for tests and simulations.
///
/// Deterministic: an append is judged and stored inside the call, and every future is ready.
#[derive(Debug)]
pub struct MemoryLedger {
    store: Arc<Mutex<Store>>,
    run: u64,
    shut: Mutex<bool>,
}

#[derive(Debug, Default)]
struct Store {
    runs: u64,
    sessions: HashMap<SessionId, Session>,
    questions: HashMap<QuestionId, (Question, SessionId, u64)>,
    requests: HashMap<RequestId, QuestionId>,
    /// Why the store refuses, while it does.
    refuses: Option<String>,
}

#[derive(Debug)]
struct Session {
    row: SessionRow,
    events: Vec<StoredEvent>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it is held is a test's failed assertion; every change is complete before one can come.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryLedger {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::of(Arc::default())
    }

    /// The next run on what this one stored: what a restart finds. This handle stays usable, so a test that
    /// simulates a crash must let go of it.
    #[must_use]
    pub fn reopen(&self) -> Self {
        Self::of(Arc::clone(&self.store))
    }

    /// Makes every append fail with [`AppendError::Unavailable`] and this reason until it is called with `None`:
    /// a full disk, say.
    pub fn refuse(&self, why: Option<&str>) {
        lock(&self.store).refuses = why.map(str::to_owned);
    }

    fn of(store: Arc<Mutex<Store>>) -> Self {
        let run = {
            let mut store = lock(&store);
            store.runs += 1;
            store.runs
        };
        Self { store, run, shut: Mutex::new(false) }
    }

    fn read<T: Send + 'static>(&self, query: impl FnOnce(&Store) -> T) -> Reply<Result<T, ReadError>> {
        let answer = if *lock(&self.shut) { Err(ReadError::Shut) } else { Ok(query(&lock(&self.store))) };
        Box::pin(std::future::ready(answer))
    }
}

impl Store {
    fn append(&mut self, append: Append, run: u64) -> Result<(), AppendError> {
        if let Some(why) = &self.refuses {
            return Err(AppendError::Unavailable(why.clone()));
        }
        encode::check(&append).map_err(AppendError::Unavailable)?;
        let actual = self.sessions.get(&append.session).map_or(0, |session| session.events.len() as u64);
        if actual != append.expected {
            return Err(AppendError::Conflict { expected: append.expected, actual });
        }
        for question in &append.questions {
            if self.questions.get(&question.id).is_some_and(|(_, session, _)| *session != append.session) {
                let why = format!("the question {} is of another session", question.id);
                return Err(AppendError::Unavailable(why));
            }
        }
        let Append { session, at, events, row, questions, .. } = append;
        let stored = self
            .sessions
            .entry(session.clone())
            .or_insert_with(|| Session { row: row.clone(), events: Vec::new() });
        stored.row = row;
        for (version, event) in (actual..).zip(events) {
            stored.events.push(StoredEvent { version, at, event });
        }
        for question in questions {
            let mut question = Arc::unwrap_or_clone(question);
            for request in &question.requests {
                self.requests.entry(request.clone()).or_insert_with(|| question.id.clone());
            }
            // What it asks, and when, is as it was: a question is never edited.
            if let Some((before, ..)) = self.questions.get(&question.id) {
                question.body = before.body.clone();
                question.asked_at = before.asked_at;
            }
            self.questions.insert(question.id.clone(), (question, session.clone(), run));
        }
        Ok(())
    }

    fn row(&self, id: &QuestionId) -> Option<QuestionRow> {
        let (question, session, run) = self.questions.get(id)?;
        let session = self.sessions.get(session)?.row.clone();
        Some(QuestionRow { question: question.clone(), session, run: *run })
    }

    fn is_open(question: &Question, of: u64, run: u64) -> bool {
        question.is_open() && (question.body.is_question() || of == run)
    }

    fn list(&self, filter: &QuestionFilter, run: u64) -> Vec<QuestionRow> {
        let mut found: Vec<QuestionRow> = self
            .questions
            .iter()
            .filter(|(id, (question, session, of))| {
                let open = Self::is_open(question, *of, run);
                let settled = matches!(question.state, State::Settled(_));
                let state = match filter.state {
                    StateFilter::Open => open,
                    StateFilter::Settled => settled,
                    StateFilter::Undelivered => {
                        let deleted = self.sessions.get(session).is_some_and(|stored| stored.row.deleted);
                        settled && question.body.is_question() && !question.delivered && !deleted
                    }
                    StateFilter::Closed => !open && !settled,
                    StateFilter::Any => true,
                };
                state
                    && filter.session.as_ref().is_none_or(|wanted| wanted == session)
                    && filter.user_questions.is_none_or(|wanted| wanted == question.body.is_question())
                    && filter.ending.as_ref().is_none_or(|ending| id.as_str().ends_with(ending))
            })
            .filter_map(|(id, _)| self.row(id))
            .filter(|row| {
                filter.workspace_cwd.as_ref().is_none_or(|wanted| *wanted == row.session.workspace_cwd)
            })
            .filter(|row| {
                filter.after.as_ref().is_none_or(|QuestionCursor { asked_at, id }| {
                    (row.question.asked_at, &row.question.id) > (*asked_at, id)
                })
            })
            .collect();
        found.sort_by(|a, b| {
            (a.question.asked_at, &a.question.id).cmp(&(b.question.asked_at, &b.question.id))
        });
        found.truncate(filter.limit);
        found
    }

    fn sessions(&self, filter: &SessionFilter) -> Vec<SessionRow> {
        let place = |row: &SessionRow| (row.updated_at, row.session.clone());
        let mut found: Vec<SessionRow> = self
            .sessions
            .values()
            .map(|session| &session.row)
            .filter(|row| !row.deleted)
            .filter(|row| filter.workspace_cwd.as_ref().is_none_or(|wanted| *wanted == row.workspace_cwd))
            .filter(|row| filter.before.as_ref().is_none_or(|before| place(row) < *before))
            .cloned()
            .collect();
        found.sort_by_key(|row| std::cmp::Reverse(place(row)));
        found.truncate(filter.limit);
        found
    }

    fn counts(&self, run: u64) -> Counts {
        let open = || self.questions.values().filter(|(question, _, of)| Self::is_open(question, *of, run));
        Counts { open: open().count() as u64, oldest: open().map(|(question, ..)| question.asked_at).min() }
    }
}

impl Ledger for MemoryLedger {
    fn append(&self, append: Append) -> Reply<Result<(), AppendError>> {
        let outcome = if *lock(&self.shut) {
            Err(AppendError::Shut)
        } else {
            lock(&self.store).append(append, self.run)
        };
        Box::pin(std::future::ready(outcome))
    }

    fn events(&self, session: &SessionId) -> Reply<Result<Vec<StoredEvent>, ReadError>> {
        self.read(|store| {
            store.sessions.get(session).map(|session| session.events.clone()).unwrap_or_default()
        })
    }

    fn question(&self, id: &QuestionId) -> Reply<Result<Option<QuestionRow>, ReadError>> {
        self.read(|store| store.row(id))
    }

    fn question_by_request(&self, id: &RequestId) -> Reply<Result<Option<QuestionRow>, ReadError>> {
        self.read(|store| store.requests.get(id).and_then(|question| store.row(question)))
    }

    fn questions(&self, filter: QuestionFilter) -> Reply<Result<Vec<QuestionRow>, ReadError>> {
        self.read(|store| store.list(&filter, self.run))
    }

    fn session(&self, id: &SessionId) -> Reply<Result<Option<SessionRow>, ReadError>> {
        self.read(|store| store.sessions.get(id).map(|session| session.row.clone()))
    }

    fn sessions(&self, filter: SessionFilter) -> Reply<Result<Vec<SessionRow>, ReadError>> {
        self.read(|store| store.sessions(&filter))
    }

    fn counts(&self) -> Reply<Result<Counts, ReadError>> {
        self.read(|store| store.counts(self.run))
    }

    fn run(&self) -> u64 {
        self.run
    }

    fn shut(&self) -> Reply<()> {
        *lock(&self.shut) = true;
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Store;

    struct Kept(MemoryLedger);

    impl Store for Kept {
        fn open(&self) -> Arc<dyn Ledger> {
            Arc::new(self.0.reopen())
        }
    }

    crate::conformance_tests!(Kept(MemoryLedger::new()));
}
