//! Following a turn at a terminal: what the person sees and types.

use holdpoint_client::{Cursor, Daemon};
use holdpoint_model::ids::{ClientId, PromptId, SessionId};
use serde_json::json;
use tokio::sync::mpsc;

use super::{End, Follow, Mode, Until};
use crate::fake_daemon::{FakeDaemon, SESSION, asks, colour, ends, says, tool};
use crate::input::Input;
use crate::leave::Leave;
use crate::ui::Ui;
use crate::ui::fake::{Screen, ui};

struct Terminal {
    fake: FakeDaemon,
    keys: mpsc::Sender<crate::input::Line>,
    input: Option<Input>,
    ui: Ui,
    screen: Screen,
}

impl Terminal {
    async fn new() -> Self {
        let (keys, lines) = mpsc::channel(8);
        let (ui, screen) = ui(false, true);
        Self { fake: FakeDaemon::start().await, keys, input: Some(Input::from_lines(lines)), ui, screen }
    }

    /// One whose prompt does nothing but ask for a colour.
    async fn asked() -> Self {
        let terminal = Self::new().await;
        terminal.fake.question(colour("q_1"));
        terminal.fake.on_prompt(vec![asks("q_1", "r1")]);
        terminal
    }

    /// Sends a prompt and follows it, while `person` does something.
    async fn prompt(&mut self, mode: Mode, person: impl Future<Output = ()>) -> End {
        let session = SessionId::new(SESSION).unwrap();
        let daemon =
            Daemon::new(&self.fake.url, None).unwrap().with_client_id(ClientId::new("client_a").unwrap());
        let accepted = daemon.prompt(&session, "do it").await.unwrap();
        let events = daemon.events(&session, Cursor::after(accepted.last_event_id, accepted.event_epoch));
        let until = Until::Prompt(PromptId::new("p1").unwrap());
        let mut follow =
            Follow::new(daemon, session, events, &mut self.ui, Leave::listen().unwrap(), (mode, until))
                .with_input(self.input.take().unwrap());
        let (end, ()) = tokio::join!(follow.run(), person);
        end.unwrap()
    }

    /// Waits until the screen shows this.
    fn sees(&self, text: &'static str) -> impl Future<Output = ()> + use<> {
        let screen = self.screen.clone();
        async move {
            while !screen.text().contains(text) {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// A line that is typed now.
fn line(text: &str) -> crate::input::Line {
    (tokio::time::Instant::now(), text.to_owned())
}

fn answer_of(fake: &FakeDaemon) -> serde_json::Value {
    let seen = fake.seen();
    let mut body = seen.iter().rev().find(|(path, _)| path.ends_with("/answer")).unwrap().1.clone();
    body.as_object_mut().unwrap().remove("responseId");
    body
}

#[tokio::test]
async fn a_question_is_picked_right_here_and_the_turn_goes_on() {
    let mut terminal = Terminal::new().await;
    terminal.fake.question(colour("q_1"));
    terminal.fake.on_prompt(vec![
        says("Let me see."),
        tool("c1", "read_file", "a.css", "in_progress"),
        asks("q_1", "r1"),
    ]);
    terminal.fake.on_answer(vec![says("Blue it "), says("is.\n"), ends("end_turn")]);
    let (keys, sees) = (terminal.keys.clone(), terminal.sees("Colour> "));
    let end = terminal
        .prompt(Mode::Ask, async move {
            sees.await;
            keys.send(line("7")).await.unwrap();
            keys.send(line("blue")).await.unwrap();
        })
        .await;
    assert!(matches!(end, End::Turn(end) if end.stop_reason == "end_turn"));
    assert_eq!(answer_of(&terminal.fake), json!({"generation": 1, "answers": {"0": "Blue"}}));
    insta::assert_snapshot!(terminal.screen.text(), @"
    Let me see.
    · read_file: a.css

    ? Colour: Which colour?
        1  Red   warm
        2  Blue  cold
        or type your own words (after = just as they are); d declines
    Colour> there is no option 7, only 1 to 2; as your own words it is =7
    Colour> ✓ q_1: answered: Blue; the agent has it
    Blue it is.
    ");
}

#[tokio::test]
async fn q6_arrow_keys_are_no_answer() {
    let mut terminal = Terminal::asked().await;
    terminal.fake.on_answer(vec![ends("end_turn")]);
    let (keys, asked, told) =
        (terminal.keys.clone(), terminal.sees("Colour> "), terminal.sees("control characters"));
    terminal
        .prompt(Mode::Ask, async move {
            asked.await;
            keys.send(line("\u{1b}[B")).await.unwrap();
            told.await;
            keys.send(line("2")).await.unwrap();
        })
        .await;
    assert_eq!(answer_of(&terminal.fake), json!({"generation": 1, "answers": {"0": "Blue"}}));
    insta::assert_snapshot!(terminal.screen.text(), @"

    ? Colour: Which colour?
        1  Red   warm
        2  Blue  cold
        or type your own words (after = just as they are); d declines
    Colour> control characters (an arrow key sends some), or what is not UTF-8, are no answer
    Colour> ✓ q_1: answered: Blue; the agent has it
    ");
}

#[tokio::test]
async fn what_becomes_of_a_question_after_its_agent_is_the_daemons_word() {
    for (restorable, answerable, words) in [
        (
            false,
            false,
            "it stays open, and takes no answer while the daemon runs without --restore-ask-user-question",
        ),
        (false, true, "it stays open and can't be asked again, but its turn goes on with an answer"),
        (true, true, "it stays open, and is asked again when its session is loaded or it is answered"),
    ] {
        let mut terminal = Terminal::asked().await;
        let (fake, asked) = (terminal.fake.clone(), terminal.sees("Colour> "));
        let end = terminal
            .prompt(Mode::Ask, async move {
                asked.await;
                let mut left = colour("q_1");
                left["live"] = false.into();
                left["restorable"] = restorable.into();
                left["answerable"] = answerable.into();
                fake.question(left);
                fake.publish(&[
                    json!({"type": "permission_resolved", "data": {"requestId": "r1", "questionId": "q_1",
                        "outcome": {"outcome": "cancelled"}, "open": true, "cause": "agent_gone"}}),
                    json!({"type": "turn_error", "data": {"promptId": "p1", "code": "daemon_lost",
                        "message": "the agent was lost"}}),
                ]);
            })
            .await;
        assert!(matches!(end, End::Failed(error, _) if error.code.as_deref() == Some("daemon_lost")));
        let text = terminal.screen.text();
        assert!(text.contains(&format!("q_1: its agent ended; {words}")), "{text}");
    }
}

#[tokio::test]
async fn a_turn_that_fails_says_what_still_waits() {
    let mut terminal = Terminal::asked().await;
    let (fake, asked) = (terminal.fake.clone(), terminal.sees("Colour> "));
    let end = terminal
        .prompt(Mode::Ask, async move {
            asked.await;
            fake.publish(&[json!({"type": "turn_error", "data": {"promptId": "p1", "code": "daemon_lost",
                "message": "the agent was lost"}})]);
        })
        .await;
    assert!(matches!(end, End::Failed(_, waits) if waits.len() == 1), "the daemon calls it open");
}

#[tokio::test]
async fn when_somebody_else_answers_the_person_is_told_who_and_the_turn_goes_on() {
    let mut terminal = Terminal::asked().await;
    let (fake, sees) = (terminal.fake.clone(), terminal.sees("Colour> "));
    let end = terminal
        .prompt(Mode::Ask, async move {
            sees.await;
            fake.settle("q_1", json!({"name": "Ada", "surface": "slack"}), json!({"0": "Red"}));
            fake.publish(&[says("Red then."), ends("end_turn")]);
        })
        .await;
    assert!(matches!(end, End::Turn(_)));
    insta::assert_snapshot!(terminal.screen.text(), @"

    ? Colour: Which colour?
        1  Red   warm
        2  Blue  cold
        or type your own words (after = just as they are); d declines
    Colour> 
    q_1: answered: Red, by Ada (slack)
    Red then.
    ");
}

#[tokio::test]
async fn v4_who_is_second_is_told_who_was_first() {
    let mut terminal = Terminal::asked().await;
    terminal.fake.refuse(
        409,
        json!({"error": "this question was answered already", "code": "already_answered",
               "answeredBy": {"name": "Ada", "surface": "web"}, "answeredAt": "2026-03-01T10:00:00Z"}),
    );
    let (keys, fake) = (terminal.keys.clone(), terminal.fake.clone());
    let (asked, told) = (terminal.sees("Colour> "), terminal.sees("by Ada (web)"));
    terminal
        .prompt(Mode::Ask, async move {
            asked.await;
            keys.send(line("1")).await.unwrap();
            told.await;
            fake.publish(&[ends("end_turn")]);
        })
        .await;
    insta::assert_snapshot!(terminal.screen.text(), @"

    ? Colour: Which colour?
        1  Red   warm
        2  Blue  cold
        or type your own words (after = just as they are); d declines
    Colour> this question was answered already
    by Ada (web) at 2026-03-01T10:00:00Z
    ");
}

#[tokio::test]
async fn q6_an_answer_that_is_refused_as_invalid_is_asked_for_again() {
    let mut terminal = Terminal::asked().await;
    terminal.fake.on_answer(vec![ends("end_turn")]);
    terminal.fake.refuse(
        422,
        json!({"error": "answers: the answer to question 0 is too long", "code": "invalid_answers"}),
    );
    let (keys, asked, told) = (terminal.keys.clone(), terminal.sees("Colour> "), terminal.sees("too long"));
    terminal
        .prompt(Mode::Ask, async move {
            asked.await;
            keys.send(line("very long")).await.unwrap();
            told.await;
            keys.send(line("d")).await.unwrap();
        })
        .await;
    assert_eq!(answer_of(&terminal.fake), json!({"generation": 1, "decline": true}));
}

#[tokio::test]
async fn q4_a_batch_is_asked_one_after_the_other() {
    let mut terminal = Terminal::new().await;
    terminal.fake.question(colour("q_1"));
    terminal.fake.question(colour("q_2"));
    terminal.fake.on_prompt(vec![asks("q_1", "r1"), asks("q_2", "r2")]);
    let (keys, fake) = (terminal.keys.clone(), terminal.fake.clone());
    let (first, second, done) = (
        terminal.sees("Colour> "),
        terminal.sees("q_1: answered: Red"),
        terminal.sees("q_2: answered: green"),
    );
    terminal
        .prompt(Mode::Ask, async move {
            first.await;
            keys.send(line("1")).await.unwrap();
            second.await;
            tokio::task::yield_now().await;
            keys.send(line("=green")).await.unwrap();
            done.await;
            fake.publish(&[ends("end_turn")]);
        })
        .await;
    assert_eq!(answer_of(&terminal.fake), json!({"generation": 1, "answers": {"0": "green"}}));
}

#[tokio::test]
async fn r1_a_restart_while_the_person_thinks_changes_nothing_for_the_answer() {
    let mut terminal = Terminal::new().await;
    terminal.fake.question(colour("q_1"));
    terminal.fake.on_prompt(vec![says("Hm."), asks("q_1", "r1")]);
    terminal.fake.on_answer(vec![says("Thanks."), ends("end_turn")]);
    terminal.fake.on_resume(vec![asks("q_1", "r2")]);
    let (keys, fake) = (terminal.keys.clone(), terminal.fake.clone());
    let (asked, again) = (terminal.sees("Colour> "), terminal.sees("asked again"));
    let end = terminal
        .prompt(Mode::Ask, async move {
            asked.await;
            let mut moved = colour("q_1");
            moved["requestId"] = "r2".into();
            fake.question(moved);
            fake.restart();
            again.await;
            keys.send(line("2")).await.unwrap();
        })
        .await;
    assert!(matches!(end, End::Turn(_)), "{end:?}");
    insta::assert_snapshot!(terminal.screen.text(), @"
    Hm.

    ? Colour: Which colour?
        1  Red   warm
        2  Blue  cold
        or type your own words (after = just as they are); d declines
    Colour> 
    lost the daemon (the stream ended); trying to come back
    the daemon was restarted; the session is resumed
    connected again
    Colour> 
    q_1 is asked again, and still waits for its answer
    Colour> ✓ q_1: answered: Blue; the agent has it
    Thanks.
    ");
}

#[tokio::test]
async fn a_turn_that_is_gone_after_a_restart_is_not_waited_for() {
    let mut terminal = Terminal::new().await;
    terminal.fake.on_prompt(vec![says("Working")]);
    let (fake, sees) = (terminal.fake.clone(), terminal.sees("Working"));
    let end = terminal
        .prompt(Mode::Ask, async move {
            sees.await;
            // With nothing to restore the session wakes without a turn.
            fake.restart();
        })
        .await;
    assert_eq!(end, End::Missed);
}

#[tokio::test]
async fn the_end_of_input_leaves_the_question_parked() {
    let mut terminal = Terminal::asked().await;
    let keys = std::mem::replace(&mut terminal.keys, mpsc::channel(1).0);
    let sees = terminal.sees("Colour> ");
    let end = terminal
        .prompt(Mode::Ask, async move {
            sees.await;
            drop(keys);
        })
        .await;
    assert!(matches!(end, End::InputEnded(waits) if waits.len() == 1));
}

#[tokio::test]
async fn attaching_shows_the_past_in_short_form_and_asks_what_waits() {
    let mut terminal = Terminal::new().await;
    terminal.fake.question(colour("q_1"));
    terminal.fake.history(vec![
        json!({"v": 1, "id": 1, "type": "session_update", "data": {"sessionId": SESSION, "update":
            {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "make it\u{1b}[2J blue"}}}}),
        json!({"v": 1, "id": 2, "type": "session_update", "data": {"sessionId": SESSION, "update":
            {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "a.css", "status": "failed", "_meta": {"toolName": "edit"},
             "content": [{"type": "content", "content": {"type": "text", "text": "no such file"}}]}}}),
        json!({"v": 1, "id": 3, "type": "session_update", "data": {"sessionId": SESSION, "update":
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "There is none.\n"}}}}),
    ]);
    let session = SessionId::new(SESSION).unwrap();
    let daemon = Daemon::new(&terminal.fake.url, None).unwrap();
    let attached = daemon.load(&session).await.unwrap();
    let events = daemon.events(&session, Cursor::after(0, attached.event_epoch.clone()));
    let (sees, gone) = (terminal.sees("Colour> "), terminal.fake.clone());
    let mut follow = Follow::new(
        daemon,
        session,
        events,
        &mut terminal.ui,
        Leave::listen().unwrap(),
        (Mode::Ask, Until::Left),
    )
    .with_input(terminal.input.take().unwrap());
    for event in &attached.compacted_replay {
        follow.show_past(event);
    }
    follow.show_open(vec![serde_json::from_value(colour("q_1")).unwrap()]);
    let (end, ()) = tokio::join!(follow.run(), async move {
        sees.await;
        gone.publish(&[json!({"type": "session_closed", "data": {"reason": "client_close"}})]);
    });
    assert_eq!(end, Ok(End::Gone("closed: client_close".into())));
    insta::assert_snapshot!(terminal.screen.text(), @"

    > make it␛[2J blue
    ✗ edit: a.css: no such file
    There is none.

    ? Colour: Which colour?
        1  Red   warm
        2  Blue  cold
        or type your own words (after = just as they are); d declines
    Colour>
    ");
}
