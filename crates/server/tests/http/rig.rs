//! A daemon over a SQLite ledger with an agent that asks, over any number of lives; and what clients of it do.

use std::sync::Arc;

use holdpoint_ledger::{Ledger, SqliteLedger};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::asker::{Askers, Histories, Troubles};
use crate::support::{Daemon, Options, PATIENCE, Place, Request, Response, Tune};

/// What outlives a daemon.
pub(crate) struct Machine {
    place: Place,
    pub(crate) histories: Histories,
    pub(crate) troubles: Troubles,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self { place: Place::new(), histories: Histories::default(), troubles: Troubles::default() }
    }

    /// The next life of the daemon.
    pub(crate) async fn start(&self, tune: Tune) -> Life {
        self.start_with(Options { tune, ..Options::default() }).await
    }

    pub(crate) async fn start_with(&self, options: Options) -> Life {
        let ledger = Arc::new(SqliteLedger::open(&self.place.data_dir).unwrap());
        self.start_over(options, ledger).await
    }

    pub(crate) async fn start_over(&self, options: Options, ledger: Arc<dyn Ledger>) -> Life {
        let agents = Arc::new(Askers::new(self.histories.clone(), self.troubles.clone()));
        Life { daemon: Daemon::over(&self.place, options, ledger, agents).await }
    }
}

/// One life of the daemon.
pub(crate) struct Life {
    pub(crate) daemon: Daemon,
}

/// A session, and the client that made it.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) id: String,
    pub(crate) client: String,
}

/// A question that is asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) request: String,
}

/// A vote for an option, with answers.
pub(crate) fn select(option: &str, answers: Value) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": option }, "answers": answers })
}

/// A vote that answers a question of one part.
pub(crate) fn say(answer: &str) -> Value {
    select("proceed_once", json!({ "0": answer }))
}

/// A vote with the outcome `cancelled`.
pub(crate) fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

impl Life {
    /// Ends as a signal does: nothing is written for open questions (I12).
    pub(crate) async fn stop(self) {
        self.daemon.stop().await;
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.daemon.get(path).await
    }

    pub(crate) async fn post(&self, path: &str, client: Option<&str>, body: &Value) -> Response {
        let request = Request::new("POST", path).json(body);
        self.daemon.send(named(request, client)).await
    }

    pub(crate) async fn make(&self) -> Made {
        let made = self.post("/session", None, &json!({ "sessionScope": "thread" })).await;
        assert_eq!(made.status, 200, "{made:?}");
        let text = |key: &str| made.body[key].as_str().unwrap().to_owned();
        Made { id: text("sessionId"), client: text("clientId") }
    }

    /// Loads it for a client (`None` is nobody); the client's id.
    pub(crate) async fn load(&self, session: &Made, client: Option<&str>) -> String {
        let loaded = self.post(&format!("/session/{}/load", session.id), client, &json!({})).await;
        assert_eq!(loaded.status, 200, "{loaded:?}");
        loaded.body["clientId"].as_str().unwrap().to_owned()
    }

    /// Another client of a live session.
    pub(crate) async fn join(&self, session: &Made) -> String {
        self.load(session, Some("somebody")).await
    }

    pub(crate) async fn prompt(&self, session: &Made, client: Option<&str>, text: &str) -> String {
        let body = json!({ "prompt": [{ "type": "text", "text": text }] });
        let sent = self.post(&format!("/session/{}/prompt", session.id), client, &body).await;
        assert_eq!(sent.status, 202, "{sent:?}");
        sent.body["promptId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn status(&self, session: &Made) -> Value {
        self.get(&format!("/session/{}/status", session.id)).await.body
    }

    /// Waits until so many are asked.
    pub(crate) async fn asked(&self, session: &Made, count: usize) -> Vec<Asked> {
        let found = async {
            loop {
                let status = self.status(session).await;
                let list = status["pendingInteractions"].as_array().cloned().unwrap_or_default();
                if list.len() == count {
                    return list;
                }
                tokio::task::yield_now().await;
            }
        };
        let list = timeout(PATIENCE, found).await.expect("so many are asked");
        let read = |view: &Value| Asked {
            id: view["questionId"].as_str().unwrap().to_owned(),
            generation: view["generation"].as_u64().unwrap(),
            request: view["requestId"].as_str().unwrap().to_owned(),
        };
        list.iter().map(read).collect()
    }

    /// A session whose client has been asked one question.
    pub(crate) async fn asking(&self) -> (Made, Asked) {
        let session = self.make().await;
        self.prompt(&session, Some(&session.client), "ask").await;
        let asked = self.asked(&session, 1).await.remove(0);
        (session, asked)
    }

    pub(crate) async fn vote(
        &self,
        session: &Made,
        request: &str,
        client: Option<&str>,
        body: &Value,
    ) -> Response {
        self.post(&format!("/session/{}/permission/{request}", session.id), client, body).await
    }

    pub(crate) async fn answer(&self, asked: &Asked, client: Option<&str>, body: &Value) -> Response {
        self.post(&format!("/questions/{}/answer", asked.id), client, body).await
    }

    pub(crate) async fn question(&self, asked: &Asked) -> Value {
        let question = self.get(&format!("/questions/{}", asked.id)).await;
        assert_eq!(question.status, 200, "{question:?}");
        question.body
    }

    /// The rows of the inbox.
    pub(crate) async fn inbox(&self) -> Vec<Value> {
        self.get("/questions").await.body["questions"].as_array().unwrap().clone()
    }

    /// The entries of a question's audit.
    pub(crate) async fn audit(&self, asked: &Asked) -> Vec<Value> {
        self.get(&format!("/questions/{}/audit", asked.id)).await.body["entries"].as_array().unwrap().clone()
    }

    pub(crate) async fn events(&self, session: &Made) -> Events {
        self.events_as(session, None).await
    }

    /// The stream, as a client reads it who says which it is.
    pub(crate) async fn events_as(&self, session: &Made, client: Option<&str>) -> Events {
        let mut stream = self.daemon.connect().await;
        let mut request = Request::new("GET", &format!("/session/{}/events", session.id));
        if let Some(client) = client {
            request = request.header("x-qwen-client-id", client);
        }
        let response = request.on(&mut stream, self.daemon.port).await;
        assert_eq!(response.status, 200, "{response:?}");
        Events::over(stream)
    }

    /// What the stream tells of requests up to now: a title is given, and read up to.
    pub(crate) async fn told(&self, session: &Made, events: &mut Events) -> Vec<Value> {
        let name = format!("mark {}", uuid::Uuid::new_v4());
        let path = format!("/session/{}/metadata", session.id);
        let marked =
            self.daemon.send(Request::new("PATCH", &path).json(&json!({ "displayName": name }))).await;
        assert_eq!(marked.status, 200, "{marked:?}");
        let mut told = Vec::new();
        loop {
            let event = events.next().await.expect("the stream is open");
            if event["data"]["displayName"] == json!(name) {
                return told;
            }
            if event["type"].as_str().is_some_and(|kind| kind.starts_with("permission_")) {
                told.push(event);
            }
        }
    }
}

/// The types of events, in their order.
pub(crate) fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

fn named<'a>(request: Request<'a>, client: Option<&str>) -> Request<'a> {
    match client {
        Some(client) => request.header("x-qwen-client-id", client),
        None => request,
    }
}

/// A stream that is read.
pub(crate) struct Events {
    stream: TcpStream,
    /// Bytes of chunks that are not whole yet.
    raw: Vec<u8>,
    /// Text of frames that are not whole yet.
    text: String,
    /// The last chunk has come.
    ended: bool,
}

impl Events {
    /// Of a response whose head has been read.
    pub(crate) fn over(stream: TcpStream) -> Self {
        Self { stream, raw: Vec::new(), text: String::new(), ended: false }
    }

    /// The next event; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let frame: String = self.text.drain(..end + 2).collect();
                match frame.lines().find_map(|line| line.strip_prefix("data: ")) {
                    Some(data) => return Some(serde_json::from_str(data).unwrap()),
                    None => continue,
                }
            }
            if self.ended {
                return None;
            }
            if !self.unpack() {
                let read = timeout(PATIENCE, self.stream.read_buf(&mut self.raw)).await;
                if read.expect("an event comes, or the end").unwrap() == 0 {
                    return None;
                }
            }
        }
    }

    /// Waits for an event of this type.
    pub(crate) async fn wait_for(&mut self, kind: &str) -> Value {
        let found = async {
            loop {
                let event = self.next().await.unwrap_or_else(|| panic!("the stream ended before {kind}"));
                if event["type"] == kind {
                    return event;
                }
            }
        };
        // As a whole: a stream is never silent.
        timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("waited in vain for {kind}"))
    }

    /// Takes one chunk out of its wrapping.
    fn unpack(&mut self) -> bool {
        let Some(line) = self.raw.windows(2).position(|pair| pair == b"\r\n") else { return false };
        let length = usize::from_str_radix(std::str::from_utf8(&self.raw[..line]).unwrap(), 16).unwrap();
        let whole = line + 2 + length + 2;
        if self.raw.len() < whole {
            return false;
        }
        self.text += std::str::from_utf8(&self.raw[line + 2..line + 2 + length]).unwrap();
        self.raw.drain(..whole);
        self.ended = length == 0;
        true
    }
}
