//! Where a conversation is, who speaks, and when: in the platforms' own terms.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A chat platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Slack.
    Slack,
    /// Discord.
    Discord,
}

impl Platform {
    /// Its name, in configuration, in the ledger and as a surface.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slack => "slack",
            Self::Discord => "discord",
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one session is bound to (C1): a thread, a direct message, a channel of Discord.
///
/// Nothing in it is what a platform may change: not the team (Slack's Grid sends another one, or none), not a name or
/// a title (CR22).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Conversation {
    /// The platform.
    pub platform: Platform,
    /// Our app there: Slack's `api_app_id`, Discord's application id.
    pub app: String,
    /// The channel, or the thread where that is a channel of its own (Discord).
    pub channel: String,
    /// The message that a thread hangs on (Slack's root `ts`); `None` where the channel is the conversation.
    pub root: Option<String>,
}

impl fmt::Display for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.platform, self.app, self.channel)?;
        match &self.root {
            Some(root) => write!(f, "/{root}"),
            None => Ok(()),
        }
    }
}

/// A message of a platform: its id there. Unique in its channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(pub String);

/// A platform's own order of what is said in a channel (CR5); never our clock. Only positions of one platform are
/// compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Position(pub u64);

impl Position {
    /// Slack's `ts`: seconds, a dot, and six digits.
    pub fn slack(ts: &str) -> Option<Self> {
        let (seconds, micros) = ts.split_once('.')?;
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if micros.len() != 6 || !digits(seconds) || !digits(micros) {
            return None;
        }
        let seconds: u64 = seconds.parse().ok()?;
        seconds.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?).map(Self)
    }

    /// Discord's snowflake: of a message or of an interaction.
    pub fn discord(snowflake: &str) -> Option<Self> {
        snowflake.bytes().all(|b| b.is_ascii_digit()).then(|| snowflake.parse().ok().map(Self))?
    }
}

/// Somebody on a platform, as the platform vouches for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// Their id there.
    pub id: String,
    /// Their name, for people to read; it may change (CR22).
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cr5_the_platforms_order_is_read_exactly_or_not_at_all() {
        assert_eq!(Position::slack("1764547200.000200"), Some(Position(1_764_547_200_000_200)));
        assert!(Position::slack("1764547200.000200") < Position::slack("1764547200.000201"));
        for odd in
            ["", ".", "1764547200", "1764547200.2", "-1.000000", "1.00000a", "99999999999999999999.000000"]
        {
            assert_eq!(Position::slack(odd), None, "{odd:?}");
        }
        assert_eq!(Position::discord("1311111111111111111"), Some(Position(1_311_111_111_111_111_111)));
        for odd in ["", "x", "-5", "+5", "99999999999999999999999"] {
            assert_eq!(Position::discord(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn cr22_a_conversation_is_named_without_what_a_platform_may_change() {
        let thread = Conversation {
            platform: Platform::Slack,
            app: "A1".to_owned(),
            channel: "C1".to_owned(),
            root: Some("1764547200.000200".to_owned()),
        };
        assert_eq!(thread.to_string(), "slack/A1/C1/1764547200.000200");
        let channel = Conversation {
            platform: Platform::Discord,
            app: "7".to_owned(),
            channel: "8".to_owned(),
            root: None,
        };
        assert_eq!(channel.to_string(), "discord/7/8");
    }
}
