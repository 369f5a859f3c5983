//! The history as providers want it: what the model said, and after each such turn the results of its calls,
//! in call order, before anything else that the user's side said.

use holdpoint_model::history::{Content, FunctionCall, FunctionResponse, Part, Role};

/// One exchange step of the history.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    /// The model's words.
    Model(Vec<ModelPart<'a>>),
    /// The results of the calls of the model turn before, in call order.
    Results(Vec<CallResult>),
    /// Everything else on the user's side.
    User(Vec<String>),
}

/// A part of a model turn.
#[derive(Debug)]
pub(crate) enum ModelPart<'a> {
    /// Text, reasoning, a signature, or a block that only its provider knows.
    Part(&'a Part),
    /// A call, with the id that goes over the wire.
    Call { id: String, call: &'a FunctionCall, part: &'a Part },
}

/// The result of one call.
#[derive(Debug)]
pub(crate) struct CallResult {
    /// The call's id on the wire.
    pub(crate) id: String,
    /// The tool.
    pub(crate) name: String,
    /// What the model reads.
    pub(crate) text: String,
}

/// Orders the history. Calls without an id (files of other tools have them) get one here, which holds for this
/// request only; a result that answers no call becomes text, since providers refuse it as a result.
pub(crate) fn turns(history: &[Content]) -> Vec<Turn<'_>> {
    let mut turns = Vec::new();
    let mut open: Vec<OpenCall> = Vec::new();
    let mut results: Vec<(usize, CallResult)> = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    for (nth, content) in history.iter().enumerate() {
        match content.role {
            Role::Model => {
                flush(&mut turns, &mut results, &mut texts);
                open.clear();
                let mut parts = Vec::with_capacity(content.parts.len());
                for part in &content.parts {
                    match &part.function_call {
                        None => parts.push(ModelPart::Part(part)),
                        Some(call) => {
                            let given = call.id.as_ref().map(|id| id.as_str().to_owned());
                            let id = given.clone().unwrap_or_else(|| format!("call_{nth}_{}", open.len()));
                            open.push(OpenCall {
                                id: id.clone(),
                                given,
                                name: call.name.clone(),
                                answered: false,
                            });
                            parts.push(ModelPart::Call { id, call, part });
                        }
                    }
                }
                if !parts.is_empty() {
                    turns.push(Turn::Model(parts));
                }
            }
            Role::User => {
                for part in &content.parts {
                    if let Some(response) = &part.function_response {
                        match answer(&mut open, response) {
                            Some(found) => results.push(found),
                            None => texts.push(format!("Result of {}: {}", response.name, response.text())),
                        }
                    } else if let Some(text) = part.visible_text() {
                        texts.push(text.to_owned());
                    } else if !part.extra.is_empty() {
                        texts.push("[an attachment that cannot be sent to this model]".to_owned());
                    }
                }
            }
        }
    }
    flush(&mut turns, &mut results, &mut texts);
    turns
}

struct OpenCall {
    id: String,
    given: Option<String>,
    name: String,
    answered: bool,
}

fn answer(open: &mut [OpenCall], response: &FunctionResponse) -> Option<(usize, CallResult)> {
    let wanted = response.id.as_ref().map(|id| id.as_str());
    let at = open.iter().position(|call| {
        !call.answered && call.given.as_deref() == wanted && (wanted.is_some() || call.name == response.name)
    })?;
    let call = &mut open[at];
    call.answered = true;
    Some((at, CallResult { id: call.id.clone(), name: call.name.clone(), text: response.text() }))
}

fn flush(turns: &mut Vec<Turn<'_>>, results: &mut Vec<(usize, CallResult)>, texts: &mut Vec<String>) {
    if !results.is_empty() {
        results.sort_by_key(|(at, _)| *at);
        turns.push(Turn::Results(results.drain(..).map(|(_, result)| result).collect()));
    }
    if !texts.is_empty() {
        turns.push(Turn::User(std::mem::take(texts)));
    }
}
