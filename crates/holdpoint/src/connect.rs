//! Which daemon to talk to, and how to write to the person.

use holdpoint_client::{DEFAULT_URL, Daemon};
use secrecy::SecretString;

use crate::cli::{Color, Common};
use crate::exit::Failure;

/// What the common options come to: the command's own before those in front of it, before the environment.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) url: String,
    pub(crate) token: Option<SecretString>,
    pub(crate) json: bool,
    pub(crate) color: Color,
    pub(crate) no_color: bool,
}

impl Settings {
    /// Reads the environment through `env`, which gives non-empty values only; `listens` is where the daemon of the
    /// user's `holdpoint.toml` listens, if that says so.
    pub(crate) fn new(
        front: &Common,
        own: &Common,
        env: impl Fn(&str) -> Option<String>,
        listens: impl FnOnce() -> Option<String>,
    ) -> Self {
        let url = own.url.clone().or_else(|| front.url.clone()).or_else(|| env("HOLDPOINT_URL"));
        let token =
            own.token.clone().or_else(|| front.token.clone()).or_else(|| {
                env("HOLDPOINT_TOKEN").or_else(|| env("QWEN_SERVER_TOKEN")).map(SecretString::from)
            });
        Self {
            url: url.or_else(listens).unwrap_or_else(|| DEFAULT_URL.to_owned()),
            token,
            json: front.json || own.json,
            color: own.color.or(front.color).unwrap_or(Color::Auto),
            no_color: env("NO_COLOR").is_some(),
        }
    }

    /// The daemon. Nothing is sent yet.
    pub(crate) fn daemon(&self) -> Result<Daemon, Failure> {
        Ok(Daemon::new(&self.url, self.token.clone())?.with_surface("cli"))
    }

    /// Whether the daemon is on this machine, as far as its address tells.
    pub(crate) fn is_local(&self) -> bool {
        ["127.", "localhost", "[::1]"].iter().any(|host| self.url.contains(&format!("//{host}")))
    }

    /// Whether to use colours on a stream that is, or is not, a terminal.
    pub(crate) fn colored(&self, terminal: bool) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !self.no_color,
        }
    }
}

/// A variable of the environment; an empty one counts as not set.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn common(url: Option<&str>, token: Option<&str>) -> Common {
        Common {
            url: url.map(str::to_owned),
            token: token.map(|token| SecretString::from(token.to_owned())),
            ..Common::default()
        }
    }

    #[test]
    fn the_nearest_setting_wins() {
        let env = |name: &str| match name {
            "HOLDPOINT_URL" => Some("http://env".to_owned()),
            "QWEN_SERVER_TOKEN" => Some("qwen".to_owned()),
            _ => None,
        };
        let file = || Some("http://file".to_owned());
        let (none, front, own) =
            (common(None, None), common(Some("http://front"), None), common(Some("http://own"), Some("own")));
        assert_eq!(Settings::new(&front, &own, env, file).url, "http://own");
        assert_eq!(Settings::new(&front, &none, env, file).url, "http://front");
        assert_eq!(Settings::new(&none, &none, env, file).url, "http://env");
        assert_eq!(Settings::new(&none, &none, |_| None, file).url, "http://file");
        assert_eq!(Settings::new(&none, &none, |_| None, || None).url, DEFAULT_URL);
        let token = |own: &Common| {
            Settings::new(&none, own, env, file).token.map(|token| token.expose_secret().to_owned())
        };
        assert_eq!(token(&own).as_deref(), Some("own"));
        assert_eq!(token(&none).as_deref(), Some("qwen"));
    }

    #[test]
    fn colours() {
        let with = |color, no_color| {
            let own = Common { color, ..Common::default() };
            let env = |name: &str| (no_color && name == "NO_COLOR").then(|| "1".to_owned());
            Settings::new(&Common::default(), &own, env, || None)
        };
        assert!(with(None, false).colored(true));
        assert!(!with(None, false).colored(false));
        assert!(!with(None, true).colored(true));
        assert!(with(Some(Color::Always), true).colored(false));
        assert!(!with(Some(Color::Never), false).colored(true));
    }
}
