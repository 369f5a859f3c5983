//! `holdpoint.toml`, and where things are. Flags go before the environment, and the environment before the
//! file.

mod values;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use camino::{Utf8Path, Utf8PathBuf};
use holdpoint_agent::tools::ApprovalMode;
use holdpoint_model::policy::Strategy;
use serde::Deserialize;

use crate::near;

/// What the file may hold. Everything is optional; what is unknown is an error that names it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    #[serde(default)]
    pub(crate) serve: Serve,
    #[serde(default)]
    pub(crate) policy: Policy,
    #[serde(default)]
    pub(crate) model: Model,
    #[serde(default)]
    pub(crate) agent: Agent,
}

/// `[serve]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Serve {
    #[serde(default, deserialize_with = "values::port")]
    pub(crate) port: Option<u16>,
    #[serde(default, deserialize_with = "values::text")]
    pub(crate) hostname: Option<String>,
    #[serde(default, deserialize_with = "values::paths")]
    pub(crate) workspaces: Vec<PathBuf>,
    #[serde(default, deserialize_with = "values::path")]
    pub(crate) data_dir: Option<Utf8PathBuf>,
}

impl Serve {
    /// Where a daemon with this file is reached from this machine; `None` where the file says nothing of it.
    pub(crate) fn url(&self) -> Option<String> {
        // A port that the system chooses is in no file.
        let port = match self.port {
            Some(0) => return None,
            port => port.unwrap_or(crate::serve::PORT),
        };
        let host = match self.hostname.as_deref() {
            None if self.port.is_none() => return None,
            None => "127.0.0.1".to_owned(),
            // All addresses are no address to go to.
            Some("0.0.0.0") => "127.0.0.1".to_owned(),
            Some("::" | "[::]") => "[::1]".to_owned(),
            Some(host) if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
            Some(host) => host.to_owned(),
        };
        Some(format!("http://{host}:{port}"))
    }
}

/// `[policy]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    #[serde(rename = "permissionStrategy")]
    pub(crate) strategy: Option<Strategy>,
    #[serde(rename = "consensusQuorum", default, deserialize_with = "values::count")]
    pub(crate) quorum: Option<usize>,
}

/// `[model]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    #[serde(default, deserialize_with = "values::text")]
    pub(crate) name: Option<String>,
    #[serde(default, deserialize_with = "values::text")]
    pub(crate) base_url: Option<String>,
}

/// `[agent]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Agent {
    #[serde(default, deserialize_with = "values::approval_mode")]
    pub(crate) approval_mode: Option<ApprovalMode>,
    #[serde(default, deserialize_with = "values::count")]
    pub(crate) max_steps: Option<u32>,
}

impl File {
    /// Reads the file that was named, else the one in its usual place, else none.
    pub(crate) fn read(named: Option<&Path>) -> anyhow::Result<Self> {
        let (path, must_be_there) = match named {
            Some(path) => (path.to_owned(), true),
            None => match usual_place() {
                Some(path) => (path, false),
                None => return Ok(Self::default()),
            },
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_be_there => {
                return Ok(Self::default());
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    /// The error has the line, what stands there, and what was expected.
    fn parse(text: &str) -> anyhow::Result<Self> {
        toml::from_str(text).map_err(|error: toml::de::Error| match meant(error.message()) {
            Some(known) => anyhow::anyhow!("{error}did you mean `{known}`?"),
            None => error.into(),
        })
    }
}

/// Of the words that an error calls expected, the one that the unknown word before them is nearest to.
fn meant(message: &str) -> Option<&str> {
    let mut words = message.split('`').skip(1).step_by(2);
    let unknown = words.next()?;
    message.starts_with("unknown ").then(|| near::nearest(unknown, words)).flatten()
}

/// Where the file is unless it is named.
pub(crate) fn usual_place() -> Option<PathBuf> {
    let base = match std::env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".config"),
    };
    Some(base.join("holdpoint").join("holdpoint.toml"))
}

/// Where data are kept: the flag, `HOLDPOINT_DATA_DIR`, the file, or the user's data directory.
pub(crate) fn data_dir(flag: Option<Utf8PathBuf>, file: Option<Utf8PathBuf>) -> anyhow::Result<Utf8PathBuf> {
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty()).map(Utf8PathBuf::from);
    let dir = match flag.or_else(|| var("HOLDPOINT_DATA_DIR")).or(file) {
        Some(dir) => dir,
        None => match (var("XDG_DATA_HOME"), var("HOME")) {
            (Some(base), _) => base.join("holdpoint"),
            (None, Some(home)) => home.join(".local/share/holdpoint"),
            (None, None) => bail!("no data directory: give --data-dir, or set HOME"),
        },
    };
    absolute(&dir)
}

/// The path, made absolute.
pub(crate) fn absolute(path: &Utf8Path) -> anyhow::Result<Utf8PathBuf> {
    let path = std::path::absolute(path).with_context(|| format!("cannot find {path}"))?;
    Utf8PathBuf::from_path_buf(path).map_err(|path| anyhow::anyhow!("{} is not valid UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        File::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_has_its_line_and_what_may_be_meant() {
        insta::assert_snapshot!(problem("[serve]\nport = 1\nprot = 2\n"), @"
        TOML parse error at line 3, column 1
          |
        3 | prot = 2
          | ^^^^
        unknown field `prot`, expected one of `port`, `hostname`, `workspaces`, `data_dir`
        did you mean `port`?
        ");
        insta::assert_snapshot!(problem("[polcy]\n"), @"
        TOML parse error at line 1, column 2
          |
        1 | [polcy]
          |  ^^^^^
        unknown field `polcy`, expected one of `serve`, `policy`, `model`, `agent`
        did you mean `policy`?
        ");
        insta::assert_snapshot!(problem("[model]\ntemperature = 1\n"), @"
        TOML parse error at line 2, column 1
          |
        2 | temperature = 1
          | ^^^^^^^^^^^
        unknown field `temperature`, expected `name` or `base_url`
        ");
    }

    #[test]
    fn a_value_that_is_none_has_its_line_and_what_was_expected() {
        for (text, expected) in [
            ("[serve]\nport = \"x\"", "a port, 0 to 65535"),
            ("[serve]\nport = 70000", "a port, 0 to 65535"),
            ("[serve]\nhostname = 1", "a text in quotes"),
            ("[serve]\nworkspaces = \"x\"", "a list of paths"),
            ("[serve]\nworkspaces = [1]", "a list of paths"),
            ("[serve]\ndata_dir = 1", "a path in quotes"),
            ("[policy]\npermissionStrategy = \"all\"", "`first-responder`"),
            ("[policy]\nconsensusQuorum = 0", "a number of 1 or more"),
            ("[model]\nname = true", "a text in quotes"),
            ("[agent]\napproval_mode = \"auto-edot\"", "`auto-edit`"),
            ("[agent]\nmax_steps = 0", "a number of 1 or more"),
            ("[agent]\nmax_steps = \"many\"", "a number of 1 or more"),
        ] {
            let problem = problem(text);
            assert!(problem.contains("at line 2, column") && problem.contains(expected), "{text}: {problem}");
        }
        insta::assert_snapshot!(problem("[agent]\napproval_mode = \"auto-edot\""), @r#"
        TOML parse error at line 2, column 17
          |
        2 | approval_mode = "auto-edot"
          |                 ^^^^^^^^^^^
        unknown variant `auto-edot`, expected one of `plan`, `default`, `auto-edit`, `yolo`
        did you mean `auto-edit`?
        "#);
        insta::assert_snapshot!(problem("[serve]\nport = 70000"), @"
        TOML parse error at line 2, column 8
          |
        2 | port = 70000
          |        ^^^^^
        70000 is not a port, 0 to 65535
        ");
    }

    #[test]
    fn the_command_line_goes_where_the_file_has_the_daemon_listen() {
        for (file, url) in [
            ("", None),
            ("[serve]\nport = 0", None),
            ("[serve]\nport = 5000", Some("http://127.0.0.1:5000")),
            ("[serve]\nhostname = \"box\"", Some("http://box:4170")),
            ("[serve]\nhostname = \"0.0.0.0\"\nport = 5000", Some("http://127.0.0.1:5000")),
            ("[serve]\nhostname = \"::\"", Some("http://[::1]:4170")),
            ("[serve]\nhostname = \"fe80::1\"", Some("http://[fe80::1]:4170")),
        ] {
            assert_eq!(File::parse(file).unwrap().serve.url().as_deref(), url, "{file}");
        }
    }

    #[test]
    fn the_documented_file_is_one() {
        let docs = include_str!("../../../docs/configuration.md");
        let file = docs.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let file = File::parse(file).unwrap();
        assert_eq!((file.serve.port, file.agent.max_steps), (Some(4170), Some(100)));
    }

    #[test]
    fn v2_the_policy_is_read() {
        let file =
            File::parse("[policy]\npermissionStrategy = \"consensus\"\nconsensusQuorum = 2\n").unwrap();
        assert_eq!((file.policy.strategy, file.policy.quorum), (Some(Strategy::Consensus), Some(2)));
        let error = File::parse("[policy]\npermissionStrategy = \"all\"\n").unwrap_err().to_string();
        assert!(error.contains("first-responder"), "{error}");
    }
}
