//! `holdpoint acp`: the built-in agent over stdio.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Context as _;
use camino::Utf8PathBuf;
use holdpoint_agent::provider::ModelConfig;
use holdpoint_agent::tools::{ApprovalMode, Limits};
use holdpoint_agent::{AgentConfig, run_stdio};

use crate::config::{File, data_dir};
use crate::logging::{self, LogFormat};

/// Options of `holdpoint acp` (also `holdpoint --acp`).
#[derive(Debug, clap::Args)]
#[command(
    about = "Run the built-in agent over stdio, for a daemon or an editor",
    long_about = "Run the built-in agent over stdio: the Agent Client Protocol (ACP), version 1.\n\n\
        An editor that speaks ACP starts this command; `holdpoint serve` starts it by itself. stdout carries the \
        protocol only; logs go to stderr.",
    after_long_help = "Examples:\n  \
        holdpoint acp --model gpt-5\n  \
        in an editor's settings: command \"holdpoint\", arguments [\"acp\"]\n\n\
        Exit codes: 0 its stdin ended; 1 it could not start; 128 + N signal N ended it."
)]
pub(crate) struct AcpArgs {
    /// Ask a stored, unanswered question again when its session is loaded or resumed
    #[arg(long)]
    pub(crate) restore_ask_user_question: bool,
    /// Where transcripts are kept [env: HOLDPOINT_DATA_DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<Utf8PathBuf>,
    /// The configuration file [default: holdpoint/holdpoint.toml in the user's configuration directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<std::path::PathBuf>,
    /// How logs on stderr are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// Options that the daemon hands to its agent.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Model and tools")]
pub(crate) struct ModelArgs {
    /// The model, or `demo` [env: OPENAI_MODEL]; claude-… and gemini-… go to their makers
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// An OpenAI-compatible endpoint [env: OPENAI_BASE_URL]; its key comes from OPENAI_API_KEY
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// What runs without asking: plan (reads only), default, auto-edit, yolo; only the file tools ask for what
    /// lies outside the workspace, a command is not confined to it
    #[arg(long, value_name = "MODE", value_parser = approval_mode)]
    pub(crate) approval_mode: Option<ApprovalMode>,
    /// How often one turn may call the model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_steps: Option<u32>,
}

pub(crate) fn approval_mode(text: &str) -> Result<ApprovalMode, String> {
    ApprovalMode::parse(text).ok_or_else(|| "one of plan, default, auto-edit, yolo".to_owned())
}

impl ModelArgs {
    /// With what the file says where nothing was given.
    pub(crate) fn or(mut self, file: &File) -> Self {
        let env = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if self.model.is_none() && !env("OPENAI_MODEL") {
            self.model = file.model.name.clone();
        }
        if self.base_url.is_none() && !env("OPENAI_BASE_URL") {
            self.base_url = file.model.base_url.clone();
        }
        self.approval_mode = self.approval_mode.or(file.agent.approval_mode);
        self.max_steps = self.max_steps.or(file.agent.max_steps);
        self
    }

    /// The model that they mean.
    pub(crate) fn resolve(&self) -> anyhow::Result<ModelConfig> {
        let env = |name: &str| std::env::var(name).ok();
        Ok(ModelConfig::resolve(self.model.clone(), self.base_url.clone(), &env)?)
    }

    /// The arguments that say the same to an agent.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let mut args = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                args.extend([format!("--{name}"), value]);
            }
        };
        add("model", self.model.clone());
        add("base-url", self.base_url.clone());
        add("approval-mode", self.approval_mode.map(|mode| mode.id().to_owned()));
        add("max-steps", self.max_steps.map(|steps| steps.to_string()));
        args
    }
}

/// Runs the agent until its stdin ends, or a signal says so.
pub(crate) fn run(args: AcpArgs) -> ExitCode {
    logging::start(args.log_format, "warn");
    if std::io::stdin().is_terminal() {
        eprintln!(
            "holdpoint acp speaks the Agent Client Protocol (JSON-RPC) on stdin and stdout: an editor or the"
        );
        eprintln!(
            "daemon starts it. For a person: `holdpoint serve`, then `holdpoint prompt`. Ctrl-C ends it."
        );
    }
    match start(args) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("holdpoint acp: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Ends the process when the agent has ended. The runtime is never dropped: it would wait for a read of stdin
/// that may never end.
fn start(args: AcpArgs) -> anyhow::Result<std::convert::Infallible> {
    let file = File::read(args.config.as_deref())?;
    let model = args.model.or(&file);
    let resolved = model.resolve()?;
    // The demo writes one small file, and only after the person has chosen: asking for that again would hide
    // what it is there to show.
    let unless_told = if resolved.is_demo() { ApprovalMode::AutoEdit } else { ApprovalMode::Default };
    let config = AgentConfig {
        data_dir: data_dir(args.data_dir, file.serve.data_dir)?,
        restore: args.restore_ask_user_question,
        model: resolved,
        approval_mode: model.approval_mode.unwrap_or(unless_told),
        max_steps: model.max_steps.unwrap_or(AgentConfig::MAX_STEPS),
        limits: Limits::default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let code = runtime.block_on(run_stdio(config)).code();
    std::process::exit(code)
}
