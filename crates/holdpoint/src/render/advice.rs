//! What can be done about a question that waits, and what would help where nothing can.

use holdpoint_client::{Kind, QuestionView, State};

use super::Paint;
use super::outcome::ended;

/// Why an open question takes no answer (D3, restore_disabled): it needs the flag, and nothing else.
const NO_FLAG: &str = "the daemon runs without --restore-ask-user-question";
/// What helps.
pub(crate) const START_WITH_FLAG: &str = "stop the daemon, and start it with --restore-ask-user-question";

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

/// How to answer it: now, or what has to be done before.
pub(crate) fn how_to_answer(view: &QuestionView) -> String {
    let command = answer_command(view);
    if view.takes_answers() {
        format!("answer it with\n  {command}\n")
    } else {
        format!("{}\n{START_WITH_FLAG}, then\n  {command}\n", takes_none())
    }
}

/// Why an open question takes no answer.
pub(crate) fn takes_none() -> String {
    format!("it takes no answer now: nobody asks it, and {NO_FLAG}")
}

/// The same as one step, for an error's hints.
pub(crate) fn next_step(view: &QuestionView) -> String {
    let command = answer_command(view);
    if view.takes_answers() { command } else { format!("{START_WITH_FLAG}; then {command}") }
}

/// This one waits, and what to do about it.
pub(crate) fn parked(view: &QuestionView, paint: Paint) -> String {
    format!("{} waits; {}", paint.bold(view.question_id.as_str()), how_to_answer(view))
}

/// One line: it is asked once more.
pub(crate) fn asked(view: &QuestionView) -> String {
    format!("{} is asked again, and still waits for its answer", view.question_id)
}

/// The state of a question, in words.
pub(crate) fn state(view: &QuestionView) -> String {
    match &view.state {
        State::Open if view.live => "open, being asked".to_owned(),
        State::Open if !view.takes_answers() => format!("open, but nobody asks it, and {NO_FLAG}"),
        State::Open if view.restorable == Some(false) => {
            "open; it can't be asked again, but its turn goes on with an answer".to_owned()
        }
        State::Open => "open; its session is asleep and wakes with the answer".to_owned(),
        _ => ended(view),
    }
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
        Some(now) => format!("it is {}", ended(now)),
        None => "what becomes of it `holdpoint inbox` tells".to_owned(),
    };
    format!("{}: {why}; {then}", view.question_id)
}

/// What an open question waits for, by the daemon's word.
pub(crate) fn still_open(view: &QuestionView) -> String {
    if view.live {
        "it is being asked, and waits for its answer".to_owned()
    } else if !view.takes_answers() {
        format!("it stays open, and takes no answer while {NO_FLAG}")
    } else if view.restorable == Some(false) {
        "it stays open and can't be asked again, but its turn goes on with an answer".to_owned()
    } else {
        "it stays open, and is asked again when its session is loaded or it is answered".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::question;
    use crate::render::samples::{colour, two_parts, unanswerable};

    const PLAIN: fn() -> Paint = || Paint::new(false);

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
    fn d3_what_takes_no_answer_is_never_said_to_take_one() {
        let view = unanswerable();
        insta::assert_snapshot!(parked(&view, PLAIN()), @"
        q_01abcdef0123 waits; it takes no answer now: nobody asks it, and the daemon runs without --restore-ask-user-question
        stop the daemon, and start it with --restore-ask-user-question, then
          holdpoint answer q_01abcdef0123 <number or label>
        ");
        insta::assert_snapshot!(question(&view, false, PLAIN()), @"
        ? Colour: Which colour should the header have?
            1  Red        warm and loud
            2  Pale blue  cold and calm
        ");
        insta::assert_snapshot!(still_open(&view), @"it stays open, and takes no answer while the daemon runs without --restore-ask-user-question");
        // A daemon with the flag takes an answer to one that it can't ask again.
        let mut view = colour(false);
        (view.restorable, view.answerable) = (Some(false), Some(true));
        assert!(parked(&view, PLAIN()).contains("answer it with"));
        assert!(question(&view, false, PLAIN()).contains("--text"));
        assert!(still_open(&view).contains("goes on with an answer"));
        assert!(state(&view).contains("goes on with an answer"));
    }

    #[test]
    fn s3_a_question_that_can_not_be_asked_now_says_why() {
        let mut view = unanswerable();
        assert!(state(&view).contains("--restore-ask-user-question"));
        let gone = unasked(&view, "agent_gone", None);
        assert!(
            gone.contains("holdpoint inbox") && !gone.contains("stays open"),
            "nothing is assumed: {gone}"
        );
        view.state = State::Closed;
        let closed = unasked(&view, "agent_gone", Some(&view));
        assert!(closed.ends_with("its agent ended; it is closed without an answer"), "{closed}");
    }
}
