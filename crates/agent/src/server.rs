//! Sorts what comes in: each request is answered here at once, or handed to its session. Nothing here waits
//! for anything (trap 10).

use std::collections::HashMap;
use std::sync::Arc;

use agent_client_protocol::{
    ConnectionTo, Dispatch, Error, HandleDispatchFrom, Handled, Responder, UntypedMessage, UntypedRole,
};
use holdpoint_model::ids::SessionId;
use holdpoint_transcript::head;
use holdpoint_transcript::replay::{self, Finalise, Window};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::Client;
use crate::config::AgentConfig;
use crate::params::{self, Open, keys};
use crate::provider::Provider;
use crate::rpc::{Link, Peer, internal, invalid_params, invalid_request, method_not_found, not_found};
use crate::session::{Command, MAILBOX, Session, Shared, answer};

/// The version of ACP that we speak.
const PROTOCOL_VERSION: u64 = 1;

/// Sessions on one page of `session/list`.
const LIST_PAGE: usize = 100;

/// The agent's side of one connection.
pub(crate) struct Server {
    config: Arc<AgentConfig>,
    provider: Arc<dyn Provider>,
    client: Client,
    sessions: HashMap<SessionId, mpsc::Sender<Command>>,
    pace: Arc<crate::rpc::Pace>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl Server {
    pub(crate) fn new(
        config: Arc<AgentConfig>,
        provider: Arc<dyn Provider>,
        link: &Link,
        tasks: TaskTracker,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            config,
            provider,
            client: Client::Plain,
            sessions: HashMap::new(),
            pace: Arc::clone(&link.pace),
            tasks,
            shutdown,
        }
    }

    fn request(&mut self, message: UntypedMessage, reply: Responder, connection: ConnectionTo<UntypedRole>) {
        let (method, params) = message.into_parts();
        let result = match method.as_str() {
            "initialize" => self.initialize(&params),
            "authenticate" => Ok(json!({})),
            "session/list" => return self.list(params, reply),
            "qwen/session/loadUpdates" | "_qwen/session/loadUpdates" => {
                return self.load_updates(&params, reply);
            }
            "session/new" | "session/load" | "session/resume" | "session/prompt" | "session/set_mode"
            | "session/close" => {
                return match self.command(&method, params, connection) {
                    Ok((id, send)) => self.send(&id, send(reply)),
                    Err(error) => answer(reply, Err(error)),
                };
            }
            _ => Err(method_not_found(&method)),
        };
        answer(reply, result);
    }

    fn notification(&mut self, message: &UntypedMessage) {
        match message.method() {
            "session/cancel" => match params::session_id(message.params()) {
                Ok(id) => {
                    if let Some(session) = self.sessions.get(&id)
                        && session.try_send(Command::Cancel).is_err()
                    {
                        tracing::warn!(session = %id, "a cancel did not fit into the mailbox");
                    }
                }
                Err(error) => tracing::warn!(message = %error.message, "session/cancel"),
            },
            // The SDK marks the request's responder; its session watches that.
            "$/cancel_request" => {}
            method => tracing::debug!(method, "an unknown notification was ignored"),
        }
    }

    fn initialize(&mut self, params: &Value) -> Result<Value, Error> {
        if !params.get("protocolVersion").is_some_and(Value::is_u64) {
            return Err(invalid_params("protocolVersion: is missing or not a number"));
        }
        self.client = Client::of(params);
        tracing::info!(client = ?self.client, "initialised");
        // Whatever was asked for, this is the version that we speak; a client that cannot disconnects.
        Ok(json!({
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": { "name": "holdpoint", "title": "Holdpoint", "version": self.config.version },
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": false, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": false, "sse": false },
                "sessionCapabilities": { "resume": {}, "list": {}, "close": {} },
            },
            "authMethods": [],
            "_meta": {
                "holdpoint.agent": {
                    "v": 1,
                    "restore": self.config.restore,
                    "model": self.provider.model(),
                },
            },
        }))
    }

    /// Reads a request that a session serves: which session, and the command once the answer's way is known.
    #[expect(clippy::type_complexity, reason = "the command is made where the responder is")]
    fn command(
        &mut self,
        method: &str,
        params: Value,
        connection: ConnectionTo<UntypedRole>,
    ) -> Result<(SessionId, Box<dyn FnOnce(Responder) -> Command>), Error> {
        if method == "session/new" {
            let cwd = params::cwd(&params)?;
            let mode = params::mode(&params)?;
            let id = match params::meta(&params, keys::SESSION) {
                None | Some(Value::Null) => new_session_id(),
                Some(id) => {
                    let id = id
                        .as_str()
                        .ok_or_else(|| invalid_params(format!("{}: is no text", keys::SESSION)))?;
                    SessionId::new(id)
                        .map_err(|error| invalid_params(format!("{}: {error}", keys::SESSION)))?
                }
            };
            self.spawn(&id, connection);
            return Ok((id, Box::new(move |reply| Command::New { cwd, mode, reply })));
        }
        let id = params::session_id(&params)?;
        match method {
            "session/load" | "session/resume" => {
                let open = Box::new(Open::read(&params, method == "session/load")?);
                if !self.is_live(&id) {
                    self.spawn(&id, connection);
                }
                Ok((id, Box::new(move |reply| Command::Open { open, reply })))
            }
            "session/prompt" => Ok((id, Box::new(move |reply| Command::Prompt { params, reply }))),
            "session/set_mode" => {
                let mode = params.get("modeId").unwrap_or(&Value::Null);
                let mode = params::read_mode("modeId", mode)?;
                Ok((id, Box::new(move |reply| Command::SetMode { mode, reply })))
            }
            _ => Ok((id, Box::new(move |reply| Command::Close { reply }))),
        }
    }

    fn is_live(&self, id: &SessionId) -> bool {
        self.sessions.get(id).is_some_and(|session| !session.is_closed())
    }

    fn spawn(&mut self, id: &SessionId, connection: ConnectionTo<UntypedRole>) {
        if self.is_live(id) {
            return;
        }
        self.sessions.retain(|_, session| !session.is_closed());
        let (sender, commands) = mpsc::channel(MAILBOX);
        let shared = Shared {
            config: Arc::clone(&self.config),
            provider: Arc::clone(&self.provider),
            peer: Peer::new(connection, Arc::clone(&self.pace)),
            client: self.client,
        };
        let session = Session::new(shared, id.clone());
        let shutdown = self.shutdown.clone();
        // At the end of the process the session is dropped where it stands: its tools' processes are killed,
        // and nothing is written for what is open (I12).
        self.tasks.spawn(async move { shutdown.run_until_cancelled(session.run(commands)).await });
        self.sessions.insert(id.clone(), sender);
    }

    fn send(&mut self, id: &SessionId, command: Command) {
        use mpsc::error::TrySendError::{Closed, Full};
        let unknown =
            || not_found(format!("the session {id} is not loaded; send session/load or session/new first"));
        let Some(session) = self.sessions.get(id) else { return command.refuse(unknown()) };
        match session.try_send(command) {
            Ok(()) => {}
            Err(Full(command)) => {
                command.refuse(invalid_request(
                    "too many requests wait for this session; wait for their answers",
                ));
            }
            Err(Closed(command)) => {
                self.sessions.remove(id);
                command.refuse(unknown());
            }
        }
    }

    fn list(&self, params: Value, reply: Responder) {
        let directory = holdpoint_transcript::directory(&self.config.data_dir);
        self.tasks.spawn_blocking(move || {
            let result = list_page(&params, &directory);
            answer(reply, result);
        });
    }

    /// The read-only look at a session: it always finalises and never re-hangs (R4).
    fn load_updates(&self, params: &Value, reply: Responder) {
        let id = match params::session_id(params) {
            Ok(id) => id,
            Err(error) => return answer(reply, Err(error)),
        };
        let path = holdpoint_transcript::path(&self.config.data_dir, &id);
        self.tasks.spawn_blocking(move || {
            let result = match replay::window(&path, &Window::default(), &Finalise::all()) {
                Ok(replay) => Ok(json!({ "v": 1, "sessionId": id, "updates": replay.updates })),
                Err(error @ holdpoint_transcript::ReadError::NotFound { .. }) => {
                    Err(not_found(error.to_string()))
                }
                Err(error) => Err(internal(error.to_string())),
            };
            answer(reply, result);
        });
    }
}

fn new_session_id() -> SessionId {
    SessionId::new(uuid::Uuid::new_v4().to_string()).expect("a UUID is a valid session id")
}

fn list_page(params: &Value, directory: &camino::Utf8Path) -> Result<Value, Error> {
    let cwd = match params.get("cwd") {
        None | Some(Value::Null) => None,
        Some(_) => Some(params::cwd(params)?),
    };
    let from = match params.get("cursor") {
        None | Some(Value::Null) => None,
        Some(cursor) => {
            let id = cursor.as_str().and_then(|id| SessionId::new(id).ok());
            Some(id.ok_or_else(|| invalid_params("cursor: is none of ours"))?)
        }
    };
    let mut heads = head::list(directory).map_err(|error| internal(error.to_string()))?;
    if let Some(cwd) = cwd {
        // Records name the workspace with its links resolved.
        let real = cwd.canonicalize_utf8().unwrap_or_else(|_| cwd.clone());
        heads.retain(|head| head.cwd.as_deref().is_some_and(|of| of == real || of == cwd));
    }
    let start = match from {
        None => 0,
        Some(id) => heads
            .iter()
            .position(|head| head.session == id)
            .map(|at| at + 1)
            .ok_or_else(|| invalid_params("cursor: that session is gone; list again from the start"))?,
    };
    let page = &heads[start..heads.len().min(start + LIST_PAGE)];
    let sessions: Vec<Value> = page
        .iter()
        .map(|head| {
            let updated = jiff::Timestamp::from_millisecond(head.modified_millis).ok();
            json!({
                "sessionId": head.session,
                "cwd": head.cwd.as_deref().unwrap_or("/"),
                "title": head.title,
                "updatedAt": updated.map(|at| format!("{at:.3}")),
            })
        })
        .collect();
    let more = start + page.len() < heads.len();
    let next = page.last().filter(|_| more).map(|head| &head.session);
    Ok(json!({ "sessions": sessions, "nextCursor": next }))
}

impl HandleDispatchFrom<UntypedRole> for Server {
    async fn handle_dispatch_from(
        &mut self,
        message: Dispatch,
        connection: ConnectionTo<UntypedRole>,
    ) -> Result<Handled<Dispatch>, Error> {
        match message {
            Dispatch::Request(message, reply) => {
                self.request(message, reply, connection);
                Ok(Handled::Yes)
            }
            Dispatch::Notification(message) => {
                self.notification(&message);
                Ok(Handled::Yes)
            }
            // Goes to whoever asked.
            response @ Dispatch::Response(..) => Ok(Handled::No { message: response, retry: false }),
        }
    }

    fn describe_chain(&self) -> impl std::fmt::Debug {
        "holdpoint agent"
    }
}
