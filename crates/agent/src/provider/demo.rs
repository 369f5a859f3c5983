//! The built-in scripted model: offline, deterministic, and honest about being one.
//!
//! It is a pure function of the history, so a turn that goes on after a restart ends exactly as it would have
//! ended without one (I10). Each prompt gets the same small job: plan, ask how a file should read, write it.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use holdpoint_model::history::{Content, FunctionCall, FunctionResponse, Part, Role};
use holdpoint_model::question;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Delta, Finish, ModelTurn, Provider, ProviderError, Request, Usage};

/// The first line of the first reply.
pub const BANNER: &str = "This is Holdpoint's built-in demo model: scripted and offline. For a real one, start with \
     --model NAME and --base-url URL (key in OPENAI_API_KEY), or --model claude-… (ANTHROPIC_API_KEY) \
     or --model gemini-… (GEMINI_API_KEY).";

/// The tool that the demo acts with.
const WRITE_FILE: &str = "write_file";
/// The header of the demo's question, by which it finds the answer.
const HEADER: &str = "Style";
/// Longest answer that is repeated, in characters.
const ANSWER_LIMIT: usize = 400;

/// The demo model.
#[derive(Clone, Copy, Debug)]
pub struct Demo;

impl Provider for Demo {
    fn stream<'a>(
        &'a self,
        request: Request<'a>,
        deltas: mpsc::Sender<Delta>,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<ModelTurn, ProviderError>> {
        async move {
            let turn = reply(request);
            let said = async {
                let mut calls = 0;
                for part in &turn.parts {
                    for piece in part.visible_text().into_iter().flat_map(pieces) {
                        let _ = deltas.send(Delta::Text(piece.to_owned())).await;
                    }
                    if let Some(call) = &part.function_call {
                        let (index, name) = (calls, call.name.clone());
                        calls += 1;
                        let _ = deltas.send(Delta::ToolCallStarted { index, name, id: None }).await;
                    }
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(ProviderError::Cancelled),
                () = said => Ok(turn),
            }
        }
        .boxed()
    }

    fn model(&self) -> &str {
        "demo"
    }

    fn describe(&self) -> String {
        "demo".to_owned()
    }
}

/// Cuts a text into what streams at a time: a few words.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    const WORDS: usize = 4;
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.match_indices(' ').nth(WORDS - 1).map_or(rest.len(), |(at, space)| at + space.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// What has happened since the last prompt.
enum Step<'a> {
    Prompted,
    Answered { text: String, declined: bool },
    Acted { tool: &'a FunctionResponse, answer: Option<String> },
}

/// The reply to a history.
fn reply(request: Request<'_>) -> ModelTurn {
    let history = request.history;
    let job = jobs(history);
    let offers = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    let first = !history.iter().any(|content| content.role == Role::Model);
    let mut parts = Vec::new();
    match step(history) {
        Step::Prompted => {
            let mut text = if first { format!("{BANNER}\n\n") } else { String::new() };
            let file = file_name(job);
            text.push_str(&format!("Plan: 1. ask how a short greeting should sound, 2. write it to {file}."));
            if offers(question::TOOL_NAME) {
                parts.push(Part::text(text));
                parts.push(call(question::TOOL_NAME, ask(&file)));
            } else if offers(WRITE_FILE) {
                text.push_str(" I cannot ask questions here, so I take the friendly style.");
                parts.push(Part::text(text));
                parts.push(call(WRITE_FILE, write(&file, "Friendly")));
            } else {
                text.push_str(
                    " I have neither a way to ask nor a tool to write with in this session, so the plan is all there is.",
                );
                parts.push(Part::text(text));
            }
        }
        Step::Answered { declined: true, .. } => {
            parts.push(Part::text(
                "You chose not to answer, so I wrote nothing. Send another prompt whenever you like.",
            ));
        }
        Step::Answered { text: answer, .. } => {
            let file = file_name(job);
            if offers(WRITE_FILE) {
                parts.push(Part::text(format!("Thank you: \u{201c}{answer}\u{201d}. I write {file} now.")));
                parts.push(call(WRITE_FILE, write(&file, &answer)));
            } else {
                let greeting = greeting(&answer);
                parts.push(Part::text(format!(
                    "You answered \u{201c}{answer}\u{201d}. I have no tool to write {file} with, so here it is:\n\n{greeting}"
                )));
            }
        }
        Step::Acted { tool, answer } => {
            let file = file_name(job);
            let because =
                answer.map_or_else(String::new, |a| format!(" as you answered \u{201c}{a}\u{201d}"));
            parts.push(Part::text(if tool.is_error() {
                format!("{file} was not written: {}", shortened(&tool.text()))
            } else {
                format!("Done: {file} is written{because}.")
            }));
        }
    }
    let has_call = parts.iter().any(|part| part.function_call.is_some());
    ModelTurn {
        finish: if has_call { Finish::ToolCalls } else { Finish::Stop },
        usage: Some(usage(history, &parts)),
        parts,
    }
}

/// Counts words as tokens: something to show, the same every time.
fn usage(history: &[Content], parts: &[Part]) -> Usage {
    let words = |parts: &[Part]| -> u64 {
        parts
            .iter()
            .filter_map(|part| part.text.as_deref())
            .map(|text| text.split_whitespace().count() as u64)
            .sum()
    };
    let input = history.iter().map(|content| words(&content.parts)).sum();
    let output = words(parts);
    Usage { input, output, total: input + output, thought: 0, cached_read: 0 }
}

/// Which job of the session this is, from 1: one for each prompt that got a plan, and the present one.
fn jobs(history: &[Content]) -> usize {
    history.iter().filter(|content| is_prompt(content)).count().max(1)
}

fn is_prompt(content: &Content) -> bool {
    content.role == Role::User
        && content.responses().next().is_none()
        && content.parts.iter().any(|part| part.visible_text().is_some())
}

fn step(history: &[Content]) -> Step<'_> {
    let asked =
        history.iter().rposition(|content| content.role == Role::Model && content.calls().next().is_some());
    // Text of the user's side after the results is a notice; text after the model's last words is a prompt.
    let last_model = history.iter().rposition(|content| content.role == Role::Model);
    let Some(asked) = asked.filter(|_| asked == last_model) else { return Step::Prompted };
    let responses = || history[asked..].iter().flat_map(Content::responses);
    let Some(last) = responses().next() else { return Step::Prompted };
    if last.name != question::TOOL_NAME {
        let since = history[..asked].iter().rposition(is_prompt).unwrap_or(0);
        let answer = history[since..asked]
            .iter()
            .flat_map(Content::responses)
            .find(|response| response.name == question::TOOL_NAME && !response.is_error())
            .map(answer_in);
        return Step::Acted { tool: last, answer };
    }
    if last.is_error() && history[asked + 1..].iter().any(is_prompt) {
        // A decline that ended its turn is read with the next prompt (Q7).
        return Step::Prompted;
    }
    Step::Answered { text: answer_in(last), declined: last.is_error() }
}

/// The answer in the text that a model reads: what stands behind the header, since the demo asks one thing only.
fn answer_in(response: &FunctionResponse) -> String {
    let text = response.text();
    let behind = |marker: &str| text.split_once(marker).map(|(_, answer)| answer);
    let answer = behind(&format!("**{HEADER}**:")).or_else(|| behind(&format!("{HEADER}:"))).unwrap_or(&text);
    shortened(answer.trim())
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(ANSWER_LIMIT) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn file_name(job: usize) -> String {
    if job <= 1 { "holdpoint-demo.md".to_owned() } else { format!("holdpoint-demo-{job}.md") }
}

fn call(name: &str, args: Value) -> Part {
    Part::call(FunctionCall { id: None, name: name.to_owned(), args })
}

fn ask(file: &str) -> Value {
    json!({ "questions": [{
        "question": format!("How should the greeting in {file} sound?"),
        "header": HEADER,
        "options": [
            { "label": "Friendly", "description": "Warm, with an exclamation mark." },
            { "label": "Formal", "description": "Polite and sober." },
            { "label": "Pirate", "description": "Arr." },
        ],
    }] })
}

fn write(file: &str, answer: &str) -> Value {
    json!({ "file_path": file, "content": greeting(answer) })
}

fn greeting(answer: &str) -> String {
    let words = match answer {
        "Friendly" => "Hello there! Lovely to have you here.".to_owned(),
        "Formal" => "Good day. You are kindly welcome.".to_owned(),
        "Pirate" => "Ahoy! Welcome aboard, matey.".to_owned(),
        other => format!("Hello, in the way you asked for: {other}"),
    };
    format!(
        "# A greeting\n\n{words}\n\nWritten by Holdpoint's demo model. The answer that it went by: {answer}\n"
    )
}

#[cfg(test)]
mod tests {
    use holdpoint_model::ids::CallId;

    use super::*;
    use crate::provider::ToolSpec;

    fn tools(names: &[&str]) -> Vec<ToolSpec> {
        let spec = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: json!({}),
        };
        names.iter().map(spec).collect()
    }

    fn said(history: &[Content], names: &[&str]) -> ModelTurn {
        let tools = tools(names);
        let (sender, mut deltas) = mpsc::channel(1000);
        let request = Request { system: "", history, tools: &tools };
        let turn = Demo.stream(request, sender, CancellationToken::new()).now_or_never().unwrap().unwrap();
        let mut streamed = String::new();
        while let Ok(delta) = deltas.try_recv() {
            if let Delta::Text(text) = delta {
                streamed.push_str(&text);
            }
        }
        assert_eq!(streamed, text(&turn));
        turn
    }

    fn text(turn: &ModelTurn) -> String {
        turn.parts.iter().filter_map(Part::visible_text).collect()
    }

    fn respond(history: &mut Vec<Content>, turn: ModelTurn, output: Result<&str, &str>) {
        let name = turn.parts.iter().find_map(|part| part.function_call.as_ref()).unwrap().name.clone();
        history.push(Content { role: Role::Model, parts: turn.parts });
        let id = CallId::new("c").unwrap();
        history.push(Content::response(match output {
            Ok(text) => FunctionResponse::output(id, name, text),
            Err(text) => FunctionResponse::error(id, name, text),
        }));
    }

    const BOTH: &[&str] = &["ask_user_question", "write_file"];

    /// What the model reads as the answer, made by the code that makes it in earnest.
    fn answered(question: &ModelTurn, answer: &str) -> String {
        let args = &question.parts.iter().find_map(|part| part.function_call.as_ref()).unwrap().args;
        let questions = question::parse_questions(args).unwrap();
        let answers =
            holdpoint_model::answers::Answers::lenient(Some(&json!({ "0": answer })), &questions).unwrap();
        answers.answers.model_text(&questions)
    }

    #[test]
    fn it_plans_asks_acts_on_the_answer_and_quotes_it() {
        for answer in ["Pirate", "like a haiku, please: \"soft\""] {
            let mut history = vec![Content::user_text("hello")];
            let question = said(&history, BOTH);
            assert!(text(&question).lines().next().unwrap().contains("demo"), "the first line says so");
            assert!(text(&question).lines().next().unwrap().contains("OPENAI_API_KEY"));
            let model_text = answered(&question, answer);
            respond(&mut history, question, Ok(&model_text));
            let write = said(&history, BOTH);
            let args = &write.parts[1].function_call.as_ref().unwrap().args;
            assert_eq!(args["file_path"], "holdpoint-demo.md");
            assert!(args["content"].as_str().unwrap().contains(answer), "{args}");
            respond(&mut history, write, Ok("written"));
            let end = said(&history, BOTH);
            assert_eq!(end.finish, Finish::Stop);
            assert!(text(&end).contains(answer), "{}", text(&end));

            history.push(Content { role: Role::Model, parts: end.parts });
            history.push(Content::user_text("again"));
            let again = said(&history, BOTH);
            assert!(!text(&again).contains(BANNER));
            assert!(text(&again).contains("holdpoint-demo-2.md"));
            assert_eq!(again.finish, Finish::ToolCalls);
        }
    }

    #[test]
    fn q7_a_decline_ends_politely_at_once_or_with_the_next_prompt() {
        let mut history = vec![Content::user_text("hello")];
        let question = said(&history, BOTH);
        respond(&mut history, question, Err("The user declined."));
        let end = said(&history, BOTH);
        assert!(text(&end).contains("wrote nothing"));
        assert_eq!(end.finish, Finish::Stop);

        history.push(Content::user_text("once more"));
        assert!(text(&said(&history, BOTH)).contains("holdpoint-demo-2.md"));
    }

    #[test]
    fn without_its_tools_it_still_makes_sense() {
        let mut history = vec![Content::user_text("hello")];
        assert!(text(&said(&history, &[])).contains("Plan"));
        assert_eq!(said(&history, &[]).finish, Finish::Stop);
        assert_eq!(
            said(&history, &["write_file"]).parts[1].function_call.as_ref().unwrap().name,
            "write_file"
        );
        let question = said(&history, &["ask_user_question"]);
        let model_text = answered(&question, "Formal");
        respond(&mut history, question, Ok(&model_text));
        assert!(text(&said(&history, &["ask_user_question"])).contains("Good day"));
    }

    #[test]
    fn a_failed_write_is_told() {
        let mut history = vec![Content::user_text("hello")];
        let question = said(&history, BOTH);
        respond(&mut history, question, Ok("Style: Formal"));
        let write = said(&history, BOTH);
        respond(&mut history, write, Err("the disk is full"));
        assert!(text(&said(&history, BOTH)).contains("the disk is full"));
    }

    #[test]
    fn it_streams_and_repeats_itself_exactly() {
        let history = [Content::user_text("hello")];
        assert!(pieces(&text(&said(&history, BOTH))).count() > 5);
        assert_eq!(said(&history, BOTH), said(&history, BOTH));
        assert_eq!(said(&[], BOTH).finish, Finish::ToolCalls);
    }
}
