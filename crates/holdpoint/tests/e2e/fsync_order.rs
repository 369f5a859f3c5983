//! What is on disk before what is said (Q8): the system calls of a real agent, in their order.

use std::collections::HashMap;

use serde_json::json;
use tokio::process::Command;

use crate::support::{Acp, Rig, may_trace};

/// One system call: the places in the trace where it began and where it was done.
#[derive(Debug)]
struct Call {
    text: String,
    began: usize,
    done: usize,
}

/// Puts the calls together that strace had to tell in two parts. Those that failed are left out.
fn calls(trace: &str) -> Vec<Call> {
    let mut unfinished: HashMap<&str, (usize, String)> = HashMap::new();
    let mut calls = Vec::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(first) = rest.strip_suffix("<unfinished ...>") {
            unfinished.insert(process, (at, first.to_owned()));
            continue;
        }
        let (began, text) = match rest.strip_prefix("<... ") {
            Some(resumed) => match unfinished.remove(process) {
                Some((began, first)) => (began, format!("{first}{resumed}")),
                None => continue,
            },
            None => (at, rest.to_owned()),
        };
        if !text.rsplit(" = ").next().is_none_or(|result| result.starts_with('-')) {
            calls.push(Call { text, began, done: at });
        }
    }
    calls
}

impl Call {
    /// Whether it is one of these, on a file whose name ends so.
    fn is(&self, names: &[&str], file: &str) -> bool {
        let (name, rest) = self.text.split_once('(').unwrap_or_default();
        let of = rest.split_once('>').map_or(rest, |(descriptor, _)| descriptor);
        names.contains(&name) && of.ends_with(file)
    }
}

/// After the record was written it was synced, all of it before `then`.
#[track_caller]
fn is_on_disk_before(calls: &[Call], record: &str, then: &Call) {
    let written = calls
        .iter()
        .find(|call| call.is(&["write", "writev", "pwrite64"], ".jsonl") && call.text.contains(record));
    let written = written.unwrap_or_else(|| panic!("no {record} was written: {calls:#?}"));
    let synced = calls.iter().find(|call| {
        call.is(&["fsync", "fdatasync"], ".jsonl") && call.began > written.done && call.done < then.began
    });
    assert!(synced.is_some(), "Q8: {record} was not on disk before {}: {calls:#?}", then.text);
}

#[tokio::test]
async fn q8_the_call_is_on_disk_before_it_is_asked_and_the_result_before_the_model_is_called() {
    if !may_trace() {
        return;
    }
    let rig = Rig::new().await;
    let trace = rig.work().join("trace");
    let agent = rig.command();
    let mut strace = Command::new("strace");
    // `-y` names the file of each descriptor.
    strace.args(["-f", "-y", "-s", "4000", "-e", "signal=none", "-o"]).arg(&trace);
    strace.args(["-e", "trace=write,writev,pwrite64,sendto,sendmsg,fsync,fdatasync"]);
    strace.arg(agent.as_std().get_program()).args(["acp", "--restore-ask-user-question"]);
    strace.env_clear().current_dir(rig.work());
    for (key, value) in agent.as_std().get_envs() {
        if let Some(value) = value {
            strace.env(key, value);
        }
    }
    let greeting = json!({ "protocolVersion": 1, "_meta": { "holdpoint.daemon": { "v": 1 } } });
    let mut acp = Acp::greeted(strace, greeting).await;
    let made = acp.call("session/new", json!({ "cwd": rig.work(), "mcpServers": [] })).await.unwrap();
    let prompt =
        json!({ "sessionId": made["sessionId"], "prompt": [{ "type": "text", "text": "please ASK" }] });
    let id = acp.begin("session/prompt", prompt).await;
    let asked = acp.asked().await;
    let outcome = json!({ "outcome": "selected", "optionId": "proceed_once" });
    acp.reply(&asked, json!({ "outcome": outcome, "answers": { "0": "Blue1" } })).await;
    assert_eq!(acp.answer(id).await.unwrap()["stopReason"], "end_turn");
    acp.end().await;

    let calls = calls(&std::fs::read_to_string(&trace).unwrap());
    let said = |what: &str| -> Vec<&Call> {
        calls.iter().filter(|call| call.text.contains(what) && !call.is(&["write"], ".jsonl")).collect()
    };
    let asked = said("session/request_permission");
    assert_eq!(asked.len(), 1, "{asked:#?}");
    is_on_disk_before(&calls, "functionCall", asked[0]);
    let requests = said("POST /v1/chat/completions");
    assert_eq!(requests.len(), 2, "{requests:#?}");
    is_on_disk_before(&calls, "functionResponse", requests[1]);
}
