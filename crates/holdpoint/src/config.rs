//! `holdpoint.toml`, and where things are. Flags go before the environment, and the environment before the
//! file.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use camino::{Utf8Path, Utf8PathBuf};
use holdpoint_model::policy::Strategy;
use serde::Deserialize;

/// What the file may hold. Everything is optional; what is unknown is an error that names it.
#[derive(Debug, Default, Deserialize)]
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
pub(crate) struct Serve {
    pub(crate) port: Option<u16>,
    pub(crate) hostname: Option<String>,
    #[serde(default)]
    pub(crate) workspaces: Vec<PathBuf>,
    pub(crate) data_dir: Option<Utf8PathBuf>,
}

/// `[policy]`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Policy {
    #[serde(rename = "permissionStrategy")]
    pub(crate) strategy: Option<Strategy>,
    #[serde(rename = "consensusQuorum")]
    pub(crate) quorum: Option<usize>,
}

/// `[model]`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Model {
    pub(crate) name: Option<String>,
    pub(crate) base_url: Option<String>,
}

/// `[agent]`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Agent {
    pub(crate) approval_mode: Option<String>,
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

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut unknown = Vec::new();
        let reader = toml::Deserializer::parse(text)?;
        let file = serde_ignored::deserialize(reader, |path| unknown.push(path.to_string()))?;
        if !unknown.is_empty() {
            bail!("unknown keys: {}; see the documentation of holdpoint.toml", unknown.join(", "));
        }
        Ok(file)
    }
}

fn usual_place() -> Option<PathBuf> {
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

    #[test]
    fn unknown_keys_are_named() {
        let error = File::parse("[serve]\nport = 1\nprot = 2\n[polcy]\n").unwrap_err().to_string();
        assert!(error.contains("serve.prot") && error.contains("polcy"), "{error}");
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
