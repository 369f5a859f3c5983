//! Questions and permissions, and how they ended.

use holdpoint_client::{Kind, OptionView, QuestionView, Receipt, ReceiptStatus, State};
use holdpoint_model::question::Question;
use serde_json::Value;

use super::diff::diff;
use super::{Paint, indented, one_line, plain};

/// Most lines of a call's arguments that are shown.
const ARGUMENT_LINES: usize = 40;

/// A question in full, as somebody who has to answer it sees it: `here`, or later by a command.
pub(crate) fn question(view: &QuestionView, here: bool, paint: Paint) -> String {
    let mut text = String::new();
    if view.kind == Kind::Permission || view.questions.is_empty() {
        permission(&mut text, view, here, paint);
        return text;
    }
    let many = view.questions.len() > 1;
    if many {
        text.push_str(&format!("{} {} questions\n", paint.yellow("?"), view.questions.len()));
    }
    for (index, question) in view.questions.iter().enumerate() {
        text.push_str(&part(question, many.then_some(index), here, paint));
    }
    text
}

/// One part of a question. The index is shown where there are several.
fn part(question: &Question, index: Option<usize>, here: bool, paint: Paint) -> String {
    let mark = match index {
        Some(index) => format!("  [{index}]"),
        None => paint.yellow("?"),
    };
    let mut text =
        format!("{mark} {}: {}\n", paint.bold(&one_line(&question.header, 60)), plain(&question.question));
    let indent = if index.is_some() { "      " } else { "    " };
    let width = question.options.iter().map(|option| plain(&option.label).chars().count()).max().unwrap_or(0);
    for (number, option) in question.options.iter().enumerate() {
        let label = one_line(&option.label, 200);
        let pad = " ".repeat(width.saturating_sub(label.chars().count()));
        let description = paint.dim(&one_line(&option.description, 400));
        text.push_str(&format!("{indent}{}  {}{pad}  {description}\n", number + 1, paint.cyan(&label)));
    }
    let several = if question.multi_select { "several may be picked; " } else { "" };
    let how = match (here, index) {
        (true, _) => "or type your own answer; d = decline".to_owned(),
        (false, None) => "or --text with your own words; or --decline".to_owned(),
        (false, Some(index)) => format!("or --answer {index}= with your own words"),
    };
    text.push_str(&format!("{indent}{}\n", paint.dim(&format!("{several}{how}"))));
    text
}

fn permission(text: &mut String, view: &QuestionView, here: bool, paint: Paint) {
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
    for (number, option) in view.options.iter().enumerate() {
        text.push_str(&format!("    {}  {}\n", number + 1, paint.cyan(&option_label(option))));
    }
    text.push_str(&format!("    {}\n", paint.dim(if here { "d = refuse" } else { "or --decline" })));
}

fn option_label(option: &OptionView) -> String {
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

/// Everything about one question: `holdpoint inbox ID`. `page` is the address of the question in a browser.
pub(crate) fn whole(view: &QuestionView, age: &str, page: &str, paint: Paint) -> String {
    let mut text = question(view, false, paint);
    let mut row = |name: &str, value: String| {
        text.push_str(&format!("{} {value}\n", paint.dim(&format!("{name:>10}"))))
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
    if let Some(outcome) = &view.outcome {
        for line in outcome_lines(outcome) {
            row("outcome", line);
        }
    }
    if !view.shown.is_empty() {
        let shown: Vec<String> = view.shown.iter().map(|shown| one_line(&shown.surface, 30)).collect();
        row("shown on", shown.join(", "));
    }
    row("page", one_line(page, 400));
    if view.state == State::Open {
        text.push_str(&format!("\nanswer it with\n  {}\n", answer_command(view)));
    }
    text
}

fn state(view: &QuestionView) -> String {
    match &view.state {
        State::Open if view.live => "open, being asked".to_owned(),
        State::Open if view.restorable == Some(false) => {
            "open, but the daemon can't ask it again now (`holdpoint doctor` says whether \
             --restore-ask-user-question is on)"
                .to_owned()
        }
        State::Open => "open; its session is asleep and wakes with the answer".to_owned(),
        State::Answered => "answered".to_owned(),
        State::Declined => "declined".to_owned(),
        State::Closed => "closed without an answer".to_owned(),
        State::Other(other) => one_line(other, 40),
    }
}

fn outcome_lines(outcome: &Value) -> Vec<String> {
    match outcome {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| format!("{}: {}", one_line(key, 40), one_line(&in_words(value), 200)))
            .collect(),
        Value::String(text) => vec![one_line(text, 200)],
        other => vec![one_line(&other.to_string(), 200)],
    }
}

/// A value as a person writes it: texts alone, and of an object its values.
fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(map) => map.values().map(in_words).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The exact command that answers it; what has to be filled in is in angle brackets.
pub(crate) fn answer_command(view: &QuestionView) -> String {
    let what = match (&view.kind, view.questions.as_slice()) {
        (Kind::UserQuestion, [_]) | (Kind::Permission, _) | (_, []) => "<number or label>".to_owned(),
        (_, parts) => (0..parts.len())
            .map(|i| format!("--answer {i}=<number, label or text>"))
            .collect::<Vec<_>>()
            .join(" "),
    };
    format!("holdpoint answer {} {what}", view.question_id)
}

/// One line: this one waits.
pub(crate) fn parked(view: &QuestionView, paint: Paint) -> String {
    format!("{} waits; answer it with\n  {}\n", paint.bold(view.question_id.as_str()), answer_command(view))
}

/// One line: it is asked once more.
pub(crate) fn asked(view: &QuestionView) -> String {
    format!("{} is asked again, and still waits for its answer", view.question_id)
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

/// A question that is not asked any more, and stays open. `now` is what the daemon says of it, if it does.
pub(crate) fn unasked(view: &QuestionView, cause: &str, now: Option<&QuestionView>) -> String {
    let why = match cause {
        "agent_gone" => "its agent ended",
        "timed_out" => "nobody answered in time",
        "session_closed" => "its session was closed",
        "aborted" => "its turn was stopped",
        _ => "its asking ended",
    };
    let then = match now {
        Some(now) if now.state == State::Open => still_open(now),
        Some(now) => format!("it is {}", state(now)),
        None => "what becomes of it `holdpoint inbox` tells".to_owned(),
    };
    format!("{}: {why}; {then}", view.question_id)
}

/// What an open question waits for, by the daemon's word.
pub(crate) fn still_open(view: &QuestionView) -> String {
    if view.live {
        "it is being asked, and waits for its answer"
    } else if view.restorable == Some(false) {
        "it stays open, but the daemon can't ask it again now"
    } else {
        "it stays open, and is asked again when its session is loaded or it is answered"
    }
    .to_owned()
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

/// Answers of a receipt or an event: a map from index to text; of a permission the chosen option.
fn answers_text(view: &QuestionView, answers: Option<&Value>, option: Option<&str>) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => one_line(text, 200),
        Value::Array(list) => list
            .iter()
            .filter_map(Value::as_str)
            .map(|text| one_line(text, 100))
            .collect::<Vec<_>>()
            .join(", "),
        other => one_line(&other.to_string(), 200),
    };
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

    const PAGE: &str = "http://127.0.0.1:4170/q/q_01abcdef0123";
    const PLAIN: fn() -> Paint = || Paint::new(false);

    #[test]
    fn q1_a_question_as_it_is_asked() {
        insta::assert_snapshot!(question(&colour(false), true, PLAIN()), @"
        ? Colour: Which colour should the header have?
            1  Red        warm and loud
            2  Pale blue  cold and calm
            or type your own answer; d = decline
        ");
        insta::assert_snapshot!(question(&two_parts(), true, PLAIN()), @"
        ? 2 questions
          [0] Colour: Which colour should the header have?
              1  Red        warm and loud
              2  Pale blue  cold and calm
              several may be picked; or type your own answer; d = decline
          [1] Size: And which size?
              1  Small  …
              2  Large  …
              or type your own answer; d = decline
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
        let mut answered = two_parts();
        answered.state = State::Answered;
        answered.outcome =
            Some(json!({"answeredBy": {"name": "Ada"}, "answers": {"0": "Red"}, "status": "answered"}));
        insta::assert_snapshot!(whole(&answered, "2 d", PAGE, PLAIN()), @r#"
        ? 2 questions
          [0] Colour: Which colour should the header have?
              1  Red        warm and loud
              2  Pale blue  cold and calm
              several may be picked; or --answer 0= with your own words
          [1] Size: And which size?
              1  Small  …
              2  Large  …
              or --answer 1= with your own words
          question q_01abcdef0123, generation 2
           session 0195aaaa-0000-7000-8000-000000000001 (Redo the header)
         workspace /proj/site
             asked 2026-03-01T10:00:00Z (2 d ago)
             state answered
           outcome answeredBy: Ada
           outcome answers: Red
           outcome status: answered
          shown on web
              page http://127.0.0.1:4170/q/q_01abcdef0123
        "#);
    }

    #[test]
    fn s3_a_question_that_can_not_be_asked_now_says_why() {
        let mut view = colour(false);
        view.restorable = Some(false);
        assert!(state(&view).contains("--restore-ask-user-question"));
        assert!(still_open(&view).contains("can't ask it again"));
        let gone = unasked(&view, "agent_gone", None);
        assert!(
            gone.contains("holdpoint inbox") && !gone.contains("stays open"),
            "nothing is assumed: {gone}"
        );
        view.state = State::Closed;
        let closed = unasked(&view, "agent_gone", Some(&view));
        assert!(closed.ends_with("its agent ended; it is closed without an answer"), "{closed}");
    }

    #[test]
    fn how_to_answer_later() {
        insta::assert_snapshot!(parked(&colour(false), PLAIN()), @"
        q_01abcdef0123 waits; answer it with
          holdpoint answer q_01abcdef0123 <number or label>
        ");
        insta::assert_snapshot!(parked(&two_parts(), PLAIN()), @"
        q_01abcdef0123 waits; answer it with
          holdpoint answer q_01abcdef0123 --answer 0=<number, label or text> --answer 1=<number, label or text>
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
