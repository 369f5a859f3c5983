//! The life of one agent process: started, watched, ended, told about.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::{Agent, Builder, Channel, Client, ConnectionTo};
use holdpoint_engine::port::{Exit, FromAgent};
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::AgentCommand;
use crate::conn::Conn;
use crate::inbound::Inbound;
use crate::stderr::{self, Redactor, Tail};
use crate::transport::{self, BoundedLines, End};

/// How long a process may live on after it closed its output.
const LINGER: Duration = Duration::from_secs(1);

/// A child that was started, before anything was said to it.
pub(crate) struct Child {
    child: Box<dyn ChildWrapper>,
    pid: u32,
}

impl Child {
    /// Starts a process in a group of its own, so that a signal of the terminal does not reach it: when and how
    /// agents end is for the daemon to decide.
    ///
    /// # Errors
    /// It cannot be started; the text is for people.
    pub(crate) fn start(command: &AgentCommand, cwd: &str) -> Result<Self, String> {
        match std::fs::metadata(cwd) {
            Ok(found) if found.is_dir() && Path::new(cwd).is_absolute() => {}
            Ok(_) => return Err(format!("its workspace {cwd} is no directory with an absolute path")),
            Err(error) => return Err(format!("its workspace {cwd} cannot be read: {error}")),
        }
        let mut wrap = CommandWrap::with_new(&command.program, |c| {
            c.args(&command.args).current_dir(cwd);
            for name in &command.env_remove {
                c.env_remove(name);
            }
            c.envs(&command.env).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        });
        wrap.wrap(ProcessGroup::leader()).wrap(KillOnDrop);
        let child = wrap.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!(
                "the command {} was not found; install it, or give its full path in the configuration",
                command.program
            ),
            std::io::ErrorKind::PermissionDenied => {
                format!("the command {} may not be executed: {error}", command.program)
            }
            _ => format!("the command {} could not be started: {error}", command.program),
        })?;
        let pid = child.id().ok_or("it ended before it could be looked at")?;
        Ok(Self { child, pid })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Connects to it and watches it from now on. The receiver gets the connection.
    pub(crate) fn watch(
        mut self,
        conn: &Arc<Conn>,
        redactor: Redactor,
    ) -> oneshot::Receiver<ConnectionTo<Agent>> {
        let redactor = Arc::new(redactor);
        let tail = Arc::new(Tail::default());
        let (stdin, stdout, stderr) =
            match (self.child.stdin().take(), self.child.stdout().take(), self.child.stderr().take()) {
                (Some(stdin), Some(stdout), Some(stderr)) => (stdin, stdout, stderr),
                _ => unreachable!("all three were asked for as pipes, and nobody else takes them"),
            };
        let (ours, sdks) = Channel::duplex();
        let (from_sdk, to_sdk) = ours.into_parts();
        let (connection, connected) = oneshot::channel();
        let tasks = Tasks {
            child: self.child,
            reader: tokio::spawn(transport::read(Arc::clone(conn), stdout, to_sdk, Arc::clone(&redactor))),
            writer: tokio::spawn(transport::write(Arc::clone(conn), from_sdk, stdin)),
            stderr: tokio::spawn(stderr::read(Arc::clone(conn), stderr, Arc::clone(&tail), redactor)),
            driver: tokio::spawn(drive(Arc::clone(conn), sdks, connection)),
            tail,
        };
        tokio::spawn(supervise(Arc::clone(conn), tasks));
        connected
    }
}

/// Runs the SDK on a connection until its incoming side ends.
async fn drive(conn: Arc<Conn>, channel: Channel, connection: oneshot::Sender<ConnectionTo<Agent>>) {
    // Without a protocol guard: we check the version ourselves, and pass everything on as it is.
    let builder = Builder::new(Client)
        .name(format!("agent {}", conn.pid))
        .with_handler(Inbound::new(Arc::clone(&conn)));
    let result = builder
        .connect_with(channel, async move |cx: ConnectionTo<Agent>| {
            drop(connection.send(cx.clone()));
            cx.incoming_closed().await;
            Ok(())
        })
        .await;
    if let Err(error) = result {
        conn.break_off(format!("the connection to it failed: {}", error.message));
    }
    // The reader may wait for room that nobody will make any more.
    conn.handled.notify_one();
}

struct Tasks {
    child: Box<dyn ChildWrapper>,
    reader: JoinHandle<(End, BoundedLines<ChildStdout>)>,
    writer: JoinHandle<ChildStdin>,
    stderr: JoinHandle<()>,
    driver: JoinHandle<()>,
    tail: Arc<Tail>,
}

/// Watches a process to its end. Whatever ends first – the process, its output, our patience – the process group
/// is dead before its pipes are closed, everything that it sent is handled, and then every session is told.
async fn supervise(conn: Arc<Conn>, mut tasks: Tasks) {
    let mut output = None;
    let grace = tokio::select! {
        biased;
        () = conn.stopping.cancelled() => {
            // Only our own agent is known to write nothing on SIGTERM.
            conn.is_gentle().then(|| {
                signal(conn.pid, Signal::TERM);
                conn.limits.term_grace
            })
        }
        () = conn.broken_off() => None,
        _ = tasks.child.wait() => None,
        end = &mut tasks.reader => {
            match end {
                Ok((End::Closed, pipe)) => {
                    output = Some(pipe);
                    Some(LINGER)
                }
                Ok((End::Broken(why), pipe)) => {
                    output = Some(pipe);
                    conn.break_off(why);
                    None
                }
                // The runtime is ending, and takes the tasks with it in any order.
                Err(_) => return signal(conn.pid, Signal::KILL),
            }
        }
    };
    conn.set_dead();
    if let Some(grace) = grace {
        let _ = tokio::time::timeout(grace, tasks.child.wait()).await;
    }
    // The leader, if it still lives, and whatever it left behind in its group.
    signal(conn.pid, Signal::KILL);
    let status = tasks.child.wait().await;
    conn.exited.cancel();
    drop(tasks.stderr.await);
    let exit = describe(status.ok(), tasks.tail.text(), conn.why());
    tracing::info!(
        agent = conn.name,
        pid = conn.pid,
        exit.code,
        exit.signal,
        why = conn.why(),
        "the agent process ended"
    );
    conn.publish(exit.clone());

    if output.is_none() {
        drop(tasks.reader.await);
    }
    drop(tasks.driver.await);
    drop(tasks.writer.await);
    for (sink, kept) in conn.routes.take_all() {
        let exit = exit.clone();
        let stopping = conn.stopping.is_cancelled();
        // Each on its own: one session that is slow must not keep the news from the others.
        tokio::spawn(async move {
            for message in kept.into_iter().filter(|_| !stopping) {
                if sink.send(message).await.is_err() {
                    return;
                }
            }
            drop(sink.send(FromAgent::Gone(exit)).await);
        });
    }
}

fn describe(status: Option<ExitStatus>, mut stderr_tail: String, why: Option<&str>) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    if let Some(why) = why {
        if !stderr_tail.is_empty() {
            stderr_tail.push('\n');
        }
        stderr_tail.push_str("(ended by the daemon: ");
        stderr_tail.push_str(why);
        stderr_tail.push(')');
    }
    Exit { code: status.and_then(|s| s.code()), signal: status.and_then(|s| s.signal()), stderr_tail }
}

/// Signals a process group. That it is gone already is no error.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    if let Err(error) = kill_process_group(group, signal)
        && error != rustix::io::Errno::SRCH
    {
        tracing::warn!(pid, %error, "the agent's process group could not be signalled");
    }
}
