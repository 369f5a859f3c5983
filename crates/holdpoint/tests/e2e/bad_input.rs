//! Every malformed body, header and id gets a clear error of its own, and nothing is lost.

use serde_json::json;

use crate::support::{Asking, Rig, answers, same, selected, undisturbed};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

/// One request that is refused: method, path, headers, body, status, code.
type Case<'a> = (&'a str, String, &'a [(&'a str, &'a str)], Option<&'a str>, u16, &'a str);

#[tokio::test]
async fn bad_requests_are_refused_and_the_question_stays_open() {
    let rig = Rig::started().await;
    let Asking { session, api, prompt, question, .. } = rig.asking("please ASK").await;
    let before = std::fs::read(rig.transcript_path(&session)).unwrap();
    let s = |rest: &str| format!("/session/{}/{rest}", session.id);
    let vote = s(&format!("permission/{}", question.request));
    let answer = format!("/questions/{}/answer", question.id);
    let generation = question.generation;
    let of = |rest: &str| format!("{{\"generation\":{generation},{rest}}}");
    let texts: Vec<String> = [
        "\"answers\":{}",
        "\"answers\":{\"1\":\"x\"}",
        "\"answers\":{\"0\":\"\"}",
        "\"answers\":{\"0\":7}",
        "\"answers\":[\"Blue1\"]",
        "\"answers\":{\"0\":\"Blue1\"},\"decline\":true",
        "\"decline\":\"yes\"",
        "\"decline\":false",
        "\"optionId\":\"proceed_once\"",
        "\"answers\":{\"0\":\"Blue1\"},\"responseId\":\"\"",
    ]
    .into_iter()
    .map(of)
    .collect();
    let long = "x".repeat(5000);
    let none: &[(&str, &str)] = &[];
    let mut cases: Vec<Case<'_>> = vec![
        // Bodies.
        ("POST", "/session".into(), none, Some("{"), 400, ""),
        ("POST", "/session".into(), none, Some("{\"cwd\":\"relative\"}"), 400, ""),
        ("POST", "/session".into(), none, Some("{\"cwd\":7}"), 400, ""),
        ("POST", "/session".into(), none, Some("{\"cwd\":\"/nowhere\"}"), 400, "workspace_mismatch"),
        ("POST", "/session".into(), none, Some("{\"sessionScope\":\"all\"}"), 400, "invalid_session_scope"),
        ("POST", "/session".into(), none, Some("{\"sessionId\":\"x\"}"), 400, "invalid_session_id"),
        ("POST", "/session".into(), none, Some("{\"approvalMode\":\"reckless\"}"), 400, ""),
        ("POST", s("prompt"), none, None, 400, ""),
        ("POST", s("prompt"), none, Some("[]"), 400, ""),
        ("POST", s("prompt"), none, Some("{}"), 400, ""),
        ("POST", s("prompt"), none, Some("{\"prompt\":[]}"), 400, ""),
        ("POST", s("prompt"), none, Some("{\"prompt\":\"hello\"}"), 400, ""),
        ("POST", s("prompt"), none, Some("{\"prompt\":[\"hello\"]}"), 400, ""),
        ("POST", s("prompt"), none, Some("{\"prompt\":[{\"type\":\"text\"}]}"), 400, ""),
        ("POST", s("prompt"), none, Some("{\"prompt\":[{\"type\":\"hologram\"}]}"), 400, ""),
        ("POST", s("load"), none, Some("{\"historyPageSize\":0}"), 400, "invalid_transcript_limit"),
        ("POST", "/sessions/delete".into(), none, Some("{\"sessionIds\":[]}"), 400, "invalid_request"),
        ("POST", vote.clone(), none, None, 400, ""),
        ("POST", vote.clone(), none, Some("{}"), 400, ""),
        ("POST", vote.clone(), none, Some("{\"outcome\":\"selected\"}"), 400, ""),
        ("POST", vote.clone(), none, Some("{\"outcome\":{\"outcome\":\"maybe\"}}"), 400, ""),
        ("POST", vote.clone(), none, Some("{\"outcome\":{\"outcome\":\"selected\"}}"), 400, ""),
        (
            "POST",
            vote.clone(),
            none,
            Some("{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"other\"}}"),
            400,
            "invalid_option_id",
        ),
        (
            "POST",
            vote.clone(),
            none,
            Some("{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"__cancelled__\"}}"),
            400,
            "invalid_option_id",
        ),
        ("POST", answer.clone(), none, None, 400, ""),
        ("POST", answer.clone(), none, Some("not json"), 400, ""),
        ("POST", answer.clone(), none, Some("{\"answers\":{\"0\":\"Blue1\"}}"), 422, "invalid_answers"),
        // Ids.
        ("GET", "/session/%ff/status".into(), none, None, 400, "invalid_request"),
        ("GET", "/session/..%2f..%2fetc/status".into(), none, None, 404, "session_not_found"),
        ("GET", format!("/session/{long}/status"), none, None, 404, "session_not_found"),
        ("GET", "/session/unknown/status".into(), none, None, 404, "session_not_found"),
        (
            "POST",
            "/session/unknown/load".into(),
            &[("X-Qwen-Client-Id", "c")],
            Some("{}"),
            404,
            "session_not_found",
        ),
        ("GET", "/questions/q_unknown".into(), none, None, 404, "question_not_found"),
        ("GET", "/questions/%00".into(), none, None, 404, "question_not_found"),
        ("POST", s("permission/unknown"), none, Some("{\"outcome\":{\"outcome\":\"cancelled\"}}"), 404, ""),
        ("GET", "/nothing/here".into(), none, None, 404, "not_found"),
        // Headers.
        ("GET", s("status"), &[("X-Qwen-Client-Id", "not valid!")], None, 400, "invalid_client_id"),
        ("GET", s("status"), &[("X-Qwen-Client-Id", "client_nobody")], None, 400, "invalid_client_id"),
        ("GET", "/health".into(), &[("Host", "evil.example")], None, 403, ""),
        ("GET", "/health".into(), &[("Origin", "https://evil.example")], None, 403, ""),
        ("GET", "/questions".into(), &[("Origin", "null")], None, 403, ""),
        // Queries.
        ("GET", s("events?maxQueued=1"), none, None, 400, "invalid_max_queued"),
        ("GET", s("transcript?limit=0"), none, None, 400, "invalid_transcript_limit"),
        ("GET", s("transcript?cursor=unknown"), none, None, 400, "invalid_transcript_cursor"),
        ("GET", "/questions?state=lost".into(), none, None, 400, "invalid_request"),
        ("GET", "/questions?limit=many".into(), none, None, 400, "invalid_request"),
        ("GET", "/questions?cursor=x".into(), none, None, 400, "invalid_cursor"),
        ("GET", "/daemon/status?detail=all".into(), none, None, 400, "invalid_detail"),
    ];
    cases.extend(
        texts.iter().map(|body| ("POST", answer.clone(), none, Some(body.as_str()), 422, "invalid_answers")),
    );
    let mut wrong = Vec::new();
    for (method, path, headers, body, status, code) in cases {
        let got = api.raw(method, &path, headers, body.map(str::as_bytes)).await;
        let says = got.json()["error"].as_str().is_some_and(|error| !error.is_empty());
        if got.status != status || got.code() != code || !says {
            wrong.push(format!(
                "{method} {} {headers:?} {body:?}\n  wanted {status} {code:?}, got {} {}",
                &path[..path.len().min(90)],
                got.status,
                String::from_utf8_lossy(&got.body)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} requests:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(std::fs::read(rig.transcript_path(&session)).unwrap(), before);

    // An answer with nothing valid in it uses nothing up (Q6).
    for body in [
        json!({ "outcome": selected(BLUE)["outcome"] }),
        json!({ "outcome": selected(BLUE)["outcome"], "answers": {} }),
        json!({ "outcome": selected(BLUE)["outcome"], "answers": { "9": "x" } }),
        json!({ "outcome": selected(BLUE)["outcome"], "answers": { "0": 5 } }),
        json!({ "outcome": selected(BLUE)["outcome"], "answers": "Blue1" }),
    ] {
        let got = api.vote(&session, &question.request, &body).await;
        assert_eq!((got.status, got.code().as_str()), (400, "invalid_answers"), "{body}");
    }
    // What is dropped of an answer that counts is said.
    let mut body = selected(BLUE);
    body["answers"]["7"] = json!("x");
    let got = api.vote(&session, &question.request, &body).await.expect(200);
    assert_eq!(got["droppedAnswers"], json!(["7"]), "{got:#}");
    let mut events = api.events_from(&session, 0, None).await;
    events.turn_end(&prompt).await;
    same(&rig.story(&session), &undisturbed("please ASK", &[BLUE]).await);
}

#[tokio::test]
async fn q6_an_answer_to_three_parts_must_be_whole_on_our_route() {
    let rig = Rig::started().await;
    let Asking { api, question, .. } = rig.asking("please ASK_Q3").await;
    let some = api.answer(&question.id, &answers(&question, &[("0", "Red1"), ("2", "Blue3")], "r")).await;
    assert_eq!((some.status, some.code().as_str()), (422, "invalid_answers"), "{:#}", some.json());
    assert_eq!(api.inbox().await.len(), 1, "still open");
    let whole = [("0", "Red1"), ("1", "Blue2"), ("2", "Blue3")];
    let receipt = api.answer(&question.id, &answers(&question, &whole, "r")).await.expect(200);
    assert_eq!(receipt["status"], "answered", "the refused try has not used the response id up");
    rig.model.called(2).await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_unread() {
    let rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    // Refused by its announced length: nothing of it needs to be sent.
    let headers = [("Content-Type", "application/json"), ("Content-Length", "11000000")];
    let got = rig.api().raw("POST", &format!("/session/{}/prompt", session.id), &headers, None).await;
    assert_eq!(got.status, 413, "{}", String::from_utf8_lossy(&got.body));
    assert!(got.json()["error"].is_string());
    assert_eq!(rig.model.calls(), 0);
}

#[tokio::test]
async fn a_model_that_refuses_ends_the_turn_with_an_error_and_the_session_lives_on() {
    let rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    let mut events = api.events(&session).await;
    let prompt = api.prompt(&session, "please be REFUSED").await;
    let end = events.turn_end(&prompt).await;
    assert_eq!(end["type"], "turn_error", "{end:#}");
    assert!(end["data"]["message"].as_str().is_some_and(|text| text.contains("400")), "{end:#}");
    let status = api.status(&session).await;
    assert_eq!((&status["hasActivePrompt"], &status["hasTurnError"]), (&json!(false), &json!(true)));
    let prompt = api.prompt(&session, "hello").await;
    let end = events.turn_end(&prompt).await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
}

#[tokio::test]
async fn a_torn_last_line_is_cut_off_and_the_question_before_it_asked_again() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let prompt = rig.api().of(&session.client).prompt(&session, "please ASK").await;
    let [question] = rig.api().of(&session.client).wait_asked(&session).await;
    rig.kill().await;
    let path = rig.transcript_path(&session);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"uuid\":\"0195aaaa-0000-7000-8000-0000000000aa\",\"type\":\"tool_res");
    std::fs::write(&path, &bytes).unwrap();

    let api = rig.start().await.of(&session.client);
    let mut events = api.load_and_follow(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id);
    api.vote(&session, &again.request, &selected(BLUE)).await.expect(200);
    events.turn_end(&prompt).await;
    same(&rig.story(&session), &undisturbed("please ASK", &[BLUE]).await);
}

#[tokio::test]
async fn a_configuration_that_cannot_be_read_is_named() {
    let rig = Rig::new().await;
    let path = rig.work().join("holdpoint.toml");
    std::fs::write(&path, "[serve]\nprot = 1\n").unwrap();
    let mut command = rig.serve();
    command.arg("--config").arg(&path);
    let refused = rig.try_start(command).await.unwrap_err();
    assert_eq!(refused.code, Some(1));
    for said in ["holdpoint.toml", "line 2", "`prot`", "did you mean `port`?"] {
        assert!(refused.stderr.contains(said), "{said}: {refused:?}");
    }
}

#[tokio::test]
async fn damage_in_the_middle_of_a_transcript_is_told_and_hides_nothing_else() {
    let mut rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    let mut events = api.events(&session).await;
    for text in ["hello", "hello again"] {
        let prompt = api.prompt(&session, text).await;
        events.turn_end(&prompt).await;
    }
    rig.kill().await;
    let path = rig.transcript_path(&session);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, whole.replacen("\"type\":\"assistant\"", "\"type\":\"assis", 1)).unwrap();

    rig.start().await;
    let loaded = rig.api().load(&session).await;
    assert_eq!(loaded["partial"], true, "{loaded:#}");
    let problem = loaded["replayError"].as_str().unwrap_or_default();
    assert!(problem.starts_with("1 damaged line"), "{problem}");
    let shown = loaded["compactedReplay"].to_string();
    assert!(shown.contains("hello again"), "{shown}");
}
