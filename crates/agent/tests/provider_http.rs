//! Providers against scripted servers on real sockets, which cut, stall and lie as real ones do.
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdpoint_agent::provider::config::Timeouts;
use holdpoint_agent::provider::genai::GenAi;
use holdpoint_agent::provider::openai::OpenAi;
use holdpoint_agent::provider::{
    Delta, Finish, ModelTurn, Provider, ProviderError, Request, ToolSpec, Usage,
};
use holdpoint_model::history::{Content, FunctionCall, FunctionResponse, Part, Role};
use holdpoint_model::ids::CallId;
use reqwest::Url;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

const KEY: &str = "sk-very-secret";
const PATIENCE: Duration = Duration::from_secs(60);

/// One answer of the script.
#[derive(Clone)]
enum Say {
    /// Status, further header lines, body; with a length, so that it ends properly.
    Whole(u16, &'static str, String),
    /// An event stream, piece by piece, that ends properly.
    Events(Vec<String>),
    /// An event stream that breaks off in mid-chunk.
    Cut(Vec<String>),
    /// The head of an event stream and these pieces, then nothing.
    Stall(Vec<String>),
    /// Nothing at all, not even a head.
    Silence,
}

#[derive(Clone)]
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    stalled: Arc<Notify>,
}

impl Server {
    async fn start(script: Vec<Say>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: format!("http://{}", listener.local_addr().unwrap()),
            requests: Arc::default(),
            stalled: Arc::default(),
        };
        let this = server.clone();
        tokio::spawn(async move {
            let mut script = script.into_iter();
            while let Ok((socket, _)) = listener.accept().await {
                let say = script.next().unwrap_or(Say::Whole(500, "", "the script is over".to_owned()));
                let this = this.clone();
                tokio::spawn(async move { this.answer(socket, say).await });
            }
        });
        server
    }

    async fn answer(&self, mut socket: TcpStream, say: Say) {
        let request = read_request(&mut socket).await;
        self.requests.lock().unwrap().push(request);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
        let (pieces, end) = match say {
            Say::Whole(status, headers, body) => {
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                socket.write_all(text.as_bytes()).await.unwrap();
                return;
            }
            Say::Silence => {
                self.stalled.notify_one();
                std::future::pending::<()>().await;
                return;
            }
            Say::Events(pieces) => (pieces, Some("0\r\n\r\n")),
            Say::Cut(pieces) => (pieces, Some("400\r\nnot all of it")),
            Say::Stall(pieces) => (pieces, None),
        };
        socket.write_all(head.as_bytes()).await.unwrap();
        for piece in pieces {
            let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
            socket.write_all(chunk.as_bytes()).await.unwrap();
            socket.flush().await.unwrap();
        }
        match end {
            Some(end) => socket.write_all(end.as_bytes()).await.unwrap(),
            None => {
                self.stalled.notify_one();
                std::future::pending::<()>().await;
            }
        }
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    fn body(&self, nth: usize) -> Value {
        self.requests.lock().unwrap()[nth].1.clone()
    }

    fn head(&self, nth: usize) -> String {
        self.requests.lock().unwrap()[nth].0.clone()
    }

    fn url(&self, path: &str) -> Url {
        Url::parse(&format!("{}{path}", self.address)).unwrap()
    }

    fn openai(&self) -> OpenAi {
        self.openai_with(Timeouts::default())
    }

    fn openai_with(&self, timeouts: Timeouts) -> OpenAi {
        OpenAi::new(self.url("/v1/"), "mock".to_owned(), Some(SecretString::from(KEY)), timeouts)
            .with_first_wait(Duration::from_millis(1))
    }

    fn anthropic(&self) -> GenAi {
        let key = SecretString::from(KEY);
        GenAi::anthropic(Some(self.url("/v1")), "claude-sonnet-4-5".to_owned(), key, Timeouts::default())
            .with_first_wait(Duration::from_millis(1))
    }

    fn gemini(&self) -> GenAi {
        let key = SecretString::from(KEY);
        GenAi::gemini(Some(self.url("/v1beta/")), "gemini-2.5-pro".to_owned(), key, Timeouts::default())
            .with_first_wait(Duration::from_millis(1))
    }
}

async fn read_request(socket: &mut TcpStream) -> (String, Value) {
    let mut bytes = Vec::new();
    let end = loop {
        let mut piece = [0; 4096];
        let n = socket.read(&mut piece).await.unwrap();
        assert!(n > 0, "the request ended early");
        bytes.extend_from_slice(&piece[..n]);
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.trim().parse().unwrap());
    while bytes.len() < end + length {
        let mut piece = [0; 4096];
        let n = socket.read(&mut piece).await.unwrap();
        bytes.extend_from_slice(&piece[..n]);
    }
    (head, serde_json::from_slice(&bytes[end..]).unwrap())
}

fn data(value: Value) -> String {
    format!("data: {value}\n\n")
}

fn chunk(delta: Value) -> String {
    data(json!({ "choices": [{ "index": 0, "delta": delta }] }))
}

fn end(reason: &str) -> String {
    data(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }))
}

fn good() -> Say {
    Say::Events(vec![
        chunk(json!({"content": "hel"})),
        chunk(json!({"content": "lo"})),
        end("stop"),
        "data: [DONE]\n\n".to_owned(),
    ])
}

fn whole(status: u16, body: &str) -> Say {
    Say::Whole(status, "", body.to_owned())
}

/// Asks once and gives the outcome with everything that streamed.
async fn ask(provider: &dyn Provider) -> (Result<ModelTurn, ProviderError>, Vec<Delta>) {
    let history = [Content::user_text("hi")];
    ask_with(provider, Request { system: "be brief", history: &history, tools: &[] }).await
}

async fn ask_with(
    provider: &dyn Provider,
    request: Request<'_>,
) -> (Result<ModelTurn, ProviderError>, Vec<Delta>) {
    let (sender, mut receiver) = mpsc::channel(1);
    let mut deltas = Vec::new();
    let collect = async {
        while let Some(delta) = receiver.recv().await {
            deltas.push(delta);
        }
    };
    let asking = provider.stream(request, sender, CancellationToken::new());
    let (outcome, ()) =
        tokio::time::timeout(PATIENCE, async { tokio::join!(asking, collect) }).await.unwrap();
    if let Err(error) = &outcome {
        assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");
    }
    for delta in &deltas {
        assert!(!format!("{delta:?}").contains(KEY), "{delta:?}");
    }
    (outcome, deltas)
}

async fn error(provider: &dyn Provider) -> ProviderError {
    ask(provider).await.0.unwrap_err()
}

fn text(turn: &ModelTurn) -> String {
    turn.parts.iter().filter_map(Part::visible_text).collect()
}

fn streamed(deltas: &[Delta]) -> String {
    deltas
        .iter()
        .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
        .collect()
}

#[tokio::test]
async fn openai_streams_a_reply() {
    let usage =
        data(json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4}}}));
    let server = Server::start(vec![Say::Events(vec![
        ": ping\n\n".to_owned(),
        chunk(json!({"role": "assistant", "content": ""})),
        chunk(json!({"content": "hel"})),
        chunk(json!({"content": "lo"})),
        end("stop"),
        usage,
        "data: [DONE]\n\n".to_owned(),
    ])])
    .await;
    let tools =
        [ToolSpec { name: "f".into(), description: "d".into(), parameters: json!({"type": "object"}) }];
    let history = [Content::user_text("hi")];
    let provider = server.openai();
    let (turn, deltas) =
        ask_with(&provider, Request { system: "sys", history: &history, tools: &tools }).await;
    let turn = turn.unwrap();
    assert_eq!(
        (text(&turn).as_str(), streamed(&deltas).as_str(), turn.finish),
        ("hello", "hello", Finish::Stop)
    );
    assert_eq!(turn.usage, Some(Usage { input: 5, output: 2, total: 7, thought: 0, cached_read: 4 }));
    assert!(server.head(0).starts_with("post /v1/chat/completions http/1.1"));
    assert!(server.head(0).contains(&format!("authorization: bearer {KEY}")));
    let body = server.body(0);
    assert_eq!(body["messages"], json!([{"role":"system","content":"sys"},{"role":"user","content":"hi"}]));
    assert_eq!((&body["model"], &body["stream"]), (&json!("mock"), &json!(true)));
    assert_eq!(body["stream_options"]["include_usage"], true);
    assert_eq!(body["tools"][0]["function"]["name"], "f");
}

#[tokio::test]
async fn openai_missing_done_after_a_finish_reason_is_fine() {
    for script in [
        Say::Events(vec![chunk(json!({"content": "hello"})), end("stop")]),
        Say::Events(vec![chunk(json!({"content": "hello"})), end("stop").trim_end().to_owned()]),
        Say::Cut(vec![chunk(json!({"content": "hello"})), end("stop")]),
        Say::Whole(200, "content-type: text/plain\r\n", chunk(json!({"content": "hello"})) + &end("stop")),
        Say::Whole(
            200,
            "content-type: application/json\r\n",
            json!({"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}).to_string(),
        ),
    ] {
        let server = Server::start(vec![script]).await;
        let (turn, deltas) = ask(&server.openai()).await;
        assert_eq!((text(&turn.unwrap()), streamed(&deltas)), ("hello".to_owned(), "hello".to_owned()));
        assert_eq!(server.count(), 1);
    }
}

#[tokio::test]
async fn openai_a_reply_without_a_finish_reason_is_asked_for_again() {
    for broken in [
        Say::Events(vec![chunk(json!({"content": "hal"})), "data: [DONE]\n\n".to_owned()]),
        Say::Events(vec![chunk(json!({"content": "hal"}))]),
        Say::Cut(vec![chunk(json!({"content": "hal"}))]),
        Say::Events(vec![chunk(json!({"content": "hal"})), "data: {\"choi".to_owned()]),
    ] {
        let server = Server::start(vec![broken, good()]).await;
        let (turn, deltas) = ask(&server.openai()).await;
        assert_eq!(text(&turn.unwrap()), "hello");
        assert_eq!(streamed(&deltas), "halhello");
        assert!(
            deltas.iter().any(|delta| matches!(delta, Delta::Retrying { attempt: 2, restarts: true, .. })),
            "{deltas:?}"
        );
    }
    let server = Server::start(vec![Say::Cut(vec![]); 9]).await;
    let error = error(&server.openai()).await;
    assert!(matches!(error, ProviderError::CutOff { attempts: 5, .. }), "{error:?}");
    assert_eq!(server.count(), 5);
}

#[tokio::test]
async fn openai_overload_is_waited_out_and_then_told() {
    let limited =
        Say::Whole(429, "retry-after: 0\r\n", json!({"error": {"message": "slow down"}}).to_string());
    let server = Server::start(vec![limited.clone(), whole(503, "busy"), good()]).await;
    let (turn, deltas) = ask(&server.openai()).await;
    assert_eq!(text(&turn.unwrap()), "hello");
    let Delta::Retrying { after, reason, restarts, .. } = &deltas[0] else { panic!("{deltas:?}") };
    assert_eq!((*after, *restarts), (Duration::ZERO, false));
    assert!(reason.contains("slow down"));

    let server = Server::start(vec![limited; 9]).await;
    let told = error(&server.openai()).await.to_string();
    assert!(told.contains("429") && told.contains("5 attempts") && told.contains("slow down"), "{told}");

    let long = Say::Whole(429, "retry-after: 86400\r\n", "{}".to_owned());
    let server = Server::start(vec![long, good()]).await;
    let told = error(&server.openai()).await.to_string();
    assert!(told.contains("wait 86400 s"), "{told}");
    assert_eq!(server.count(), 1, "nobody is made to wait for a day, and the server is left alone");
}

#[tokio::test]
async fn openai_errors_say_what_to_do_and_never_the_key() {
    let cases = [
        (whole(401, &json!({"error": {"message": format!("bad key {KEY}")}}).to_string()), "OPENAI_API_KEY"),
        (whole(403, ""), "OPENAI_API_KEY"),
        (whole(404, "<html>nope</html>"), "--base-url"),
        (
            Say::Whole(307, "location: https://elsewhere/v1\r\n", String::new()),
            "redirects to https://elsewhere/v1",
        ),
        (whole(400, &json!({"error": {"message": "context length exceeded"}}).to_string()), "context length"),
        (whole(200, "<html>hello</html>"), "web page"),
        (whole(200, "data: {oops}\n\n"), "not JSON"),
        (whole(200, "{\"choices\": oops}"), "not JSON"),
        (whole(200, &json!({"error": {"message": "no credit", "type": "billing"}}).to_string()), "no credit"),
        (
            Say::Events(vec![data(json!({"error": {"message": format!("mid {KEY}"), "code": 400}}))]),
            "mid [key]",
        ),
    ];
    for (say, expected) in cases {
        let server = Server::start(vec![say, good()]).await;
        let told = error(&server.openai()).await.to_string();
        assert!(told.contains(expected), "{expected}: {told}");
        assert!(told.contains(&server.address), "says where: {told}");
        assert_eq!(server.count(), 1, "not asked again: {told}");
    }
}

#[tokio::test]
async fn openai_an_error_that_may_pass_inside_a_stream_is_tried_again() {
    let server = Server::start(vec![
        Say::Events(vec![data(json!({"error": {"message": "busy", "code": 529}}))]),
        Say::Events(vec![data(json!({"error": {"message": "busy", "type": "server_error"}}))]),
        good(),
    ])
    .await;
    assert_eq!(text(&ask(&server.openai()).await.0.unwrap()), "hello");
}

#[tokio::test]
async fn openai_no_connection_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/v1", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let provider =
        OpenAi::new(url, "m".to_owned(), None, Timeouts::default()).with_first_wait(Duration::from_millis(1));
    let error = error(&provider).await;
    assert!(matches!(error, ProviderError::Connect { attempts: 3, .. }), "{error:?}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn openai_silence_ends_by_the_time_limits() {
    let short = Timeouts { header: Duration::from_millis(100), read: Duration::from_millis(100) };
    let server = Server::start(vec![Say::Silence, good()]).await;
    assert_eq!(text(&ask(&server.openai_with(short)).await.0.unwrap()), "hello");

    let server = Server::start(vec![Say::Stall(vec![chunk(json!({"content": "h"}))]); 3]).await;
    let error = error(&server.openai_with(short)).await;
    assert!(matches!(error, ProviderError::TimedOut { attempts: 2, .. }), "{error:?}");
    assert!(error.to_string().contains("HOLDPOINT_MODEL_READ_TIMEOUT"), "{error}");

    let finished = Say::Stall(vec![chunk(json!({"content": "hello"})), end("stop")]);
    let server = Server::start(vec![finished]).await;
    assert_eq!(
        text(&ask(&server.openai_with(short)).await.0.unwrap()),
        "hello",
        "a finished reply needs no end"
    );
}

#[tokio::test]
async fn openai_a_cancel_ends_the_request_wherever_it_is() {
    for say in [Say::Silence, Say::Stall(vec![chunk(json!({"content": "h"}))])] {
        let server = Server::start(vec![say]).await;
        let cancel = CancellationToken::new();
        let (sender, mut deltas) = mpsc::channel(8);
        let (provider, token) = (server.openai(), cancel.clone());
        let asking = tokio::spawn(async move {
            let history = [Content::user_text("hi")];
            provider.stream(Request { system: "", history: &history, tools: &[] }, sender, token).await
        });
        server.stalled.notified().await;
        cancel.cancel();
        let outcome = tokio::time::timeout(PATIENCE, asking).await.unwrap().unwrap();
        assert!(matches!(outcome, Err(ProviderError::Cancelled)), "{outcome:?}");
        while deltas.recv().await.is_some() {}
    }
}

#[tokio::test]
async fn openai_a_server_without_stream_options_is_asked_without_them() {
    let refusal = whole(400, &json!({"error": {"message": "unknown field stream_options"}}).to_string());
    let server = Server::start(vec![refusal, good(), good()]).await;
    let provider = server.openai();
    assert_eq!(text(&ask(&provider).await.0.unwrap()), "hello");
    assert_eq!(text(&ask(&provider).await.0.unwrap()), "hello");
    assert_eq!(server.count(), 3);
    assert!(server.body(2).get("stream_options").is_none());
}

#[tokio::test]
async fn openai_a_reader_that_is_gone_loses_only_the_deltas() {
    let server = Server::start(vec![good()]).await;
    let (sender, receiver) = mpsc::channel(1);
    drop(receiver);
    let history = [Content::user_text("hi")];
    let provider = server.openai();
    let request = Request { system: "", history: &history, tools: &[] };
    let turn = provider.stream(request, sender, CancellationToken::new()).await.unwrap();
    assert_eq!(text(&turn), "hello");
}

#[tokio::test]
async fn openai_a_reply_beyond_the_limit_is_refused() {
    let piece = chunk(json!({"content": "x".repeat(1 << 20)}));
    let server = Server::start(vec![Say::Events(vec![piece; 40])]).await;
    let provider = server.openai();
    let history = [Content::user_text("hi")];
    let (sender, receiver) = mpsc::channel(1);
    drop(receiver);
    let request = Request { system: "", history: &history, tools: &[] };
    let error = provider.stream(request, sender, CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("larger than 32 MiB"), "{error}");
}

fn event(name: &str, value: Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

fn claude(blocks: &[String], stop: Option<&str>) -> Vec<String> {
    let mut all = vec![event(
        "message_start",
        json!({"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}),
    )];
    all.extend(blocks.iter().cloned());
    if let Some(stop) = stop {
        all.push(event(
            "message_delta",
            json!({"type":"message_delta","delta":{"stop_reason":stop},"usage":{"output_tokens":4}}),
        ));
        all.push(event("message_stop", json!({"type":"message_stop"})));
    }
    all
}

fn claude_block(index: u64, start: Value, deltas: &[Value]) -> Vec<String> {
    let mut all = vec![event(
        "content_block_start",
        json!({"type":"content_block_start","index":index,"content_block":start}),
    )];
    all.extend(deltas.iter().map(|delta| {
        event("content_block_delta", json!({"type":"content_block_delta","index":index,"delta":delta}))
    }));
    all.push(event("content_block_stop", json!({"type":"content_block_stop","index":index})));
    all
}

fn claude_text(text: &str) -> Vec<String> {
    claude_block(0, json!({"type":"text","text":""}), &[json!({"type":"text_delta","text":text})])
}

#[tokio::test]
async fn i10_anthropic_keeps_reasoning_signatures_and_calls_and_sends_them_back() {
    let mut blocks = claude_block(
        0,
        json!({"type":"thinking","thinking":"","signature":""}),
        &[
            json!({"type":"thinking_delta","thinking":"hm"}),
            json!({"type":"signature_delta","signature":"sig"}),
        ],
    );
    blocks.extend(claude_block(1, json!({"type":"redacted_thinking","data":"xyz"}), &[]));
    blocks.extend(claude_block(
        2,
        json!({"type":"text","text":""}),
        &[json!({"type":"text_delta","text":"I look."})],
    ));
    for (index, id, path) in [(3, "toolu_1", "a"), (4, "toolu_2", "b")] {
        let args = json!({"path": path}).to_string();
        let (left, right) = args.split_at(4);
        blocks.extend(claude_block(
            index,
            json!({"type":"tool_use","id":id,"name":"read_file","input":{}}),
            &[
                json!({"type":"input_json_delta","partial_json":left}),
                json!({"type":"input_json_delta","partial_json":right}),
            ],
        ));
    }
    let server = Server::start(vec![
        Say::Events(claude(&blocks, Some("tool_use"))),
        Say::Events(claude(&claude_text("done"), Some("end_turn"))),
    ])
    .await;
    let provider = server.anthropic();
    let (turn, deltas) = ask(&provider).await;
    let turn = turn.unwrap();
    assert_eq!(turn.finish, Finish::ToolCalls);
    assert_eq!(turn.usage.map(|usage| (usage.input, usage.output)), Some((9, 4)));
    assert_eq!(streamed(&deltas), "I look.");
    assert_eq!(deltas.iter().filter(|delta| matches!(delta, Delta::ToolCallStarted { .. })).count(), 2);
    let shapes: Vec<_> = turn
        .parts
        .iter()
        .map(|part| (part.thought, part.text.as_deref(), part.thought_signature.as_deref()))
        .collect();
    assert_eq!(shapes[0], (Some(true), Some("hm"), Some("sig")));
    assert_eq!(shapes[2], (None, Some("I look."), None));
    let calls: Vec<_> = turn.parts.iter().filter_map(|part| part.function_call.clone()).collect();
    assert_eq!(calls[0].args, json!({"path":"a"}));
    assert_eq!(calls[1].id.as_ref().map(CallId::as_str), Some("toolu_2"));

    let result = |id: &str, text: &str| {
        Content::response(FunctionResponse::output(CallId::new(id).unwrap(), "read_file", text))
    };
    let history = [
        Content::user_text("hi"),
        Content { role: Role::Model, parts: turn.parts },
        result("toolu_2", "two"),
        result("toolu_1", "one"),
    ];
    let (turn, _) = ask_with(&provider, Request { system: "sys", history: &history, tools: &[] }).await;
    assert_eq!(text(&turn.unwrap()), "done");
    assert!(server.head(1).starts_with("post /v1/messages http/1.1"), "{}", server.head(1));
    assert!(server.head(1).contains(&format!("x-api-key: {KEY}")));
    let messages = server.body(1)["messages"].clone();
    assert_eq!(
        messages[1]["content"],
        json!([
            {"type":"thinking","thinking":"hm","signature":"sig"}, {"type":"redacted_thinking","data":"xyz"}, {"type":"text","text":"I look."},
            {"type":"tool_use","id":"toolu_1","name":"read_file","input":{"path":"a"}},
            {"type":"tool_use","id":"toolu_2","name":"read_file","input":{"path":"b"}}
        ])
    );
    assert_eq!(
        messages[2],
        json!({"role":"user","content":[
        {"type":"tool_result","content":"one","tool_use_id":"toolu_1"}, {"type":"tool_result","content":"two","tool_use_id":"toolu_2"}]})
    );
}

#[tokio::test]
async fn anthropic_a_cut_or_overloaded_stream_is_asked_for_again() {
    let server = Server::start(vec![
        Say::Events(claude(&claude_text("hal"), None)),
        Say::Cut(claude(&claude_text("hal"), None)),
        whole(529, &json!({"type":"error","error":{"type":"overloaded_error","message":"busy"}}).to_string()),
        Say::Events(vec![event(
            "error",
            json!({"type":"error","error":{"type":"overloaded_error","message":"busy"}}),
        )]),
        Say::Events(claude(&claude_text("hello"), Some("end_turn"))),
    ])
    .await;
    let (turn, deltas) = ask(&server.anthropic()).await;
    assert_eq!(text(&turn.unwrap()), "hello");
    assert_eq!(deltas.iter().filter(|delta| matches!(delta, Delta::Retrying { .. })).count(), 4);
}

#[tokio::test]
async fn anthropic_errors_name_the_right_variable() {
    let body =
        json!({"type":"error","error":{"type":"authentication_error","message":format!("invalid {KEY}")}})
            .to_string();
    let server = Server::start(vec![whole(401, &body)]).await;
    let told = error(&server.anthropic()).await.to_string();
    assert!(told.contains("ANTHROPIC_API_KEY") && told.contains("invalid [key]"), "{told}");
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn anthropic_broken_arguments_stay_text_and_go_back_as_an_object() {
    let blocks = claude_block(
        0,
        json!({"type":"tool_use","id":"toolu_1","name":"f","input":{}}),
        &[json!({"type":"input_json_delta","partial_json":"{oops"})],
    );
    let server = Server::start(vec![
        Say::Events(claude(&blocks, Some("max_tokens"))),
        Say::Events(claude(&claude_text("ok"), Some("end_turn"))),
    ])
    .await;
    let provider = server.anthropic();
    let turn = ask(&provider).await.0.unwrap();
    assert_eq!(
        (turn.finish, &turn.parts[0].function_call.as_ref().unwrap().args),
        (Finish::MaxTokens, &json!("{oops"))
    );
    let history = [
        Content::user_text("hi"),
        Content { role: Role::Model, parts: turn.parts },
        Content::response(FunctionResponse::error(CallId::new("toolu_1").unwrap(), "f", "not JSON")),
    ];
    ask_with(&provider, Request { system: "", history: &history, tools: &[] }).await.0.unwrap();
    assert_eq!(server.body(1)["messages"][1]["content"][0]["input"], json!({"invalid_json": "{oops"}));
}

fn gemini(parts: Value, finish: Option<&str>) -> String {
    let mut candidate = json!({"content":{"role":"model","parts":parts}});
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    data(
        json!({"candidates":[candidate],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"thoughtsTokenCount":1,"totalTokenCount":6}}),
    )
}

#[tokio::test]
async fn i10_gemini_keeps_signatures_and_drops_made_up_ids() {
    let call = |path: &str| json!({"functionCall":{"name":"read_file","args":{"path":path}}});
    let mut signed = call("a");
    signed["thoughtSignature"] = json!("sig");
    let server = Server::start(vec![
        Say::Events(vec![
            gemini(json!([{"text":"hm","thought":true}]), None),
            gemini(json!([{"text":"I look."}]), None),
            gemini(json!([signed, call("b")]), Some("STOP")),
        ]),
        Say::Events(vec![gemini(json!([{"text":"done"}]), Some("STOP"))]),
    ])
    .await;
    let provider = server.gemini();
    let (turn, _) = ask(&provider).await;
    let turn = turn.unwrap();
    assert_eq!(turn.finish, Finish::ToolCalls);
    assert_eq!(
        turn.usage.map(|usage| (usage.input, usage.output, usage.thought, usage.total)),
        Some((3, 3, 1, 6))
    );
    assert_eq!(turn.parts.len(), 4);
    assert_eq!(turn.parts[2].thought_signature.as_deref(), Some("sig"));
    let mut parts = turn.parts;
    for (nth, part) in parts.iter_mut().enumerate() {
        if let Some(FunctionCall { id, .. }) = &mut part.function_call {
            assert_eq!(*id, None);
            *id = Some(CallId::new(format!("minted-{nth}")).unwrap());
        }
    }
    let result =
        |id: &str| Content::response(FunctionResponse::output(CallId::new(id).unwrap(), "read_file", id));
    let history = [
        Content::user_text("hi"),
        Content { role: Role::Model, parts },
        result("minted-2"),
        result("minted-3"),
    ];
    assert_eq!(
        text(&ask_with(&provider, Request { system: "sys", history: &history, tools: &[] }).await.0.unwrap()),
        "done"
    );
    assert!(
        server.head(1).starts_with("post /v1beta/models/gemini-2.5-pro:streamgeneratecontent"),
        "{}",
        server.head(1)
    );
    let contents = server.body(1)["contents"].clone();
    let model = contents[1]["parts"].as_array().unwrap();
    assert_eq!(model[0], json!({"text":"I look."}));
    assert_eq!(
        (&model[1]["thoughtSignature"], &model[1]["functionCall"]["args"]),
        (&json!("sig"), &json!({"path":"a"}))
    );
    assert_eq!(contents[2]["parts"][1]["functionResponse"]["name"], "read_file");
}

#[tokio::test]
async fn gemini_a_stream_without_a_finish_reason_is_asked_for_again() {
    let server = Server::start(vec![
        Say::Events(vec![gemini(json!([{"text":"hal"}]), None)]),
        Say::Cut(vec![gemini(json!([{"text":"hal"}]), None)]),
        Say::Events(vec![gemini(json!([{"text":"hello"}]), Some("STOP"))]),
    ])
    .await;
    assert_eq!(text(&ask(&server.gemini()).await.0.unwrap()), "hello");
    let body = json!([{"error":{"code":400,"message":format!("API key not valid: {KEY}"),"status":"INVALID_ARGUMENT"}}]).to_string();
    let server = Server::start(vec![whole(400, &body)]).await;
    let told = error(&server.gemini()).await.to_string();
    assert!(told.contains("API key not valid: [key]"), "{told}");
}

#[tokio::test]
async fn i10_gemini_signatures_stay_with_their_parts() {
    let parts =
        json!([{"text":"I look."}, {"functionCall":{"name":"f","args":{}},"thoughtSignature":"of the call"}]);
    let last = json!([{"text":"","thoughtSignature":"of nothing"}]);
    let server =
        Server::start(vec![Say::Events(vec![gemini(parts, None), gemini(last, Some("STOP"))])]).await;
    let turn = ask(&server.gemini()).await.0.unwrap();
    let signatures: Vec<_> = turn.parts.iter().map(|part| part.thought_signature.as_deref()).collect();
    assert_eq!(signatures, [None, Some("of the call"), Some("of nothing")]);
}
