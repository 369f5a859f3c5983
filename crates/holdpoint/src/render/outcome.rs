//! How a question ended: who, what, when and where (V4); and the whole of one question.

use holdpoint_client::{AnsweredBy, QuestionView, State};
use holdpoint_model::question::Question;
use serde_json::Value;

use super::advice::{how_to_answer, state};
use super::question::{action, answer_text, heading, is_permission, option_label, question};
use super::{Paint, answered_by, one_line};

/// What a cause means, in words.
pub(crate) fn closed_because(cause: &str) -> Option<&'static str> {
    Some(match cause {
        "orphan_repair" => "another prompt was sent before it was answered, so the agent went on without it",
        "cancelled_before_answer" => "its turn was cancelled",
        "unreachable_question" => "a client could not show it, and stopped the turn",
        "timed_out" => "nobody answered in time",
        "session_deleted" => "its session was deleted",
        "session_closed" => "its session was closed",
        "process_restarted" => "the daemon was restarted; consent is not kept, and the agent may ask again",
        "withdrawn" => "the agent took it back",
        _ => return None,
    })
}

fn text<'a>(view: &'a QuestionView, key: &str) -> Option<&'a str> {
    view.outcome.as_ref()?.get(key)?.as_str()
}

/// Who answered or declined, and where.
fn by(view: &QuestionView) -> Option<String> {
    let by = view.outcome.as_ref()?.get("answeredBy").filter(|by| !by.is_null())?;
    let by: AnsweredBy = serde_json::from_value(by.clone()).unwrap_or_default();
    Some(format!(" by {}", answered_by(&by)))
}

/// That it ended, and how, in a few words: `answered by Ada (slack)`.
pub(crate) fn ended(view: &QuestionView) -> String {
    let by = || by(view).unwrap_or_default();
    match &view.state {
        State::Open => "open".to_owned(),
        State::Answered => format!("answered{}", by()),
        State::Declined => format!("declined{}", by()),
        State::Closed => match text(view, "cause") {
            Some(cause) => {
                let words = closed_because(cause).map_or_else(|| one_line(cause, 80), str::to_owned);
                format!("closed without an answer: {words}")
            }
            None => "closed without an answer".to_owned(),
        },
        State::Other(other) => one_line(other, 40),
    }
}

/// What was chosen in a permission.
fn chosen(view: &QuestionView) -> Option<String> {
    let option = text(view, "optionId")?;
    let offered = view.options.iter().find(|offered| offered.option_id == option);
    Some(offered.map_or_else(|| one_line(option, 60), option_label))
}

/// A question that has ended, with what was answered to each part. It invites nothing.
pub(crate) fn past(view: &QuestionView, paint: Paint) -> String {
    let mut said = String::new();
    if is_permission(view) {
        said.push_str(&action(view, paint));
    }
    let answers = view.outcome.as_ref().and_then(|outcome| outcome.get("answers"));
    let many = view.questions.len() > 1;
    for (index, part) in view.questions.iter().enumerate() {
        said.push_str(&heading(part, many.then_some(index), paint));
        if let Some(answer) = answers.and_then(|answers| answers.get(index.to_string())) {
            let indent = if many { "      " } else { "    " };
            said.push_str(&format!("{indent}{} {}\n", paint.green("→"), answer_text(answer)));
        }
    }
    if let Some(chosen) = chosen(view) {
        said.push_str(&format!("    {} {chosen}\n", paint.green("→")));
    }
    said
}

/// As it stands in a history: the question, and how it ended.
pub(crate) fn in_history(view: &QuestionView, paint: Paint) -> String {
    let at = text(view, "answeredAt").or_else(|| text(view, "closedAt"));
    let at = at.map_or_else(String::new, |at| format!(" at {}", one_line(at, 40)));
    format!("\n{}    {}\n", past(view, paint), paint.dim(&format!("{}{at}", ended(view))))
}

/// As it stands in a history that the daemon has no record of its own for: with the text of the call's result.
pub(crate) fn unrecorded(parts: &[Question], result: Option<&str>, paint: Paint) -> String {
    let many = parts.len() > 1;
    let mut said = String::from("\n");
    for (index, part) in parts.iter().enumerate() {
        said.push_str(&heading(part, many.then_some(index), paint));
    }
    if let Some(result) = result {
        said.push_str(&format!("    {} {}\n", paint.green("→"), one_line(result, 200)));
    }
    said
}

/// Everything about one question: `holdpoint inbox ID`. `page` is the address of the question in a browser.
pub(crate) fn whole(view: &QuestionView, age: &str, page: &str, paint: Paint) -> String {
    let is_open = view.state == State::Open;
    let mut said = if is_open { question(view, false, paint) } else { past(view, paint) };
    let mut row = |name: &str, value: String| {
        said.push_str(&format!("{} {value}\n", paint.dim(&format!("{name:>10}"))));
    };
    row("question", format!("{}, generation {}", view.question_id, view.generation));
    let session = match &view.session_title {
        Some(title) => format!("{} ({})", view.session_id, one_line(title, 60)),
        None => view.session_id.to_string(),
    };
    row("session", session);
    if let Some(cwd) = &view.workspace_cwd {
        row("workspace", one_line(cwd, 200));
    }
    if let Some(at) = &view.asked_at {
        row("asked", format!("{} ({age} ago)", one_line(at, 40)));
    }
    row("state", state(view));
    if let Some(at) = text(view, "answeredAt").or_else(|| text(view, "closedAt")) {
        row("ended", one_line(at, 40));
    }
    let delivered =
        view.outcome.as_ref().and_then(|outcome| outcome.get("delivered")).and_then(Value::as_bool);
    if matches!(view.state, State::Answered | State::Declined) && delivered == Some(false) {
        row("delivery", "it is on disk, and not yet with the agent".to_owned());
    }
    if !view.shown.is_empty() {
        let shown: Vec<String> = view.shown.iter().map(|shown| one_line(&shown.surface, 30)).collect();
        row("shown on", shown.join(", "));
    }
    row("page", one_line(page, 400));
    if is_open {
        said.push_str(&format!("\n{}", how_to_answer(view)));
    }
    said
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::samples::{colour, two_parts, unanswerable, write_file};

    const PAGE: &str = "http://127.0.0.1:4170/q/q_01abcdef0123";
    const PLAIN: fn() -> Paint = || Paint::new(false);

    #[test]
    fn d2_one_question_whole() {
        insta::assert_snapshot!(whole(&colour(false), "3 h", PAGE, PLAIN()), @"
        ? Colour: Which colour should the header have?
            1  Red        warm and loud
            2  Pale blue  cold and calm
            or --text with your own words; or --decline
          question q_01abcdef0123, generation 2
           session 0195aaaa-0000-7000-8000-000000000001 (Redo the header)
         workspace /proj/site
             asked 2026-03-01T10:00:00Z (3 h ago)
             state open; its session is asleep and wakes with the answer
          shown on web
              page http://127.0.0.1:4170/q/q_01abcdef0123

        answer it with
          holdpoint answer q_01abcdef0123 <number or label>
        ");
        insta::assert_snapshot!(whole(&unanswerable(), "3 h", PAGE, PLAIN()), @"
        ? Colour: Which colour should the header have?
            1  Red        warm and loud
            2  Pale blue  cold and calm
          question q_01abcdef0123, generation 2
           session 0195aaaa-0000-7000-8000-000000000001 (Redo the header)
         workspace /proj/site
             asked 2026-03-01T10:00:00Z (3 h ago)
             state open, but nobody asks it, and the daemon runs without --restore-ask-user-question
          shown on web
              page http://127.0.0.1:4170/q/q_01abcdef0123

        it takes no answer now: nobody asks it, and the daemon runs without --restore-ask-user-question
        stop the daemon, and start it with --restore-ask-user-question, then
          holdpoint answer q_01abcdef0123 <number or label>
        ");
    }

    #[test]
    fn v4_one_that_has_ended_shows_how_and_invites_nothing() {
        let mut view = two_parts();
        view.state = State::Answered;
        view.outcome = Some(json!({"state": "answered", "answeredBy": {"name": "Ada", "surface": "slack"},
            "answers": {"0": ["Red", "Pale\u{1b} blue"], "1": "as small as can be"},
            "answeredAt": "2026-03-01T10:05:00Z", "delivered": false}));
        insta::assert_snapshot!(whole(&view, "2 d", PAGE, PLAIN()), @"
         [0] Colour: Which colour should the header have?
             → Red, Pale␛ blue
         [1] Size: And which size?
             → as small as can be
         question q_01abcdef0123, generation 2
          session 0195aaaa-0000-7000-8000-000000000001 (Redo the header)
        workspace /proj/site
            asked 2026-03-01T10:00:00Z (2 d ago)
            state answered by Ada (slack)
            ended 2026-03-01T10:05:00Z
         delivery it is on disk, and not yet with the agent
         shown on web
             page http://127.0.0.1:4170/q/q_01abcdef0123
        ");
        let mut view = colour(false);
        view.state = State::Closed;
        view.outcome =
            Some(json!({"state": "closed", "cause": "orphan_repair", "closedAt": "2026-03-01T10:05:00Z",
            "delivered": true}));
        insta::assert_snapshot!(whole(&view, "2 d", PAGE, PLAIN()), @"
        ? Colour: Which colour should the header have?
          question q_01abcdef0123, generation 2
           session 0195aaaa-0000-7000-8000-000000000001 (Redo the header)
         workspace /proj/site
             asked 2026-03-01T10:00:00Z (2 d ago)
             state closed without an answer: another prompt was sent before it was answered, so the agent went on without it
             ended 2026-03-01T10:05:00Z
          shown on web
              page http://127.0.0.1:4170/q/q_01abcdef0123
        ");
        let mut view = write_file();
        view.state = State::Answered;
        view.outcome = Some(json!({"state": "answered", "optionId": "proceed_always",
            "answeredBy": {"clientId": "client_1", "surface": "web"}, "answeredAt": "2026-03-01T10:05:00Z"}));
        insta::assert_snapshot!(whole(&view, "2 d", PAGE, PLAIN()), @"
        ! Permission: write_file plan.md
            plan.md (from line 2)
              a
            + b
            → Always allow
          question q_02, generation 3
           session s
             state answered by client_1 (web)
             ended 2026-03-01T10:05:00Z
              page http://127.0.0.1:4170/q/q_01abcdef0123
        ");
        view.state = State::Declined;
        view.outcome =
            Some(json!({"state": "declined", "optionId": "cancel", "answeredBy": {"surface": "cli"},
            "answeredAt": "2026-03-01T10:05:00Z"}));
        insta::assert_snapshot!(in_history(&view, PLAIN()), @"

        ! Permission: write_file plan.md
            plan.md (from line 2)
              a
            + b
            → Refuse
            declined by somebody (cli) at 2026-03-01T10:05:00Z
        ");
    }

    #[test]
    fn each_cause_has_words() {
        for cause in [
            "orphan_repair",
            "cancelled_before_answer",
            "unreachable_question",
            "timed_out",
            "session_deleted",
            "session_closed",
            "process_restarted",
            "withdrawn",
        ] {
            let words = closed_because(cause).unwrap();
            assert!(!words.contains('_'), "{words}");
        }
        assert_eq!(closed_because("something_new"), None);
    }
}
