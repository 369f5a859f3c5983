//! The agent by itself, as editors have it over the Agent Client Protocol: how a question is put to each kind of
//! client, and what comes back from it (Q3, Q5).

use serde_json::{Value, json};

use crate::support::{Acp, Rig};

/// What the model was told of its calls last.
fn read(rig: &Rig) -> Vec<String> {
    let history = rig.model.histories().pop().unwrap();
    let results = history.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// An agent that was greeted so, with a session in which a prompt runs; the request's id.
async fn prompted(rig: &Rig, greeting: Value, text: &str) -> (Acp, u64) {
    let mut command = rig.command();
    command.arg("acp");
    let mut params = json!({ "protocolVersion": 1 });
    params.as_object_mut().unwrap().extend(greeting.as_object().unwrap().clone());
    let mut acp = Acp::greeted(command, params).await;
    let made = acp.call("session/new", json!({ "cwd": rig.work(), "mcpServers": [] })).await.unwrap();
    let prompt = json!({ "sessionId": made["sessionId"], "prompt": [{ "type": "text", "text": text }] });
    let id = acp.begin("session/prompt", prompt).await;
    (acp, id)
}

fn forms() -> Value {
    json!({ "clientInfo": { "name": "an editor" }, "clientCapabilities": { "elicitation": { "form": {} } } })
}

fn plain() -> Value {
    json!({ "clientInfo": { "name": "an editor" }, "clientCapabilities": {} })
}

#[tokio::test]
async fn q3_q5_a_client_with_forms_is_asked_by_elicitation() {
    let rig = Rig::new().await;
    let (mut acp, id) = prompted(&rig, forms(), "please ASK_Q3").await;
    let asked = acp.asked().await;
    assert_eq!(asked["method"], "elicitation/create", "{asked:#}");
    let params = &asked["params"];
    assert_eq!((&params["mode"], &params["toolCallId"]), (&json!("form"), &json!("call_1")), "{params:#}");
    let properties = params["requestedSchema"]["properties"].as_object().unwrap();
    for part in ["0", "1", "2"] {
        let number = part.parse::<usize>().unwrap() + 1;
        let field = &properties[part];
        assert_eq!(field["title"], format!("Item {number}"), "{params:#}");
        assert_eq!(field["oneOf"][1]["const"], format!("Blue{number}"), "{params:#}");
    }
    let content = json!({ "0": "Blue1", "1": "Red2", "1_other": "green, if there is any", "2": "Red3" });
    acp.reply(&asked, json!({ "action": "accept", "content": content })).await;
    assert_eq!(acp.answer(id).await.unwrap()["stopReason"], "end_turn");
    let read = read(&rig);
    assert_eq!(read.len(), 1, "{read:?}");
    for answer in ["**Item 1**: Blue1", "**Item 2**: green, if there is any", "**Item 3**: Red3"] {
        assert!(read[0].contains(answer), "the same as an answer over the wire of the daemon: {read:?}");
    }
    assert!(!acp.has_asked());
}

#[tokio::test]
async fn q3_q5_a_form_that_is_declined_is_a_decline() {
    let rig = Rig::new().await;
    let (mut acp, id) = prompted(&rig, forms(), "please ASK").await;
    let asked = acp.asked().await;
    acp.reply(&asked, json!({ "action": "decline" })).await;
    assert_eq!(acp.answer(id).await.unwrap()["stopReason"], "end_turn");
    assert_eq!(rig.model.calls(), 1, "Q7: the model is not called for a decline alone");
}

#[tokio::test]
async fn q3_q5_a_plain_client_gets_a_single_choice_as_a_permission_whose_options_are_the_labels() {
    let rig = Rig::new().await;
    let (mut acp, id) = prompted(&rig, plain(), "please ASK").await;
    let asked = acp.asked().await;
    assert_eq!(asked["method"], "session/request_permission", "{asked:#}");
    let options = asked["params"]["options"].as_array().unwrap();
    let names: Vec<_> = options.iter().map(|option| option["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Red1", "Blue1", "Decline"], "{asked:#}");
    let shown = asked["params"]["toolCall"].to_string();
    assert!(shown.contains("Which one for item 1?"), "it can be read what is asked: {shown}");
    let chosen = json!({ "outcome": "selected", "optionId": options[1]["optionId"] });
    acp.reply(&asked, json!({ "outcome": chosen })).await;
    assert_eq!(acp.answer(id).await.unwrap()["stopReason"], "end_turn");
    assert!(read(&rig)[0].contains("**Item 1**: Blue1"), "{:?}", read(&rig));
}

/// What a plain client cannot show has no way back from it: it is not put to anybody, and the model is told.
#[tokio::test]
async fn q3_a_question_with_no_way_back_is_not_offered() {
    let rig = Rig::new().await;
    let (mut acp, id) = prompted(&rig, plain(), "please ASK_Q3").await;
    assert_eq!(acp.answer(id).await.unwrap()["stopReason"], "end_turn");
    assert!(!acp.has_asked(), "nobody is asked");
    let read = read(&rig);
    assert!(read.len() == 1 && read[0].contains("one question at a time"), "{read:?}");
}

/// Our daemon and `qwen serve` get the whole question, with the two options of the wire.
#[tokio::test]
async fn q5_a_daemon_gets_the_question_whole_with_submit_and_cancel() {
    let qwen = json!({ "clientInfo": { "name": "qwen-code" } });
    let ours = json!({ "_meta": { "holdpoint.daemon": { "v": 1 } } });
    for greeting in [ours, qwen] {
        let rig = Rig::new().await;
        let (mut acp, id) = prompted(&rig, greeting.clone(), "please ASK_Q3").await;
        let asked = acp.asked().await;
        assert_eq!(asked["method"], "session/request_permission", "{greeting}");
        let options = asked["params"]["options"].as_array().unwrap().iter();
        let options: Vec<_> = options
            .map(|option| (option["optionId"].as_str().unwrap(), option["name"].as_str().unwrap()))
            .collect();
        assert_eq!(options, [("proceed_once", "Submit"), ("cancel", "Cancel")], "{greeting}");
        let call = &asked["params"]["toolCall"];
        assert_eq!(call["_meta"]["qwenInteractionKind"], "user_question", "{call:#}");
        assert_eq!(call["rawInput"]["questions"], call["_meta"]["qwenQuestions"], "{call:#}");
        assert_eq!(call["rawInput"]["questions"].as_array().unwrap().len(), 3, "{call:#}");
        let answers = json!({ "0": "Blue1", "1": "Red2", "2": "neither" });
        let outcome = json!({ "outcome": "selected", "optionId": "proceed_once" });
        acp.reply(&asked, json!({ "outcome": outcome, "answers": answers })).await;
        assert_eq!(acp.answer(id).await.unwrap()["stopReason"], "end_turn");
        assert!(read(&rig)[0].contains("**Item 3**: neither"), "{greeting}: {:?}", read(&rig));
    }
}
