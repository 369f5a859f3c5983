//! Questions for the tests.

use holdpoint_model::ids::{CallId, Generation, Micros, QuestionId};
use holdpoint_model::question::{Choice, Question as Part};
use holdpoint_model::session::{
    Answerer, Body, CallKey, CloseCause, Decision, Question, Settlement, State, VoteOption,
};
use serde_json::json;

pub(crate) fn part(header: &str, labels: &[&str], multi_select: bool) -> Part {
    let options = labels
        .iter()
        .map(|label| Choice { label: (*label).to_owned(), description: format!("What {label} means") });
    Part {
        question: format!("Which {header}?"),
        header: header.to_owned(),
        options: options.collect(),
        multi_select,
    }
}

fn option(id: &str, name: &str, kind: &str) -> VoteOption {
    VoteOption { option_id: id.to_owned(), name: name.to_owned(), kind: kind.to_owned() }
}

fn asked(body: Body, title: String, options: Vec<VoteOption>) -> Question {
    Question {
        id: QuestionId::new("q_019aa2f07c8d7e01a2b3c4d5e6f70819").unwrap(),
        generation: Generation(3),
        call: CallKey { turn: None, call: CallId::new("call_1").unwrap() },
        prompt: None,
        author: None,
        title,
        body,
        options,
        asked_at: Micros(1_764_547_200_000_000),
        requests: Vec::new(),
        asking: None,
        state: State::Open,
        delivered: false,
        shown: Vec::new(),
    }
}

pub(crate) fn question(parts: Vec<Part>) -> Question {
    let title = holdpoint_model::question::title(&parts);
    let options =
        vec![option("proceed_once", "Submit", "allow_once"), option("cancel", "Cancel", "reject_once")];
    asked(Body::UserQuestion { questions: parts }, title, options)
}

pub(crate) fn permission(command: &str) -> Question {
    let action = json!({ "title": "Run a command", "rawInput": { "command": command } });
    let options = vec![
        option("proceed_once", "Allow once", "allow_once"),
        option("proceed_always", "Always allow", "allow_always"),
        option("cancel", "Reject", "reject_once"),
    ];
    asked(Body::Permission { action }, "Run a command".to_owned(), options)
}

pub(crate) fn settled(mut question: Question, decision: Decision) -> Question {
    let by = Answerer { client_id: None, name: Some("Ann <b> & Co".to_owned()), surface: "web".to_owned() };
    let at = Micros(1_764_547_260_000_000);
    question.state = State::Settled(Settlement { decision, by, at, response: None, policy: None });
    question
}

pub(crate) fn closed(mut question: Question, cause: CloseCause) -> Question {
    question.state = State::Closed { cause, at: Micros(1_764_547_260_000_000) };
    question
}
