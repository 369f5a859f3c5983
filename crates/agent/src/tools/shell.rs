//! `run_shell_command`: one command in a process group of its own, which ends with the call.
//!
//! Whatever ends the call — its own end, the time limit, a cancel, a dropped future — ends the whole group, so
//! no process outlives the turn that started it. That is also why nothing runs in the background here. Where the
//! agent itself is killed, its [watchdog](super::watchdog) does it.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use camino::Utf8Path;
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::args::Args;
use super::paths::Place;
use super::watchdog::Watched;
use super::{Limits, ToolError};
use crate::provider::config::SECRET_VARS;

/// How long the output of a command is still read after its shell has ended: processes that it left behind may
/// hold the pipes open for ever.
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// Runs a command once it is watched: not before a line comes, and not at all if the agent ends before that.
const GATE: &str = r#"
read -r _ || exit
command -v bash >/dev/null && exec bash -c "$1" </dev/null
exec sh -c "$1" </dev/null
"#;

/// What `run_shell_command` runs.
#[derive(Clone, Debug)]
pub(crate) struct Shell {
    pub(crate) place: Place,
    pub(crate) command: String,
    pub(crate) description: Option<String>,
    time: Duration,
}

impl Shell {
    pub(crate) fn plan(workspace: &Utf8Path, args: Args<'_>, limits: &Limits) -> Result<Self, ToolError> {
        let command = args.filled(&["command", "cmd"])?.to_owned();
        if command.contains('\0') {
            return Err(args.invalid("\"command\" must not hold a NUL character"));
        }
        if args.truth(&["is_background", "run_in_background"])? {
            return Err(args.invalid(
                "commands cannot run in the background here: each one ends with its call, and so does all that it \
                 started. Set is_background to false, and run what must go on together in one command",
            ));
        }
        let time =
            args.number(&["timeout", "timeout_ms"])?.map_or(limits.command_time, Duration::from_millis);
        if time.is_zero() || time > limits.command_time_max {
            let most = limits.command_time_max.as_millis();
            return Err(args.invalid(format!("\"timeout\" is in milliseconds, from 1 to {most}")));
        }
        let place =
            Place::resolve(workspace, args.text(&["directory", "cwd", "working_directory"])?.unwrap_or("."))?;
        let description = args.text(&["description"])?.map(str::to_owned);
        Ok(Self { place, command, description, time })
    }

    /// Runs it. The flag says whether the command failed.
    pub(crate) async fn run(
        &self,
        limits: &Limits,
        cancel: &CancellationToken,
    ) -> Result<(String, bool), ToolError> {
        self.place.check()?;
        if cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let mut group = self.spawn().await?;
        let half = limits.output_bytes / 2;
        let mut output = Kept::new(half, limits.output_bytes - half);
        let mut pipes = Pipes { out: group.child.stdout().take(), err: group.child.stderr().take() };
        let end = {
            let reading = async {
                // The shell's end counts, not the pipes': something that it left behind may hold them.
                let mut status = None;
                loop {
                    tokio::select! {
                        more = pipes.read(&mut output) => if !more { break },
                        ended = group.child.inner_mut().wait(), if status.is_none() => {
                            status = Some(ended);
                            break;
                        }
                    }
                }
                match status {
                    Some(status) => status,
                    None => group.child.inner_mut().wait().await,
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => End::Cancelled,
                () = tokio::time::sleep(self.time) => End::TimedOut,
                status = reading => End::Exited(status),
            }
        };
        match end {
            End::Exited(status) => {
                let status = status
                    .map_err(|error| ToolError::io("wait for a command in", &self.place.real, &error))?;
                let _ =
                    tokio::time::timeout(DRAIN_TIME, async { while pipes.read(&mut output).await {} }).await;
                let left_behind = group.kill_now();
                let mut text = output.into_text();
                let failed = !status.success();
                if text.is_empty() {
                    text.push_str("[no output]");
                }
                text.push_str(&format!("\n[{}]", ending(status)));
                if left_behind {
                    text.push_str("\n[what the command had left running was ended with it]");
                }
                Ok((text, failed))
            }
            End::TimedOut => {
                group.stop(limits.command_grace).await;
                let _ =
                    tokio::time::timeout(DRAIN_TIME, async { while pipes.read(&mut output).await {} }).await;
                let seconds = self.time.as_secs_f64();
                let note = format!(
                    "[ended by the time limit of {seconds} s; give a longer \"timeout\" (milliseconds) or do less at once]"
                );
                Ok((format!("{}\n{note}", output.into_text()).trim_start().to_owned(), true))
            }
            End::Cancelled => {
                group.stop(limits.command_grace).await;
                Err(ToolError::Cancelled)
            }
        }
    }

    async fn spawn(&self) -> Result<Group, ToolError> {
        let fail = |error: &std::io::Error| ToolError::io("run a command in", &self.place.real, error);
        if !self.place.real.is_dir() {
            return Err(super::paths::not_found(&self.place.real));
        }
        let mut command = Command::new("sh");
        command.args(["-c", GATE, "sh"]).arg(&self.command).current_dir(&self.place.real);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in SECRET_VARS {
            command.env_remove(name);
        }
        // Programs that would page or ask find out that nobody is there.
        command.env("PAGER", "cat").env("GIT_PAGER", "cat").env("GIT_TERMINAL_PROMPT", "0");
        let mut wrap = CommandWrap::from(command);
        wrap.wrap(ProcessGroup::leader());
        let mut child = wrap.spawn().map_err(|error| fail(&error))?;
        // The leader's process id is the group's.
        let watched = child.id().map(Watched::new);
        let gate = child.stdin().take();
        let group = Group { child, ended: false, _watched: watched };
        if let Some(mut gate) = gate {
            // One that has ended already says so itself.
            let _ = gate.write_all(b"\n").await;
        }
        Ok(group)
    }
}

enum End {
    Exited(std::io::Result<ExitStatus>),
    TimedOut,
    Cancelled,
}

/// A process group that is gone when this is.
struct Group {
    child: Box<dyn ChildWrapper>,
    ended: bool,
    /// Let go of after the group has been killed.
    _watched: Option<Watched>,
}

impl Group {
    /// Kills what is left; says whether anything was.
    fn kill_now(&mut self) -> bool {
        self.ended = true;
        self.child.start_kill().is_ok()
    }

    /// Asks the group to end, and kills it when it has not within `grace`.
    async fn stop(&mut self, grace: Duration) {
        const SIGTERM: i32 = 15;
        let _ = self.child.signal(SIGTERM);
        let _ = tokio::time::timeout(grace, self.child.inner_mut().wait()).await;
        self.kill_now();
        let _ = self.child.inner_mut().wait().await;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.start_kill();
        }
    }
}

/// Both outputs of a command, read as they come.
struct Pipes {
    out: Option<tokio::process::ChildStdout>,
    err: Option<tokio::process::ChildStderr>,
}

impl Pipes {
    /// Reads one piece of either; `false` when both are closed. Safe to drop between pieces.
    async fn read(&mut self, kept: &mut Kept) -> bool {
        let mut out_piece = [0; 8192];
        let mut err_piece = [0; 8192];
        tokio::select! {
            n = read_some(self.out.as_mut(), &mut out_piece), if self.out.is_some() => {
                if n == 0 { self.out = None } else { kept.push(&out_piece[..n]) }
                true
            }
            n = read_some(self.err.as_mut(), &mut err_piece), if self.err.is_some() => {
                if n == 0 { self.err = None } else { kept.push(&err_piece[..n]) }
                true
            }
            else => false,
        }
    }
}

async fn read_some<R: AsyncRead + Unpin>(reader: Option<&mut R>, piece: &mut [u8]) -> usize {
    match reader {
        Some(reader) => reader.read(piece).await.unwrap_or(0),
        None => 0,
    }
}

/// The head and the tail of an output of any length, in bounded memory.
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_size: usize,
    tail_size: usize,
    total: u64,
}

impl Kept {
    fn new(head_size: usize, tail_size: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), head_size, tail_size, total: 0 }
    }

    fn push(&mut self, piece: &[u8]) {
        self.total += piece.len() as u64;
        let (head, tail) = piece.split_at(piece.len().min(self.head_size - self.head.len()));
        self.head.extend_from_slice(head);
        let tail = &tail[tail.len().saturating_sub(self.tail_size)..];
        let over = (self.tail.len() + tail.len()).saturating_sub(self.tail_size);
        self.tail.drain(..over);
        self.tail.extend(tail);
    }

    fn into_text(self) -> String {
        let left_out = self.total - (self.head.len() + self.tail.len()) as u64;
        let tail: Vec<u8> = self.tail.into();
        let text = if left_out == 0 {
            String::from_utf8_lossy(&[self.head, tail].concat()).into_owned()
        } else {
            let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
            format!("{head}\n[… {left_out} bytes left out …]\n{tail}")
        };
        text.trim_end().to_owned()
    }
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn head_and_tail_are_kept_however_it_comes(
            pieces in prop::collection::vec(prop::collection::vec(b'a'..=b'z', 0..50), 0..20),
            head in 0usize..40, tail in 0usize..40,
        ) {
            let mut kept = Kept::new(head, tail);
            for piece in &pieces {
                kept.push(piece);
                prop_assert!(kept.head.len() <= head && kept.tail.len() <= tail);
            }
            let whole = String::from_utf8(pieces.concat()).unwrap();
            let text = kept.into_text();
            if whole.len() <= head + tail {
                prop_assert_eq!(text, whole);
            } else {
                let left_out = format!("[… {} bytes left out …]", whole.len() - head - tail);
                prop_assert!(text.starts_with(&whole[..head]) && text.contains(&left_out));
                prop_assert!(text.ends_with(&whole[whole.len() - tail..]));
            }
        }
    }
}
