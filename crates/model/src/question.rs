//! The question tool's schema: one parser for the tool, the restore scan and the wire (Q1).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Most things that one session may ask people at once, permissions among them (WIRE c.4).
pub const MAX_AT_ONCE: usize = 64;

/// The name of the tool (Q1).
pub const TOOL_NAME: &str = "ask_user_question";

/// The option that submits answers (Q5).
pub const OPTION_SUBMIT: &str = "proceed_once";
/// The option that declines (Q5).
pub const OPTION_CANCEL: &str = "cancel";

/// Most questions that one call may hold.
pub const MAX_QUESTIONS: usize = 4;

/// One question of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// What is asked.
    pub question: String,
    /// A short title, shown on a tab and to the model beside the answer.
    pub header: String,
    /// What can be picked. Free text is always allowed beside it (Q6).
    pub options: Vec<Choice>,
    /// Whether several options may be picked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub multi_select: bool,
}

/// One option of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// What a person picks, and what the model reads back.
    pub label: String,
    /// What picking it means.
    pub description: String,
}

/// Why the arguments of a call are not a question (Q2). The text is for the model: it says where and what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid arguments of {TOOL_NAME}: {path}: {problem}")]
pub struct InvalidQuestions {
    /// Where, as a path into the arguments.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
}

fn invalid(path: impl Into<String>, problem: impl Into<String>) -> InvalidQuestions {
    InvalidQuestions { path: path.into(), problem: problem.into() }
}

/// Parses the arguments of one call (Q1). Unknown fields are ignored.
///
/// # Errors
/// The first thing that the schema forbids, with its place.
pub fn parse_questions(args: &Value) -> Result<Vec<Question>, InvalidQuestions> {
    let Some(object) = args.as_object() else {
        return Err(invalid("arguments", "must be a JSON object with a field \"questions\""));
    };
    let Some(list) = object.get("questions") else {
        return Err(invalid("questions", "is missing; give a list of 1 to 4 questions"));
    };
    let Some(list) = list.as_array() else {
        return Err(invalid("questions", "must be a list of 1 to 4 questions"));
    };
    if list.is_empty() || list.len() > MAX_QUESTIONS {
        return Err(invalid("questions", format!("must hold 1 to 4 questions, not {}", list.len())));
    }
    list.iter().enumerate().map(|(i, item)| parse_question(&format!("questions[{i}]"), item)).collect()
}

fn parse_question(path: &str, value: &Value) -> Result<Question, InvalidQuestions> {
    if !value.is_object() {
        return Err(invalid(path, "must be an object with question, header and options"));
    }
    let question = text(path, value, "question")?;
    let header = text(path, value, "header")?;
    let options_path = format!("{path}.options");
    let options = value
        .get("options")
        .and_then(Value::as_array)
        .ok_or_else(|| invalid(&options_path, "must be a list of 2 to 4 options"))?;
    if !(2..=4).contains(&options.len()) {
        return Err(invalid(options_path, format!("must hold 2 to 4 options, not {}", options.len())));
    }
    let options = options
        .iter()
        .enumerate()
        .map(|(i, option)| {
            let path = format!("{path}.options[{i}]");
            Ok(Choice {
                label: text(&path, option, "label")?,
                description: text(&path, option, "description")?,
            })
        })
        .collect::<Result<Vec<_>, InvalidQuestions>>()?;
    let multi_select = match value.get("multiSelect") {
        None => false,
        Some(Value::Bool(multi)) => *multi,
        Some(_) => return Err(invalid(format!("{path}.multiSelect"), "must be true or false")),
    };
    Ok(Question { question, header, options, multi_select })
}

fn text(path: &str, value: &Value, field: &str) -> Result<String, InvalidQuestions> {
    match value.get(field).and_then(Value::as_str) {
        Some(text) if !text.trim().is_empty() => Ok(text.to_owned()),
        Some(_) => Err(invalid(format!("{path}.{field}"), "must not be empty")),
        None => Err(invalid(format!("{path}.{field}"), "is missing or not a text")),
    }
}

/// The JSON schema of the arguments, as it is offered to models.
pub fn parameters_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "questions": {
                "type": "array", "minItems": 1, "maxItems": MAX_QUESTIONS,
                "description": "The questions to put to the person, all shown at once.",
                "items": {
                    "type": "object",
                    "properties": {
                        "question": { "type": "string", "description": "The whole question, ending in a question mark." },
                        "header": { "type": "string", "description": "A title of one to three words." },
                        "options": {
                            "type": "array", "minItems": 2, "maxItems": 4,
                            "description": "Distinct choices. The person can always type another answer.",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "label": { "type": "string", "description": "One to five words." },
                                    "description": { "type": "string", "description": "What choosing it means." }
                                },
                                "required": ["label", "description"]
                            }
                        },
                        "multiSelect": { "type": "boolean", "description": "Whether several options may be picked." }
                    },
                    "required": ["question", "header", "options"]
                }
            }
        },
        "required": ["questions"]
    })
}

/// What a list, a notification or a terminal's first line calls this call: one line.
pub fn title(questions: &[Question]) -> String {
    match questions {
        [only] => only.question.split_whitespace().collect::<Vec<_>>().join(" "),
        many => format!(
            "{} questions: {}",
            many.len(),
            many.iter().map(|q| q.header.as_str()).collect::<Vec<_>>().join(", ")
        ),
    }
}
