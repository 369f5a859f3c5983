//! Commands do not outlive their agent, not even one that is killed by SIGKILL and can do nothing about it.
//!
//! A watchdog process is told which process groups run. The pipe that it hears this through has its other end in
//! the agent alone, so the pipe ends when the agent does, however that ends: then the watchdog kills what still runs.
//! It starts with the first command, in a group of its own, so that what ends the agent's group does not end it too.
//! A command that leaves its group (`setsid`) is out of its reach, as it is out of the tool's.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A process group, named by its leader's process id.
type Group = u32;

/// What the watchdog does. A shell is there, since commands need one.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
live=' '
while read -r what group; do
    case $what in
        began) live="$live$group " ;;
        ended) case $live in *" $group "*) live="${live%%" $group "*} ${live#*" $group "}" ;; esac ;;
    esac
done
for group in $live; do kill -s KILL -- "-$group" 2>/dev/null; done
"#;

/// The watchdog of this process.
static WATCHDOG: Mutex<Watchdog> = Mutex::new(Watchdog { process: None, live: BTreeSet::new() });

#[derive(Debug)]
struct Watchdog {
    process: Option<(Child, ChildStdin)>,
    live: BTreeSet<Group>,
}

impl Watchdog {
    fn get() -> MutexGuard<'static, Self> {
        // Every change is a single insertion or removal: there is no state in between.
        WATCHDOG.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of one group; a watchdog that is not there (any more) is started and told of all.
    fn tell(&mut self, what: &str, group: Group) -> io::Result<()> {
        if let Some((_, ear)) = &mut self.process {
            match writeln!(ear, "{what} {group}") {
                Ok(()) => return Ok(()),
                Err(error) => {
                    tracing::warn!(%error, "the watchdog of commands is gone; another one is started")
                }
            }
        }
        if let Some((mut gone, ear)) = self.process.take() {
            drop(ear);
            let _ = gone.wait();
        }
        let (child, mut ear) = start()?;
        for group in &self.live {
            writeln!(ear, "began {group}")?;
        }
        self.process = Some((child, ear));
        Ok(())
    }
}

fn start() -> io::Result<(Child, ChildStdin)> {
    let mut command = Command::new("sh");
    // Its output must not hold the agent's open, nor its directory a disk.
    command.args(["-c", SCRIPT]).current_dir("/").env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    let ear = child.stdin.take().expect("its standard input is a pipe");
    Ok((child, ear))
}

/// A process group that is killed when this process ends, for as long as this is held.
#[derive(Debug)]
pub(super) struct Watched(Group);

impl Watched {
    /// Has a group watched from now on. A watchdog that cannot be started is a warning: the command may run all
    /// the same, since its turn ends it.
    pub(super) fn new(group: Group) -> Self {
        let mut watchdog = Watchdog::get();
        watchdog.live.insert(group);
        if let Err(error) = watchdog.tell("began", group) {
            tracing::warn!(%error, "a command may outlive this agent if it is killed: no watchdog can be started");
        }
        Self(group)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watchdog = Watchdog::get();
        watchdog.live.remove(&self.0);
        if watchdog.process.is_some() && watchdog.tell("ended", self.0).is_err() {
            tracing::debug!("no watchdog can be started");
        }
    }
}
