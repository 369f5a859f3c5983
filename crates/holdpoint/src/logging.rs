//! Logs: to stderr, as text or as JSON lines. `HOLDPOINT_LOG` takes a filter such as `holdpoint_engine=debug`.

use std::io::{IsTerminal as _, stderr};

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The variable with the filter.
const VARIABLE: &str = "HOLDPOINT_LOG";

/// Lines that wait for a reader of stderr that has stopped reading. More are dropped.
const WAITING: usize = 4096;

/// Starts logging for a daemon: through a thread of its own, so that a stderr which nobody reads (a pager, a terminal that
/// was paused, a stuck log shipper) holds up no session. What still waits is written when the guard is dropped.
pub(crate) fn start_apart(format: LogFormat, default: &str) -> WorkerGuard {
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(WAITING)
        .lossy(true)
        .thread_name("log-write")
        .finish(stderr());
    start_into(format, default, BoxMakeWriter::new(writer));
    guard
}

/// Starts logging. A filter that cannot be read is said, and the default taken.
pub(crate) fn start(format: LogFormat, default: &str) {
    start_into(format, default, BoxMakeWriter::new(stderr));
}

fn start_into(format: LogFormat, default: &str, writer: BoxMakeWriter) {
    // Whatever the filter says: genai logs bodies of errors, in which a server may echo a key; and the ACP SDK
    // warns of answers that our transport then does not let through.
    let silent = |filter: EnvFilter| {
        ["genai=off", "agent_client_protocol=error"].iter().fold(filter, |filter, directive| match directive
            .parse()
        {
            Ok(directive) => filter.add_directive(directive),
            Err(_) => filter,
        })
    };
    let (filter, problem) = match std::env::var(VARIABLE) {
        Ok(text) => match EnvFilter::try_new(&text) {
            Ok(filter) => (filter, None),
            Err(error) => (EnvFilter::new(default), Some(error.to_string())),
        },
        Err(_) => (EnvFilter::new(default), None),
    };
    // Its word about a log that cannot be written would go to stderr, and panic there for the same reason: a
    // full disk must not end the ledger's writer.
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(silent(filter))
        .with_writer(writer)
        .log_internal_errors(false);
    match format {
        LogFormat::Text => subscriber.with_ansi(stderr().is_terminal()).init(),
        LogFormat::Json => subscriber.json().flatten_event(true).init(),
    }
    if let Some(problem) = problem {
        tracing::warn!("{VARIABLE} is not a filter, and is ignored: {problem}");
    }
}
