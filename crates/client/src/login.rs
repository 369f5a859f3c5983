//! Browsers' way in.

use serde::{Deserialize, Serialize};

/// A one-time way into the daemon's page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginCode {
    /// Where the page is, below the daemon's address; with the code in its fragment, where a login is needed.
    pub path: String,
    /// How long the code is good, in seconds; `None` where the daemon has no token, and nobody needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<u64>,
}
