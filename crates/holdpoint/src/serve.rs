//! `holdpoint serve`: the daemon, wired together.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use camino::{Utf8Path, Utf8PathBuf};
use holdpoint_acp_host::{AcpAgents, AgentCommand, HostConfig, Limits, Restore};
use holdpoint_engine::{Engine, EngineConfig, TranscriptFiles};
use holdpoint_ledger::{DataDirLock, Ledger as _, SessionFilter, SqliteLedger};
use holdpoint_model::policy::Strategy;
use holdpoint_server::{AllowedOrigins, App, ConnectionLimits, ServerConfig, Web, router};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::TcpListener;

use crate::acp::ModelArgs;
use crate::config::{File, data_dir};
use crate::logging::{self, LogFormat};
use crate::signals::Signals;

/// The port, unless told otherwise.
pub(crate) const PORT: u16 = 4170;
/// How long a stop may take before the process ends all the same.
const STOP_LIMIT: Duration = Duration::from_millis(2800);
/// How long open connections may take to end after their streams have.
const DRAIN_LIMIT: Duration = Duration::from_millis(500);
/// What an agent must not inherit: the way into the daemon.
const OWN_SECRETS: [&str; 2] = ["HOLDPOINT_TOKEN", "QWEN_SERVER_TOKEN"];

/// Headings of the help. A flag without one stands before the model's, whose heading it would come under otherwise.
const LISTENING: &str = "Address and access";
const TIMES: &str = "Times";
const LIMITS: &str = "Limits";

/// Options of `holdpoint serve`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Run the daemon",
    long_about = "Run the daemon: it starts agents, keeps their questions, and lets people answer them over HTTP, \
        from the command line, or with any client of `qwen serve`.\n\n\
        It prints one line when it is ready, and stops on SIGTERM, SIGINT or SIGHUP. Questions that are open then \
        stay open; with --restore-ask-user-question they are asked again when their session is loaded or answered.",
    after_long_help = "Examples:\n  \
        holdpoint serve --restore-ask-user-question\n  \
        holdpoint serve --port 0 --workspace ~/src/app --model gpt-5 --restore-ask-user-question\n  \
        OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_MODEL=local holdpoint serve\n\n\
        Exit codes: 0 it was stopped; 1 it could not start (the data directory is in use, the port is taken, …); 2 \
        the command line was not understood."
)]
pub(crate) struct ServeArgs {
    /// Ask stored, unanswered questions again after a restart
    #[arg(long)]
    restore_ask_user_question: bool,
    /// Where sessions may work; may be given several times [default: the current directory]
    #[arg(long, value_name = "DIR")]
    workspace: Vec<PathBuf>,
    /// Where the ledger and the transcripts are kept [env: HOLDPOINT_DATA_DIR]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<Utf8PathBuf>,
    /// The configuration file [default: holdpoint/holdpoint.toml in the user's configuration directory]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How logs on stderr are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// The port; 0 takes a free one and prints it [default: 4170]
    #[arg(long, help_heading = LISTENING, value_name = "PORT")]
    port: Option<u16>,
    /// The address to listen on [default: 127.0.0.1]; another than loopback needs a token
    #[arg(long, help_heading = LISTENING, value_name = "HOST")]
    hostname: Option<String>,
    /// A token that every request must carry; better in the environment [env: HOLDPOINT_TOKEN, QWEN_SERVER_TOKEN]
    #[arg(long, help_heading = LISTENING, value_name = "TOKEN", value_parser = secret)]
    token: Option<SecretString>,
    /// Need the token for /health too
    #[arg(long, help_heading = LISTENING)]
    require_auth: bool,
    /// Let pages of this site talk to the daemon; may be given several times; * and plain http need a token
    #[arg(long, help_heading = LISTENING, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Serve no page for browsers
    #[arg(long, help_heading = LISTENING, conflicts_with = "web_dir")]
    no_web: bool,
    /// Serve the page's files from this directory instead of the built-in ones, for work on the page
    #[arg(long, help_heading = LISTENING, value_name = "DIR")]
    web_dir: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
    /// How long a question is asked, in milliseconds; 0 is for ever
    #[arg(long, help_heading = TIMES, value_name = "MS", default_value_t = 0)]
    permission_response_timeout_ms: u64,
    /// After how long, in milliseconds, a question that no surface has shown is warned of; 0 is never
    #[arg(long, help_heading = TIMES, value_name = "MS", default_value_t = 30_000)]
    unseen_question_after_ms: u64,
    /// How long a turn may take unless its prompt says, in milliseconds; 0 is as long as it takes
    #[arg(long, help_heading = TIMES, value_name = "MS", default_value_t = 0)]
    prompt_deadline_ms: u64,
    /// After how long, in milliseconds, a session that nobody reads and that does nothing is put away; 0 is never
    #[arg(long, help_heading = TIMES, value_name = "MS", default_value_t = 1_800_000)]
    session_idle_timeout_ms: u64,
    /// After how long, in milliseconds, a client that reads nothing of what it is sent is let go; 0 is never
    #[arg(long, help_heading = TIMES, value_name = "MS", default_value_t = 60_000)]
    writer_idle_timeout_ms: u64,
    /// Refuse more than 10 prompts, 30 changes or 120 reads a minute from one client
    #[arg(long, help_heading = LIMITS)]
    rate_limit: bool,
    /// Most sessions that may be live at a time; 0 is no limit
    #[arg(long, help_heading = LIMITS, value_name = "N", default_value_t = 1000)]
    max_sessions: usize,
    /// Most connections at a time; 0 is no limit
    #[arg(long, help_heading = LIMITS, value_name = "N", default_value_t = 256)]
    max_connections: usize,
    /// Most prompts that a session may hold, the running one counted; 0 is no limit
    #[arg(long, help_heading = LIMITS, value_name = "N", default_value_t = 5)]
    max_pending_prompts_per_session: usize,
    /// Events that a session keeps for clients that come back
    #[arg(long, help_heading = LIMITS, value_name = "N", default_value_t = 8000, value_parser = ring_size)]
    event_ring_size: usize,
}

fn secret(text: &str) -> Result<SecretString, std::convert::Infallible> {
    Ok(SecretString::from(text.to_owned()))
}

fn ring_size(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|n| (1..=1_000_000).contains(n))
        .ok_or_else(|| "a number from 1 to 1000000".to_owned())
}

/// Runs the daemon until it is told to stop.
pub(crate) fn run(args: ServeArgs) -> ExitCode {
    let _written = logging::start_apart(
        args.log_format,
        "warn,holdpoint=info,holdpoint_engine=info,holdpoint_server=info,holdpoint_ledger=info,holdpoint_acp_host=info",
    );
    // One thread: the work is waiting, and what is not (commits, reads, transcripts) has threads of its own. A second one
    // would only be woken for nothing: it costs a fifth of the answers a second.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(serve(args));
            // What still runs is only reading; nothing is lost by not waiting for it.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdpoint serve: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Transcripts beside an empty ledger: somebody took the ledger away, or only editors have used the directory so far.
async fn tell_of_a_lost_ledger(ledger: &SqliteLedger, data_dir: &Utf8Path) {
    let any = SessionFilter { limit: 1, ..SessionFilter::default() };
    if !ledger.sessions(any).await.is_ok_and(|rows| rows.is_empty()) {
        return;
    }
    let transcript = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|kind| kind == "jsonl"))
    };
    let mut entries = std::fs::read_dir(data_dir.join("sessions")).into_iter().flatten();
    if entries.any(transcript) {
        tracing::warn!(
            %data_dir,
            "there are transcripts here, but the ledger is empty: if it was lost, put a backup in its place; answers that \
             were not delivered are gone with it, and questions come back when their session is loaded"
        );
    }
}

async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let (mut signals, machine) = Signals::listen()?;
    let file = File::read(args.config.as_deref())?;
    let data_dir = data_dir(args.data_dir.clone(), file.serve.data_dir.clone())?;
    let workspaces = workspaces(&args.workspace, &file.serve.workspaces)?;
    let token = token(args.token.clone())?;
    let model_args = args.model.clone().or(&file);
    let model = model_args.resolve()?.describe();

    // Nobody else may write here while we do (I11).
    let lock = DataDirLock::acquire(&data_dir)?;
    let ledger = Arc::new(SqliteLedger::open(&data_dir)?);
    tell_of_a_lost_ledger(&ledger, &data_dir).await;
    let agents = Arc::new(AcpAgents::new(host_config(&args, &model_args, &data_dir)?));
    let engine_config = engine_config(&args, &file, &data_dir, &workspaces);
    let restore = engine_config.restore;
    let transcripts = Arc::new(TranscriptFiles::new(data_dir.clone()));
    let engine = Engine::new(engine_config, ledger, agents, transcripts, Arc::new(machine));

    let hostname = args.hostname.clone().or(file.serve.hostname).unwrap_or_else(|| "127.0.0.1".to_owned());
    let listener = bind(&hostname, args.port.or(file.serve.port).unwrap_or(PORT)).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    if !address.ip().is_loopback() && token.is_none() {
        bail!("listening on {address} needs a token: set HOLDPOINT_TOKEN, or listen on 127.0.0.1");
    }
    if args.require_auth && token.is_none() {
        bail!("--require-auth needs a token: set HOLDPOINT_TOKEN");
    }
    let origins = AllowedOrigins::parse(&args.allow_origin, token.is_some()).context("--allow-origin")?;
    let url = url(&hostname, address);
    lock.describe(&url);
    let limits = connection_limits(&args);
    let config = ServerConfig {
        address,
        hostname,
        token,
        require_auth: args.require_auth,
        origins,
        rate_limit: args.rate_limit,
        connections: limits,
        web: match (args.no_web, args.web_dir.clone()) {
            (true, _) => Web::Off,
            (false, Some(dir)) => Web::Dir(dir),
            (false, None) => Web::Embedded,
        },
        workspaces: workspaces.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model: model.clone(),
    };
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    metrics::set_global_recorder(recorder).context("metrics were set up twice")?;
    let app = App::new(engine.clone(), config, metrics);

    let stopping = engine.clone();
    let mut server = tokio::spawn(async move {
        holdpoint_server::serve(listener, router(app), limits, stopping.stopping()).await;
    });
    say(&format!(
        "holdpoint {} listening on {url} · workspace {} · data {data_dir} · model {model} · restore {} · process {}\n",
        env!("CARGO_PKG_VERSION"),
        workspaces.join(", "),
        if restore { "on" } else { "off" },
        std::process::id(),
    ))?;
    tokio::select! {
        name = signals.next() => tracing::info!(signal = name, "stopping"),
        ended = &mut server => bail!("the server ended by itself: {ended:?}"),
    }
    stop(&engine, server, &mut signals).await;
    drop(lock);
    Ok(())
}

/// Says the one line that whoever started the daemon waits for. That nobody reads it any more is no failure.
fn say(line: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("stdout can't be written")
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Stops within [`STOP_LIMIT`]. A second signal ends the process at once.
async fn stop(engine: &Engine, server: tokio::task::JoinHandle<()>, signals: &mut Signals) {
    let work = async {
        engine.stop().await;
        let _ = tokio::time::timeout(DRAIN_LIMIT, server).await;
    };
    tokio::select! {
        () = work => {}
        () = tokio::time::sleep(STOP_LIMIT) => tracing::warn!("not everything stopped in time"),
        name = signals.next() => tracing::warn!(signal = name, "stopping at once"),
    }
}

fn workspaces(flags: &[PathBuf], file: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let named = if flags.is_empty() { file } else { flags };
    let named = if named.is_empty() { vec![PathBuf::from(".")] } else { named.to_vec() };
    let mut workspaces = Vec::new();
    for path in named {
        let real = std::fs::canonicalize(&path)
            .with_context(|| format!("the workspace {} cannot be used", path.display()))?;
        if !real.is_dir() {
            bail!("the workspace {} is not a directory", real.display());
        }
        let text = real
            .into_os_string()
            .into_string()
            .map_err(|path| anyhow::anyhow!("the workspace {} is not valid UTF-8", path.display()))?;
        if !workspaces.contains(&text) {
            workspaces.push(text);
        }
    }
    Ok(workspaces)
}

fn token(flag: Option<SecretString>) -> anyhow::Result<Option<SecretString>> {
    let var = |name: &str| std::env::var(name).ok().map(SecretString::from);
    let token = flag.or_else(|| var(OWN_SECRETS[0])).or_else(|| var(OWN_SECRETS[1]));
    match token {
        Some(token) if token.expose_secret().trim().is_empty() => bail!("the token is blank"),
        token => Ok(token),
    }
}

fn host_config(args: &ServeArgs, model: &ModelArgs, data_dir: &Utf8PathBuf) -> anyhow::Result<HostConfig> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut agent_args = vec!["acp".to_owned(), "--data-dir".to_owned(), data_dir.to_string()];
    agent_args.extend(model.to_args());
    if let Some(config) = &args.config {
        agent_args.extend(["--config".to_owned(), std::path::absolute(config)?.display().to_string()]);
    }
    if args.restore_ask_user_question {
        agent_args.push("--restore-ask-user-question".to_owned());
    }
    let command = AgentCommand {
        program: program
            .into_os_string()
            .into_string()
            .map_err(|_| anyhow::anyhow!("the path of this program is not valid UTF-8"))?,
        args: agent_args,
        env: BTreeMap::new(),
        env_remove: OWN_SECRETS.iter().map(ToString::to_string).collect(),
        restore: if args.restore_ask_user_question { Restore::Native } else { Restore::Off },
    };
    Ok(HostConfig {
        agents: BTreeMap::from([("holdpoint".to_owned(), command)]),
        client_version: env!("CARGO_PKG_VERSION").to_owned(),
        limits: Limits::default(),
    })
}

/// A time in milliseconds that is off at 0.
fn unless_zero(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

fn connection_limits(args: &ServeArgs) -> ConnectionLimits {
    let connections = match args.max_connections {
        0 => tokio::sync::Semaphore::MAX_PERMITS,
        limit => limit.min(tokio::sync::Semaphore::MAX_PERMITS),
    };
    let writer_idle = unless_zero(args.writer_idle_timeout_ms);
    ConnectionLimits { connections, writer_idle, ..ConnectionLimits::default() }
}

fn engine_config(
    args: &ServeArgs,
    file: &File,
    data_dir: &Utf8PathBuf,
    workspaces: &[String],
) -> EngineConfig {
    let primary = workspaces.first().cloned().unwrap_or_default();
    EngineConfig {
        restore: args.restore_ask_user_question,
        strategy: file.policy.strategy.unwrap_or(Strategy::FirstResponder),
        quorum: file.policy.quorum,
        ask_timeout: unless_zero(args.permission_response_timeout_ms),
        unseen_after: unless_zero(args.unseen_question_after_ms),
        prompt_deadline_ms: (args.prompt_deadline_ms > 0).then_some(args.prompt_deadline_ms),
        idle_timeout: unless_zero(args.session_idle_timeout_ms),
        ring_size: args.event_ring_size,
        max_sessions: (args.max_sessions > 0).then_some(args.max_sessions),
        max_prompts: (args.max_pending_prompts_per_session > 0)
            .then_some(args.max_pending_prompts_per_session),
        ..EngineConfig::new(data_dir.clone(), primary)
    }
}

async fn bind(hostname: &str, port: u16) -> anyhow::Result<TcpListener> {
    let host = hostname.trim_start_matches('[').trim_end_matches(']');
    TcpListener::bind((host, port)).await.with_context(|| {
        format!("cannot listen on {hostname}:{port}; is another daemon there? --port 0 takes a free port")
    })
}

fn url(hostname: &str, address: SocketAddr) -> String {
    let host = match address.ip() {
        IpAddr::V6(ip) => format!("[{ip}]"),
        IpAddr::V4(_) if hostname == "localhost" => hostname.to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
    };
    format!("http://{host}:{}", address.port())
}
