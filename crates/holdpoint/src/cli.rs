//! The command line as people see it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use holdpoint_model::ids::{ResponseId, SessionId};
use secrecy::SecretString;

use crate::{acp, serve};

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  it failed
    2  the command line, or the answer, was not understood
    3  a question waits for a person
    4  the answer was refused: somebody was first, the question is closed, or you may not
    5  no daemon answers
  130  Ctrl-C; for another signal N, 128 + N

With --json, which `serve` and `acp` don't have, stdout has one JSON document, or one a line where it streams, and \
nothing else. On stderr an error is {\"error\", \"code\", …}, and a remark {\"note\"}, each on a line of its own.";

const ABOUT: &str = "Holdpoint runs AI agents, and no question of theirs is lost: a restart asks it again.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "holdpoint",
    version,
    about = ABOUT,
    after_help = "`holdpoint help` and `holdpoint COMMAND --help` say more, with examples and exit codes.",
    after_long_help = EXIT_CODES,
    max_term_width = 110,
    disable_help_subcommand = false
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What each command of the client takes, before or after its name. `serve` and `acp` take none of it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Daemon and output")]
pub(crate) struct Common {
    /// Where the daemon listens [env: HOLDPOINT_URL] [default: as holdpoint.toml says, or http://127.0.0.1:4170]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The daemon's token; better in the environment [env: HOLDPOINT_TOKEN, QWEN_SERVER_TOKEN]
    #[arg(long, value_name = "TOKEN", value_parser = secret)]
    pub(crate) token: Option<SecretString>,
    /// Write JSON, for scripts
    #[arg(long)]
    pub(crate) json: bool,
    /// Colours; `auto` means in a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", value_enum)]
    pub(crate) color: Option<Color>,
}

impl Common {
    /// The first option that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.url.is_some(), "--url"),
            (self.token.is_some(), "--token"),
            (self.json, "--json"),
            (self.color.is_some(), "--color"),
        ];
        given.into_iter().find_map(|(given, name)| given.then_some(name))
    }
}

fn secret(text: &str) -> Result<SecretString, std::convert::Infallible> {
    Ok(SecretString::from(text.to_owned()))
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// In a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    // A doc comment here would take the place of the command's own description.
    Serve(serve::ServeArgs),
    Acp(acp::AcpArgs),
    Prompt(PromptArgs),
    #[command(visible_alias = "question")]
    Inbox(InboxArgs),
    Answer(AnswerArgs),
    Attach(AttachArgs),
    Sessions(SessionsArgs),
    Cancel(CancelArgs),
    Open(OpenArgs),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
}

/// `holdpoint prompt`.
#[derive(Debug, Args)]
#[command(
    about = "Give an agent something to do, and watch it",
    long_about = "Give an agent something to do, and watch it.\n\n\
        The agent's words go to stdout; tool calls and remarks go to stderr. When the agent asks a question, and \
        stdin and stdout are a terminal, you pick right here. Otherwise, and with --no-input or --json, the \
        question is left parked: it is printed with the command that answers it, and the exit code is 3. Ctrl-C \
        leaves: the turn goes on (or waits) without you.\n\n\
        A session that waits for an answer is asked again, and the prompt is queued behind it. Where its question \
        can't be asked again (the daemon runs without --restore-ask-user-question), the prompt would close it: a \
        terminal asks you before; otherwise nothing is sent, and the exit code is 3, unless --close-question is given.",
    after_long_help = "Examples:\n  \
        holdpoint prompt \"add a changelog\"\n  \
        git diff | holdpoint prompt -\n  \
        holdpoint prompt --session 4f9d2c1e \"now the tests\"\n  \
        holdpoint prompt --no-input \"upgrade everything\" || holdpoint inbox\n\n\
        Exit codes: 0 the turn ended; 1 it failed or was cancelled; 3 a question waits (see above); 5 no daemon; 128 + N \
        signal N (130: Ctrl-C)."
)]
pub(crate) struct PromptArgs {
    /// What to do; `-`, or nothing with piped input, reads it from stdin
    #[arg(value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// Continue this session instead of starting one (an id, or 8 or more characters that only it begins with)
    #[arg(long, short, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Where the new session works [default: the daemon's workspace]
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    pub(crate) cwd: Option<PathBuf>,
    /// Never ask here: leave questions parked, and exit with code 3
    #[arg(long)]
    pub(crate) no_input: bool,
    /// Send it also where that closes a question of the session which nobody asks now, without an answer
    #[arg(long, requires = "session")]
    pub(crate) close_question: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `holdpoint inbox`.
#[derive(Debug, Args)]
#[command(
    about = "List what waits for a person, or show one question whole",
    long_about = "List what waits for a person, oldest first, over all sessions, loaded or not; or show one question \
        whole.\n\n\
        Of a question's id the list shows the end, as short as it is unique, and `inbox` and `answer` take it so. A \
        beginning they don't take: questions that follow each other begin alike, and an answer must not reach \
        another question than the one that you saw.",
    after_long_help = "Examples:\n  \
        holdpoint inbox\n  \
        holdpoint inbox 0f3a2b1c\n  \
        holdpoint inbox --json | jq -r '.questions[].questionId'\n\n\
        Exit codes: 0 (also when nothing waits); 1 no such question; 5 no daemon."
)]
pub(crate) struct InboxArgs {
    /// Show this question whole (an id, or the end of one)
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Only of this session
    #[arg(long, short, value_name = "SESSION", conflicts_with = "id")]
    pub(crate) session: Option<String>,
    /// Only of sessions that work in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "id")]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `holdpoint answer`.
#[derive(Debug, Args)]
#[command(
    about = "Answer a question",
    long_about = "Answer a question. The turn that asked goes on with it, whether its session is loaded or not; one that \
        nobody is asking now takes an answer only where the daemon runs with --restore-ask-user-question.\n\n\
        Without an answer, in a terminal, the question is shown and you pick. A pick is an option's number or its \
        label; where these could mean two options, it is refused: :2 is always the second option, and =2 the one \
        that is called 2. With several parts, picks are for the parts in order; --answer names the part. Own words that are almost a \
        label, or look like a slip of the keys, are asked for again: put = before them.\n\n\
        Returns when the answer is on disk; with --wait, stays until the turn has ended.",
    after_long_help = "Examples:\n  \
        holdpoint answer 0f3a2b1c                        pick in the terminal\n  \
        holdpoint answer 0f3a2b1c 2                      the second option\n  \
        holdpoint answer 0f3a2b1c Red Green              two picks, where several are allowed\n  \
        holdpoint answer 0f3a2b1c --text \"neither, use grey\"\n  \
        holdpoint answer 0f3a2b1c --answer 0=2 --answer 1=\"own words\"\n  \
        holdpoint answer 0f3a2b1c --decline\n\n\
        Exit codes: 0 the answer is on disk; 1 no such question, or with --wait: the turn failed or was cancelled; 2 \
        not an answer to it, or not surely one question; 3 with --wait: another question waits; 4 refused (already answered, stale, closed, not allowed); 5 no daemon."
)]
pub(crate) struct AnswerArgs {
    /// The question (an id, or the end of one: 8 or more characters that no other ends with)
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Options to pick, by number or label (:2 is surely a number, =2 surely a label)
    #[arg(value_name = "PICK")]
    pub(crate) picks: Vec<String>,
    /// The same, as a flag (repeatable)
    #[arg(long = "option", short, value_name = "N|LABEL", conflicts_with = "picks")]
    pub(crate) options: Vec<String>,
    /// Your own words, for a question of one part
    #[arg(long, short, value_name = "TEXT", conflicts_with_all = ["picks", "options", "answers"])]
    pub(crate) text: Option<String>,
    /// The answer to one part: number, label or own words (`0==2` is the text "2", as it is); repeatable
    #[arg(long = "answer", short, value_name = "PART=TEXT", conflicts_with_all = ["picks", "options"])]
    pub(crate) answers: Vec<String>,
    /// Decline to answer, or refuse the permission
    #[arg(long, short, conflicts_with_all = ["picks", "options", "text", "answers"])]
    pub(crate) decline: bool,
    /// Makes a repeat of this very answer harmless [default: a new one]
    #[arg(long, value_name = "ID", value_parser = response_id)]
    pub(crate) response_id: Option<ResponseId>,
    /// Stay, and show the turn until it ends
    #[arg(long, short)]
    pub(crate) wait: bool,
    /// Never ask here
    #[arg(long)]
    pub(crate) no_input: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

fn response_id(text: &str) -> Result<ResponseId, String> {
    ResponseId::new(text).map_err(|error| error.to_string())
}

/// `holdpoint attach`.
#[derive(Debug, Args)]
#[command(
    about = "Show a session so far, and follow it",
    long_about = "Show a session so far in short form, its questions with how they ended, and follow it. A stored session is loaded, and its question, if \
        one waits and the daemon runs with --restore-ask-user-question, is asked again; in a terminal you answer it \
        here. Ctrl-C detaches: the session goes on without you.",
    after_long_help = "Examples:\n  \
        holdpoint attach 4f9d2c1e\n  \
        holdpoint attach 4f9d2c1e --json | jq -c 'select(.type == \"question\")'\n\n\
        Exit codes: 0 detached, or the session was closed; 1 no such session; 5 no daemon; 128 + N \
        detached by signal N, Ctrl-C apart."
)]
pub(crate) struct AttachArgs {
    /// The session (an id, or 8 or more characters that only it begins with)
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Never ask here: only show
    #[arg(long)]
    pub(crate) no_input: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `holdpoint sessions`.
#[derive(Debug, Args)]
#[command(
    about = "List sessions",
    long_about = "List sessions of one workspace, live and stored, the last changed first, and which of them wait for a \
        person. One that does not wait or run is idle, or stored where it is not loaded.",
    after_long_help = "Examples:\n  \
        holdpoint sessions\n  \
        holdpoint sessions --cwd ~/proj/site --json\n\n\
        Exit codes: 0; 1 it failed; 5 no daemon."
)]
pub(crate) struct SessionsArgs {
    /// Of this workspace [default: the daemon's]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// At most so many
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `holdpoint cancel`.
#[derive(Debug, Args)]
#[command(
    about = "End the turn that a session runs or waits in",
    long_about = "End the turn that a session runs or waits in, and say whether there was one. A question that is asked \
        for the first time is closed as cancelled; one that was asked again, after a restart or the death of its \
        agent, stays open. To leave a question for later, do nothing.",
    after_long_help = "Examples:\n  \
        holdpoint cancel 4f9d2c1e\n\n\
        Exit codes: 0 (also when nothing ran); 1 the session is not loaded, or it failed; 5 no daemon."
)]
pub(crate) struct CancelArgs {
    /// The session (an id, or 8 or more characters that only it begins with)
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `holdpoint open`.
#[derive(Debug, Args)]
#[command(
    about = "Open the daemon's page in a browser, logged in",
    long_about = "Open the daemon's page in a browser, logged in.\n\n\
        Prints the page's address and, in a terminal, hands it to the browser. Where the daemon has a token, the \
        address logs one browser in without it; it is good for ten minutes, and once.",
    after_long_help = "Examples:\n  \
        holdpoint open\n  \
        holdpoint open --print\n\n\
        Exit codes: 0; 1 it failed; 5 no daemon."
)]
pub(crate) struct OpenArgs {
    /// Only print the address
    #[arg(long)]
    pub(crate) print: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `holdpoint doctor`.
#[derive(Debug, Args)]
#[command(
    about = "Check what is configured and reachable, and say what to do next",
    long_about = "Check what is configured and reachable: the daemon, its version, token and restore flag, the model, the \
        data directory, and what waits. Works without a daemon too. Each line is ok, warn or fail; where there is \
        something to do, the next step is below it.",
    after_long_help = "Examples:\n  \
        holdpoint doctor\n  \
        holdpoint doctor --url http://127.0.0.1:4171\n  \
        holdpoint doctor --json | jq '.checks[] | select(.status != \"ok\")'\n\n\
        Exit codes: 0 nothing failed; 1 something did."
)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `holdpoint completions`.
#[derive(Debug, Args)]
#[command(
    about = "Write completions for a shell to stdout",
    after_long_help = "Examples:\n  \
        holdpoint completions bash > ~/.local/share/bash-completion/completions/holdpoint\n  \
        holdpoint completions zsh > ~/.zfunc/_holdpoint\n  \
        holdpoint completions fish > ~/.config/fish/completions/holdpoint.fish\n\n\
        Exit codes: 0; 1 stdout can't be written."
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
    /// Write one JSON document instead: {"shell", "script"}
    #[arg(long)]
    pub(crate) json: bool,
}

/// A session's id, if the text is a whole one: ours are UUIDs.
pub(crate) fn whole_session_id(text: &str) -> Option<SessionId> {
    (text.len() == 36).then(|| SessionId::new(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    /// The long help of each command.
    #[test]
    fn what_people_read_with_help() {
        let mut root = Cli::command().term_width(100);
        root.build();
        insta::assert_snapshot!("help", root.render_long_help().to_string());
        for command in root.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let name = format!("help_{}", command.get_name());
            insta::assert_snapshot!(name, command.render_long_help().to_string());
        }
    }

    #[test]
    fn common_options_stand_before_or_after_the_command() {
        let cli = Cli::try_parse_from(["holdpoint", "--json", "inbox", "--url", "http://x"]).unwrap();
        assert!(cli.common.json);
        let Command::Inbox(args) = cli.command else { panic!() };
        assert_eq!(args.common.url.as_deref(), Some("http://x"));
    }

    #[test]
    fn an_answer_is_given_in_one_way_only() {
        for line in [
            "answer q_1 2 --text x",
            "answer q_1 2 --decline",
            "answer q_1 --option 2 --answer 0=x",
            "answer q_1 --text x --decline",
            "answer",
            "answer q_1 --response-id a/b",
        ] {
            let error = Cli::try_parse_from(std::iter::once("holdpoint").chain(line.split(' '))).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
