//! `/q/<question id>`: a question as a page that needs no scripts. It is what a link in a chat opens, and the floor
//! under everything else: while a question is an address, it cannot be hidden. `GET` changes nothing (I7).

use std::net::SocketAddr;

use axum::Form;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use holdpoint_engine::{AnswerRequest, EngineError, Receipt};
use holdpoint_ledger::{QuestionFilter, StateFilter};
use holdpoint_model::ids::{Generation, QuestionId, ResponseId};
use holdpoint_model::session::{Answerer, Choice as Chosen, Rejection};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::pages::{self, Action, Choice, OutcomePage, Part, QuestionPage};
use crate::extract::Path;
use crate::routes::vote::voter;
use crate::state::App;

/// Fewest characters of the end of an id that names a question; the command line shows that many.
const SHORTEST: usize = 8;
/// Longest text of an action's details on the page, in characters.
const MAX_DETAIL: usize = 20_000;

/// What is written in another way in an address.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The fields of the form, in order; checkboxes come several times.
type Fields = Vec<(String, String)>;

#[derive(Debug, Deserialize)]
pub(crate) struct Arrival {
    /// The browser was sent here by us, so its cookie would have come.
    again: Option<String>,
}

pub(crate) async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(arrival): Query<Arrival>,
    headers: HeaderMap,
) -> Response {
    if let Some(refusal) = stranger(&app, &headers, &id, arrival.again.is_some()) {
        return refusal;
    }
    if let Some(elsewhere) = shortened(&app, &id).await {
        return elsewhere;
    }
    match find(&app, &id).await {
        Ok(question) if question["state"] == "open" => page(&question, &Vec::new(), None, StatusCode::OK),
        Ok(question) => over(&question, StatusCode::OK, Vec::new()),
        Err(outcome) => outcome,
    }
}

pub(crate) async fn answer(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Form(fields): Form<Fields>,
) -> Response {
    if let Some(refusal) = stranger(&app, &headers, &id, true) {
        return refusal;
    }
    let question = match find(&app, &id).await {
        Ok(question) => question,
        Err(outcome) => return outcome,
    };
    let choice = match choice(&question, &fields) {
        Ok(choice) => choice,
        Err(problem) => return page(&question, &fields, Some(problem), StatusCode::UNPROCESSABLE_ENTITY),
    };
    let Ok(voter) = voter(&headers, peer) else {
        return page(
            &question,
            &fields,
            Some("Your browser sent a malformed client id.".to_owned()),
            StatusCode::BAD_REQUEST,
        );
    };
    let request = AnswerRequest {
        generation: Generation(field(&fields, "generation").and_then(|text| text.parse().ok()).unwrap_or(0)),
        voter,
        by: Answerer { client_id: None, name: None, surface: "web".to_owned() },
        choice,
        // A second press of the button, or a reload of the outcome, is the same answer (V3).
        response: field(&fields, "response").and_then(|id| ResponseId::new(id).ok()),
    };
    let Ok(question_id) = QuestionId::new(id.as_str()) else { return unknown() };
    let answered = app.engine.answer(&question_id, request).await;
    let now = find(&app, &id).await.unwrap_or(question);
    match answered {
        Ok(Receipt::Settled(_)) => over(&now, StatusCode::OK, Vec::new()),
        Ok(Receipt::Recorded(_)) => recorded(&now),
        Err(error) => refused(&now, &fields, &error),
    }
}

/// The way to a login for somebody who has none; `None` for everybody else.
fn stranger(app: &App, headers: &HeaderMap, id: &str, again: bool) -> Option<Response> {
    if app.gate.admits(headers) {
        return None;
    }
    let encoded = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
    let path = format!("/q/{}", encoded(id));
    if !again && headers.get("sec-fetch-site").is_some_and(|site| site.as_bytes() == b"cross-site") {
        return Some(pages::once_more(&format!("{path}?again=1")));
    }
    let to = format!("/login?next={}", encoded(&path));
    Some((StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response())
}

/// What the end of an id leads to, as the command line shows it: its question's page, if there is one only. `None` for
/// everything else.
async fn shortened(app: &App, id: &str) -> Option<Response> {
    let ending = id.strip_prefix('…').unwrap_or(id);
    let could_be = ending.len() >= SHORTEST && QuestionId::new(format!("q_{ending}")).is_ok();
    if !could_be || QuestionId::new(id).is_ok() {
        return None;
    }
    let filter = QuestionFilter {
        state: StateFilter::Any,
        ending: Some(ending.to_owned()),
        limit: 2,
        ..QuestionFilter::default()
    };
    match app.engine.questions(filter).await {
        Ok(found) => match found.rows.as_slice() {
            [] => None,
            [only] => {
                let to = format!("/q/{}", text(only, "questionId"));
                Some((StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response())
            }
            _ => Some(ambiguous(ending)),
        },
        Err(error) => Some(failed(&error.to_string())),
    }
}

/// The question as the inbox has it, or the page that says that there is none.
async fn find(app: &App, id: &str) -> Result<Value, Response> {
    let Ok(id) = QuestionId::new(id) else { return Err(unknown()) };
    match app.engine.question(&id).await {
        Ok(Some(question)) => Ok(question),
        Ok(None) => Err(unknown()),
        Err(error) => Err(failed(&error.to_string())),
    }
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn parts(question: &Value) -> &[Value] {
    question["questions"].as_array().map_or(&[], Vec::as_slice)
}

fn options(part: &Value) -> &[Value] {
    part["options"].as_array().map_or(&[], Vec::as_slice)
}

/// What the fields choose, or what is missing in them.
fn choice(question: &Value, fields: &Fields) -> Result<Chosen, String> {
    if field(fields, "do") == Some("decline") {
        return Ok(Chosen::Decline);
    }
    if question["kind"] == "permission" {
        let option = field(fields, "option").ok_or("Choose one of the buttons.")?;
        return Ok(Chosen::Option(option.to_owned()));
    }
    let mut answers = Map::new();
    for (key, part) in parts(question).iter().enumerate() {
        answers.insert(key.to_string(), answer_to(key, part, fields)?);
    }
    Ok(Chosen::Answers(Value::Object(answers)))
}

fn answer_to(key: usize, part: &Value, fields: &Fields) -> Result<Value, String> {
    let picked: Vec<&str> = picks(fields, key).collect();
    let other = field(fields, &format!("other{key}")).unwrap_or_default().trim();
    let header = text(part, "header");
    if picked.is_empty() && other.is_empty() {
        return Err(format!("“{header}” has no answer yet."));
    }
    let mut answers = Vec::new();
    for pick in &picked {
        match pick.parse::<usize>().ok().and_then(|at| options(part).get(at)) {
            Some(option) => answers.push(text(option, "label")),
            None if *pick == "other" && !other.is_empty() => answers.push(other.to_owned()),
            None if *pick == "other" => {
                return Err(format!(
                    "“{header}”: you chose Other. Write what you mean, or choose something else."
                ));
            }
            None => {
                let last = options(part).len().saturating_sub(1);
                return Err(format!(
                    "“{header}” has no option {pick}: pick{key} is a number from 0 to {last}, or “other”."
                ));
            }
        }
    }
    // Who types and picks nothing means what they typed; who picks and types too would lose one of them.
    if !picked.contains(&"other") && !other.is_empty() {
        if !picked.is_empty() {
            return Err(format!(
                "“{header}”: you chose an option and wrote something. Choose Other to send your words."
            ));
        }
        answers.push(other.to_owned());
    }
    Ok(if part["multiSelect"] == true { json!(answers) } else { json!(answers.join(", ")) })
}

fn picks(fields: &Fields, key: usize) -> impl Iterator<Item = &str> {
    let name = format!("pick{key}");
    fields.iter().filter(move |(field, _)| *field == name).map(|(_, value)| value.as_str())
}

/// The form, with what was filled in.
fn page(question: &Value, fields: &Fields, problem: Option<String>, status: StatusCode) -> Response {
    let part = |(key, part): (usize, &Value)| Part {
        key,
        header: text(part, "header"),
        question: text(part, "question"),
        multiple: part["multiSelect"] == true,
        options: options(part)
            .iter()
            .enumerate()
            .map(|(value, option)| Choice {
                value,
                label: text(option, "label"),
                description: text(option, "description"),
                picked: picks(fields, key).any(|pick| pick == value.to_string()),
            })
            .collect(),
        other: field(fields, &format!("other{key}")).unwrap_or_default().to_owned(),
        other_picked: picks(fields, key).any(|pick| pick == "other"),
    };
    let asked = field(fields, "response").filter(|id| ResponseId::new(*id).is_ok());
    let page = QuestionPage {
        id: text(question, "questionId"),
        title: text(question, "title"),
        context: context(question),
        generation: question["generation"].as_u64().unwrap_or(0),
        response: asked.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned),
        parts: parts(question).iter().enumerate().map(part).collect(),
        action: (question["kind"] == "permission").then(|| action(question)),
        problem,
        note: note(question),
    };
    pages::render(status, &page)
}

fn context(question: &Value) -> Vec<(&'static str, String)> {
    [("Session", "sessionTitle"), ("Workspace", "workspaceCwd"), ("Agent", "agent")]
        .into_iter()
        .map(|(name, key)| (name, text(question, key)))
        .chain([("Asked", when(&text(question, "askedAt"), Timestamp::now()))])
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// A time for people: how long ago, and which that is. In UTC: without scripts nobody knows the zone of who reads it.
fn when(at: &str, now: Timestamp) -> String {
    let Ok(at) = at.parse::<Timestamp>() else { return at.to_owned() };
    let seconds = now.as_second().saturating_sub(at.as_second());
    let count =
        |number: i64, unit: &str| format!("{number} {unit}{} ago", if number == 1 { "" } else { "s" });
    let ago = match seconds {
        ..10 => "just now".to_owned(),
        10..60 => count(seconds, "second"),
        60..3600 => count(seconds / 60, "minute"),
        3600..86_400 => count(seconds / 3600, "hour"),
        _ => count(seconds / 86_400, "day"),
    };
    format!("{ago} ({})", at.strftime("%-d %B %Y, %H:%M UTC"))
}

fn note(question: &Value) -> Option<&'static str> {
    if question["live"] == true {
        None
    } else if question["answerable"] == true {
        Some("Nobody waits for it at this moment. Your answer wakes the session, and its turn goes on.")
    } else {
        Some("It cannot be answered at this moment: the daemon runs without --restore-ask-user-question.")
    }
}

fn action(question: &Value) -> Action {
    let action = &question["action"];
    let mut details = Vec::new();
    for content in action["content"].as_array().into_iter().flatten() {
        if content["type"] == "diff" {
            details.push(("Before", cut(content["oldText"].as_str().unwrap_or_default())));
            details.push(("After", cut(content["newText"].as_str().unwrap_or_default())));
        }
    }
    let input = &action["input"];
    if !input.is_null() {
        let pretty = serde_json::to_string_pretty(input).unwrap_or_default();
        details.push(("Arguments", cut(&pretty)));
    }
    let option = |option: &Value| (text(option, "optionId"), text(option, "name"));
    Action {
        title: text(action, "title"),
        details,
        options: question["options"].as_array().into_iter().flatten().map(option).collect(),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_DETAIL) {
        Some((end, _)) => format!("{}\n… {} more bytes", &text[..end], text.len() - end),
        None => text.to_owned(),
    }
}

/// What became of a question that is not open any more. `before` says it of what this person sent.
fn over(question: &Value, status: StatusCode, before: Vec<String>) -> Response {
    let outcome = &question["outcome"];
    let by = &outcome["answeredBy"];
    let who = by["name"].as_str().or_else(|| by["clientId"].as_str()).unwrap_or("somebody");
    let place = by["surface"].as_str().map(|surface| format!(" ({surface})")).unwrap_or_default();
    let at = outcome["answeredAt"].as_str().or_else(|| outcome["closedAt"].as_str()).unwrap_or_default();
    let at = when(at, Timestamp::now());
    let (heading, line) = match question["state"].as_str() {
        Some("answered") => ("Answered", format!("By {who}{place}, {at}.")),
        Some("declined") => {
            ("Declined", format!("By {who}{place}, {at}. The agent goes on without an answer."))
        }
        _ => {
            let cause = outcome["cause"].as_str().unwrap_or("unknown");
            ("Closed", format!("It was closed {at}, and nobody answered it: {}.", cause_words(cause)))
        }
    };
    let closed = question["state"] == "closed";
    let on_its_way = !closed && outcome["delivered"] != true;
    let delivered = match (closed, on_its_way) {
        (true, _) => None,
        (false, false) => Some("The agent has it."),
        (false, true) => Some("It is stored; the agent gets it next."),
    };
    let header = |key: &String| {
        let part = key.parse::<usize>().ok().and_then(|at| parts(question).get(at));
        part.map_or_else(|| key.clone(), |part| text(part, "header"))
    };
    let answers = outcome["answers"].as_object().into_iter().flatten();
    let page = OutcomePage {
        heading: format!("{heading}: {}", text(question, "title")),
        lines: before.into_iter().chain([line]).chain(delivered.map(str::to_owned)).collect(),
        answers: answers
            .map(|(key, answer)| (header(key), answer.as_str().unwrap_or_default().to_owned()))
            .collect(),
        session: question["sessionId"].as_str().map(str::to_owned),
        back: None,
        // Until the agent has it the page looks again by itself, as a page that was asked for, not as the form once more.
        again: on_its_way.then(|| format!("/q/{}", text(question, "questionId"))),
    };
    pages::render(status, &page)
}

fn cause_words(cause: &str) -> String {
    let words = match cause {
        "cancelled_before_answer" => "the turn was cancelled",
        "unreachable_question" => "a client could not show it and stopped the turn",
        "withdrawn" => "the agent took it back",
        "timed_out" => "the time to answer was over",
        "session_closed" => "its session was closed",
        "session_deleted" => "its session was deleted",
        "orphan_repair" => "something else was sent to the model first",
        "process_restarted" => "the daemon was restarted, and consent is not kept over that",
        other => return other.replace('_', " "),
    };
    words.to_owned()
}

/// A vote that counts but does not decide.
fn recorded(question: &Value) -> Response {
    let page = OutcomePage {
        heading: format!("Counted: {}", text(question, "title")),
        lines: vec!["Your answer is counted. Others have to agree before it is the answer.".to_owned()],
        answers: Vec::new(),
        session: question["sessionId"].as_str().map(str::to_owned),
        back: Some(format!("/q/{}", text(question, "questionId"))),
        again: None,
    };
    pages::render(StatusCode::ACCEPTED, &page)
}

/// An answer that was not taken.
fn refused(question: &Value, fields: &Fields, error: &EngineError) -> Response {
    if question["state"] != "open" {
        // Somebody was first, or it was closed meanwhile: what counts is what became of it (V4).
        return over(question, StatusCode::CONFLICT, vec![unused(question, fields)]);
    }
    let (status, problem) = match error {
        EngineError::Rejected(Rejection::StaleGeneration { .. }) => (
            StatusCode::CONFLICT,
            "The question was asked anew since you opened this page. Look at it again, then submit."
                .to_owned(),
        ),
        EngineError::Rejected(_) => (StatusCode::UNPROCESSABLE_ENTITY, sentence(&error.to_string())),
        _ => {
            let problem = format!("{} Nothing was lost: submit it again.", sentence(&error.to_string()));
            (StatusCode::SERVICE_UNAVAILABLE, problem)
        }
    };
    page(question, fields, Some(problem), status)
}

/// What somebody is told whose answer came too late: that it was not used, and what it was, so that it can be copied.
fn unused(question: &Value, fields: &Fields) -> String {
    let mut sent: Vec<String> = Vec::new();
    match choice(question, fields) {
        Ok(Chosen::Answers(answers)) => {
            for answer in answers.as_object().into_iter().flat_map(Map::values) {
                match answer {
                    Value::Array(several) => {
                        sent.extend(several.iter().filter_map(Value::as_str).map(str::to_owned))
                    }
                    one => sent.extend(one.as_str().map(str::to_owned)),
                }
            }
        }
        Ok(Chosen::Option(id)) => {
            let options = question["options"].as_array().into_iter().flatten();
            sent.extend(
                options.filter(|option| option["optionId"] == id.as_str()).map(|option| text(option, "name")),
            );
        }
        Ok(Chosen::Decline) => sent.push("Decline".to_owned()),
        Err(_) => {}
    }
    let what = if sent.is_empty() { String::new() } else { format!(" (“{}”)", sent.join(", ")) };
    format!("Yours{what} came too late and was not used.")
}

/// A message as a sentence of its own.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if message.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

fn unknown() -> Response {
    let line = "The link is wrong, or it is of another daemon, or the session was deleted long ago.";
    notice(StatusCode::NOT_FOUND, "There is no such question", line.to_owned())
}

fn ambiguous(ending: &str) -> Response {
    let line =
        format!("Several ids end in {ending}. Open the one that you mean from the list of all that waits.");
    notice(StatusCode::MULTIPLE_CHOICES, "More than one question ends so", line)
}

fn failed(problem: &str) -> Response {
    let line = format!("{} Nothing is lost: load this page again in a moment.", sentence(problem));
    notice(StatusCode::SERVICE_UNAVAILABLE, "The question cannot be read now", line)
}

/// A page that is about no question.
fn notice(status: StatusCode, heading: &str, line: String) -> Response {
    let page = OutcomePage {
        heading: heading.to_owned(),
        lines: vec![line],
        answers: Vec::new(),
        session: None,
        back: None,
        again: None,
    };
    pages::render(status, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_how_long_ago_and_which() {
        let now: Timestamp = "2026-03-01T13:00:05Z".parse().unwrap();
        for (at, expected) in [
            ("2026-03-01T13:00:00.123Z", "just now (1 March 2026, 13:00 UTC)"),
            ("2026-03-01T13:00:30Z", "just now (1 March 2026, 13:00 UTC)"),
            ("2026-03-01T12:59:05Z", "1 minute ago (1 March 2026, 12:59 UTC)"),
            ("2026-03-01T10:00:00Z", "3 hours ago (1 March 2026, 10:00 UTC)"),
            ("2026-02-27T13:00:00Z", "2 days ago (27 February 2026, 13:00 UTC)"),
            ("yesterday", "yesterday"),
        ] {
            assert_eq!(when(at, now), expected);
        }
    }

    #[tokio::test]
    async fn d3_a_page_looks_again_until_the_agent_has_the_answer() {
        for (state, delivered, again) in [
            ("answered", false, true),
            ("answered", true, false),
            ("declined", false, true),
            ("closed", false, false),
        ] {
            let question = json!({
                "questionId": "q_01", "title": "Which?", "state": state, "sessionId": "s",
                "outcome": { "delivered": delivered, "cause": "timed_out" },
            });
            let body = over(&question, StatusCode::OK, Vec::new()).into_body();
            let page = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let page = String::from_utf8(page.to_vec()).unwrap();
            let looks = page.contains(r#"<meta http-equiv="refresh" content="3; url=/q/q_01">"#);
            assert_eq!(looks, again, "{state} {delivered}: {page}");
        }
    }
}
