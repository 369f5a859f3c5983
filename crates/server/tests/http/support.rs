//! A daemon in this process, and requests written by hand: what a client library would put right must arrive
//! as it is.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use holdpoint_engine::port::{
    Agent, AgentError, AgentInfo, AgentPrompt, Agents, FromAgent, NewSession, PromptEnd, Reply, TakeUp,
    TakenUp,
};
use holdpoint_engine::{Engine, EngineConfig, SystemWorld, TranscriptFiles};
use holdpoint_ledger::{Ledger, MemoryLedger};
use holdpoint_model::ids::SessionId;
use holdpoint_model::policy::Strategy;
use holdpoint_server::{AllowedOrigins, App, ConnectionLimits, ServerConfig, Web, router, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// Longer than anything here takes; what does not end by then hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How a daemon is started.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) bind: &'static str,
    pub(crate) token: Option<&'static str>,
    pub(crate) require_auth: bool,
    pub(crate) origins: &'static [&'static str],
    pub(crate) rate_limit: bool,
    pub(crate) connections: ConnectionLimits,
    pub(crate) web: Web,
    pub(crate) tune: Tune,
    /// The port that the daemon takes for its own, if that is not the one it listens on.
    pub(crate) port: Option<u16>,
}

/// What the engine is set to.
#[derive(Clone, Debug)]
pub(crate) struct Tune {
    pub(crate) restore: bool,
    pub(crate) strategy: Strategy,
    pub(crate) quorum: Option<usize>,
    pub(crate) ask_timeout: Option<Duration>,
    pub(crate) unseen_after: Option<Duration>,
    pub(crate) max_sessions: Option<usize>,
    pub(crate) max_prompts: Option<usize>,
    pub(crate) ring_size: usize,
    pub(crate) prompt_deadline_ms: Option<u64>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) lost_after: Duration,
    pub(crate) away_after: Duration,
    pub(crate) take_up_timeout: Option<Duration>,
}

impl Default for Tune {
    fn default() -> Self {
        Self {
            restore: true,
            strategy: Strategy::FirstResponder,
            quorum: None,
            ask_timeout: None,
            unseen_after: Some(Duration::from_secs(30)),
            max_sessions: None,
            max_prompts: Some(5),
            ring_size: 8000,
            prompt_deadline_ms: None,
            idle_timeout: None,
            lost_after: Duration::from_secs(10),
            away_after: Duration::from_secs(60),
            take_up_timeout: None,
        }
    }
}

impl Tune {
    fn config(&self, data_dir: &Utf8Path, workspace: &str) -> EngineConfig {
        let defaults = EngineConfig::new(data_dir.to_owned(), workspace.to_owned());
        EngineConfig {
            restore: self.restore,
            strategy: self.strategy,
            quorum: self.quorum,
            ask_timeout: self.ask_timeout,
            unseen_after: self.unseen_after,
            max_sessions: self.max_sessions,
            max_prompts: self.max_prompts,
            ring_size: self.ring_size,
            prompt_deadline_ms: self.prompt_deadline_ms,
            idle_timeout: self.idle_timeout.or(defaults.idle_timeout),
            lost_after: self.lost_after,
            away_after: self.away_after,
            take_up_timeout: self.take_up_timeout.unwrap_or(defaults.take_up_timeout),
            ..defaults
        }
    }
}

/// A directory with everything that a daemon keeps, over its lives.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) around: Arc<tempfile::TempDir>,
    pub(crate) data_dir: Utf8PathBuf,
    pub(crate) workspace: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let around = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(around.path()).unwrap();
        let root = Utf8PathBuf::from_path_buf(root).unwrap();
        let (data_dir, workspace) = (root.join("data"), root.join("work").into_string());
        std::fs::create_dir_all(data_dir.join("sessions")).unwrap();
        std::fs::create_dir_all(&workspace).unwrap();
        Self { around: Arc::new(around), data_dir, workspace }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: "127.0.0.1:0",
            token: None,
            require_auth: false,
            origins: &[],
            rate_limit: false,
            connections: ConnectionLimits::default(),
            web: Web::Embedded,
            tune: Tune::default(),
            port: None,
        }
    }
}

/// A daemon that runs, and the directory around its data directory.
pub(crate) struct Daemon {
    pub(crate) port: u16,
    pub(crate) around: Arc<tempfile::TempDir>,
    pub(crate) data_dir: Utf8PathBuf,
    pub(crate) engine: Engine,
}

impl Daemon {
    /// One over a ledger in memory, whose agents do nothing.
    pub(crate) async fn start(options: Options) -> Self {
        Self::over(&Place::new(), options, Arc::new(MemoryLedger::new()), Arc::new(Idle::default())).await
    }

    pub(crate) async fn over(
        place: &Place,
        options: Options,
        ledger: Arc<dyn Ledger>,
        agents: Arc<dyn Agents>,
    ) -> Self {
        let Place { around, data_dir, workspace } = place.clone();
        let listener = TcpListener::bind(options.bind).await.unwrap();
        let address = listener.local_addr().unwrap();
        let engine = Engine::new(
            options.tune.config(&data_dir, &workspace),
            ledger,
            agents,
            Arc::new(TranscriptFiles::new(data_dir.clone())),
            Arc::new(SystemWorld),
        );
        let origins: Vec<_> = options.origins.iter().map(ToString::to_string).collect();
        let config = ServerConfig {
            address: SocketAddr::new(address.ip(), options.port.unwrap_or(address.port())),
            hostname: address.ip().to_string(),
            token: options.token.map(|token| token.to_owned().into()),
            require_auth: options.require_auth,
            origins: AllowedOrigins::parse(&origins, options.token.is_some()).unwrap(),
            rate_limit: options.rate_limit,
            web: options.web.clone(),
            connections: options.connections,
            workspaces: vec![workspace],
            version: "0".to_owned(),
            model: "none".to_owned(),
        };
        // A test runs on one thread, and what it counts is its own.
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let recorder: &'static _ = Box::leak(Box::new(recorder));
        std::mem::forget(metrics::set_default_local_recorder(recorder));
        let app = App::new(engine.clone(), config, recorder.handle());
        let stopping = engine.clone();
        tokio::spawn(async move {
            serve(listener, router(app), options.connections, stopping.stopping()).await;
        });
        Self { port: address.port(), around, data_dir, engine }
    }

    pub(crate) async fn stop(self) {
        self.engine.stop().await;
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        timeout(PATIENCE, TcpStream::connect(address)).await.unwrap().unwrap()
    }

    /// One request on a connection of its own.
    pub(crate) async fn send(&self, request: Request<'_>) -> Response {
        let mut stream = self.connect().await;
        let bytes = request.bytes(self.port);
        // The daemon may answer and close before it has read all of it.
        let _ = timeout(PATIENCE, stream.write_all(&bytes)).await.unwrap();
        Response::read(&mut stream).await
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send(Request::new("GET", path)).await
    }

    /// A body that is no JSON.
    pub(crate) async fn text(&self, path: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(&Request::new("GET", path).bytes(self.port)).await.unwrap();
        let mut bytes = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        body.to_owned()
    }

    /// One request to another address of this machine.
    pub(crate) async fn send_to(&self, host: std::net::IpAddr, request: Request<'_>) -> Response {
        let address = SocketAddr::from((host, self.port));
        let mut stream = timeout(PATIENCE, TcpStream::connect(address)).await.unwrap().unwrap();
        let bytes = request.bytes(self.port);
        let _ = timeout(PATIENCE, stream.write_all(&bytes)).await.unwrap();
        Response::read(&mut stream).await
    }

    /// One request from another address of this machine's loopback.
    pub(crate) async fn send_from(&self, from: [u8; 4], request: Request<'_>) -> Response {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let mut stream = timeout(PATIENCE, socket.connect(address)).await.unwrap().unwrap();
        stream.write_all(&request.bytes(self.port)).await.unwrap();
        Response::read(&mut stream).await
    }

    /// Makes a session of its own, and returns its id.
    pub(crate) async fn session(&self) -> String {
        let made =
            self.send(Request::new("POST", "/session").json(&json!({ "sessionScope": "thread" }))).await;
        assert_eq!(made.status, 200, "{made:?}");
        made.body["sessionId"].as_str().unwrap().to_owned()
    }
}

/// A request, as it will be written.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'a str, String)>,
    pub(crate) body: Vec<u8>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(method: &'a str, path: &str) -> Self {
        Self { method, path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    /// `PORT` in a value is the daemon's.
    pub(crate) fn header(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.body = body.to_string().into_bytes();
        self.header("content-type", "application/json")
    }

    /// Fields as a browser sends a form's.
    pub(crate) fn form(mut self, fields: &[(&str, &str)]) -> Self {
        let encode = |text: &str| {
            percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
        };
        let pairs: Vec<_> =
            fields.iter().map(|(key, value)| format!("{}={}", encode(key), encode(value))).collect();
        self.body = pairs.join("&").into_bytes();
        self.header("content-type", "application/x-www-form-urlencoded")
    }

    fn bytes(&self, port: u16) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let has = |wanted: &str| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        if !has("host") {
            head += &format!("host: 127.0.0.1:{port}\r\n");
        }
        if !has("connection") {
            head += "connection: close\r\n";
        }
        let bodiless = self.body.is_empty() && self.method == "GET";
        if !has("content-length") && !bodiless {
            head += &format!("content-length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {}\r\n", value.replace("PORT", &port.to_string()));
        }
        head += "\r\n";
        [head.as_bytes(), &self.body].concat()
    }

    /// Writes it to a connection that stays open, and reads the response.
    pub(crate) async fn on(self, stream: &mut TcpStream, port: u16) -> Response {
        let request = self.header("connection", "keep-alive");
        stream.write_all(&request.bytes(port)).await.unwrap();
        Response::read(stream).await
    }
}

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
    /// The body, as it came.
    pub(crate) text: String,
}

impl Response {
    /// Reads one: its head, and as much body as `content-length` says. A stream's body is left where it is.
    pub(crate) async fn read(stream: &mut TcpStream) -> Self {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = timeout(PATIENCE, stream.read_u8()).await.expect("the daemon answers");
            head.push(byte.expect("a whole head comes"));
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: HashMap<_, _> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        timeout(PATIENCE, stream.read_exact(&mut body)).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&body).into_owned();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Self { status, headers, body, text }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn code(&self) -> Option<&str> {
        self.body.get("code").and_then(Value::as_str)
    }
}

/// Agents that take everything up and end every prompt at once.
#[derive(Default)]
pub(crate) struct Idle {
    agent: Arc<IdleAgent>,
}

impl Idle {
    /// Such that let go of a session only when they may.
    pub(crate) fn held_by(hold: Arc<Hold>) -> Self {
        Self { agent: Arc::new(IdleAgent { hold: Some(hold), ..IdleAgent::default() }) }
    }
}

/// What holds an agent that is asked to let go of a session.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    /// It was asked to.
    pub(crate) asked: Notify,
    /// It may.
    pub(crate) may: Notify,
}

#[derive(Default)]
struct IdleAgent {
    hold: Option<Arc<Hold>>,
    info: AgentInfo,
    sinks: Mutex<HashMap<SessionId, mpsc::Sender<FromAgent>>>,
}

impl Agents for Idle {
    fn connect(&self, _: &str, _: &str) -> Reply<Result<Arc<dyn Agent>, AgentError>> {
        let agent: Arc<dyn Agent> = Arc::clone(&self.agent) as _;
        Box::pin(async { Ok(agent) })
    }

    fn stop(&self) -> Reply<()> {
        Box::pin(async {})
    }

    fn alive(&self) -> usize {
        1
    }
}

impl Agent for IdleAgent {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    fn pid(&self) -> Option<u32> {
        None
    }

    fn new_session(
        &self,
        new: NewSession,
        sink: mpsc::Sender<FromAgent>,
    ) -> Reply<Result<TakenUp, AgentError>> {
        self.sinks.lock().unwrap().insert(new.session, sink);
        Box::pin(async { Ok(TakenUp::default()) })
    }

    fn take_up(&self, take: TakeUp, sink: mpsc::Sender<FromAgent>) -> Reply<Result<TakenUp, AgentError>> {
        self.sinks.lock().unwrap().insert(take.session, sink);
        Box::pin(async { Ok(TakenUp::default()) })
    }

    fn prompt(&self, prompt: AgentPrompt) {
        let sink = self.sinks.lock().unwrap().get(&prompt.session).cloned();
        if let Some(sink) = sink {
            let end = PromptEnd { stop_reason: "end_turn".to_owned(), meta: json!({}) };
            let ended = FromAgent::PromptEnded { prompt: prompt.prompt, end: Ok(end) };
            tokio::spawn(async move { sink.send(ended).await });
        }
    }

    fn cancel(&self, _: &SessionId) {}

    fn close(&self, _: &SessionId) -> Reply<()> {
        let hold = self.hold.clone();
        Box::pin(async move {
            if let Some(hold) = hold {
                hold.asked.notify_one();
                hold.may.notified().await;
            }
        })
    }

    fn set_mode(&self, _: &SessionId, _: &str) -> Reply<Result<(), AgentError>> {
        Box::pin(async { Ok(()) })
    }
}
