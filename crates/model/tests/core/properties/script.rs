//! Random commands: each is said to the session, and done to the book.

use holdpoint_model::ids::{CallId, ClientId, Generation};
use holdpoint_model::policy::{Forbidden, Voter};
use holdpoint_model::session::{Body, Choice, Command, Rejection, Tail, TurnEnd, UnaskedCause};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::oracle::{Asked, Book, Policy, Read, Who};
use crate::common::{self, Driven, by, id};

const CLIENTS: [&str; 4] = ["ann", "bob", "cyd", "dan"];
const TURNS: [Option<&str>; 4] = [None, Some("t1"), Some("t2"), Some("t3")];
const CALLS: [&str; 2] = ["call_0", "call_1"];
const WORDS: [&str; 2] = ["This?", "That?"];
const CAUSES: [UnaskedCause; 4] =
    [UnaskedCause::TimedOut, UnaskedCause::SessionClosed, UnaskedCause::Aborted, UnaskedCause::AgentGone];

/// One step. Small numbers are places in lists, taken modulo their length.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Restart { flag: bool, policy: Policy },
    StartLife,
    Attach { presented: Option<u8> },
    Prompt { client: Option<u8>, hold: bool, known: bool },
    StartNext,
    Remove { which: u8 },
    Restore { client: Option<u8> },
    Continue,
    Ask { turn: u8, call: u8, words: u8, consent: bool, stale: bool },
    Vote { request: u8, from: Voting, option: u8, answers: u8 },
    Answer { question: u8, wrong: bool, from: Voting, choice: u8, response: Option<u8> },
    Cancel { unreachable: bool },
    EndAsking { only: Option<u8>, cause: u8 },
    CallEnded { call: u8, repaired: bool, stale: bool },
    Reconcile { turn: u8, open: u8, last: u8, restoring: bool, given_up: bool },
    EndTurn { wrong: bool, stale: bool, completed: bool },
    Refusal { generation: u8 },
    Delete,
}

#[derive(Clone, Debug)]
pub(crate) struct Voting {
    client: Option<u8>,
    loopback: bool,
    proxied: bool,
}

pub(crate) fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::First), Just(Policy::Designated), Just(Policy::Consensus), Just(Policy::Local),]
}

fn voting() -> impl Strategy<Value = Voting> {
    let client = proptest::option::weighted(0.8, 0..4u8);
    (client, proptest::bool::weighted(0.8), proptest::bool::weighted(0.2))
        .prop_map(|(client, loopback, proxied)| Voting { client, loopback, proxied })
}

pub(crate) fn ops(longest: usize) -> impl Strategy<Value = Vec<Op>> {
    let client = || proptest::option::of(0..4u8);
    let rarely = || proptest::bool::weighted(0.1);
    let op = prop_oneof![
        2 => (proptest::bool::weighted(0.7), policies()).prop_map(|(flag, policy)| Op::Restart { flag, policy }),
        3 => Just(Op::StartLife),
        4 => client().prop_map(|presented| Op::Attach { presented }),
        6 => (client(), proptest::bool::weighted(0.3), rarely())
            .prop_map(|(client, hold, known)| Op::Prompt { client, hold, known }),
        3 => Just(Op::StartNext),
        1 => any::<u8>().prop_map(|which| Op::Remove { which }),
        4 => client().prop_map(|client| Op::Restore { client }),
        1 => Just(Op::Continue),
        14 => (0..4u8, 0..2u8, prop_oneof![4 => Just(0u8), 1 => Just(1u8)], proptest::bool::weighted(0.2), rarely())
            .prop_map(|(turn, call, words, consent, stale)| Op::Ask { turn, call, words, consent, stale }),
        12 => (any::<u8>(), voting(), any::<u8>(), any::<u8>())
            .prop_map(|(request, from, option, answers)| Op::Vote { request, from, option, answers }),
        8 => (any::<u8>(), rarely(), voting(), any::<u8>(), proptest::option::of(0..2u8)).prop_map(
            |(question, wrong, from, choice, response)| Op::Answer { question, wrong, from, choice, response }
        ),
        1 => any::<bool>().prop_map(|unreachable| Op::Cancel { unreachable }),
        3 => (proptest::option::of(any::<u8>()), 0..4u8).prop_map(|(only, cause)| Op::EndAsking { only, cause }),
        3 => (0..2u8, any::<bool>(), rarely())
            .prop_map(|(call, repaired, stale)| Op::CallEnded { call, repaired, stale }),
        4 => (0..4u8, 0..4u8, any::<u8>(), any::<bool>(), rarely())
            .prop_map(|(turn, open, last, restoring, given_up)| Op::Reconcile { turn, open, last, restoring, given_up: given_up && !restoring }),
        4 => (rarely(), rarely(), proptest::bool::weighted(0.8))
            .prop_map(|(wrong, stale, completed)| Op::EndTurn { wrong, stale, completed }),
        1 => any::<u8>().prop_map(|generation| Op::Refusal { generation }),
    ];
    let end = prop_oneof![4 => Just(None), 1 => Just(Some(Op::Delete))];
    (proptest::collection::vec(op, 1..longest), end, proptest::option::of(Just(Op::StartLife))).prop_map(
        |(mut script, end, after)| {
            if let Some(end) = end {
                script.push(end);
                script.extend(after);
            }
            script
        },
    )
}

/// The name of a refusal in the book.
pub(crate) fn name_of(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::AlreadyOpen => "AlreadyOpen",
        Rejection::NotOpen => "NotOpen",
        Rejection::Deleted => "Deleted",
        Rejection::StaleLife => "StaleLife",
        Rejection::Busy => "Busy",
        Rejection::UnknownPrompt(_) => "UnknownPrompt",
        Rejection::PromptIdReused(_) => "PromptIdReused",
        Rejection::QueueFull { .. } => "QueueFull",
        Rejection::TooManyPending(_) => "TooManyPending",
        Rejection::UnknownQuestion => "UnknownQuestion",
        Rejection::StaleRequest => "StaleRequest",
        Rejection::AlreadySettled(_) => "AlreadySettled",
        Rejection::Closed { .. } => "Closed",
        Rejection::StaleGeneration { .. } => "StaleGeneration",
        Rejection::ResponseIdReused => "ResponseIdReused",
        Rejection::Forbidden { .. } => "Forbidden",
        Rejection::InvalidOption { .. } => "InvalidOption",
        Rejection::InvalidAnswers(_) => "InvalidAnswers",
        Rejection::WrongKind(_) => "WrongKind",
        Rejection::RestoreDisabled => "RestoreDisabled",
        Rejection::NotAsked => "NotAsked",
    }
}

fn client(which: Option<u8>) -> Option<&'static str> {
    which.map(|which| CLIENTS[usize::from(which) % CLIENTS.len()])
}

/// The third is malformed.
fn answers(which: u8) -> (Value, Read) {
    match which % 3 {
        0 => (json!({"0": "Red"}), Ok("answer Red".to_owned())),
        1 => (json!({"0": "Blue"}), Ok("answer Blue".to_owned())),
        _ => (json!({"0": " "}), Err("InvalidAnswers")),
    }
}

/// The option, and what it says where consent or an answer is asked for.
fn option(which: u8, consent: bool, answer: Read) -> (Option<&'static str>, Option<Read>) {
    match which % 6 {
        0 => (None, None),
        1 => (Some("cancel"), Some(Ok("no cancel".to_owned()))),
        2 => (Some("nope"), Some(Err("InvalidOption"))),
        3 if consent => (Some("proceed_always"), Some(Ok("yes proceed_always".to_owned()))),
        _ if consent => (Some("proceed_once"), Some(Ok("yes proceed_once".to_owned()))),
        _ => (Some("proceed_once"), Some(answer)),
    }
}

fn choice(which: u8, consent: bool) -> (Choice, Read) {
    let (value, answer) = answers(which / 8);
    match which % 8 {
        0 => (Choice::Decline, Ok("no".to_owned())),
        1 if consent => (Choice::Option("nope".to_owned()), Err("InvalidOption")),
        2 | 3 if consent => (Choice::Option("proceed_once".to_owned()), Ok("yes proceed_once".to_owned())),
        4 if consent => (Choice::Option("cancel".to_owned()), Ok("no cancel".to_owned())),
        1 => (Choice::Option("proceed_once".to_owned()), Err("WrongKind")),
        _ if consent => (Choice::Answers(value), Err("WrongKind")),
        _ => (Choice::Answers(value), answer),
    }
}

fn voter(from: &Voting) -> (Voter, Who) {
    let client = client(from.client);
    let voter = Voter { client: client.map(id::<ClientId>), loopback: from.loopback, proxied: from.proxied };
    let near = from.loopback && !from.proxied;
    (voter, Who { client: client.map(ToOwned::to_owned), near })
}

/// Makes the command of a step, and does the step to the book.
pub(crate) fn play(
    op: &Op,
    step: usize,
    driven: &mut Driven,
    book: &mut Book,
) -> (Command, Result<(), &'static str>) {
    let before = book.clone();
    let (command, said) = play_open(op, step, driven, book);
    if before.deleted {
        *book = before;
        return (command, Err("Deleted"));
    }
    (command, said)
}

fn play_open(
    op: &Op,
    step: usize,
    driven: &mut Driven,
    book: &mut Book,
) -> (Command, Result<(), &'static str>) {
    let fresh = format!("p{step}");
    match op {
        Op::Restart { flag, policy } => {
            driven.context.restore = *flag;
            driven.context.strategy = super::strategy_of(*policy);
            book.restart(*flag, *policy);
            (Command::Recover, Ok(()))
        }
        Op::StartLife => {
            book.start_life();
            (Command::StartLife, Ok(()))
        }
        Op::Attach { presented } => {
            let presented = client(*presented);
            let minted = CLIENTS[step % CLIENTS.len()];
            book.attach(presented, minted);
            (Command::Attach { presented: presented.map(id), minted: id(minted) }, Ok(()))
        }
        Op::Prompt { client: from, hold, known } => {
            let name = match book.queue.first().filter(|_| *known) {
                Some((waits, _)) => waits.clone(),
                None => fresh,
            };
            let said = book.prompt(&name, client(*from), *hold);
            (Command::Prompt { prompt: common::prompt_of(&name, client(*from)), hold: *hold }, said)
        }
        Op::StartNext => {
            book.start_next();
            (Command::StartNext, Ok(()))
        }
        Op::Remove { which } => {
            let name = match book.queue.as_slice() {
                [] => "p_none".to_owned(),
                queue => queue[usize::from(*which) % queue.len()].0.clone(),
            };
            (Command::RemovePrompt { id: id(name.clone()) }, book.remove(&name))
        }
        Op::Restore { client: from } => {
            let said = book.restore(&fresh, client(*from));
            (Command::AdmitRestore { fresh: id(fresh), client: client(*from).map(id) }, said)
        }
        Op::Continue => {
            let said = book.go_on(&fresh, None);
            (Command::AdmitContinue { fresh: id(fresh), client: None }, said)
        }
        Op::Ask { turn, call, words, consent, stale } => {
            ask(driven, book, (*turn, *call, *words), *consent, *stale)
        }
        Op::Vote { request, from, option, answers } => vote(book, *request, from, (*option, *answers)),
        Op::Answer { question, wrong, from, choice, response } => {
            answer(book, (*question, *wrong), from, *choice, *response)
        }
        Op::Cancel { unreachable } => {
            book.cancel(*unreachable);
            (Command::Cancel { unreachable: *unreachable }, Ok(()))
        }
        Op::EndAsking { only, cause } => {
            let only = only.map(|only| u64::from(only) % (book.rows.len() as u64 + 1) + 1);
            let cause = CAUSES[usize::from(*cause)];
            book.end_asking(only, cause);
            (Command::EndAsking { generation: only.map(Generation), cause }, Ok(()))
        }
        Op::CallEnded { call, repaired, stale } => {
            let (life, call) = (book.life - u64::from(*stale), CALLS[usize::from(*call)]);
            let said = book.call_ended(life, call, *repaired);
            (Command::CallEnded { life, call: id(call), repaired: *repaired }, said)
        }
        Op::Reconcile { turn, open, last, restoring, given_up } => {
            let turn = TURNS[usize::from(*turn)];
            let open: Vec<String> =
                (0..2).filter(|at| open >> at & 1 == 1).map(|at| CALLS[at].to_owned()).collect();
            // Three of four times the agent has the prompt.
            let last = book.turn.as_ref().filter(|_| last % 4 != 0).map(|work| work.prompt.clone());
            book.reconcile(turn, &open, last.as_deref(), *restoring, *given_up);
            let open = open.into_iter().map(id::<CallId>).collect();
            let (restoring, given_up) = (*restoring, *given_up);
            let tail = Tail { turn: turn.map(id), open, last_prompt: last.map(id), restoring, given_up };
            (Command::Reconcile { tail }, Ok(()))
        }
        Op::EndTurn { wrong, stale, completed } => {
            let running = book.turn.as_ref().filter(|_| !wrong).map(|work| work.prompt.clone());
            let prompt = running.unwrap_or_else(|| "p_none".to_owned());
            let life = book.life - u64::from(*stale);
            let said = book.end_turn(life, &prompt, *completed);
            let outcome = if *completed {
                TurnEnd::Completed { stop_reason: "end_turn".to_owned(), parked: false }
            } else {
                TurnEnd::Failed { message: "it broke".to_owned(), code: None }
            };
            (Command::EndTurn { life, prompt: id(prompt), outcome }, said)
        }
        Op::Refusal { generation } => {
            let generation = u64::from(*generation) % 8;
            let said = if (1..=book.rows.len() as u64).contains(&generation) {
                Ok(())
            } else {
                Err("UnknownQuestion")
            };
            let reason = Forbidden::RemoteNotAllowed;
            (Command::NoteRefusal { generation: Generation(generation), by: by(None), reason }, said)
        }
        Op::Delete => {
            book.delete();
            (Command::Delete, Ok(()))
        }
    }
}

fn ask(
    driven: &mut Driven,
    book: &mut Book,
    (turn, call, words): (u8, u8, u8),
    consent: bool,
    stale: bool,
) -> (Command, Result<(), &'static str>) {
    let (turn, call) = (TURNS[usize::from(turn)], CALLS[usize::from(call)]);
    let words = if consent { "consent" } else { WORDS[usize::from(words)] };
    let body = if consent {
        Body::Permission { action: json!({"title": "rm"}) }
    } else {
        Body::UserQuestion { questions: common::questions(words) }
    };
    let mut command = driven.ask_command(turn, call, body);
    let Command::Ask { life, question, request, .. } = &mut command else { unreachable!("it asks") };
    *life -= u64::from(stale);
    let asked = Asked {
        id: question.to_string(),
        request: request.to_string(),
        turn: turn.map(ToOwned::to_owned),
        call: call.to_owned(),
        words: words.to_owned(),
        consent,
    };
    let said = book.ask(*life, asked);
    (command, said)
}

fn vote(
    book: &mut Book,
    request: u8,
    from: &Voting,
    (which, said): (u8, u8),
) -> (Command, Result<(), &'static str>) {
    let known: Vec<(String, bool)> = book
        .rows
        .iter()
        .flat_map(|row| row.requests.iter().map(|request| (request.clone(), row.consent)))
        .collect();
    // The newest are the likeliest, and one place is nobody's.
    let (request, consent) = match usize::from(request) % 8 {
        7 => ("r_none".to_owned(), false),
        back => known.iter().rev().nth(back).cloned().unwrap_or(("r_none".to_owned(), false)),
    };
    let (value, answer) = answers(said);
    let (option, says) = option(which, consent, answer);
    let (voter, who) = voter(from);
    let said = book.vote(&request, &who, says);
    let by = by(voter.client.as_ref().map(AsRef::as_ref));
    let option = option.map(ToOwned::to_owned);
    (Command::Vote { request: id(request), voter, by, option, answers: Some(value) }, said)
}

fn answer(
    book: &mut Book,
    (question, wrong): (u8, bool),
    from: &Voting,
    which: u8,
    response: Option<u8>,
) -> (Command, Result<(), &'static str>) {
    let back = usize::from(question) % 6;
    let found = book.rows.iter().enumerate().rev().nth(back);
    let (name, generation, consent) = match found {
        Some((at, row)) => (row.id.clone(), at as u64 + 1, row.consent),
        None => ("q_none".to_owned(), 1, false),
    };
    let generation = generation + u64::from(wrong);
    let (choice, says) = choice(which, consent);
    let (voter, who) = voter(from);
    let response = response.map(|response| format!("res{response}"));
    let said = book.answer(&name, generation, &who, says, response.as_deref());
    let by = by(voter.client.as_ref().map(AsRef::as_ref));
    let command = Command::Answer {
        question: id(name),
        generation: Generation(generation),
        voter,
        by,
        choice,
        response: response.map(id),
    };
    (command, said)
}
