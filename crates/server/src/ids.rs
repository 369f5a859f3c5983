//! Reading identities from paths and headers.

use axum::http::{HeaderMap, StatusCode};
use holdpoint_engine::Presence;
use holdpoint_model::ids::{ClientId, SessionId};
use percent_encoding::percent_decode_str;

use crate::error::ApiError;

/// Longest name that a client may give itself, in characters.
const MAX_NAME: usize = 64;

/// A session id from a path. What is not one names no session.
pub(crate) fn session(text: &str) -> Result<SessionId, ApiError> {
    SessionId::new(text).map_err(|error| {
        ApiError::new(StatusCode::NOT_FOUND, "session_not_found", error.to_string()).with("sessionId", text)
    })
}

/// The client id that a request names in `X-Qwen-Client-Id`.
pub(crate) fn client(headers: &HeaderMap) -> Result<Option<ClientId>, ApiError> {
    let Some(value) = headers.get("x-qwen-client-id") else { return Ok(None) };
    let malformed = |problem: &str| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_client_id", format!("X-Qwen-Client-Id: {problem}"))
    };
    let text = value.to_str().map_err(|_| malformed("client id: must be plain ASCII"))?;
    ClientId::new(text).map(Some).map_err(|error| malformed(&error.to_string()))
}

/// Where a request says it comes from: `X-Holdpoint-Surface`, a short word, else `http`.
pub(crate) fn surface(headers: &HeaderMap) -> String {
    let named = headers.get("x-holdpoint-surface").and_then(|value| value.to_str().ok());
    named.filter(|name| is_surface(name)).unwrap_or("http").to_owned()
}

/// The name that a client gives itself: `X-Holdpoint-Name`, UTF-8 with what is not plain ASCII percent-encoded. Nobody
/// vouches for it. It is shown to people, so it is made harmless and not refused: what a person decides under an odd name
/// is still decided.
pub(crate) fn name(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("x-holdpoint-name")?.to_str().ok()?;
    let text = percent_decode_str(text).decode_utf8().ok()?;
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let name: String = words.join(" ").chars().filter(|c| !is_invisible(*c)).take(MAX_NAME).collect();
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Characters that change how the text around them is read, and are not seen themselves.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// How a client shows itself to those who are attached with it.
pub(crate) fn presence(headers: &HeaderMap) -> Presence {
    Presence { name: name(headers), surface: surface(headers) }
}

/// Whether a text can name a surface.
pub(crate) fn is_surface(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn named(text: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert("x-holdpoint-name", HeaderValue::from_bytes(text.as_bytes()).unwrap());
        name(&headers)
    }

    #[test]
    fn v4_a_name_is_read_as_the_page_sends_it_and_made_harmless() {
        let table = [
            ("Ann", Some("Ann")),
            ("J%C3%BCrgen%20%E2%9C%93", Some("Jürgen ✓")),
            ("  Ann%09%0A  Lee%00 ", Some("Ann Lee")),
            ("%E2%80%AEnnA", Some("nnA")),
            ("%E2%80%AE", None),
            ("100%", Some("100%")),
            ("%FF%FE", None),
            ("", None),
            ("%20", None),
        ];
        for (text, expected) in table {
            assert_eq!(named(text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(named(&"%C3%A4".repeat(200)).map(|name| name.chars().count()), Some(MAX_NAME));
        // Bytes of another encoding name nobody.
        let mut headers = HeaderMap::new();
        headers.insert("x-holdpoint-name", HeaderValue::from_bytes(b"J\xfcrgen").unwrap());
        assert_eq!(name(&headers), None);
    }
}
