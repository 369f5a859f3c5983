//! Questions and their answers, by their durable identity (D2).

use std::collections::BTreeMap;

use holdpoint_model::ids::{Generation, QuestionId, RequestId, ResponseId, SessionId};
use holdpoint_model::question::Question;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One question of the inbox, or one whole question with its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionView {
    /// Its identity, for ever.
    pub question_id: QuestionId,
    /// Its number in its session; an answer names it.
    pub generation: Generation,
    /// The session that asks.
    pub session_id: SessionId,
    /// What is asked for.
    pub kind: Kind,
    /// Whether it can still be answered.
    pub state: State,
    /// One line that says what it is about.
    #[serde(default)]
    pub title: String,
    /// The parts of a question to a person; empty for a permission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// What a permission is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// What can be chosen, for a permission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<OptionView>,
    /// The workspace of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_cwd: Option<String>,
    /// What the session is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
    /// When it was first asked (ISO 8601).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<String>,
    /// Whether an agent is asking it right now.
    #[serde(default)]
    pub live: bool,
    /// Whether the daemon can ask it again if it isn't (S3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restorable: Option<bool>,
    /// Whether an answer is taken now, and the turn goes on with it (D3). `None`: the daemon does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answerable: Option<bool>,
    /// The call that asks, in its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The live asking, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// Where it has been shown (D4).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Shown>,
    /// How it ended, on a whole question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Value>,
    /// Fields that this version doesn't know (`agent` among them, whatever its shape).
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl QuestionView {
    /// Whether an answer is taken now. A daemon that does not say takes one.
    pub fn takes_answers(&self) -> bool {
        self.state == State::Open && (self.live || self.answerable != Some(false))
    }
}

/// What kind of decision a person is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The agent's own question.
    UserQuestion,
    /// Consent to a tool call.
    Permission,
    /// Something newer.
    #[serde(untagged)]
    Other(String),
}

/// The state of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for somebody.
    Open,
    /// It was answered.
    Answered,
    /// Somebody declined to answer.
    Declined,
    /// It ended without a person.
    Closed,
    /// Something newer.
    #[serde(untagged)]
    Other(String),
}

/// What a permission is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Action {
    /// The kind of tool: `edit`, `execute`, …
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The tool call in a few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// ACP content of the call: texts and diffs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Value>,
    /// Files that it touches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Value>,
    /// The arguments of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Fields that this version doesn't know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// One option of a permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OptionView {
    /// What a vote names.
    pub option_id: String,
    /// What people read (`name` in events, `label` in a status).
    #[serde(alias = "name", default)]
    pub label: String,
    /// `allow_once`, `allow_always`, `reject_once`, …
    #[serde(default)]
    pub kind: String,
}

/// A surface that has shown a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Which one.
    pub surface: String,
    /// When (ISO 8601).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// A page of the inbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Inbox {
    /// The questions.
    pub questions: Vec<QuestionView>,
    /// Where the next page starts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What to list. The default is every question that the daemon lists by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Only in this state.
    pub state: Option<State>,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only of sessions in this workspace.
    pub cwd: Option<String>,
    /// Only of this kind.
    pub kind: Option<Kind>,
    /// Only those whose ids end so.
    pub ending: Option<String>,
    /// At most so many on a page.
    pub limit: Option<u32>,
    /// Where the page starts.
    pub cursor: Option<String>,
}

impl Filter {
    /// Everything that waits for somebody.
    pub fn open() -> Self {
        Self { state: Some(State::Open), ..Self::default() }
    }

    /// Whatever was ever asked, open or ended.
    pub fn all() -> Self {
        Self { state: Some(State::Other("all".to_owned())), ..Self::default() }
    }

    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let mut query = Vec::new();
        if let Some(state) = &self.state {
            query.push(("state", plain(state)));
        }
        if let Some(session) = &self.session {
            query.push(("session", session.to_string()));
        }
        if let Some(cwd) = &self.cwd {
            query.push(("cwd", cwd.clone()));
        }
        if let Some(kind) = &self.kind {
            query.push(("kind", plain(kind)));
        }
        if let Some(ending) = &self.ending {
            query.push(("ending", ending.clone()));
        }
        if let Some(limit) = self.limit {
            query.push(("limit", limit.to_string()));
        }
        if let Some(cursor) = &self.cursor {
            query.push(("cursor", cursor.clone()));
        }
        query
    }
}

/// The text of an enum that is a plain string on the wire.
fn plain<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Answers by the index of their question.
    Answers(BTreeMap<usize, AnswerValue>),
    /// The person won't answer.
    Decline,
    /// The chosen option of a permission.
    Option(String),
}

/// The answer to one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum AnswerValue {
    /// A text: a label, or the person's own words.
    Text(String),
    /// Several picks.
    Picks(Vec<String>),
}

/// An answer to one question, bound to it by generation and made repeatable by its response id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerRequest {
    /// The generation of the question that the person saw.
    pub generation: Generation,
    /// Chosen by the answerer: the same id again gets the same receipt.
    pub response_id: ResponseId,
    /// The answer.
    pub answer: Answer,
}

impl AnswerRequest {
    pub(crate) fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("generation".into(), self.generation.0.into());
        match &self.answer {
            Answer::Answers(answers) => {
                let map = answers
                    .iter()
                    .map(|(index, value)| {
                        let value = match value {
                            AnswerValue::Text(text) => Value::from(text.as_str()),
                            AnswerValue::Picks(picks) => Value::from(picks.clone()),
                        };
                        (index.to_string(), value)
                    })
                    .collect::<Map<_, _>>();
                body.insert("answers".into(), Value::Object(map));
            }
            Answer::Decline => {
                body.insert("decline".into(), true.into());
            }
            Answer::Option(option) => {
                body.insert("optionId".into(), option.as_str().into());
            }
        }
        body.insert("responseId".into(), self.response_id.as_str().into());
        Value::Object(body)
    }
}

/// A fresh response id.
pub fn new_response_id() -> ResponseId {
    ResponseId::new(format!("r_{}", uuid::Uuid::now_v7().simple())).expect("r_ and hex digits are a label")
}

/// Proof that an answer is on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// What became of the question.
    pub status: ReceiptStatus,
    /// The question.
    pub question_id: QuestionId,
    /// Its generation.
    pub generation: Generation,
    /// The answerer's id of this answer; a vote by request id has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<ResponseId>,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<AnsweredBy>,
    /// When (ISO 8601).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
    /// The answers as they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Value>,
    /// How far it got: `delivered`, `queued`, `waking`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// Fields that this version doesn't know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What a receipt says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptStatus {
    /// The question is answered.
    Answered,
    /// The question is declined.
    Declined,
    /// The vote counts, and others are still needed (202).
    Recorded,
    /// Something newer.
    #[serde(untagged)]
    Other(String),
}

/// Who answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AnsweredBy {
    /// The attached client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// A person's name, where the surface knows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `http`, `web`, `slack`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surface: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn d2_a_question_is_read_tolerantly_and_written_back_whole() {
        let wire = json!({
            "questionId": "q_01ab", "generation": 2, "sessionId": "ses-1", "kind": "user_question", "state": "open",
            "title": "Which colour?", "questions": [{"question": "Which colour?", "header": "Colour",
              "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]}],
            "live": false, "restorable": true, "agent": {"name": "holdpoint"}, "somethingNew": [1]
        });
        let view: QuestionView = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(view.state, State::Open);
        assert_eq!(serde_json::to_value(&view).unwrap(), wire);
    }

    #[test]
    fn unknown_kinds_and_states_are_kept() {
        let view: QuestionView = serde_json::from_value(json!({
            "questionId": "q_1", "generation": 1, "sessionId": "s", "kind": "vote", "state": "paused"
        }))
        .unwrap();
        assert_eq!(view.kind, Kind::Other("vote".into()));
        assert_eq!(view.state, State::Other("paused".into()));
    }

    #[test]
    fn d2_the_three_answers_on_the_wire() {
        let request = |answer| AnswerRequest {
            generation: Generation(3),
            response_id: ResponseId::new("r_1").unwrap(),
            answer,
        };
        let answers = BTreeMap::from([
            (0, AnswerValue::Text("Blue".into())),
            (1, AnswerValue::Picks(vec!["a".into(), "b".into()])),
        ]);
        assert_eq!(
            request(Answer::Answers(answers)).body(),
            json!({"generation": 3, "answers": {"0": "Blue", "1": ["a", "b"]}, "responseId": "r_1"})
        );
        assert_eq!(
            request(Answer::Decline).body(),
            json!({"generation": 3, "decline": true, "responseId": "r_1"})
        );
        assert_eq!(
            request(Answer::Option("proceed_once".into())).body(),
            json!({"generation": 3, "optionId": "proceed_once", "responseId": "r_1"})
        );
    }

    #[test]
    fn an_option_is_called_label_or_name() {
        let option: OptionView =
            serde_json::from_value(json!({"optionId": "cancel", "name": "Cancel", "kind": "reject_once"}))
                .unwrap();
        assert_eq!(option.label, "Cancel");
    }
}
