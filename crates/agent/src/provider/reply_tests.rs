//! Tests of putting a streamed reply together.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn chunk(delta: Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

fn end(reason: &str) -> Value {
    json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
}

fn read(chunks: impl IntoIterator<Item = Value>) -> ModelTurn {
    let mut reply = Reply::default();
    for chunk in chunks {
        reply.apply(&chunk);
    }
    reply.finish().expect("has a finish reason")
}

/// Calls as (id, name, arguments).
fn calls(turn: &ModelTurn) -> Vec<(Option<&str>, &str, Value)> {
    turn.parts
        .iter()
        .filter_map(|part| part.function_call.as_ref())
        .map(|call| (call.id.as_ref().map(CallId::as_str), call.name.as_str(), call.args.clone()))
        .collect()
}

fn tool(entries: Value) -> Value {
    chunk(json!({ "tool_calls": entries }))
}

#[test]
fn interleaved_calls_with_an_index_come_apart() {
    let turn = read([
        tool(json!([{"index":0,"id":"a","function":{"name":"f","arguments":""}}])),
        tool(json!([{"index":1,"id":"b","function":{"name":"g","arguments":"{\"y\""}}])),
        tool(
            json!([{"index":0,"function":{"arguments":"{\"x\":1}"}}, {"index":1,"function":{"arguments":":2}"}}]),
        ),
        end("tool_calls"),
    ]);
    assert_eq!(calls(&turn), [(Some("a"), "f", json!({"x":1})), (Some("b"), "g", json!({"y":2}))]);
    assert_eq!(turn.finish, Finish::ToolCalls);
}

#[test]
fn calls_without_index_or_id_count() {
    let turn = read([
        tool(json!([{"function":{"name":"f","arguments":"{\"x\""}}])),
        tool(json!([{"function":{"arguments":":1}"}}])),
        tool(json!([{"function":{"name":"f","arguments":"{\"x\":2}"}}])),
        end("stop"),
    ]);
    assert_eq!(calls(&turn), [(None, "f", json!({"x":1})), (None, "f", json!({"x":2}))]);
    assert_eq!(turn.finish, Finish::ToolCalls);
}

#[test]
fn whole_calls_in_one_chunk_are_several_even_if_nothing_tells_them_apart() {
    let entry = json!({"id":"call_0","function":{"name":"list","arguments":""}});
    let turn = read([tool(json!([entry, entry])), end("tool_calls")]);
    assert_eq!(calls(&turn).len(), 2);
}

#[test]
fn one_index_or_one_id_for_all_calls_still_gives_several() {
    for entries in [
        [
            json!({"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}),
            json!({"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}),
        ],
        [
            json!({"index":0,"function":{"name":"f","arguments":"{}"}}),
            json!({"index":0,"function":{"name":"f","arguments":"{}"}}),
        ],
        [
            json!({"id":"call_0","function":{"name":"f","arguments":"{}"}}),
            json!({"id":"call_0","function":{"name":"f","arguments":"{}"}}),
        ],
        [
            json!({"index":0,"id":"a","function":{"name":"f","arguments":""}}),
            json!({"index":0,"id":"a","function":{"name":"g","arguments":""}}),
        ],
    ] {
        let turn = read([tool(json!([entries[0]])), tool(json!([entries[1]])), end("tool_calls")]);
        assert_eq!(calls(&turn).len(), 2, "{entries:?}");
    }
}

#[test]
fn id_and_name_repeated_in_each_piece_are_one_call() {
    let piece = |text: &str| tool(json!([{"index":0,"id":"a","function":{"name":"f","arguments":text}}]));
    let turn = read([piece(""), piece("{\"x\":{"), piece("}"), piece("}"), end("tool_calls")]);
    assert_eq!(calls(&turn), [(Some("a"), "f", json!({"x":{}}))]);
}

#[test]
fn broken_arguments_are_kept_as_text_and_missing_ones_are_an_empty_object() {
    let turn = read([
        tool(
            json!([{"index":0,"function":{"name":"f","arguments":"{\"x\": oops"}}, {"index":1,"function":{"name":"g"}},
            {"index":2,"function":{"name":"h","arguments":{"already":"json"}}}]),
        ),
        end("length"),
    ]);
    assert_eq!(
        calls(&turn),
        [(None, "f", json!("{\"x\": oops")), (None, "g", json!({})), (None, "h", json!({"already":"json"}))]
    );
    assert_eq!(turn.finish, Finish::MaxTokens);
}

#[test]
fn reasoning_is_kept_apart_and_marked() {
    let turn = read([
        chunk(json!({"reasoning_content":"hm"})),
        chunk(json!({"reasoning":"m"})),
        chunk(json!({"content":"Yes"})),
        end("stop"),
    ]);
    assert_eq!(turn.parts.len(), 2);
    assert_eq!(turn.parts[0].text.as_deref(), Some("hmm"));
    assert_eq!(turn.parts[0].thought, Some(true));
    assert_eq!(turn.parts[0].extra[ORIGIN_KEY], ORIGIN);
    assert_eq!(turn.parts[1], Part::text("Yes"));
}

#[test]
fn no_finish_reason_is_no_reply() {
    let mut reply = Reply::default();
    reply.apply(&chunk(json!({"content":"half"})));
    assert!(!reply.is_finished());
    assert_eq!(reply.finish(), None);
}

#[test]
fn a_reply_that_did_not_stream_reads_the_same() {
    let turn = read([json!({"choices":[{"message":{"role":"assistant","content":"hi","tool_calls":[
        {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],
        "usage":{"prompt_tokens":3,"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":1}}})]);
    assert_eq!(calls(&turn), [(Some("a"), "f", json!({}))]);
    assert_eq!(turn.usage, Some(Usage { input: 3, output: 4, total: 7, thought: 1, cached_read: 0 }));
}

#[test]
fn refusals_are_refusals() {
    assert_eq!(read([chunk(json!({"refusal":"no"})), end("stop")]).finish, Finish::Refusal);
    assert_eq!(read([end("content_filter")]).finish, Finish::Refusal);
}

#[derive(Clone, Debug)]
enum Said {
    Text(String),
    Thought(String),
    Call { id: Option<String>, name: String, args: Value },
}

fn said() -> impl Strategy<Value = Vec<Said>> {
    let args =
        prop::collection::btree_map("[a-z]{1,4}", "[a-z{}\"\\\\ é]{0,8}", 0..4).prop_map(|map| json!(map));
    prop::collection::vec(
        prop_oneof![
            "[a-zé ]{1,12}".prop_map(Said::Text),
            "[a-zé ]{1,12}".prop_map(Said::Thought),
            (prop::option::of("[a-z0-9]{6}"), "[a-z]{1,6}", args).prop_map(|(id, name, args)| Said::Call {
                id,
                name,
                args
            }),
        ],
        0..8,
    )
}

/// What must come out, written down without any chunk.
fn expected(all: &[Said]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for one in all {
        match (one, parts.last_mut()) {
            (Said::Text(text), Some(Part { text: Some(last), thought: None, .. }))
            | (Said::Thought(text), Some(Part { text: Some(last), thought: Some(true), .. })) => {
                last.push_str(text)
            }
            (Said::Text(text), _) => parts.push(Part::text(text.as_str())),
            (Said::Thought(text), _) => {
                let mut part = Part::thought(text.as_str());
                part.extra.insert("holdpoint.origin".into(), "openai".into());
                parts.push(part);
            }
            (Said::Call { id, name, args }, _) => parts.push(Part::call(FunctionCall {
                id: id.clone().map(|id| CallId::new(id).unwrap()),
                name: name.clone(),
                args: args.clone(),
            })),
        }
    }
    parts
}

fn pieces(text: &str, size: usize) -> Vec<String> {
    text.chars().collect::<Vec<_>>().chunks(size).map(|piece| piece.iter().collect()).collect()
}

proptest! {
    #[test]
    fn any_chunking_of_one_reply_gives_the_same_turn(
        all in said(), size in 1usize..7, with_index in any::<bool>(), repeat_id in any::<bool>(), repeat_name in any::<bool>(),
    ) {
        let mut chunks = Vec::new();
        let mut index = 0;
        for one in &all {
            match one {
                Said::Text(text) => chunks.extend(pieces(text, size).into_iter().map(|p| chunk(json!({"content":p})))),
                Said::Thought(text) => {
                    chunks.extend(pieces(text, size).into_iter().map(|p| chunk(json!({"reasoning_content":p}))));
                }
                Said::Call { id, name, args } => {
                    let args = args.to_string();
                    for (nth, piece) in pieces(&args, size).into_iter().enumerate() {
                        let mut entry = json!({"function":{"arguments":piece}});
                        if with_index { entry["index"] = json!(index); }
                        if nth == 0 || repeat_id { entry["id"] = json!(id); }
                        if nth == 0 || repeat_name { entry["function"]["name"] = json!(name); }
                        chunks.push(tool(json!([entry])));
                    }
                    index += 1;
                }
            }
        }
        chunks.push(end("stop"));
        prop_assert_eq!(read(chunks).parts, expected(&all));
    }

    #[test]
    fn no_chunk_panics(text in "\\PC{0,60}", reason in prop::option::of("[a-z]{0,8}")) {
        let mut reply = Reply::default();
        for value in [json!(text), json!([text]), json!({"choices":text}), json!({"choices":[{"delta":text,"finish_reason":reason}]}),
            json!({"choices":[{"delta":{"tool_calls":[text,{"function":text},{"function":{"name":1,"arguments":[2]}}],"content":[text,{"text":1}]}}],"usage":text})] {
            reply.apply(&value);
        }
        let _ = reply.finish();
    }
}

#[test]
fn endless_calls_are_noticed() {
    let mut reply = Reply::default();
    for nth in 0..=CALLS_MAX {
        assert!(!reply.has_too_many_calls());
        reply.apply(&tool(json!([{"id": format!("c{nth}"), "function": {"name": "f"}}])));
    }
    assert!(reply.has_too_many_calls());
}
