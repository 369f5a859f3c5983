//! One agent process as the engine sees it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::{
    Agent as AgentRole, ConnectionTo, Error, UntypedMessage, is_connection_terminated,
    is_incoming_transport_closed,
};
use holdpoint_engine::port::{
    Agent, AgentError, AgentInfo, AgentPrompt, FromAgent, NewSession, Reply, TakeUp, TakenUp,
};
use holdpoint_model::ids::SessionId;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::conn::Conn;
use crate::routes::{Known, split_replay};
use crate::wire::{self, Hello};

/// How long an agent may take to let go of a session: nobody depends on it.
const CLOSE: Duration = Duration::from_secs(10);

/// One agent process. Made by [`AcpAgents`](crate::AcpAgents).
///
/// Of a prompt that runs when the process ends nothing is said but [`FromAgent::Gone`].
///
/// Messages of a session that is being taken up come after the take-up's end. But while a request other than
/// that waits for its answer, its session's sink must be read: the answer comes through the same pipe.
pub struct AcpAgent {
    inner: Arc<Inner>,
}

struct Inner {
    conn: Arc<Conn>,
    connection: ConnectionTo<AgentRole>,
    hello: Hello,
}

/// How a request of ours ended: with a result, or with the agent's error.
type Outcome = Result<Value, Error>;

impl AcpAgent {
    /// Says hello to a process.
    ///
    /// # Errors
    /// It did not answer in time, or not as an ACP agent does. Whether it is gone is for the caller to see.
    pub(crate) async fn hello(
        conn: Arc<Conn>,
        connection: ConnectionTo<AgentRole>,
        client_version: &str,
    ) -> Result<Self, String> {
        let answer = ask(&connection, "initialize", wire::initialize(client_version));
        let result = match answer.await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) if is_gone(&error) => return Err("it ended before it answered initialize".into()),
            Ok(Err(error)) => return Err(format!("it refused initialize: {}", words(&error))),
            Err(_) => return Err("it ended before it answered initialize".into()),
        };
        let hello = wire::hello(&result)?;
        if hello.info.ours {
            conn.set_gentle();
        }
        Ok(Self { inner: Arc::new(Inner { conn, connection, hello }) })
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.inner.conn.is_dead()
    }
}

impl Agent for AcpAgent {
    fn info(&self) -> &AgentInfo {
        &self.inner.hello.info
    }

    fn pid(&self) -> Option<u32> {
        Some(self.inner.conn.pid)
    }

    fn new_session(
        &self,
        new: NewSession,
        sink: mpsc::Sender<FromAgent>,
    ) -> Reply<Result<TakenUp, AgentError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(inner.new_session(new, sink))
    }

    fn take_up(&self, take: TakeUp, sink: mpsc::Sender<FromAgent>) -> Reply<Result<TakenUp, AgentError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(inner.take_up(take, sink))
    }

    fn prompt(&self, prompt: AgentPrompt) {
        let params = wire::prompt(&prompt);
        let conn = Arc::clone(&self.inner.conn);
        let name = conn.name.clone();
        let id = prompt.prompt.clone();
        let sent = send(&self.inner.connection, "session/prompt", params, move |outcome| async move {
            let end = match outcome {
                Ok(result) => wire::prompt_end(result).map_err(malformed),
                // Told as the end of the process.
                Err(error) if is_gone(&error) => return,
                Err(error) => Err(refused(&error)),
            };
            let session = prompt.session.as_str();
            conn.deliver(session, FromAgent::PromptEnded { prompt: prompt.prompt.clone(), end }).await;
        });
        if !sent {
            tracing::debug!(agent = name, prompt = %id, "a prompt came after the end of the process");
        }
    }

    fn cancel(&self, session: &SessionId) {
        let params = json!({ "sessionId": session.as_str() });
        let message = UntypedMessage { method: "session/cancel".to_owned(), params };
        if let Err(error) = self.inner.connection.send_notification(message) {
            tracing::debug!(
                agent = self.inner.conn.name,
                error = error.message,
                "session/cancel was not sent"
            );
        }
    }

    fn close(&self, session: &SessionId) -> Reply<()> {
        // At once, so that nothing comes to the sink once this has been called.
        self.inner.conn.routes.close(session.as_str());
        let inner = Arc::clone(&self.inner);
        let session = session.clone();
        Box::pin(async move {
            if let Some(answer) = inner.close_at_agent(session.as_str()) {
                let _ = tokio::time::timeout(CLOSE, answer).await;
            }
        })
    }

    fn set_mode(&self, session: &SessionId, mode: &str) -> Reply<Result<(), AgentError>> {
        let inner = Arc::clone(&self.inner);
        let (session, mode) = (session.clone(), mode.to_owned());
        Box::pin(async move { inner.set_mode(&session, &mode).await })
    }
}

impl Inner {
    async fn new_session(
        self: Arc<Self>,
        new: NewSession,
        sink: mpsc::Sender<FromAgent>,
    ) -> Result<TakenUp, AgentError> {
        let (told, outcome) = oneshot::channel();
        let this = Arc::clone(&self);
        self.conn.routes.making();
        let sent =
            send(&self.connection, "session/new", wire::new_session(&new), move |outcome| async move {
                let result = outcome.map_err(Failure::Sdk).and_then(|result| {
                    let id = wire::new_session_id(&result).map_err(Failure::Malformed)?;
                    Ok((id, result))
                });
                let Ok((id, _)) = &result else {
                    this.conn.routes.made();
                    drop(told.send(result));
                    return;
                };
                let id = id.clone();
                let parked = this.conn.routes.open(id.as_str(), sink);
                this.conn.routes.made();
                if told.send(result).is_err() {
                    // Whoever asked for it went away: nobody will ever use it.
                    this.conn.routes.close(id.as_str());
                    drop(this.close_at_agent(id.as_str()));
                    return;
                }
                for message in parked {
                    this.conn.deliver(id.as_str(), message).await;
                }
            });
        if !sent {
            self.conn.routes.made();
            return Err(self.conn.gone().await);
        }
        let (id, result) = self.outcome(outcome).await?;
        let taken = wire::taken_up(id.clone(), result, self.conn.restore);
        self.mode_of_others(&id, new.approval_mode.as_deref()).await?;
        Ok(taken)
    }

    async fn take_up(
        self: Arc<Self>,
        take: TakeUp,
        sink: mpsc::Sender<FromAgent>,
    ) -> Result<TakenUp, AgentError> {
        let info = &self.hello.info;
        let load = match (info.can_load, info.can_resume) {
            (true, resume) => take.replay || !resume,
            (false, true) => false,
            (false, false) => {
                return Err(malformed(format!(
                    "the agent {} can neither load nor resume sessions",
                    info.name
                )));
            }
        };
        let method = if load { "session/load" } else { "session/resume" };
        let params = wire::take_up(&take, load, self.conn.restore);
        let session = take.session.clone();
        let ticket = self.conn.routes.begin(session.as_str(), sink);
        let fresh = ticket.is_fresh();
        let (told, outcome) = oneshot::channel();
        let this = Arc::clone(&self);
        let sent = send(&self.connection, method, params, move |outcome| async move {
            let session = take.session.as_str();
            let rest = match outcome {
                Ok(_) if told.is_closed() => {
                    // It came too late for whoever asked.
                    let kept = this.conn.routes.roll_back(ticket);
                    if fresh && this.conn.routes.known(session) != Known::Routed {
                        this.conn.routes.close(session);
                        drop(this.close_at_agent(session));
                    }
                    kept
                }
                Ok(mut result) => {
                    let bulk = wire::bulk_replay(&mut result);
                    let kept = this.conn.routes.commit(&ticket).unwrap_or_default();
                    // An agent that does not know the bulk mode has sent the history as updates until now.
                    let streamed = load && bulk.is_none() && !this.hello.info.ours;
                    let (replay, rest) =
                        if streamed { split_replay(kept) } else { (bulk.unwrap_or_default(), kept) };
                    let mut taken = wire::taken_up(take.session.clone(), result, this.conn.restore);
                    if take.replay {
                        taken.replay = replay;
                    }
                    drop(told.send(Ok(taken)));
                    rest
                }
                Err(error) => {
                    let kept = this.conn.routes.roll_back(ticket);
                    drop(told.send(Err(Failure::TakeUp(error))));
                    kept
                }
            };
            for message in rest {
                this.conn.deliver(session, message).await;
            }
        });
        if !sent {
            return Err(self.conn.gone().await);
        }
        let taken = self.outcome(outcome).await?;
        self.mode_of_others(&session, take.approval_mode.as_deref()).await?;
        Ok(taken)
    }

    async fn set_mode(&self, session: &SessionId, mode: &str) -> Result<(), AgentError> {
        let params = json!({ "sessionId": session.as_str(), "modeId": mode });
        let (told, outcome) = oneshot::channel();
        let sent = send(&self.connection, "session/set_mode", params, move |outcome| async move {
            drop(told.send(outcome.map(drop).map_err(Failure::Sdk)));
        });
        if !sent {
            return Err(self.conn.gone().await);
        }
        self.outcome(outcome).await
    }

    /// Agents that are not ours do not know our way to ask for a mode, so they are told in ACP's own. A session
    /// that does not have the mode that was asked for is not used: it may be allowed more.
    async fn mode_of_others(&self, session: &SessionId, mode: Option<&str>) -> Result<(), AgentError> {
        let Some(mode) = mode.filter(|_| !self.hello.info.ours) else { return Ok(()) };
        let set = self.set_mode(session, mode).await;
        if set.is_err() {
            self.conn.routes.close(session.as_str());
            drop(self.close_at_agent(session.as_str()));
        }
        set
    }

    /// Asks the agent to let go of a session, if it knows how. To cancel its turn instead would be wrong: some
    /// agents write that down as the end of an open question.
    fn close_at_agent(&self, session: &str) -> Option<oneshot::Receiver<Outcome>> {
        let params = json!({ "sessionId": session });
        self.hello.can_close.then(|| ask(&self.connection, "session/close", params))
    }

    /// Waits for the end of a request.
    async fn outcome<T>(&self, outcome: oneshot::Receiver<Result<T, Failure>>) -> Result<T, AgentError> {
        let limit = self.conn.limits.request;
        match tokio::time::timeout(limit, outcome).await {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(Failure::Malformed(what)))) => Err(malformed(what)),
            Ok(Ok(Err(Failure::Sdk(error) | Failure::TakeUp(error)))) if is_gone(&error) => {
                Err(self.conn.gone().await)
            }
            Ok(Ok(Err(Failure::Sdk(error)))) => Err(refused(&error)),
            Ok(Ok(Err(Failure::TakeUp(error)))) if is_unknown_session(&error) => {
                Err(AgentError::NoSession(words(&error)))
            }
            Ok(Ok(Err(Failure::TakeUp(error)))) => Err(refused(&error)),
            // The connection ended and took the callback with it.
            Ok(Err(_)) => Err(self.conn.gone().await),
            Err(_) => Err(AgentError::TimedOut(limit.as_secs())),
        }
    }
}

/// Why a request failed.
enum Failure {
    /// The agent's error, or the connection's.
    Sdk(Error),
    /// The same, of a request that names a stored session.
    TakeUp(Error),
    /// Its result makes no sense.
    Malformed(String),
}

/// Sends a request at once. `then` is called with its end, after everything that the agent sent before it and
/// before everything that it sends after it (trap 12). Nobody can drop the request: the SDK keeps it. `false` if
/// the connection is over; then `then` is never called. It is neither, if the connection ends meanwhile.
fn send<F>(
    connection: &ConnectionTo<AgentRole>,
    method: &'static str,
    params: Value,
    then: impl FnOnce(Outcome) -> F + Send + 'static,
) -> bool
where
    F: Future<Output = ()> + Send + 'static,
{
    let message = UntypedMessage { method: method.to_owned(), params };
    // An error out of the callback would end the connection, so there is none.
    connection
        .prepare_request(message)
        .on_receiving_result(move |outcome| {
            let then = then(outcome);
            async move {
                then.await;
                Ok(())
            }
        })
        .is_ok()
}

/// Sends a request whose end is told to the receiver, if that still waits.
fn ask(
    connection: &ConnectionTo<AgentRole>,
    method: &'static str,
    params: Value,
) -> oneshot::Receiver<Outcome> {
    let (told, outcome) = oneshot::channel();
    send(connection, method, params, move |outcome| async move { drop(told.send(outcome)) });
    outcome
}

/// Whether an error says that the connection is over, which is never an answer of the agent.
fn is_gone(error: &Error) -> bool {
    is_incoming_transport_closed(error) || is_connection_terminated(error)
}

/// The words of an error, with the details that many agents hide in its data.
fn words(error: &Error) -> String {
    let details = match &error.data {
        Some(Value::String(text)) => Some(text.as_str()),
        Some(data) => data["details"].as_str().or_else(|| data["message"].as_str()),
        None => None,
    };
    match details {
        Some(details) if !error.message.contains(details) => format!("{}: {details}", error.message),
        _ => error.message.clone(),
    }
}

/// Whether the agent does not know the session that it shall take up. ACP has a code for it; others only say it.
fn is_unknown_session(error: &Error) -> bool {
    const RESOURCE_NOT_FOUND: i32 = -32002;
    if error.code.value() == RESOURCE_NOT_FOUND {
        return true;
    }
    let words = words(error).to_lowercase();
    let unknown = ["not found", "unknown", "no such", "does not exist", "no session", "not exist"];
    words.contains("session") && unknown.iter().any(|phrase| words.contains(phrase))
}

fn refused(error: &Error) -> AgentError {
    AgentError::Refused { code: error.code.value().into(), message: words(error), data: error.data.clone() }
}

/// An answer that makes no sense is the agent's internal error, whatever it thinks.
fn malformed(message: String) -> AgentError {
    AgentError::Refused { code: -32603, message, data: None }
}
