//! The daemon's routes, as a client calls them.

use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::http::{self, Response};
use super::{Stream, until};

/// A client of a daemon at an address; `client` is its id.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    pub(crate) client: Option<String>,
}

/// A session that a client opened.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) client: String,
}

/// A question that waits, as the status shows it.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) request: String,
    pub(crate) view: Value,
}

/// The body of a vote that submits these answers.
pub(crate) fn selected(answers: &[(&str, &str)]) -> Value {
    let map: serde_json::Map<_, _> = answers.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    json!({ "outcome": { "outcome": "selected", "optionId": "proceed_once" }, "answers": map })
}

/// The body of an answer by durable identity.
pub(crate) fn answers(question: &Question, answers: &[(&str, &str)], response: &str) -> Value {
    json!({
        "generation": question.generation,
        "answers": selected(answers)["answers"],
        "responseId": response,
    })
}

impl Api {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, client: None }
    }

    /// The same daemon, as this client.
    pub(crate) fn of(&self, client: &str) -> Self {
        Self { client: Some(client.to_owned()), ..self.clone() }
    }

    /// One request. `Err`: no (whole) response.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> io::Result<Response> {
        let bytes = body.map(|body| body.to_string().into_bytes());
        let headers: Vec<_> =
            self.client.as_deref().map(|client| ("X-Qwen-Client-Id", client)).into_iter().collect();
        http::send(self.address, method, path, &headers, bytes.as_deref()).await
    }

    /// One request as bytes, with these headers.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Response {
        http::send(self.address, method, path, headers, body).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.try_send("GET", path, None).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        self.try_send("POST", path, Some(body)).await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str) -> Response {
        self.try_send("DELETE", path, None).await.unwrap()
    }

    /// Opens a session. `mode` is its approval mode.
    pub(crate) async fn create(&self, mode: &str) -> Session {
        let body = json!({ "sessionScope": "thread", "approvalMode": mode });
        let view = self.post("/session", &body).await.expect(200);
        let text = |key: &str| view[key].as_str().unwrap().to_owned();
        Session { id: text("sessionId"), client: text("clientId") }
    }

    /// Sends a prompt; gives its id.
    pub(crate) async fn prompt(&self, session: &Session, text: &str) -> String {
        let body = json!({ "prompt": [{ "type": "text", "text": text }] });
        let view = self.post(&format!("/session/{}/prompt", session.id), &body).await.expect(202);
        view["promptId"].as_str().unwrap().to_owned()
    }

    /// Loads the session as this client; the response.
    pub(crate) async fn load(&self, session: &Session) -> Value {
        self.post(&format!("/session/{}/load", session.id), &json!({})).await.expect(200)
    }

    /// Resumes the session as this client; the response.
    pub(crate) async fn resume(&self, session: &Session) -> Value {
        self.post(&format!("/session/{}/resume", session.id), &json!({})).await.expect(200)
    }

    /// Loads the session as this client, and reads the stream from there.
    pub(crate) async fn load_and_follow(&self, session: &Session) -> Stream {
        let view = self.load(session).await;
        self.events_from(session, view["lastEventId"].as_u64().unwrap(), view["eventEpoch"].as_str()).await
    }

    pub(crate) async fn status(&self, session: &Session) -> Value {
        self.get(&format!("/session/{}/status", session.id)).await.expect(200)
    }

    /// The questions that people can answer now.
    pub(crate) async fn asked(&self, session: &Session) -> Vec<Question> {
        let status = self.status(session).await;
        let list = status["pendingInteractions"].as_array().cloned().unwrap_or_default();
        list.into_iter()
            .map(|view| Question {
                id: view["questionId"].as_str().unwrap().to_owned(),
                generation: view["generation"].as_u64().unwrap(),
                request: view["requestId"].as_str().unwrap().to_owned(),
                view,
            })
            .collect()
    }

    /// Waits until so many questions can be answered.
    pub(crate) async fn wait_asked<const N: usize>(&self, session: &Session) -> [Question; N] {
        until(&format!("{N} question(s) asked"), async || self.asked(session).await.try_into().ok()).await
    }

    /// Waits until the session runs nothing.
    pub(crate) async fn wait_idle(&self, session: &Session) {
        until("the turn is over", async || {
            (self.status(session).await["hasActivePrompt"] == false).then_some(())
        })
        .await;
    }

    /// A vote on the peer's route.
    pub(crate) async fn vote(&self, session: &Session, request: &str, body: &Value) -> Response {
        self.post(&format!("/session/{}/permission/{request}", session.id), body).await
    }

    /// An answer on our own route.
    pub(crate) async fn answer(&self, question: &str, body: &Value) -> Response {
        self.post(&format!("/questions/{question}/answer"), body).await
    }

    /// An answer to a daemon that may die of it.
    pub(crate) async fn try_answer(&self, question: &Question, body: &Value) -> io::Result<Response> {
        self.try_send("POST", &format!("/questions/{}/answer", question.id), Some(body)).await
    }

    /// One question of the inbox, whole.
    pub(crate) async fn question(&self, id: &str) -> Value {
        self.get(&format!("/questions/{id}")).await.expect(200)
    }

    /// The rows of the inbox.
    pub(crate) async fn inbox(&self) -> Vec<Value> {
        let view = self.get("/questions?state=open").await.expect(200);
        view["questions"].as_array().unwrap().clone()
    }

    /// The stream from now on.
    pub(crate) async fn events(&self, session: &Session) -> Stream {
        Stream::open(self.address, &session.id, &[]).await
    }

    /// The stream from a cursor on.
    pub(crate) async fn events_from(&self, session: &Session, last: u64, epoch: Option<&str>) -> Stream {
        let last = last.to_string();
        let mut headers = vec![("Last-Event-ID", last.as_str())];
        headers.extend(epoch.map(|epoch| ("X-Qwen-Event-Epoch", epoch)));
        Stream::open(self.address, &session.id, &headers).await
    }
}
