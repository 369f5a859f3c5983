//! One life of the daemon: a process of the built program.

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::PATIENCE;

/// A running daemon.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    pub(crate) pid: Pid,
    pub(crate) address: SocketAddr,
    /// The line that it printed at its start.
    pub(crate) line: String,
}

/// How a start ended that was to fail.
#[derive(Debug)]
pub(crate) struct NotStarted {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
}

/// Copies what the daemon says on stderr to the end of a file, and gives it back.
async fn copy(mut stderr: tokio::process::ChildStderr, log: PathBuf) -> String {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    let (mut all, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(n) = stderr.read(&mut chunk).await
        && n > 0
    {
        file.write_all(&chunk[..n]).unwrap();
        all.extend_from_slice(&chunk[..n]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

impl Daemon {
    /// Starts it and waits for its first line. Logs go to the end of `log`.
    pub(crate) async fn start(mut command: Command, log: &Path) -> Result<Self, NotStarted> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).kill_on_drop(true).spawn().unwrap();
        let copied = tokio::spawn(copy(child.stderr.take().unwrap(), log.to_owned()));
        let pid = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.expect("a line in time").unwrap();
        let Some(line) = line else {
            let code = timeout(PATIENCE, child.wait()).await.unwrap().unwrap().code();
            return Err(NotStarted { code, stderr: copied.await.unwrap() });
        };
        let address = line
            .split_once("http://")
            .and_then(|(_, rest)| rest.split([' ', '/']).next()?.parse().ok())
            .unwrap_or_else(|| panic!("no address in {line:?}"));
        Ok(Self { child, pid, address, line })
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// As a terminal does it: to everything in the foreground.
    pub(crate) fn signal_group(&self, signal: Signal) {
        kill_process_group(self.pid, signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        timeout(PATIENCE, self.child.wait()).await.expect("the daemon ends").unwrap()
    }

    /// Waits for its death by SIGKILL.
    pub(crate) async fn died(&mut self) {
        let status = self.ended().await;
        assert_eq!(status.signal(), Some(9), "it was to die by SIGKILL: {status}");
    }

    pub(crate) async fn kill(mut self) {
        self.signal(Signal::KILL);
        self.died().await;
    }

    /// The processes that it started: its agents.
    pub(crate) fn children(&self) -> Vec<Pid> {
        let parent = format!("\nPPid:\t{}\n", self.pid.as_raw_nonzero());
        let mut children = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            if status.contains(&parent) && !status.contains("State:\tZ") {
                let pid = entry.file_name().to_string_lossy().parse().unwrap();
                children.extend(Pid::from_raw(pid));
            }
        }
        children
    }
}
