//! Bodies of votes and answers: read as the routes read them, and put to the core under each policy.

use holdpoint_model::ids::{CallId, Generation, Micros, QuestionId, RecordId, RequestId, SessionId};
use holdpoint_model::policy::Strategy;
use holdpoint_model::question::parse_questions;
use holdpoint_model::session::{
    Body, CallKey, Command, Context, Decision, Info, Session, State, VoteOption, decide,
};
use serde_json::json;

use crate::halves;

const STRATEGIES: [Strategy; 4] =
    [Strategy::FirstResponder, Strategy::Designated, Strategy::Consensus, Strategy::LocalOnly];

/// How large what is decided, stored or said of a body of so many bytes may be: the answers stand in it a few times, and
/// as text in text, where every quote is escaped twice.
fn bound(body: usize) -> usize {
    4096 + 8 * body
}

/// A client id in the first line, and a body.
pub fn votes(bytes: &[u8]) {
    let (client, body) = halves(bytes);
    let vote = holdpoint_server::fuzz::vote(body, client);
    let answer = holdpoint_server::fuzz::answer(body, client);
    for strategy in STRATEGIES {
        let context = Context { now: Micros(1), restore: true, strategy, quorum: Some(1), max_prompts: None };
        for asked in [question(), permission()] {
            let session = waiting(asked, &context);
            if let Some(vote) = vote.clone() {
                let command = Command::Vote {
                    request: request(),
                    voter: vote.voter,
                    by: vote.by,
                    option: vote.option,
                    answers: vote.answers,
                };
                judge(&session, command, &context, bound(bytes.len()));
            }
            if let Some(answer) = answer.clone() {
                let command = Command::Answer {
                    question: id(),
                    generation: answer.generation,
                    voter: answer.voter,
                    by: answer.by,
                    choice: answer.choice,
                    response: answer.response,
                };
                judge(&session, command, &context, bound(bytes.len()));
            }
        }
    }
}

/// Decides twice, to the same end; a question that is settled has an answer that it can have. What is told and stored of
/// it has at most `most` bytes.
fn judge(session: &Session, command: Command, context: &Context, most: usize) {
    let decided = decide(session, command.clone(), context);
    assert_eq!(decided, decide(session, command, context), "the core decides by chance");
    let events = match decided {
        Ok(events) => events,
        Err(rejection) => {
            let said = rejection.to_string();
            assert!(said.len() <= most, "{} bytes are said of a refusal: {said}", said.len());
            return;
        }
    };
    let stored = json!(events).to_string().len();
    assert!(stored <= most, "{stored} bytes of events, where {most} are in proportion");
    let mut after = session.clone();
    for event in &events {
        after.evolve(event, Micros(1)).expect("what was decided can happen");
    }
    for question in after.questions.values() {
        let row = json!(question.as_ref()).to_string().len();
        assert!(row <= most, "a row of {row} bytes, where {most} are in proportion");
        let State::Settled(settlement) = &question.state else { continue };
        match &settlement.decision {
            Decision::Answered { answers } => {
                let asked = question.body.questions().len();
                for (index, text) in answers.iter() {
                    assert!(index < asked, "an answer to question {index} of {asked}");
                    assert!(!text.is_empty() && !text.contains('\0'), "Q6: {text:?} is no answer");
                }
            }
            Decision::Selected { option_id } => {
                let offered = question.options.iter().any(|option| option.option_id == *option_id);
                assert!(offered && !question.body.is_question(), "{option_id} was not offered");
            }
            Decision::Declined { .. } => {}
        }
    }
}

fn id() -> QuestionId {
    QuestionId::new("q_1").expect("a question id")
}

fn request() -> RequestId {
    RequestId::new("r1").expect("letters and digits")
}

fn question() -> Body {
    let option = |label: &str| json!({ "label": label, "description": "d" });
    let one = |header: &str, multi: bool| json!({ "question": "Which?", "header": header, "options": [option("A"), option("B")], "multiSelect": multi });
    let questions = json!({ "questions": [one("One", false), one("Many", true)] });
    Body::UserQuestion { questions: parse_questions(&questions).expect("two well-formed questions") }
}

fn permission() -> Body {
    Body::Permission { action: json!({ "title": "Run" }) }
}

/// A session that asks.
fn waiting(body: Body, context: &Context) -> Session {
    let option = |id: &str, kind: &str| VoteOption {
        option_id: id.to_owned(),
        name: id.to_owned(),
        kind: kind.to_owned(),
    };
    let info = Info {
        workspace_cwd: "/w".to_owned(),
        agent: "a".to_owned(),
        source_type: None,
        source_id: None,
        approval_mode: None,
    };
    let call = CallKey {
        turn: Some(RecordId::new("t1").expect("letters and digits")),
        call: CallId::new("c1").expect("letters and digits"),
    };
    let commands = [
        Command::Open { info },
        Command::StartLife,
        Command::Ask {
            life: 1,
            question: id(),
            request: request(),
            call,
            title: "t".to_owned(),
            body,
            options: vec![option("proceed_once", "allow_once"), option("cancel", "reject_once")],
        },
    ];
    let mut session = Session::empty(SessionId::new("s").expect("a letter"));
    for command in commands {
        for event in decide(&session, command, context).expect("a session can be opened and asked in") {
            session.evolve(&event, Micros(0)).expect("what was decided can happen");
        }
    }
    assert_eq!(session.generation, Generation(1));
    session
}
