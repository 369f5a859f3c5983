//! `answer`: how a question is named, what is no answer, and what `--wait` waits for.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::fake_daemon::{FakeDaemon, SESSION, asks, colour, ends, says};
use crate::{FIRST, SECOND, command, err, json_lines, out, run};

#[tokio::test]
async fn d3_answering_by_the_end_of_an_id() {
    let fake = FakeDaemon::start().await;
    fake.question(colour(FIRST));
    fake.question(colour(SECOND));
    let output = run(&fake.url, &["inbox"]).await;
    assert!(out(&output).contains("\n0f3a2b1c  "), "{}", out(&output));
    let output = run(&fake.url, &["answer", "0f3a2b1c", "blue", "--response-id", "mine"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output), format!("✓ {FIRST}: answered: Blue; the agent has it\n"));
    let (path, body) = fake.seen().pop().unwrap();
    assert_eq!(path, format!("POST /questions/{FIRST}/answer"));
    assert_eq!(body, json!({"generation": 1, "answers": {"0": "Blue"}, "responseId": "mine"}));
    for id in [&SECOND[2..], "q_…5d6e7f80", "…b8c95d6e7f80"] {
        let output = run(&fake.url, &["inbox", id, "--json"]).await;
        assert_eq!(json_lines(&output)[0]["questionId"], SECOND, "{id}");
    }
}

#[tokio::test]
async fn i2_a_short_id_never_reaches_another_question_than_the_one_that_was_seen() {
    let fake = FakeDaemon::start().await;
    fake.question(colour(FIRST));
    let output = run(&fake.url, &["inbox"]).await;
    let seen = out(&output).lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
    // Somebody else answers it, and the agent asks the next one.
    fake.settle(FIRST, json!({"name": "Ada", "surface": "web"}), json!({"0": "Red"}));
    fake.question(colour(SECOND));
    for line in [
        &["answer", &seen, "1"][..],
        &["answer", &seen, "1", "--wait"],
        &["answer", &seen, "--decline"],
        // Nothing that could be typed for it matters any more.
        &["answer", &seen, "no such option"],
        &["answer", &seen],
    ] {
        let output = run(&fake.url, line).await;
        assert_eq!(output.status.code(), Some(4), "{line:?}: {}", err(&output));
        assert!(err(&output).contains("answered"), "{}", err(&output));
        assert!(err(&output).contains("by Ada"), "{}", err(&output));
        assert_eq!(out(&output), "");
    }
    // Neither does a beginning, though only one that is open begins so.
    for name in ["q_01a22e6c", "01a22e6c", "q_01a22e6c…", "01a22e6c…"] {
        let output = run(&fake.url, &["answer", name, "1"]).await;
        assert!(matches!(output.status.code(), Some(1 | 2)), "{name}");
        assert!(err(&output).contains("the end of it"), "{}", err(&output));
    }
    for name in ["80", "q_…7f80", "6e7f80"] {
        let output = run(&fake.url, &["answer", name, "1"]).await;
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(err(&output).contains("last 8 characters"), "{}", err(&output));
    }
    let answered = fake.seen().into_iter().filter(|(path, _)| path.contains(SECOND)).count();
    assert_eq!(answered, 0, "nothing ever spoke of the second question");
}

#[tokio::test]
async fn an_end_that_two_questions_share_names_none_of_them() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01a22e6c0001aaaaaaaa"));
    fake.question(colour("q_01a22e6c0002aaaaaaaa"));
    fake.settle("q_01a22e6c0001aaaaaaaa", json!({"name": "Ada"}), json!({"0": "Red"}));
    let output = run(&fake.url, &["answer", "aaaaaaaa", "1"]).await;
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(err(&output), @"
    error: aaaaaaaa is the end of 2 ids
      next: give the whole id: q_01a22e6c0001aaaaaaaa, q_01a22e6c0002aaaaaaaa
    ");
    let output = run(&fake.url, &["answer", "2aaaaaaaa", "1"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}

#[tokio::test]
async fn q6_a_pick_that_could_mean_two_options_is_refused_with_a_way_out() {
    let fake = FakeDaemon::start().await;
    let mut question = colour(FIRST);
    question["questions"][0]["options"][0]["label"] = "2".into();
    question["questions"][0]["options"][1]["label"] = "1".into();
    fake.question(question);
    let output = run(&fake.url, &["answer", FIRST, "2"]).await;
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(err(&output), @r#"error: "2" is the number of one option and the name of another: :2 is option 2 ("1"), =2 is option 1 ("2")"#);
    assert!(!fake.seen().iter().any(|(path, _)| path.ends_with("/answer")));
    let output = run(&fake.url, &["answer", FIRST, ":2"]).await;
    assert_eq!(out(&output), format!("✓ {FIRST}: answered: 1; the agent has it\n"), "{}", err(&output));
}

#[tokio::test]
async fn v4_a_refused_answer_is_exit_code_4_and_says_who_was_first() {
    let fake = FakeDaemon::start().await;
    let mut question = colour("q_01ab");
    question["state"] = "answered".into();
    fake.question(question);
    let output = run(&fake.url, &["answer", "q_01ab", "1"]).await;
    assert_eq!(output.status.code(), Some(4));
    insta::assert_snapshot!(err(&output), @"
    error: this question was answered already
      by Ada (slack) at 2026-03-01T10:00:00Z
    ");
    let output = run(&fake.url, &["answer", "q_01ab", "1", "--json"]).await;
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(out(&output), "");
    let error: Value = serde_json::from_str(&err(&output)).unwrap();
    assert_eq!(error["code"], "already_answered");
    assert_eq!(error["answeredBy"]["name"], "Ada");
}

#[tokio::test]
async fn an_answer_that_is_none_is_exit_code_2_and_nothing_is_sent() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    for line in [
        &["answer", "q_01", "purple"][..],
        &["answer", "q_01", "1", "2"],
        &["answer", "q_01"],
        &["answer", "q_!"],
    ] {
        let output = run(&fake.url, line).await;
        assert_eq!(output.status.code(), Some(2), "{line:?}");
    }
    assert!(!fake.seen().iter().any(|(path, _)| path.ends_with("/answer")));
    let output = run(&fake.url, &["answer", "q_ff", "1"]).await;
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn answer_with_wait_shows_the_rest_of_the_turn() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    fake.on_answer(vec![says("Blue it is."), ends("end_turn")]);
    let output = run(&fake.url, &["answer", "q_01", "2", "--wait"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output), "✓ q_01: answered: Blue; the agent has it\nBlue it is.\n");

    // And of one that sleeps.
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    fake.on_resume(vec![asks("q_01", "r2")]);
    fake.on_answer(vec![says("Red it is."), ends("end_turn")]);
    fake.restart();
    let output = run(&fake.url, &["answer", "q_01", "1", "--wait", "--json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let lines = json_lines(&output);
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["receipt", "text", "end"]);
}

#[tokio::test]
async fn answer_with_wait_stays_for_an_answer_that_the_agent_does_not_have_yet() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    fake.hold_answers();
    let line = ["answer", "q_01", "2", "--wait", "--response-id", "mine"];
    let mut child = command(&fake.url, &line).spawn().unwrap();
    let mut remarks = BufReader::new(child.stderr.take().unwrap()).lines();
    let told = remarks.next_line().await.unwrap().unwrap();
    assert_eq!(told, "the answer is on disk, and the agent does not have it yet; waiting for it");
    // Its retry is the same answer, and waits too.
    let mut again = command(&fake.url, &line).spawn().unwrap();
    let mut its_remarks = BufReader::new(again.stderr.take().unwrap()).lines();
    assert_eq!(its_remarks.next_line().await.unwrap().unwrap(), told);
    fake.publish(&[says("Blue it is."), ends("end_turn")]);
    for child in [child, again] {
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(
            out(&output),
            "✓ q_01: answered: Blue; it is on disk, and on its way to the agent\nBlue it is.\n"
        );
    }
}

#[tokio::test]
async fn answer_with_wait_of_a_turn_that_has_ended_says_so_and_ends() {
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    fake.on_answer(vec![ends("end_turn")]);
    let line = ["answer", "q_01", "2", "--response-id", "mine"];
    assert_eq!(run(&fake.url, &line).await.status.code(), Some(0));
    let output = run(&fake.url, &[&line[..], &["--wait"]].concat()).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(out(&output), "✓ q_01: answered: Blue; the agent has it\n");
    assert_eq!(err(&output), format!("the turn has ended; `holdpoint attach {SESSION}` shows it\n"));

    // One that sleeps with an answer that was not delivered goes on when it is woken for the retry.
    let fake = FakeDaemon::start().await;
    fake.question(colour("q_01"));
    fake.hold_answers();
    let output = run(&fake.url, &line).await;
    assert_eq!(out(&output), "✓ q_01: answered: Blue; it is on disk, and on its way to the agent\n");
    fake.on_resume(vec![says("Blue it is."), ends("end_turn")]);
    fake.restart();
    let output = run(&fake.url, &[&line[..], &["--wait"]].concat()).await;
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(out(&output).ends_with("Blue it is.\n"), "{}", out(&output));
}
