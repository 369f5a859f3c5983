//! The protocol itself: versions, methods, params, lines.

use holdpoint_agent::Exit;
use serde_json::json;

use crate::harness::*;

#[tokio::test]
async fn initialize_says_what_the_agent_is_and_can() {
    let place = Place::new();
    let mut client = Client::start(place.config(), Script::new([]));
    let hello = client.call("initialize", json!({"protocolVersion": 99})).await.unwrap();
    assert_eq!(hello["protocolVersion"], 1);
    assert_eq!(hello["agentInfo"]["name"], "holdpoint");
    assert_eq!(hello["agentCapabilities"]["loadSession"], true);
    assert_eq!(
        hello["agentCapabilities"]["sessionCapabilities"],
        json!({"resume": {}, "list": {}, "close": {}})
    );
    assert_eq!(hello["_meta"]["holdpoint.agent"], json!({"v": 1, "restore": true, "model": "scripted"}));
    assert_eq!(client.call("authenticate", json!({"methodId": "x"})).await.unwrap(), json!({}));
}

#[tokio::test]
async fn unknown_methods_and_bad_params_are_named() {
    let place = Place::new();
    let mut client = Client::daemon(place.config(), Script::new([])).await;
    let cases = [
        ("session/fly", json!({}), -32601, "session/fly"),
        ("initialize", json!({}), -32602, "protocolVersion"),
        ("session/new", json!({"cwd": "here"}), -32602, "absolute"),
        (
            "session/new",
            json!({"cwd": "/", "_meta": {"holdpoint.sessionId": "../x"}}),
            -32602,
            "holdpoint.sessionId",
        ),
        ("session/load", json!({"sessionId": "s"}), -32602, "cwd"),
        ("session/load", json!({"sessionId": "nobody", "cwd": "/"}), -32002, "nobody"),
        ("session/resume", json!({"sessionId": "nobody", "cwd": "/"}), -32002, "nobody"),
        ("session/prompt", json!({"sessionId": "nobody", "prompt": []}), -32002, "session/load"),
        ("session/list", json!({"cursor": 7}), -32602, "cursor"),
        ("qwen/session/loadUpdates", json!({"sessionId": "nobody"}), -32002, "nobody"),
    ];
    for (method, params, code, wanted) in cases {
        let error = client.call(method, params.clone()).await.unwrap_err();
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["code"], code, "{method} {params}: {message}");
        assert!(message.contains(wanted), "{method} {params}: {message}");
    }
    let session = client.new_session(&place).await;
    let cases = [
        ("session/prompt", json!({"sessionId": session, "prompt": []}), "empty"),
        ("session/prompt", json!({"sessionId": session, "prompt": [{"type": "image"}]}), "prompt[0]"),
        ("session/set_mode", json!({"sessionId": session, "modeId": "sudo"}), "yolo"),
    ];
    for (method, params, wanted) in cases {
        let error = client.call(method, params).await.unwrap_err();
        assert!(error["message"].as_str().unwrap().contains(wanted), "{error}");
    }
    assert!(place.records(&session).is_empty(), "nothing is written before the first prompt");
}

#[tokio::test]
async fn a_malformed_line_is_refused_without_its_text_and_the_connection_lives() {
    let place = Place::new();
    let mut client = Client::daemon(place.config(), Script::new([])).await;
    for (line, code) in [
        ("{\"secret\": broken", -32700),
        ("[]", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":9,\"x\":\"secret\"}", -32600),
    ] {
        client.send_line(line).await;
        let stray = client.stray().await;
        assert_eq!(stray["error"]["code"], code, "{line}: {stray}");
        assert!(!stray.to_string().contains("secret"), "{stray}");
    }
    // What looks like an answer to nothing is dropped.
    client.send_line("{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}").await;
    client.new_session(&place).await;
    assert_eq!(client.hang_up().await, Exit::Closed);
}

#[tokio::test]
async fn what_was_asked_before_the_input_ended_is_still_answered() {
    let place = Place::new();
    let mut client = Client::start(place.config(), Script::new([]));
    let reply = client.begin("initialize", daemon()).await;
    assert_eq!(client.hang_up().await, Exit::Closed);
    assert_eq!(reply.await.unwrap().unwrap()["protocolVersion"], 1);
}

#[tokio::test]
async fn sessions_are_listed_and_a_mode_can_be_set() {
    let place = Place::new();
    let mut client = Client::daemon(place.config(), Script::new([text("hello")])).await;
    let made = client
        .call("session/new", json!({"cwd": place.workspace, "mcpServers": [], "_meta": {"holdpoint.sessionId": "mine", "holdpoint.approvalMode": "yolo"}}))
        .await
        .unwrap();
    assert_eq!(made["sessionId"], "mine");
    assert_eq!(made["modes"]["currentModeId"], "yolo");
    client.call("session/set_mode", json!({"sessionId": "mine", "modeId": "plan"})).await.unwrap();
    assert_eq!(client.updates()[0], json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"}));
    assert_eq!(client.call("session/list", json!({})).await.unwrap()["sessions"], json!([]));
    let end = client.prompt("mine", "first words").await.await.unwrap();
    assert_eq!(stop_reason(&end), "end_turn");
    let list = client.call("session/list", json!({"cwd": place.workspace})).await.unwrap();
    assert_eq!(list["sessions"][0]["sessionId"], "mine");
    assert_eq!(list["sessions"][0]["title"], "first words");
    assert_eq!(list["nextCursor"], json!(null));
    let elsewhere = client.call("session/list", json!({"cwd": "/nowhere"})).await.unwrap();
    assert_eq!(elsewhere["sessions"], json!([]));
    let twice = json!({"cwd": place.workspace, "_meta": {"holdpoint.sessionId": "mine"}});
    let error = client.call("session/new", twice.clone()).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("exists"), "and the live session goes on");
    client.call("session/close", json!({"sessionId": "mine"})).await.unwrap();
    let error = client.call("session/new", twice).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("exists"));
}
