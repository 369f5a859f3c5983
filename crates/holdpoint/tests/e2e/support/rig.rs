//! A machine of a test: home, data directory, workspace, model, and the daemon's lives on it.

use std::path::PathBuf;
use std::process::Output;

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use super::api::{Api, Question, Session};
use super::daemon::{Daemon, NotStarted};
use super::judge::{self, Story};
use super::model::Model;
use super::stream::Stream;

/// The built program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_holdpoint");
/// The flag that the tests are about.
const RESTORE: &str = "--restore-ask-user-question";

/// A machine.
#[derive(Debug)]
pub(crate) struct Rig {
    dir: TempDir,
    pub(crate) model: Model,
    daemon: Option<Daemon>,
    /// Further arguments of every start.
    pub(crate) args: Vec<String>,
    /// Whether the flag is given.
    pub(crate) restore: bool,
    /// No model is configured: the demo model plays.
    pub(crate) demo: bool,
    /// A write beyond a limit is an error to the daemon, as on a full disk, and its log is on that disk too.
    pub(crate) disk_may_fill: bool,
    pub(crate) data_dir: PathBuf,
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the daemon's log\n{}", self.log());
            for entry in std::fs::read_dir(self.data_dir.join("sessions")).into_iter().flatten().flatten() {
                eprintln!("--- {}", entry.path().display());
                for line in std::fs::read_to_string(entry.path()).unwrap_or_default().lines() {
                    eprintln!("{}", line.chars().take(700).collect::<String>());
                }
            }
        }
    }
}

/// A session that asks.
pub(crate) struct Asking {
    pub(crate) session: Session,
    /// The client that made it.
    pub(crate) api: Api,
    /// Its stream, from before the prompt.
    pub(crate) events: Stream,
    /// The prompt's id.
    pub(crate) prompt: String,
    pub(crate) question: Question,
}

impl Rig {
    /// A machine with nothing on it.
    pub(crate) async fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("hp-e2e-").tempdir().unwrap();
        for name in ["home", "work"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let data_dir = dir.path().join("data");
        let model = Model::start().await;
        Self {
            dir,
            model,
            daemon: None,
            args: Vec::new(),
            restore: true,
            demo: false,
            disk_may_fill: false,
            data_dir,
        }
    }

    /// A machine with a daemon on it that restores.
    pub(crate) async fn started() -> Self {
        let mut rig = Self::new().await;
        rig.start().await;
        rig
    }

    /// Where sessions work.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// The program, in this machine's environment and no other.
    pub(crate) fn command(&self) -> Command {
        self.in_environment(Command::new(PROGRAM))
    }

    fn in_environment(&self, mut command: Command) -> Command {
        let home = self.dir.path().join("home");
        command.env_clear().current_dir(self.work());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("HOME", &home)
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_CONFIG_HOME", home.join("config"));
        command.env("HOLDPOINT_DATA_DIR", &self.data_dir);
        if !self.demo {
            command.env("OPENAI_BASE_URL", &self.model.base_url);
            command.env("OPENAI_MODEL", "scripted").env("OPENAI_API_KEY", "k");
        }
        command
    }

    /// The command that starts a daemon here.
    pub(crate) fn serve(&self) -> Command {
        let mut command = if self.disk_may_fill {
            let mut shell = Command::new("sh");
            shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\" 2>>\"$LOG\"", PROGRAM]);
            let mut command = self.in_environment(shell);
            command.env("LOG", self.dir.path().join("log"));
            command
        } else {
            self.command()
        };
        command.args(["serve", "--port", "0"]).args(self.restore.then_some(RESTORE)).args(&self.args);
        command
    }

    pub(crate) async fn try_start(&self, command: Command) -> Result<Daemon, NotStarted> {
        Daemon::start(command, &self.dir.path().join("log")).await
    }

    pub(crate) async fn start(&mut self) -> Api {
        self.start_with(&[]).await
    }

    /// Starts a life with more in its environment.
    pub(crate) async fn start_with(&mut self, env: &[(&str, &str)]) -> Api {
        assert!(self.daemon.is_none(), "a daemon runs already");
        let mut command = self.serve();
        command.envs(env.iter().copied());
        let daemon = self.try_start(command).await.unwrap_or_else(|why| panic!("it did not start: {why:?}"));
        self.daemon = Some(daemon);
        self.api()
    }

    /// The daemon that runs.
    pub(crate) fn daemon(&mut self) -> &mut Daemon {
        self.daemon.as_mut().expect("a daemon runs")
    }

    /// The daemon that runs, out of this machine's hands.
    pub(crate) fn take_daemon(&mut self) -> Daemon {
        self.daemon.take().expect("a daemon runs")
    }

    /// A client of the daemon that runs.
    pub(crate) fn api(&self) -> Api {
        Api::new(self.daemon.as_ref().expect("a daemon runs").address)
    }

    /// A new session whose prompt has the model ask one question, which people can answer now.
    pub(crate) async fn asking(&self, prompt: &str) -> Asking {
        let session = self.api().create("yolo").await;
        let api = self.api().of(&session.client);
        let events = api.events(&session).await;
        let prompt = api.prompt(&session, prompt).await;
        let [question] = api.wait_asked(&session).await;
        Asking { session, api, events, prompt, question }
    }

    /// `kill -9`.
    pub(crate) async fn kill(&mut self) {
        self.take_daemon().kill().await;
    }

    /// `kill -9` to the daemon and to its agents.
    pub(crate) async fn kill_all(&mut self) {
        let agents = self.daemon().children();
        self.kill().await;
        for agent in agents {
            // It may have ended with its daemon.
            let _ = kill_process(agent, Signal::KILL);
        }
    }

    /// `kill -9`, and a new start.
    pub(crate) async fn restart(&mut self) -> Api {
        self.kill().await;
        self.start().await
    }

    /// Waits until the daemon has died at the point that it was told.
    pub(crate) async fn died(&mut self) {
        self.take_daemon().died().await;
    }

    /// A command of the command line.
    pub(crate) async fn run(&self, args: &[&str]) -> Output {
        let mut command = self.command();
        if let Some(daemon) = &self.daemon {
            command.env("HOLDPOINT_URL", format!("http://{}", daemon.address));
        }
        command.args(args).stdin(std::process::Stdio::null()).kill_on_drop(true);
        tokio::time::timeout(super::PATIENCE, command.output()).await.expect("the command ends").unwrap()
    }

    /// The session's file, without what differs between two runs.
    pub(crate) fn transcript(&self, session: &Session) -> Vec<Value> {
        judge::transcript(&self.transcript_path(session))
    }

    pub(crate) fn transcript_path(&self, session: &Session) -> PathBuf {
        self.data_dir.join("sessions").join(format!("{}.jsonl", session.id))
    }

    /// What became of a job.
    pub(crate) fn story(&self, session: &Session) -> Story {
        let histories = self.model.histories();
        for history in &histories {
            judge::well_formed(history);
        }
        Story { transcript: self.transcript(session), history: histories.last().cloned().unwrap_or_default() }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

/// The same job with nothing in between: each question is answered in turn as said, by vote.
pub(crate) async fn undisturbed(prompt: &str, answers: &[&[(&str, &str)]]) -> Story {
    let rig = Rig::started().await;
    let session = rig.api().create("yolo").await;
    let api = rig.api().of(&session.client);
    let mut events = api.events(&session).await;
    let id = api.prompt(&session, prompt).await;
    for answer in answers {
        let request = events.wait_for("permission_request").await;
        let request = request["data"]["requestId"].as_str().unwrap();
        api.vote(&session, request, &super::selected(answer)).await.expect(200);
    }
    let end = events.turn_end(&id).await;
    assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
    rig.story(&session)
}
