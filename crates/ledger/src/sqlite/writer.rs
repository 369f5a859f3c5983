//! The one thread that writes: it commits everything that waits in one transaction, then answers.

use std::sync::Arc;

use camino::Utf8PathBuf;
use rusqlite::{Connection, ErrorCode};

use super::apply::{self, Applied, ApplyError, Memory, Places};
use super::open::{self, Meta, Opened};
use super::queue::{Batch, Job, Queue};
use crate::contract::AppendError;

/// The writer's side of the file.
pub(super) struct Writer {
    dir: Utf8PathBuf,
    connection: Connection,
    meta: Meta,
    run: u64,
    /// The new file has yet to be made durable.
    fresh: bool,
    /// This run's number is in the file.
    counted: bool,
    /// Where rows are; empty after everything but a commit.
    memory: Memory,
    /// Where the sessions of a batch were whose commit failed: until a new connection has shown that they still
    /// are, nothing is committed.
    doubt: Option<Places>,
    /// There are commits that no fsync has followed yet.
    unsynced: bool,
    /// The last batch was refused: said once in the log, not with every batch of a day on a full disk.
    failing: bool,
    #[cfg(test)]
    faults: Arc<super::faults::Faults>,
}

type Outcome = Result<(), AppendError>;

impl Writer {
    pub(super) fn new(
        dir: Utf8PathBuf,
        opened: Opened,
        #[cfg(test)] faults: Arc<super::faults::Faults>,
    ) -> Self {
        let Opened { connection, meta, fresh } = opened;
        let run = meta.run + 1;
        Self {
            dir,
            connection,
            meta,
            run,
            fresh,
            counted: false,
            memory: Memory::default(),
            doubt: None,
            unsynced: false,
            failing: false,
            #[cfg(test)]
            faults,
        }
    }

    /// The number of this run. It is in the file only with the first commit: an open that never writes leaves
    /// nothing behind that could carry it, so the next one may have it.
    pub(super) fn number(&self) -> u64 {
        self.run
    }

    /// Writes until the queue is shut.
    pub(super) fn work(self, queue: &Arc<Queue>) {
        // However this thread ends, nobody must wait for it for ever. Dropped last: who waits for the end finds
        // the file closed.
        let _end = End(Arc::clone(queue));
        let mut writer = self;
        if let Err(error) = writer.settle() {
            tracing::error!(%error, dir = %writer.dir, "cannot make the new ledger durable; the first commit tries again");
        }
        while let Some(Batch { jobs, durable }) = queue.take() {
            let outcomes = if durable { writer.commit(&jobs) } else { writer.commit_unsynced(&jobs) };
            for (job, outcome) in jobs.into_iter().zip(outcomes) {
                // Nobody may be waiting any more; the commit stands all the same.
                let _ = job.reply.send(outcome);
            }
            writer.tidy();
        }
    }

    fn settle(&mut self) -> rusqlite::Result<()> {
        if self.fresh {
            open::make_durable(&self.connection, &self.dir)?;
            self.fresh = false;
        }
        Ok(())
    }

    /// Commits a batch for which nobody waits, without an fsync. A crash of the process loses none of it; one of the
    /// machine loses it whole, or keeps it: the log's checksums leave nothing between, and the next commit with an
    /// fsync, of the same log, makes it durable too.
    fn commit_unsynced(&mut self, batch: &[Job]) -> Vec<Outcome> {
        let set = |writer: &Self, mode: &str| writer.connection.pragma_update(None, "synchronous", mode);
        if let Err(error) = set(self, "NORMAL") {
            tracing::warn!(%error, "a commit that could do without an fsync has one");
            return self.commit(batch);
        }
        let was_unsynced = self.unsynced;
        let outcomes = self.commit(batch);
        self.unsynced = was_unsynced || outcomes.iter().any(Result::is_ok);
        if let Err(error) = set(self, "FULL") {
            tracing::error!(%error, "the ledger's connection is replaced: it would not wait for the disk");
            self.doubt.get_or_insert_default();
        }
        outcomes
    }

    /// Commits a batch; the answers are in its order.
    fn commit(&mut self, batch: &[Job]) -> Vec<Outcome> {
        let refused =
            |why: &str| batch.iter().map(|_| Err(AppendError::Unavailable(why.to_owned()))).collect();
        if let Err(why) = self.heal() {
            return refused(&why);
        }
        let mut places = Places::new();
        let mut result = self.transaction(batch, &mut places, false);
        if let Err(ApplyError::Refused(_)) = result {
            // One of them contradicts what is stored. Rare, so only now is it paid for to undo just that one.
            self.roll_back();
            places.clear();
            self.memory.forget();
            result = self.transaction(batch, &mut places, true);
        }
        let (why, passing) = match result {
            Ok(outcomes) => {
                if std::mem::take(&mut self.failing) {
                    tracing::info!("the ledger can commit again");
                }
                self.memory.committed(places);
                self.unsynced = false;
                return outcomes;
            }
            // Not reached: with savepoints a refusal is an outcome.
            Err(ApplyError::Refused(why)) => (why, true),
            Err(ApplyError::Store(error)) => {
                let busy = matches!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
                );
                (error.to_string(), busy)
            }
        };
        self.roll_back();
        self.memory.forget();
        if !std::mem::replace(&mut self.failing, true) {
            tracing::error!(error = %why, "the ledger cannot commit; answers and prompts are refused until it can");
        }
        if !passing {
            self.doubt = Some(places);
            // At once, so that frames which may have reached the disk are overwritten before anybody is told that
            // they are not stored. If it cannot be, the next batch tries again.
            let _ = self.heal();
        }
        refused(&why)
    }

    fn transaction(
        &mut self,
        batch: &[Job],
        places: &mut Places,
        careful: bool,
    ) -> Result<Vec<Outcome>, ApplyError> {
        self.settle()?;
        self.execute("BEGIN IMMEDIATE")?;
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut written = false;
        for job in batch {
            if careful {
                self.execute("SAVEPOINT one")?;
            }
            let applied = apply::apply(&self.connection, &job.append, places, &mut self.memory, self.run);
            match applied {
                Ok(Applied::Written) => {
                    written = true;
                    outcomes.push(Ok(()));
                }
                Ok(Applied::Conflict { actual }) => {
                    outcomes.push(Err(AppendError::Conflict { expected: job.append.expected, actual }));
                }
                Err(ApplyError::Refused(why)) if careful => {
                    self.execute("ROLLBACK TO one")?;
                    self.memory.forget();
                    outcomes.push(Err(AppendError::Unavailable(why)));
                }
                Err(error) => return Err(error),
            }
            if careful {
                self.execute("RELEASE one")?;
            }
        }
        if !written {
            self.execute("ROLLBACK")?;
            return Ok(outcomes);
        }
        if !self.counted {
            self.connection.prepare_cached("UPDATE meta SET run = ?1 WHERE ref = 1")?.execute([self.run])?;
        }
        #[cfg(test)]
        self.faults.before_commit()?;
        self.execute("COMMIT")?;
        self.counted = true;
        Ok(outcomes)
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::warn!(%error, "cannot roll back; the connection is replaced");
        }
    }

    /// After a failed commit: takes a new connection, makes sure that the file is still ours, and commits
    /// something small. Frames of the failed batch may be in the log behind the last commit (an fsync that fails
    /// does not say what reached the disk); the small commit overwrites the first of them and so ends the chain
    /// of checksums that would make them count after a crash. Then the sessions of that batch must be where they
    /// were.
    fn heal(&mut self) -> Result<(), String> {
        let Some(places) = self.doubt.take() else { return Ok(()) };
        match self.try_heal(&places) {
            Ok(()) => Ok(()),
            Err(why) => {
                self.doubt = Some(places);
                Err(why)
            }
        }
    }

    fn try_heal(&mut self, places: &Places) -> Result<(), String> {
        let path = self.dir.join(open::FILE);
        // The old connection stays open until the new one has seen the file: the index of the log lives in shared
        // memory as long as anybody has it open, and it ends before the failed batch. To build it anew from the
        // log could take those frames in.
        let fresh = open::connect(&path, false).map_err(|error| error.to_string())?;
        let meta = open::meta(&fresh).map_err(|error| error.to_string())?;
        if meta.identity != self.meta.identity {
            return Err(format!(
                "{path} was replaced by another ledger under the running daemon; start it again"
            ));
        }
        if self.unsynced {
            // The fsync that failed may have been the one for them too, and the system does not try again: what is
            // not on the disk would be a hole in the log, and all behind it lost. From the file they are safe, and the
            // log begins anew.
            open::begin_log_anew(&fresh).map_err(|error| error.to_string())?;
            self.unsynced = false;
        }
        fresh
            .execute_batch("BEGIN IMMEDIATE; UPDATE meta SET heals = heals + 1 WHERE ref = 1; COMMIT")
            .map_err(|error| error.to_string())?;
        for (session, before) in places {
            let now = apply::stored_place(&fresh, session).map_err(|error| error.to_string())?;
            if now.stored != before.stored {
                return Err(format!(
                    "the session {session} has {} events after a failed commit, and had {}; start the daemon again",
                    now.stored, before.stored
                ));
            }
        }
        self.connection = fresh;
        Ok(())
    }

    /// Moves the log into the file when it is long. After the callers were answered: only the next batch waits
    /// for it.
    fn tidy(&mut self) {
        if self.doubt.is_some() {
            return;
        }
        let done = open::log_frames(&self.connection).and_then(|frames| {
            if frames >= open::CHECKPOINT_FRAMES { open::checkpoint(&self.connection) } else { Ok(()) }
        });
        if let Err(error) = done {
            // The frames stay in the log, which grows instead; the next commit says if that fails too.
            tracing::warn!(%error, "cannot move the ledger's log into its file");
        }
    }
}

/// Ends the queue when it is dropped.
struct End(Arc<Queue>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}
