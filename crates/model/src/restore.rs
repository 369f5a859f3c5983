//! What a stored session may do when it is loaded: ask its trailing questions again, go on by itself, or be
//! repaired. Pure; the transcript crate finds the tail, the agent and the engine act on what is said here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::asked::texts;
use crate::history::{Content, FunctionCall, FunctionResponse, Part, Role};
use crate::ids::{CallId, RecordId};
use crate::question::{InvalidQuestions, Question, TOOL_NAME, parse_questions};

/// The end of a stored history, as the scan from its end finds it (E2, E8). System records are not part of
/// it.
#[derive(Clone, Debug, PartialEq)]
pub enum Tail {
    /// Nothing that a model would read.
    Empty,
    /// The last entry is the user's, and it is not only results of the last model turn.
    User,
    /// The last entry is a model turn, or such a turn followed only by results of its own calls.
    Model(TailTurn),
}

/// The trailing model turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TailTurn {
    /// The record that holds it.
    pub record: RecordId,
    /// Its calls, in order.
    pub calls: Vec<TailCall>,
    /// The turn is recorded as over (completed, failed or cancelled; not parked): nothing goes on by itself.
    pub ended: bool,
    /// Notices of background work stand after the turn. They block a restore (E2), but do not change how the
    /// turn counts as interrupted (WIRE f.2).
    pub notices_after: bool,
}

/// One call of the trailing turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TailCall {
    /// Its id; a call without one is never asked again (E3).
    pub id: Option<CallId>,
    /// The tool.
    pub name: String,
    /// The arguments as stored.
    pub args: Value,
    /// How it ended, if it did.
    pub result: Option<TailResult>,
}

/// What the tail tells of a stored result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailResult {
    /// A question that a person declined (Q7).
    Declined,
    /// Its turn was cancelled (R13).
    Cancelled,
    /// The session went on without it, and the result is a repair (R2).
    Repaired,
    /// Anything else: an answer, or what a tool gave.
    Other,
}

impl TailCall {
    /// Whether the call has an id and no result.
    pub fn dangles(&self) -> bool {
        self.id.is_some() && self.result.is_none()
    }

    /// Whether this is a call of the question tool.
    pub fn is_question(&self) -> bool {
        self.name == TOOL_NAME
    }

    /// Whether its end says that its turn was stopped. A question that was repaired was gone on without; of another
    /// tool's call the repair says nothing but that it was cut off.
    fn is_stopped(&self) -> bool {
        match self.result {
            Some(TailResult::Cancelled) => true,
            Some(TailResult::Repaired) => self.is_question(),
            Some(TailResult::Declined | TailResult::Other) | None => false,
        }
    }
}

impl TailTurn {
    /// The ids of the calls that still dangle, in order.
    pub fn open(&self) -> Vec<CallId> {
        self.calls.iter().filter(|call| call.dangles()).filter_map(|call| call.id.clone()).collect()
    }

    /// The ids of the calls that have a result, in order.
    pub fn settled(&self) -> Vec<CallId> {
        self.calls.iter().filter(|call| call.result.is_some()).filter_map(|call| call.id.clone()).collect()
    }
}

impl Tail {
    /// The trailing model turn, if there is one.
    pub fn turn(&self) -> Option<&TailTurn> {
        match self {
            Self::Model(turn) => Some(turn),
            Self::Empty | Self::User => None,
        }
    }
}

/// What a restore of the session does.
#[derive(Clone, Debug, PartialEq)]
pub enum Restore {
    /// These questions are put to people again, all at once (R1, Q4).
    Ask {
        /// The record of the model turn.
        turn: RecordId,
        /// The unanswered questions, in call order (R18).
        questions: Vec<OpenQuestion>,
    },
    /// Nothing is asked: the answers are all in and the model has not replied yet, so the turn goes on (R20).
    GoOn {
        /// The record of the model turn.
        turn: RecordId,
        /// Calls of other tools that were cut off: they are repaired first, since they may have run (R21).
        cut_off: Vec<CallId>,
    },
}

impl Restore {
    /// The calls that orphan repair and the replay leave open (R1, R4).
    pub fn spared(&self) -> BTreeSet<CallId> {
        match self {
            Self::Ask { questions, .. } => questions.iter().map(|open| open.call.clone()).collect(),
            Self::GoOn { .. } => BTreeSet::new(),
        }
    }
}

/// One question that is asked again.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestion {
    /// Its call.
    pub call: CallId,
    /// The arguments as stored.
    pub args: Value,
    /// What they ask.
    pub questions: Vec<Question>,
}

/// Why a session is not restored. None of these is an error: the session is repaired as ever.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRestorable {
    /// E2: there is no trailing model turn.
    #[error("the history does not end with a model turn")]
    NoModelTurn,
    /// E2: something else follows the turn.
    #[error("a notice follows the trailing model turn")]
    NoticeFollows,
    /// E3: no call of the turn has an id.
    #[error("the trailing model turn calls no tool")]
    NoCalls,
    /// E3: another tool's call dangles, alone or beside a question.
    #[error("the call {call} of {tool} has no result either, and only questions can be asked again")]
    OtherToolDangles {
        /// The call.
        call: CallId,
        /// Its tool.
        tool: String,
    },
    /// E4: a question cannot be read; the whole batch fails closed.
    #[error("the call {call} cannot be asked again: {problem}")]
    Unreadable {
        /// The call.
        call: CallId,
        /// What is wrong.
        problem: InvalidQuestions,
    },
    /// R20 does not hold: the batch is settled and its turn is over.
    #[error("the turn is over")]
    TurnOver,
    /// R20 does not hold: the batch is settled, but not by people. Its turn was cancelled, or repaired.
    #[error("the turn was stopped")]
    TurnStopped,
    /// R20 does not hold: the batch is settled, but no question was in it.
    #[error("the settled batch holds no question")]
    NoQuestion,
}

/// Decides E2, E3 and E4, and R20 where no question dangles any more.
///
/// # Errors
/// The first condition that fails.
pub fn assess(tail: &Tail) -> Result<Restore, NotRestorable> {
    let turn = tail.turn().ok_or(NotRestorable::NoModelTurn)?;
    if turn.notices_after {
        return Err(NotRestorable::NoticeFollows);
    }
    if turn.calls.iter().all(|call| call.id.is_none()) {
        return Err(NotRestorable::NoCalls);
    }
    let (mut questions, mut others) = (Vec::new(), Vec::new());
    for call in turn.calls.iter().filter(|call| call.result.is_none()) {
        let Some(id) = &call.id else { continue };
        if !call.is_question() {
            others.push((id, &call.name));
            continue;
        }
        let parsed = parse_questions(&call.args)
            .map_err(|problem| NotRestorable::Unreadable { call: id.clone(), problem })?;
        questions.push(OpenQuestion { call: id.clone(), args: call.args.clone(), questions: parsed });
    }
    let answered =
        |call: &TailCall| call.id.is_some() && call.is_question() && call.result == Some(TailResult::Other);
    if let Some((call, tool)) = others.first()
        && (!questions.is_empty() || !turn.calls.iter().any(answered))
    {
        return Err(NotRestorable::OtherToolDangles { call: (*call).clone(), tool: (*tool).clone() });
    }
    if !questions.is_empty() {
        return Ok(Restore::Ask { turn: turn.record.clone(), questions });
    }
    if turn.ended {
        return Err(NotRestorable::TurnOver);
    }
    if turn.calls.iter().any(TailCall::is_stopped) {
        return Err(NotRestorable::TurnStopped);
    }
    if !turn.calls.iter().any(|call| call.id.is_some() && call.is_question()) {
        return Err(NotRestorable::NoQuestion);
    }
    let cut_off = others.into_iter().map(|(call, _)| call.clone()).collect();
    Ok(Restore::GoOn { turn: turn.record.clone(), cut_off })
}

/// How a settled batch ends (Q7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Not every call has a result.
    Open,
    /// The model is called with the results.
    CallModel,
    /// Every call was a question that a person declined: the turn ends without a call.
    AllDeclined,
}

/// Whether a batch is settled, and what follows. Calls without an id don't count.
pub fn settlement<'a>(
    calls: impl IntoIterator<Item = (Option<&'a CallId>, Option<TailResult>)>,
) -> Settlement {
    let results: Vec<_> = calls.into_iter().filter_map(|(id, result)| id.map(|_| result)).collect();
    if results.iter().any(Option::is_none) {
        Settlement::Open
    } else if !results.is_empty() && results.iter().all(|result| *result == Some(TailResult::Declined)) {
        Settlement::AllDeclined
    } else {
        Settlement::CallModel
    }
}

/// How a stored session was interrupted, for the generic continue (WIRE f.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// It was not: the model had the last word.
    None,
    /// The model owes a reply to what stands last.
    InterruptedPrompt,
    /// Calls of the last model turn have no result.
    InterruptedTurn,
}

impl Interruption {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::InterruptedPrompt => "interrupted_prompt",
            Self::InterruptedTurn => "interrupted_turn",
        }
    }
}

/// The interruption class of a tail. R11 is not decided here: it needs the flag.
pub fn interruption(tail: &Tail) -> Interruption {
    match tail {
        Tail::Empty => Interruption::None,
        Tail::User => Interruption::InterruptedPrompt,
        Tail::Model(turn) if turn.calls.iter().any(TailCall::dangles) => Interruption::InterruptedTurn,
        Tail::Model(turn) if turn.calls.iter().any(|call| call.result.is_some()) => {
            Interruption::InterruptedPrompt
        }
        Tail::Model(_) => Interruption::None,
    }
}

/// Tools whose calls have no effect, by the names that our files and the peer's use. Anything unlisted may
/// have run (R21).
const READS: &[&str] = &[
    "read_file",
    "read_many_files",
    "list_directory",
    "glob",
    "grep_search",
    "search_file_content",
    "web_fetch",
    "web_search",
];

/// What the model reads in place of the missing result of a call (R2, R21).
pub fn repair_text(tool: &str) -> &'static str {
    if tool == TOOL_NAME {
        texts::REPAIRED_QUESTION
    } else if READS.contains(&tool) {
        texts::REPAIRED_READ
    } else {
        texts::REPAIRED_CALL
    }
}

/// One entry of the history, with the record that it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The record; `None` for an entry out of a compressed history.
    pub record: Option<RecordId>,
    /// What was said.
    pub content: Content,
}

impl Entry {
    /// An entry without a record of its own.
    pub fn bare(content: Content) -> Self {
        Self { record: None, content }
    }
}

/// A result that repair had to make up.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// Index of the model entry, in the repaired history.
    pub entry: usize,
    /// The model entry's record.
    pub record: Option<RecordId>,
    /// The result: an error whose text says that it is a repair (I3).
    pub response: FunctionResponse,
}

/// A history in the order that providers accept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repaired {
    /// The entries.
    pub entries: Vec<Entry>,
    /// What was made up, in order.
    pub synthetic: Vec<Synthetic>,
}

/// Brings a history into the order that providers accept and that an undisturbed turn would have (I10, R2,
/// R3): behind each model entry with calls stands one user entry with exactly one response a call, in call
/// order, wherever the responses were found; duplicates and responses to no call are dropped; a missing
/// response is made up, except for `spare`.
///
/// A response belongs to the nearest unanswered call before it with its id (an id can repeat in a session,
/// providers do that), or, when it has no id, to the next such call without an id and of its name.
pub fn repair(entries: Vec<Entry>, spare: &BTreeSet<CallId>) -> Repaired {
    let mut turns: Vec<Turn> = Vec::with_capacity(entries.len());
    let mut open: BTreeMap<Key, Vec<(usize, usize)>> = BTreeMap::new();
    for mut entry in entries {
        match entry.content.role {
            Role::User => {
                let record = entry.record.clone();
                entry.content.parts.retain(|part| {
                    let Some(response) = &part.function_response else { return true };
                    let key = Key::of(response.id.as_ref(), &response.name);
                    if let Some((turn, slot)) = open.get_mut(&key).and_then(Vec::pop) {
                        turns[turn].slots[slot].found = Some((part.clone(), record.clone()));
                    }
                    false
                });
                if !entry.content.parts.is_empty() {
                    turns.push(Turn { entry, slots: Vec::new() });
                }
            }
            Role::Model => {
                let mut ids = BTreeSet::new();
                let slots: Vec<Slot> = entry
                    .content
                    .calls()
                    .filter(|call| call.id.as_ref().is_none_or(|id| ids.insert(id.clone())))
                    .map(|call| Slot { call: call.clone(), found: None })
                    .collect();
                // Backwards, so that the first of several calls without an id is the next to be answered.
                for (slot, Slot { call, .. }) in slots.iter().enumerate().rev() {
                    let key = Key::of(call.id.as_ref(), &call.name);
                    open.entry(key).or_default().push((turns.len(), slot));
                }
                turns.push(Turn { entry, slots });
            }
        }
    }

    let mut repaired = Repaired::default();
    for Turn { entry, slots } in turns {
        let at = repaired.entries.len();
        let of = entry.record.clone();
        repaired.entries.push(entry);
        let mut parts = Vec::with_capacity(slots.len());
        let mut record = None;
        for Slot { call, found } in slots {
            if let Some((part, found_in)) = found {
                record = found_in.or(record);
                parts.push(part);
            } else if !call.id.as_ref().is_some_and(|id| spare.contains(id)) {
                let text = repair_text(&call.name);
                let response = FunctionResponse {
                    id: call.id,
                    name: call.name,
                    response: serde_json::json!({ "error": text }),
                };
                parts.push(Part::response(response.clone()));
                repaired.synthetic.push(Synthetic { entry: at, record: of.clone(), response });
            }
        }
        if !parts.is_empty() {
            repaired.entries.push(Entry { record, content: Content { role: Role::User, parts } });
        }
    }
    repaired
}

/// One entry on its way through [`repair`].
struct Turn {
    entry: Entry,
    slots: Vec<Slot>,
}

/// One call of a model entry, and the response that was found for it.
struct Slot {
    call: FunctionCall,
    found: Option<(Part, Option<RecordId>)>,
}

/// What a response is matched to its call by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Id(CallId),
    Name(String),
}

impl Key {
    fn of(id: Option<&CallId>, name: &str) -> Self {
        id.map_or_else(|| Self::Name(name.to_owned()), |id| Self::Id(id.clone()))
    }
}

#[cfg(test)]
mod tests;
