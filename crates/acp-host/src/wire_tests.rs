//! Tests of the messages as they are written and read.

use holdpoint_model::ids::PromptId;

use super::*;

#[test]
fn hello_is_read_leniently_but_not_the_version() {
    let hello_of = |value: Value| hello(&value).map(|hello| hello.info);
    assert!(hello_of(json!({})).unwrap_err().contains("no protocol version"));
    assert!(hello_of(json!("hello")).unwrap_err().contains("no protocol version"));
    assert!(hello_of(json!({ "protocolVersion": "1" })).unwrap_err().contains("no protocol version"));
    assert!(hello_of(json!({ "protocolVersion": 2 })).unwrap_err().contains("version 2 of ACP"));
    let bare = hello_of(json!({ "protocolVersion": 1 })).unwrap();
    assert_eq!(bare, AgentInfo::default());
    let odd = json!({
        "protocolVersion": 1, "agentInfo": { "name": 7 }, "_meta": { "holdpoint.agent": true },
        "agentCapabilities": { "loadSession": "yes", "sessionCapabilities": { "resume": true, "close": null } },
    });
    assert_eq!(hello_of(odd).unwrap(), AgentInfo::default());
}

#[test]
fn what_stands_beside_an_update_is_kept_with_it() {
    let params = json!({
        "sessionId": "s",
        "update": { "sessionUpdate": "plan", "_meta": { "a": 1, "b": 2 } },
        "_meta": { "b": 3, "c": 4 },
    });
    let (session, update) = session_update(params).unwrap();
    assert_eq!(session, "s");
    assert_eq!(update, json!({ "sessionUpdate": "plan", "_meta": { "a": 1, "b": 2, "c": 4 } }));
    let (_, update) = session_update(json!({ "sessionId": "s", "update": {}, "_meta": { "c": 4 } })).unwrap();
    assert_eq!(update, json!({ "_meta": { "c": 4 } }));
}

#[test]
fn updates_that_make_no_sense_are_none() {
    for params in [
        json!(null),
        json!([]),
        json!({ "update": {} }),
        json!({ "sessionId": 1, "update": {} }),
        json!({ "sessionId": "s" }),
        json!({ "sessionId": "s", "update": "text" }),
    ] {
        assert_eq!(session_update(params.clone()), None, "{params}");
    }
}

#[test]
fn a_prompt_without_stop_reason_is_malformed_and_its_meta_is_kept_otherwise() {
    assert!(prompt_end(json!(null)).is_err());
    assert!(prompt_end(json!({ "stopReason": 1 })).is_err());
    let end =
        prompt_end(json!({ "stopReason": "cancelled", "_meta": { "holdpoint.parked": true } })).unwrap();
    assert_eq!(end.stop_reason, "cancelled");
    assert_eq!(end.meta, json!({ "holdpoint.parked": true }));
    assert_eq!(prompt_end(json!({ "stopReason": "end_turn" })).unwrap().meta, Value::Null);
}

#[test]
fn r6_a_restore_prompt_is_empty_and_marked() {
    let params = prompt(&AgentPrompt {
        session: SessionId::new("s").unwrap(),
        prompt: PromptId::new("p").unwrap(),
        client: None,
        kind: PromptKind::Restore,
    });
    assert_eq!(
        params,
        json!({
            "sessionId": "s",
            "prompt": [],
            "_meta": {
                "qwen-code/invocation": { "version": 1, "sessionId": "s", "promptId": "p" },
                "qwen.daemon.restoreAskUserQuestion": true,
            },
        })
    );
}

#[test]
fn an_id_that_could_leave_its_directory_is_refused() {
    assert!(new_session_id(&json!({ "sessionId": "../../etc/passwd" })).is_err());
    assert!(new_session_id(&json!({})).is_err());
    assert_eq!(new_session_id(&json!({ "sessionId": "ok-1" })).unwrap().as_str(), "ok-1");
}

#[test]
fn a_tail_is_read_as_far_as_it_makes_sense() {
    let taken = |meta: Value| {
        taken_up(
            SessionId::new("s").unwrap(),
            json!({ "_meta": meta, "models": [1], "other": 2 }),
            Restore::Native,
        )
    };
    assert_eq!(taken(json!({ "holdpoint.tail": "none" })).tail, None);
    assert_eq!(taken(json!({ "holdpoint.tail": {} })).tail, Some(AgentTail::default()));
    let tail = taken(
        json!({ "holdpoint.tail": { "turnRecord": null, "open": ["c", 7, ""], "lastPromptId": "a b" } }),
    );
    assert_eq!(tail.tail.unwrap().open, [CallId::new("c").unwrap()]);
    assert_eq!(tail.state, json!({ "models": [1] }));
    assert!(!tail.hint);
}
