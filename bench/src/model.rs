//! A scripted model behind an OpenAI-compatible endpoint, that answers as soon as it has read the request. What
//! it does follows from the newest prompt and the results that came after it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::http::Head;

/// The prompt to which the model asks one question.
pub(crate) const ASK: &str = "ASK";
/// The prompt to which it only says something.
pub(crate) const TALK: &str = "TALK";

/// The prompt to which it asks so many questions in one turn, and as often.
pub(crate) fn batches(questions: usize, times: usize) -> String {
    format!("BATCH {questions} {times}")
}

/// The model. Its threads live as long as the program.
pub(crate) struct Model {
    address: SocketAddr,
    heard: Receiver<Instant>,
}

impl Model {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let (noted, heard) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let noted = noted.clone();
                // A connection that breaks ends its own thread; the agent says what it thinks of that.
                std::thread::spawn(move || serve(stream, &noted));
            }
        });
        Ok(Self { address, heard })
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// When the next request came in whole.
    pub(crate) fn next_request(&self) -> anyhow::Result<Instant> {
        self.heard.recv_timeout(Duration::from_secs(60)).context("the model was not called")
    }

    /// Forgets what has come so far.
    pub(crate) fn forget(&self) {
        while self.heard.try_recv().is_ok() {}
    }
}

fn serve(mut stream: TcpStream, noted: &Sender<Instant>) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut got = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        let head = loop {
            if let Some(head) = Head::read(&got)?.filter(|head| got.len() >= head.end + head.length) {
                break head;
            }
            let count = stream.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            got.extend_from_slice(&piece[..count]);
        };
        // Nobody listens any more when the program ends.
        let _ = noted.send(Instant::now());
        let body: Value = serde_json::from_slice(&got[head.end..head.end + head.length])?;
        got.drain(..head.end + head.length);
        stream.write_all(&reply(&body))?;
    }
}

fn reply(body: &Value) -> Vec<u8> {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let start = messages.iter().rposition(|message| message["role"] == "user").unwrap_or(0);
    let prompt = messages.get(start).map(|message| text(&message["content"])).unwrap_or_default();
    let results = messages[start..].iter().filter(|message| message["role"] == "tool").count();
    let earlier = messages.iter().filter_map(|message| message["tool_calls"].as_array()).map(Vec::len).sum();
    let mut words = prompt.split(' ');
    let word = words.next();
    let mut number = || words.next().and_then(|word| word.parse::<usize>().ok()).unwrap_or(1);
    let (questions, times) = match word {
        Some("ASK") => (1, 1),
        Some("BATCH") => (number(), number()),
        _ => (0, 0),
    };
    if results < questions * times {
        calls(questions, earlier)
    } else {
        stream(&json!({ "content": "Done." }), "stop")
    }
}

fn text(content: &Value) -> String {
    content.as_str().or_else(|| content[0]["text"].as_str()).unwrap_or_default().to_owned()
}

fn calls(count: usize, earlier: usize) -> Vec<u8> {
    let arguments = json!({ "questions": [{
        "question": "Which colour should the first version of the page have?",
        "header": "Colour",
        "options": [
            { "label": "Red", "description": "the warm one" },
            { "label": "Blue", "description": "the cold one" },
        ],
    }] });
    let call = |index| {
        json!({
            "index": index,
            "id": format!("call_{}", earlier + index + 1),
            "type": "function",
            "function": { "name": "ask_user_question", "arguments": arguments.to_string() },
        })
    };
    stream(&json!({ "tool_calls": (0..count).map(call).collect::<Vec<_>>() }), "tool_calls")
}

fn stream(delta: &Value, finish: &str) -> Vec<u8> {
    let chunk = |delta: &Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!("data: {}\n\n", json!({ "id": "c", "object": "chat.completion.chunk", "choices": [choice] }))
    };
    let text = chunk(delta, Value::Null) + &chunk(&json!({}), json!(finish)) + "data: [DONE]\n\n";
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        text.len()
    );
    (head + &text).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_ends_when_every_question_of_every_batch_has_its_result() {
        let said = |results: usize| {
            let mut messages = vec![json!({"role": "user", "content": batches(2, 3)})];
            messages.extend((0..results).map(|_| json!({"role": "tool", "content": "x"})));
            String::from_utf8(reply(&json!({ "messages": messages }))).unwrap()
        };
        assert!(said(0).contains("call_2") && said(4).contains("call_2"));
        assert!(said(6).contains("Done."));
    }
}
