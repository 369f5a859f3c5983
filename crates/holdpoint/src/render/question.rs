//! Questions and permissions, and how they ended.

use holdpoint_client::{Kind, OptionView, QuestionView, Receipt, ReceiptStatus};
use holdpoint_model::question::Question;
use serde_json::Value;

use super::diff::diff;
use super::{Paint, indented, one_line, plain};

/// Most lines of a call's arguments that are shown.
const ARGUMENT_LINES: usize = 40;

/// How a question that is shown can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Right here, by typing.
    Here,
    /// Later, by a command.
    Later,
    /// Not now: nothing invites to it.
    None,
}

/// A question in full, as somebody who has to answer it sees it: `here`, or later by a command. Where no answer is
/// taken, none is invited.
pub(crate) fn question(view: &QuestionView, here: bool, paint: Paint) -> String {
    let way = match (here, view.takes_answers()) {
        (true, _) => Way::Here,
        (false, true) => Way::Later,
        (false, false) => Way::None,
    };
    let mut text = String::new();
    if is_permission(view) {
        permission(&mut text, view, way, paint);
        return text;
    }
    let many = view.questions.len() > 1;
    if many {
        text.push_str(&format!("{} {} questions\n", paint.yellow("?"), view.questions.len()));
    }
    for (index, question) in view.questions.iter().enumerate() {
        text.push_str(&part(question, many.then_some(index), way, paint));
    }
    text
}

pub(super) fn is_permission(view: &QuestionView) -> bool {
    view.kind == Kind::Permission || view.questions.is_empty()
}

/// One part of a question. The index is shown where there are several.
fn part(question: &Question, index: Option<usize>, way: Way, paint: Paint) -> String {
    let mut text = heading(question, index, paint);
    let indent = if index.is_some() { "      " } else { "    " };
    let width = question.options.iter().map(|option| plain(&option.label).chars().count()).max().unwrap_or(0);
    for (number, option) in question.options.iter().enumerate() {
        let label = one_line(&option.label, 200);
        let pad = " ".repeat(width.saturating_sub(label.chars().count()));
        let description = paint.dim(&one_line(&option.description, 400));
        text.push_str(&format!("{indent}{}  {}{pad}  {description}\n", number + 1, paint.cyan(&label)));
    }
    let several = if question.multi_select { "several may be picked; " } else { "" };
    let how = match (way, index) {
        (Way::Here, _) => "or type your own words (after = just as they are); d declines".to_owned(),
        (Way::Later, None) => "or --text with your own words; or --decline".to_owned(),
        (Way::Later, Some(index)) => format!("or --answer {index}= with your own words"),
        (Way::None, _) => return text,
    };
    text.push_str(&format!("{indent}{}\n", paint.dim(&format!("{several}{how}"))));
    text
}

/// What one part asks.
pub(super) fn heading(question: &Question, index: Option<usize>, paint: Paint) -> String {
    let mark = match index {
        Some(index) => format!("  [{index}]"),
        None => paint.yellow("?"),
    };
    format!("{mark} {}: {}\n", paint.bold(&one_line(&question.header, 60)), plain(&question.question))
}

fn permission(text: &mut String, view: &QuestionView, way: Way, paint: Paint) {
    text.push_str(&action(view, paint));
    let how = match way {
        Way::Here => "d = refuse",
        Way::Later => "or --decline",
        Way::None => return,
    };
    for (number, option) in view.options.iter().enumerate() {
        text.push_str(&format!("    {}  {}\n", number + 1, paint.cyan(&option_label(option))));
    }
    text.push_str(&format!("    {}\n", paint.dim(how)));
}

/// What a permission is asked for.
pub(super) fn action(view: &QuestionView, paint: Paint) -> String {
    let mut text = String::new();
    let action = view.action.clone().unwrap_or_default();
    let title = action.title.clone().filter(|title| !title.is_empty()).unwrap_or_else(|| view.title.clone());
    text.push_str(&format!(
        "{} {} {}\n",
        paint.yellow("!"),
        paint.bold("Permission:"),
        one_line(&title, 200)
    ));
    let mut has_diff = false;
    for content in &action.content {
        let string = |key: &str| content.get(key).and_then(Value::as_str);
        match content.get("type").and_then(Value::as_str) {
            Some("diff") => {
                has_diff = true;
                let (path, new) = (string("path").unwrap_or_default(), string("newText").unwrap_or_default());
                text.push_str(&indented(&diff(path, string("oldText"), new, paint), "    "));
            }
            _ => {
                if let Some(words) = content.pointer("/content/text").and_then(Value::as_str) {
                    text.push_str(&indented(&plain(words), "    "));
                }
            }
        }
    }
    if let Some(input) = &action.input
        && !has_diff
    {
        text.push_str(&arguments(input));
    }
    text
}

pub(super) fn option_label(option: &OptionView) -> String {
    one_line(if option.label.is_empty() { &option.option_id } else { &option.label }, 80)
}

/// The arguments of a call, a line each; long texts over several lines.
fn arguments(input: &Value) -> String {
    let mut text = String::new();
    match input {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(value) if value.contains('\n') => {
                        text.push_str(&format!("{}:\n{}", one_line(key, 60), indented(&plain(value), "  ")));
                    }
                    Value::String(value) => {
                        text.push_str(&format!("{}: {}\n", one_line(key, 60), plain(value)))
                    }
                    other => {
                        text.push_str(&format!("{}: {}\n", one_line(key, 60), plain(&other.to_string())))
                    }
                }
            }
        }
        other => text.push_str(&format!("{}\n", plain(&other.to_string()))),
    }
    let count = text.lines().count();
    let mut shown: String = text.lines().take(ARGUMENT_LINES).map(|line| format!("    {line}\n")).collect();
    if count > ARGUMENT_LINES {
        shown.push_str(&format!("    … {} more lines\n", count - ARGUMENT_LINES));
    }
    shown
}

/// What a receipt says.
pub(crate) fn receipt(receipt: &Receipt, view: &QuestionView, paint: Paint) -> String {
    let option = receipt.more.get("optionId").and_then(Value::as_str);
    let what = match &receipt.status {
        ReceiptStatus::Answered => answers_text(view, receipt.answers.as_ref(), option),
        ReceiptStatus::Declined => "declined".to_owned(),
        ReceiptStatus::Recorded => "your vote is recorded; others have to agree".to_owned(),
        ReceiptStatus::Other(other) => one_line(other, 60),
    };
    let delivery = match receipt.delivery.as_deref() {
        Some("delivered") => "; the agent has it",
        Some("delivering") => "; it is on disk, and on its way to the agent",
        Some("waking") => "; it is on disk, and the session wakes for it",
        Some(_) => "; it is on disk, and not yet with the agent",
        None => "",
    };
    format!("{} {}: {what}{delivery}\n", paint.green("✓"), receipt.question_id)
}

/// How a question ended that somebody else, or nobody, answered.
pub(crate) fn settled(
    view: &QuestionView,
    who: &str,
    declined: bool,
    answers: Option<&Value>,
    option: Option<&str>,
) -> String {
    if declined {
        return format!("{}: declined or cancelled by {who}", view.question_id);
    }
    format!("{}: {}, by {who}", view.question_id, answers_text(view, answers, option))
}

/// The answer to one part: a text, or several picks.
pub(super) fn answer_text(value: &Value) -> String {
    match value {
        Value::String(text) => one_line(text, 200),
        Value::Array(list) => {
            let texts = list.iter().filter_map(Value::as_str).map(|text| one_line(text, 100));
            texts.collect::<Vec<_>>().join(", ")
        }
        other => one_line(&other.to_string(), 200),
    }
}

/// Answers of a receipt or an event: a map from index to text; of a permission the chosen option.
fn answers_text(view: &QuestionView, answers: Option<&Value>, option: Option<&str>) -> String {
    let text = answer_text;
    match answers.and_then(Value::as_object) {
        Some(map) if map.len() == 1 => format!("answered: {}", map.values().map(text).collect::<String>()),
        Some(map) if !map.is_empty() => {
            let parts: Vec<String> =
                map.iter().map(|(key, value)| format!("[{key}] {}", text(value))).collect();
            format!("answered: {}", parts.join("; "))
        }
        _ => match (option, view.options.iter().find(|offered| Some(offered.option_id.as_str()) == option)) {
            (_, Some(offered)) => format!("answered: {}", option_label(offered)),
            (Some(option), None) if view.kind == Kind::Permission => {
                format!("answered: {}", one_line(option, 60))
            }
            _ => "answered".to_owned(),
        },
    }
}

/// Shared by the tests of several modules.
#[cfg(test)]
pub(crate) mod samples {
    use serde_json::json;

    use super::*;

    pub(crate) fn view(value: Value) -> QuestionView {
        serde_json::from_value(value).unwrap()
    }

    pub(crate) fn colour(multi: bool) -> QuestionView {
        view(json!({
            "questionId": "q_01abcdef0123", "generation": 2, "sessionId": "0195aaaa-0000-7000-8000-000000000001",
            "kind": "user_question", "state": "open", "title": "Which colour should the header have?",
            "questions": [{"question": "Which colour should the header have?", "header": "Colour", "multiSelect": multi,
                "options": [{"label": "Red", "description": "warm and loud"}, {"label": "Pale blue", "description": "cold and calm"}]}],
            "workspaceCwd": "/proj/site", "sessionTitle": "Redo the header", "askedAt": "2026-03-01T10:00:00Z",
            "live": false, "restorable": true, "shown": [{"surface": "web"}]
        }))
    }

    /// One that waits where the daemon runs without the flag, after a restart.
    pub(crate) fn unanswerable() -> QuestionView {
        let mut view = colour(false);
        (view.restorable, view.answerable) = (Some(false), Some(false));
        view
    }

    pub(crate) fn two_parts() -> QuestionView {
        let mut view = colour(true);
        view.questions.push(Question {
            question: "And which size?".into(),
            header: "Size".into(),
            options: ["Small", "Large"]
                .map(|label| holdpoint_model::question::Choice {
                    label: label.into(),
                    description: "…".into(),
                })
                .to_vec(),
            multi_select: false,
        });
        view
    }

    pub(crate) fn write_file() -> QuestionView {
        view(json!({
            "questionId": "q_02", "generation": 3, "sessionId": "s", "kind": "permission", "state": "open",
            "title": "write_file plan.md", "live": true,
            "action": {"type": "edit", "title": "write_file plan.md", "input": {"path": "plan.md", "content": "a\nb\n"},
                "content": [{"type": "diff", "path": "plan.md", "oldText": "a\n", "newText": "a\nb\n"}]},
            "options": [{"optionId": "proceed_once", "label": "Allow once", "kind": "allow_once"},
                        {"optionId": "proceed_always", "label": "Always allow", "kind": "allow_always"},
                        {"optionId": "cancel", "label": "Refuse", "kind": "reject_once"}]
        }))
    }

    pub(crate) fn shell() -> QuestionView {
        let mut view = write_file();
        view.title = "run_shell_command".into();
        view.action = Some(Action {
            title: Some("run_shell_command: rm\u{1b}[2K -rf build".into()),
            input: Some(json!({"command": "rm \u{1b}[2K-rf build", "timeout": 5, "script": "one\ntwo"})),
            ..Action::default()
        });
        view
    }

    use holdpoint_client::Action;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::samples::{colour, shell, two_parts, write_file};
    use super::*;

    const PLAIN: fn() -> Paint = || Paint::new(false);

    #[test]
    fn q1_a_question_as_it_is_asked() {
        insta::assert_snapshot!(question(&colour(false), true, PLAIN()), @"
        ? Colour: Which colour should the header have?
            1  Red        warm and loud
            2  Pale blue  cold and calm
            or type your own words (after = just as they are); d declines
        ");
        insta::assert_snapshot!(question(&two_parts(), true, PLAIN()), @"
        ? 2 questions
          [0] Colour: Which colour should the header have?
              1  Red        warm and loud
              2  Pale blue  cold and calm
              several may be picked; or type your own words (after = just as they are); d declines
          [1] Size: And which size?
              1  Small  …
              2  Large  …
              or type your own words (after = just as they are); d declines
        ");
    }

    #[test]
    fn v6_a_permission_with_its_change_or_its_arguments() {
        insta::assert_snapshot!(question(&write_file(), true, PLAIN()), @"
        ! Permission: write_file plan.md
            plan.md (from line 2)
              a
            + b
            1  Allow once
            2  Always allow
            3  Refuse
            d = refuse
        ");
        insta::assert_snapshot!(question(&shell(), true, PLAIN()), @"
        ! Permission: run_shell_command: rm␛[2K -rf build
            command: rm ␛[2K-rf build
            timeout: 5
            script:
              one
              two
            1  Allow once
            2  Always allow
            3  Refuse
            d = refuse
        ");
    }

    #[test]
    fn receipts_and_ends() {
        let mut value = json!({"status": "answered", "questionId": "q_1", "generation": 1, "responseId": "r",
            "answers": {"0": "Red"}, "delivery": "waking"});
        let say =
            |value: &Value| receipt(&serde_json::from_value(value.clone()).unwrap(), &write_file(), PLAIN());
        insta::assert_snapshot!(say(&value), @"✓ q_1: answered: Red; it is on disk, and the session wakes for it");
        value["answers"] = json!({"0": ["a", "b"], "1": "c\u{1b}"});
        value["delivery"] = json!("delivered");
        insta::assert_snapshot!(say(&value), @"✓ q_1: answered: [0] a, b; [1] c␛; the agent has it");
        value["answers"] = Value::Null;
        value["optionId"] = json!("proceed_always");
        insta::assert_snapshot!(say(&value), @"✓ q_1: answered: Always allow; the agent has it");
        value["status"] = json!("recorded");
        insta::assert_snapshot!(say(&value), @"✓ q_1: your vote is recorded; others have to agree; the agent has it");
        value["status"] = json!("answered");
        value["optionId"] = Value::Null;
        for (delivery, words) in [("delivering", "on its way"), ("parked", "not yet with the agent")] {
            value["delivery"] = json!(delivery);
            assert!(say(&value).contains(words), "{}", say(&value));
        }
        insta::assert_snapshot!(settled(&colour(false), "Ada (slack)", false, Some(&json!({"0": "Blue"})), None), @"q_01abcdef0123: answered: Blue, by Ada (slack)");
        insta::assert_snapshot!(settled(&colour(false), "somebody", true, None, None), @"q_01abcdef0123: declined or cancelled by somebody");
    }
}
