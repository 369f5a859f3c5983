//! Where measurements take place: directories, the program, its environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use camino::Utf8PathBuf;
use tempfile::TempDir;

use crate::daemon::Daemon;
use crate::model::Model;

/// The program and the file system.
pub(crate) struct Place {
    pub(crate) binary: PathBuf,
    dir: PathBuf,
    quick: bool,
}

impl Place {
    pub(crate) fn new(binary: Option<PathBuf>, dir: Option<PathBuf>, quick: bool) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("cannot find this program's own file")?;
        let beside = own.parent().context("this program has no directory")?;
        let binary = binary.unwrap_or_else(|| beside.join("holdpoint"));
        if !binary.is_file() {
            bail!("{} is not there; build it with `cargo build --release`", binary.display());
        }
        // Not the system's directory for temporary files: that is often in memory, where nothing is durable.
        let dir = dir.unwrap_or_else(|| beside.join("bench-data"));
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self { binary, dir, quick })
    }

    /// How often to repeat.
    pub(crate) fn times(&self, full: usize) -> usize {
        if self.quick { full.div_ceil(10) } else { full }
    }

    /// Cores, kernel, file system.
    pub(crate) fn describe(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let profile = if cfg!(debug_assertions) { "; this is a debug build of the bench" } else { "" };
        let file_system = file_system(&self.dir).unwrap_or_else(|| "unknown".to_owned());
        format!("{cores} cores, Linux {}, data on {file_system}{profile}", kernel.trim())
    }

    /// A machine with nothing on it.
    pub(crate) fn rig(&self) -> anyhow::Result<Rig<'_>> {
        let dir = tempfile::Builder::new().prefix("run-").tempdir_in(&self.dir)?;
        for name in ["home", "work"] {
            std::fs::create_dir(dir.path().join(name))?;
        }
        Ok(Rig { place: self, data: dir.path().join("data"), dir, model: None, args: Vec::new() })
    }
}

/// The type of the file system that a directory is on.
fn file_system(dir: &Path) -> Option<String> {
    let dir = std::fs::canonicalize(dir).ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    });
    mounts.filter(|(at, _)| dir.starts_with(at)).max_by_key(|(at, _)| at.len()).map(|(_, kind)| kind)
}

/// A home, a data directory, a workspace and a model; daemons live on it one after the other.
pub(crate) struct Rig<'a> {
    place: &'a Place,
    dir: TempDir,
    pub(crate) data: PathBuf,
    pub(crate) model: Option<Model>,
    /// Further arguments of every start.
    pub(crate) args: Vec<String>,
}

impl Rig<'_> {
    /// The same with a scripted model.
    pub(crate) fn with_model(mut self) -> anyhow::Result<Self> {
        self.model = Some(Model::start()?);
        Ok(self)
    }

    /// The scripted model.
    pub(crate) fn model(&self) -> anyhow::Result<&Model> {
        self.model.as_ref().context("the rig has no model")
    }

    /// The data directory, for a ledger in this process.
    pub(crate) fn utf8_data(&self) -> anyhow::Result<Utf8PathBuf> {
        Utf8PathBuf::from_path_buf(self.data.clone())
            .map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Where logs of its daemons are.
    pub(crate) fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// The command that starts a daemon here, in this machine's environment and no other.
    fn command(&self) -> Command {
        let home = self.dir.path().join("home");
        let mut command = Command::new(&self.place.binary);
        command.env_clear().current_dir(self.work());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home);
        if let Some(model) = &self.model {
            command
                .env("OPENAI_BASE_URL", model.base_url())
                .env("OPENAI_MODEL", "scripted")
                .env("OPENAI_API_KEY", "k");
        }
        command.args(["serve", "--port", "0", "--restore-ask-user-question", "--data-dir"]).arg(&self.data);
        command.args(&self.args);
        command
    }

    /// Starts a daemon, and waits for its line.
    pub(crate) fn start(&self) -> anyhow::Result<Daemon> {
        Daemon::start(self.command(), &self.log())
    }

    /// The transcript of a session.
    pub(crate) fn transcript(&self, session: &str) -> PathBuf {
        self.data.join("sessions").join(format!("{session}.jsonl"))
    }
}
