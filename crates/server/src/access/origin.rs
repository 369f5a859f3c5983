//! Pages in browsers (WIRE e): whose origin is ours passes as if it had none, others only if they are allowed.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::host;
use crate::state::ServerConfig;

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PATCH, DELETE, OPTIONS");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Authorization, Content-Type, X-Qwen-Client-Id, Last-Event-ID, X-Qwen-Event-Epoch",
);
const EXPOSED: HeaderValue =
    HeaderValue::from_static("Retry-After, X-Qwen-Event-Epoch, X-Qwen-SSE-Stream-Id");
/// A day, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("86400");

/// The origins of other sites whose pages may talk to the daemon: `--allow-origin`.
#[derive(Clone, Debug, Default)]
pub struct AllowedOrigins {
    any: bool,
    list: Vec<String>,
}

/// Why an origin cannot be allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// It is not one.
    #[error("{0:?} is not an origin; write it as https://example.org, without a path, or as *")]
    Malformed(String),
    /// Anybody on the way, or on the web, could be that page.
    #[error("allowing {0} needs a token: set HOLDPOINT_TOKEN, or allow an https or loopback origin")]
    NeedsToken(String),
}

/// What becomes of a request's origin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is none, or it is the daemon itself.
    Ours,
    /// Another site's, and allowed: the header as it came.
    Allowed(HeaderValue),
    /// Any other, `null` included.
    Refused,
}

impl AllowedOrigins {
    /// Reads the values of `--allow-origin`.
    ///
    /// # Errors
    /// A value is no origin, or one that may not be allowed without a token.
    pub fn parse(values: &[String], token: bool) -> Result<Self, OriginError> {
        let mut allowed = Self::default();
        for value in values {
            if value == "*" {
                allowed.any = true;
            } else {
                let origin = normal(value).ok_or_else(|| OriginError::Malformed(value.clone()))?;
                if !token && origin.strip_prefix("http://").is_some_and(|host| !is_loopback(host)) {
                    return Err(OriginError::NeedsToken(value.clone()));
                }
                allowed.list.push(origin);
            }
        }
        if allowed.any && !token {
            return Err(OriginError::NeedsToken("*".to_owned()));
        }
        Ok(allowed)
    }

    /// Whether any is allowed.
    pub(crate) fn is_empty(&self) -> bool {
        !self.any && self.list.is_empty()
    }

    /// `any`, `list` or `none`, as the daemon's status says it.
    pub(crate) fn mode(&self) -> &'static str {
        match (self.any, self.list.is_empty()) {
            (true, _) => "any",
            (false, false) => "list",
            (false, true) => "none",
        }
    }

    pub(super) fn judge(&self, config: &ServerConfig, headers: &HeaderMap) -> Verdict {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(value) = origins.next() else { return Verdict::Ours };
        let (None, Ok(origin)) = (origins.next(), value.to_str()) else { return Verdict::Refused };
        let origin = origin.to_ascii_lowercase();
        if is_our_own(config, headers, &origin) {
            return Verdict::Ours;
        }
        let listed = normal(&origin).is_some_and(|origin| self.list.contains(&origin));
        if self.any || listed { Verdict::Allowed(value.clone()) } else { Verdict::Refused }
    }

    /// Adds what a browser must know to a response. Never credentials: the bearer is the only one there is.
    pub(super) fn mark(&self, verdict: &Verdict, headers: &mut HeaderMap) {
        if let Verdict::Allowed(origin) = verdict {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
        if *verdict == Verdict::Refused || !self.is_empty() {
            // A cache must not give one origin's response to another.
            headers.append(header::VARY, HeaderValue::from_static("Origin"));
        }
    }
}

/// Whether a browser asks before it sends the request proper.
pub(super) fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight of an allowed origin.
pub(super) fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Whether a lower-case origin is the daemon's own.
fn is_our_own(config: &ServerConfig, headers: &HeaderMap, origin: &str) -> bool {
    let Some(authority) = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) else {
        return false;
    };
    if config.address.ip().is_loopback() {
        return host::is_our_authority(config, authority);
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
}

/// `scheme://host[:port]`, in lower case and without the scheme's own port; `None` if it is no origin.
fn normal(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (scheme, authority) = text.split_once("://")?;
    let scheme_is_one = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    let authority_is_one = !authority.is_empty()
        && authority
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b':' | b'[' | b']'));
    if !scheme_is_one || !authority_is_one {
        return None;
    }
    let own_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => "",
    };
    let authority =
        if own_port.is_empty() { authority } else { authority.strip_suffix(own_port).unwrap_or(authority) };
    Some(format!("{scheme}://{authority}"))
}

/// Whether a `host[:port]` is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    };
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e_what_may_be_allowed_with_and_without_a_token() {
        // (value, without a token, with one)
        let table = [
            ("https://app.example.org", true, true),
            ("https://app.example.org:8443/", true, true),
            ("http://localhost:3000", true, true),
            ("http://127.0.0.1:3000", true, true),
            ("http://[::1]:3000", true, true),
            ("tauri://localhost", true, true),
            ("http://app.example.org", false, true),
            ("http://localhost.example.org", false, true),
            ("*", false, true),
            ("null", false, false),
            ("", false, false),
            ("app.example.org", false, false),
            ("https://app.example.org/path", false, false),
            ("https://user@app.example.org", false, false),
            ("https://*.example.org", false, false),
            ("https://", false, false),
            ("://x", false, false),
        ];
        for (value, without, with) in table {
            for (token, expected) in [(false, without), (true, with)] {
                let parsed = AllowedOrigins::parse(&[value.to_owned()], token);
                assert_eq!(parsed.is_ok(), expected, "{value:?}, token: {token}: {parsed:?}");
            }
        }
    }

    #[test]
    fn e_origins_are_compared_in_normal_form() {
        assert_eq!(normal("HTTPS://App.Example.org:443/").as_deref(), Some("https://app.example.org"));
        assert_eq!(normal("http://a:80"), normal("http://a"));
        assert_ne!(normal("http://a:8080"), normal("http://a"));
    }
}
