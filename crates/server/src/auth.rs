//! Who may talk to the daemon at all: Host, Origin and bearer (WIRE e).

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::ApiError;
use crate::state::{App, ServerConfig};

/// Refuses what may not come in, before anything is read of it.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    match check(&app.config, request.headers(), request.uri().path()) {
        Ok(()) => next.run(request).await,
        Err(response) => response,
    }
}

fn check(config: &ServerConfig, headers: &HeaderMap, path: &str) -> Result<(), Response> {
    if config.address.ip().is_loopback() && !host_is_ours(config, headers) {
        return Err(ApiError::bare(StatusCode::FORBIDDEN, "Invalid Host header").into_response());
    }
    if !origin_is_ours(config, headers) {
        let error = ApiError::bare(StatusCode::FORBIDDEN, "Request denied by CORS policy");
        let mut response = error.into_response();
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Origin"));
        return Err(response);
    }
    let open = path == "/health" && !config.require_auth && config.address.ip().is_loopback();
    if let Some(token) = &config.token
        && !open
        && !bearer_matches(headers, token)
    {
        return Err(ApiError::bare(StatusCode::UNAUTHORIZED, "Unauthorized").into_response());
    }
    Ok(())
}

/// The defence against DNS rebinding: a page of another site reaches us under its own name, never under ours.
fn host_is_ours(config: &ServerConfig, headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    is_our_authority(config, &host.to_ascii_lowercase())
}

fn is_our_authority(config: &ServerConfig, authority: &str) -> bool {
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => match port.parse::<u16>() {
            Ok(port) => (name, Some(port)),
            Err(_) => return false,
        },
        _ => (authority, None),
    };
    let ours = config.address.port();
    let right_port = match port {
        Some(port) => port == ours,
        None => matches!(ours, 80 | 443),
    };
    let bound = config.address.ip();
    let bound = if bound.is_ipv6() { format!("[{bound}]") } else { bound.to_string() };
    let known = ["localhost", "127.0.0.1", "[::1]", "host.docker.internal"];
    right_port && (known.contains(&name) || name == bound || name == config.hostname.to_ascii_lowercase())
}

/// A browser's request from a page that is not ours is refused, `null` too.
fn origin_is_ours(config: &ServerConfig, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let origin = origin.to_ascii_lowercase();
    let Some(authority) = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) else {
        return false;
    };
    if config.address.ip().is_loopback() {
        is_our_authority(config, authority)
    } else {
        headers.get(header::HOST).and_then(|host| host.to_str().ok()).is_some_and(|host| host == authority)
    }
}

fn bearer_matches(headers: &HeaderMap, token: &SecretString) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let given = match given.split_once(' ') {
        Some((scheme, given)) if scheme.eq_ignore_ascii_case("bearer") => given.trim(),
        _ => return false,
    };
    // Digests, so that neither length nor content shows in the time that it takes.
    let (given, wanted) = (Sha256::digest(given), Sha256::digest(token.expose_secret()));
    given.as_slice().ct_eq(wanted.as_slice()).into()
}
