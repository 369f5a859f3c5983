//! Votes and answers: one compare-and-set, one winner (I2).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::answers::{Answers, InvalidAnswers};
use crate::ids::{Generation, QuestionId, RequestId, ResponseId};
use crate::policy::{Ballot, Capture, Forbidden, Strategy, Verdict, Voter, judge};
use crate::question::OPTION_SUBMIT;
use crate::session::command::{Choice, Context};
use crate::session::event::Event;
use crate::session::rejection::Rejection;
use crate::session::state::{Answerer, CloseCause, Decision, Question, Session, Settlement, State};

/// Most surfaces that a question remembers: there are a handful of kinds, and what names more says nothing.
const MAX_SURFACES: usize = 16;

/// Most refused votes that the audit of one question holds: a client that tries for ever must not fill the disk.
const MAX_REFUSALS: usize = 256;

pub(super) struct Vote {
    pub voter: Voter,
    pub by: Answerer,
    pub option: Option<String>,
    pub answers: Option<Value>,
}

pub(super) struct Answer {
    pub generation: Generation,
    pub voter: Voter,
    pub by: Answerer,
    pub choice: Choice,
    pub response: Option<ResponseId>,
}

/// A vote on the peer's route, in the order of its checks (WIRE c.2).
pub(super) fn vote(
    session: &Session,
    request: &RequestId,
    vote: Vote,
    context: &Context,
) -> Result<Vec<Event>, Rejection> {
    let question = session.by_request(request).ok_or(Rejection::UnknownQuestion)?;
    still_open(question)?;
    let is_live = question
        .asking
        .as_ref()
        .is_some_and(|asking| asking.request == *request && asking.life == session.life);
    if !is_live && !context.restore {
        return Err(Rejection::StaleRequest);
    }
    let Some(option) = vote.option else {
        // The outcome `cancelled` settles for every policy and every voter.
        let decision = Decision::Declined { option_id: None };
        return Ok(vec![settled(question, decision, vote.by, None, None, context)]);
    };
    let decision = decision_of(question, &option, |question| {
        Answers::lenient(vote.answers.as_ref(), question.body.questions()).map(|lenient| lenient.answers)
    })?;
    settle(session, question, decision, vote.voter, vote.by, None, context)
}

/// An answer on our own route (D2).
pub(super) fn answer(
    session: &Session,
    id: &QuestionId,
    answer: Answer,
    context: &Context,
) -> Result<Vec<Event>, Rejection> {
    let question = session.question(id).ok_or(Rejection::UnknownQuestion)?;
    if !question.is_open() {
        return late_answer(question, answer.generation, answer.choice, answer.response.as_ref())
            .map(|()| Vec::new());
    }
    right_generation(question, answer.generation)?;
    let is_asked = question.asking.as_ref().is_some_and(|asking| asking.life == session.life);
    if !is_asked && !question.body.is_question() {
        let cause = CloseCause::ProcessRestarted;
        return Err(Rejection::Closed { cause, question: Arc::clone(question) });
    }
    if !is_asked && !context.restore {
        return Err(Rejection::RestoreDisabled);
    }
    let decision = chosen(question, answer.choice)?;
    settle(session, question, decision, answer.voter, answer.by, answer.response, context)
}

/// Notes for the audit that somebody tried who may not (V5), up to [`MAX_REFUSALS`] a question. The question may be older
/// than what is kept.
pub(super) fn note_refusal(
    session: &Session,
    generation: Generation,
    by: Answerer,
    reason: Forbidden,
) -> Result<Vec<Event>, Rejection> {
    if generation == Generation(0) || generation > session.generation {
        return Err(Rejection::UnknownQuestion);
    }
    if session.refusals.get(&generation).is_some_and(|noted| *noted >= MAX_REFUSALS) {
        return Ok(Vec::new());
    }
    Ok(vec![Event::Refused { generation, by, reason }])
}

/// Judges an answer to a question that has ended. `Ok` is a retry of the answer that settled it: the answerer
/// gets the same receipt (D2). What has ended never changes, so the stored question is all that is needed.
///
/// # Errors
/// What became of the question.
pub fn late_answer(
    question: &Arc<Question>,
    generation: Generation,
    choice: Choice,
    response: Option<&ResponseId>,
) -> Result<(), Rejection> {
    right_generation(question, generation)?;
    if let (State::Settled(settlement), Some(response)) = (&question.state, response)
        && settlement.response.as_ref() == Some(response)
    {
        let same = chosen(question, choice).is_ok_and(|decision| decision == settlement.decision);
        return if same { Ok(()) } else { Err(Rejection::ResponseIdReused) };
    }
    still_open(question)
}

/// A surface has rendered a question; the first time counts (D4).
pub(super) fn shown(
    session: &Session,
    id: &QuestionId,
    generation: Generation,
    surface: String,
) -> Result<Vec<Event>, Rejection> {
    let question = session.question(id).ok_or(Rejection::UnknownQuestion)?;
    right_generation(question, generation)?;
    still_open(question)?;
    let known = question.shown.iter().any(|shown| shown.surface == surface);
    if known || question.shown.len() >= MAX_SURFACES {
        return Ok(Vec::new());
    }
    Ok(vec![Event::Shown { generation, surface }])
}

fn right_generation(question: &Question, generation: Generation) -> Result<(), Rejection> {
    if question.generation == generation {
        Ok(())
    } else {
        Err(Rejection::StaleGeneration { actual: question.generation })
    }
}

fn chosen(question: &Question, choice: Choice) -> Result<Decision, Rejection> {
    match choice {
        Choice::Decline => Ok(Decision::Declined { option_id: None }),
        Choice::Answers(_) if !question.body.is_question() => {
            Err(Rejection::WrongKind("this is a permission: choose an option with \"optionId\", or decline"))
        }
        Choice::Answers(value) => {
            Ok(Decision::Answered { answers: Answers::strict(&value, question.body.questions())? })
        }
        Choice::Option(_) if question.body.is_question() => {
            Err(Rejection::WrongKind("this is a question: give \"answers\", or decline"))
        }
        Choice::Option(option) => decision_of(question, &option, |_| Err(InvalidAnswers::NotAMap)),
    }
}

fn still_open(question: &Arc<Question>) -> Result<(), Rejection> {
    match &question.state {
        State::Open => Ok(()),
        State::Settled(_) => Err(Rejection::AlreadySettled(Arc::clone(question))),
        State::Closed { cause, .. } => {
            Err(Rejection::Closed { cause: *cause, question: Arc::clone(question) })
        }
    }
}

fn decision_of(
    question: &Question,
    option: &str,
    answers: impl FnOnce(&Question) -> Result<Answers, InvalidAnswers>,
) -> Result<Decision, Rejection> {
    let Some(offered) = question.options.iter().find(|offered| offered.option_id == option) else {
        let offered: Vec<_> = question.options.iter().map(|offered| offered.option_id.as_str()).collect();
        return Err(Rejection::InvalidOption { option: option.to_owned(), offered: offered.join(", ") });
    };
    Ok(if offered.rejects() {
        Decision::Declined { option_id: Some(option.to_owned()) }
    } else if question.body.is_question() && option == OPTION_SUBMIT {
        Decision::Answered { answers: answers(question)? }
    } else {
        Decision::Selected { option_id: option.to_owned() }
    })
}

fn settle(
    session: &Session,
    question: &Arc<Question>,
    decision: Decision,
    voter: Voter,
    by: Answerer,
    response: Option<ResponseId>,
    context: &Context,
) -> Result<Vec<Event>, Rejection> {
    let asking = question.asking.as_ref().filter(|asking| asking.life == session.life);
    let (capture, ballots, policy) = match asking {
        Some(asking) => (asking.capture.clone(), asking.ballots.as_slice(), None),
        None => {
            let capture = capture_unasked(session, question, &voter, context);
            let policy = capture.strategy();
            (capture, &[][..], Some(policy))
        }
    };
    let choice = choice_key(&decision);
    match judge(&capture, ballots, &voter, &choice) {
        Verdict::Settles => Ok(vec![settled(question, decision, by, response, policy, context)]),
        Verdict::Counts if asking.is_none() => Err(Rejection::NotAsked),
        Verdict::Counts => match voter.client {
            Some(client) => Ok(vec![Event::Voted {
                generation: question.generation,
                ballot: Ballot { client, choice },
                by: Some(by),
            }]),
            None => Err(Rejection::NotAsked),
        },
        Verdict::Repeats => Ok(Vec::new()),
        Verdict::Refused(reason) => Err(Rejection::Forbidden { reason, question: Arc::clone(question) }),
    }
}

/// The policy of a question that is answered while nobody asks it: as it would be issued now. A consensus counts
/// the clients seen in this life, and the voter, whose vote counts as attached (V2, R17): those who were there only
/// before a restart may never come back.
fn capture_unasked(session: &Session, question: &Question, voter: &Voter, context: &Context) -> Capture {
    let authors: BTreeSet<_> = question.author.iter().cloned().collect();
    let known = voter.client.iter().filter(|client| session.clients.contains(*client));
    let seen: BTreeSet<_> = session.present.iter().chain(known).cloned().collect();
    Capture::issue(context.strategy, authors, &seen, context.quorum)
}

/// What agreeing votes have in common: for a question the answers, not only the option (V2).
fn choice_key(decision: &Decision) -> String {
    match decision {
        // A list, so that no answer's text can look like the answer to another question.
        Decision::Answered { answers } => {
            Value::from_iter(answers.iter().map(|(i, text)| json!([i, text]))).to_string()
        }
        Decision::Selected { option_id } => format!("option {option_id}"),
        Decision::Declined { .. } => "decline".to_owned(),
    }
}

fn settled(
    question: &Question,
    decision: Decision,
    by: Answerer,
    response: Option<ResponseId>,
    policy: Option<Strategy>,
    context: &Context,
) -> Event {
    let settlement = Settlement { decision, by, at: context.now, response, policy };
    Event::Settled { generation: question.generation, settlement }
}
