//! What survives a crash: the agent's transcripts, and what people were told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdpoint_model::asked::texts;
use holdpoint_model::ids::{CallId, ClientId, PromptId, QuestionId, RecordId, SessionId};
use holdpoint_model::restore::{Tail, TailCall, TailResult, TailTurn};
use holdpoint_model::session::Decision;
use serde_json::Value;

/// One record of a simulated transcript.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// A person's prompt.
    User {
        /// Which.
        prompt: Option<PromptId>,
    },
    /// What the model said.
    Model {
        /// The record's id.
        id: RecordId,
        /// The prompt of the turn.
        prompt: Option<PromptId>,
        /// What it called; none is the last word.
        calls: Vec<Call>,
    },
    /// The result of a call.
    Result {
        /// Of which.
        call: CallId,
        /// The prompt of the turn that wrote it.
        prompt: Option<PromptId>,
        /// What the model reads.
        text: String,
        /// Whether it is a person's decline.
        declined: bool,
        /// Whether orphan repair wrote it.
        repaired: bool,
    },
    /// A turn ended.
    Ended,
}

impl Record {
    /// What orphan repair writes for a call that nobody answered.
    pub(crate) fn repair(call: CallId, prompt: Option<PromptId>) -> Self {
        let text = texts::REPAIRED_QUESTION.to_owned();
        Self::Result { call, prompt, text, declined: false, repaired: true }
    }
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// Its id.
    pub(crate) id: CallId,
    /// The tool.
    pub(crate) name: String,
    /// Its arguments.
    pub(crate) args: Value,
}

/// The transcript of one session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct History(pub(crate) Vec<Record>);

impl History {
    /// The results of a call.
    pub(crate) fn results<'a>(&'a self, wanted: &'a CallId) -> impl Iterator<Item = &'a Record> {
        self.0.iter().filter(move |record| matches!(record, Record::Result { call, .. } if call == wanted))
    }

    /// The end, as the restore rules see it.
    pub(crate) fn tail(&self) -> Tail {
        let mut results: BTreeMap<&CallId, TailResult> = BTreeMap::new();
        let mut ended = false;
        for record in self.0.iter().rev() {
            match record {
                Record::Ended => ended = true,
                Record::User { .. } => return Tail::User,
                Record::Result { call, declined, repaired, .. } => {
                    let result = match (declined, repaired) {
                        (true, _) => TailResult::Declined,
                        (false, true) => TailResult::Repaired,
                        (false, false) => TailResult::Other,
                    };
                    results.entry(call).or_insert(result);
                }
                Record::Model { id, calls, .. } => {
                    let calls = calls.iter().map(|call| TailCall {
                        id: Some(call.id.clone()),
                        name: call.name.clone(),
                        args: call.args.clone(),
                        result: results.get(&call.id).copied(),
                    });
                    return Tail::Model(TailTurn {
                        record: id.clone(),
                        calls: calls.collect(),
                        notices_after: false,
                        ended,
                    });
                }
            }
        }
        Tail::Empty
    }

    /// The prompt that the newest records belong to.
    pub(crate) fn last_prompt(&self) -> Option<PromptId> {
        self.0.iter().rev().find_map(|record| match record {
            Record::User { prompt } | Record::Model { prompt, .. } | Record::Result { prompt, .. } => {
                prompt.clone()
            }
            Record::Ended => None,
        })
    }

    /// A copy of a session: what dangles in it is repaired and its turn is over, since nobody will answer it there and
    /// nothing goes on by itself (E7, R20).
    pub(crate) fn copy(&self) -> Self {
        let mut copy = self.clone();
        if let Some(turn) = self.tail().turn().filter(|turn| !turn.ended && !turn.calls.is_empty()) {
            copy.0.extend(turn.open().into_iter().map(|call| Record::repair(call, self.last_prompt())));
            copy.0.push(Record::Ended);
        }
        copy
    }

    /// How many model turns there are.
    pub(crate) fn model_turns(&self) -> usize {
        self.0.iter().filter(|record| matches!(record, Record::Model { .. })).count()
    }

    /// What a provider would refuse, or what a person would miss: a call that dangles in mid-file, a result of
    /// nothing, two results of one call.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub(crate) fn well_formed(&self) -> Result<(), String> {
        let mut open: Vec<&CallId> = Vec::new();
        for (at, record) in self.0.iter().enumerate() {
            match record {
                Record::Ended => {}
                Record::Result { call, .. } => match open.iter().position(|waiting| *waiting == call) {
                    Some(i) => drop(open.remove(i)),
                    None => {
                        return Err(format!("record {at}: a result of {call}, which does not wait for one"));
                    }
                },
                Record::User { .. } | Record::Model { .. } if !open.is_empty() => {
                    return Err(format!("record {at}: {open:?} dangle in mid-file"));
                }
                Record::User { .. } => {}
                Record::Model { calls, .. } => open = calls.iter().map(|call| &call.id).collect(),
            }
        }
        Ok(())
    }
}

/// An answer that somebody was told is recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Acknowledged {
    /// Of which question.
    pub(crate) question: QuestionId,
    /// What.
    pub(crate) decision: Decision,
}

/// What survives.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// The transcripts.
    pub(crate) histories: BTreeMap<SessionId, History>,
    /// What people were told.
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// Prompts that were accepted, and their sessions.
    pub(crate) accepted: Vec<(SessionId, PromptId)>,
    /// Sessions of which somebody was told that they are deleted.
    pub(crate) deleted: Vec<SessionId>,
    /// Client ids that people were given, and their sessions.
    pub(crate) clients: Vec<(SessionId, ClientId)>,
    /// Counts ids.
    pub(crate) ids: u64,
    /// What must not be, and was.
    pub(crate) violations: Vec<String>,
    /// What happened, for comparing two runs of one seed.
    pub(crate) trace: Vec<String>,
}

impl Store {
    /// The next number for an id.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }
}

/// The store, shared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared(Arc<Mutex<Store>>);

impl Shared {
    /// Takes it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what must not be.
    pub(crate) fn violation(&self, what: impl Into<String>) {
        let what = what.into();
        let mut store = self.lock();
        // It is found again after each step; once says it.
        if !store.violations.contains(&what) {
            store.violations.push(what.clone());
            store.trace.push(format!("VIOLATION {what}"));
        }
    }

    /// Notes what happened.
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.lock().trace.push(what.into());
    }
}
