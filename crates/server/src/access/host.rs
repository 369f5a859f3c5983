//! The Host allow-list: the defence against DNS rebinding. A page of another site reaches us under that site's
//! name, never under ours.

use axum::http::{HeaderMap, header};

use crate::state::ServerConfig;

/// Names under which a daemon on loopback is reached.
const LOOPBACK_NAMES: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "host.docker.internal"];

/// Whether the one Host header is ours.
pub(super) fn is_ours(config: &ServerConfig, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    host.to_str().is_ok_and(|host| is_our_authority(config, &host.to_ascii_lowercase()))
}

/// Whether a lower-case `host[:port]` is ours.
pub(super) fn is_our_authority(config: &ServerConfig, authority: &str) -> bool {
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (authority, None),
    };
    let ours = config.address.port();
    let right_port = match port {
        Some(port) => port.bytes().all(|b| b.is_ascii_digit()) && port.parse() == Ok(ours),
        None => matches!(ours, 80 | 443),
    };
    let bound = config.address.ip();
    let bound = if bound.is_ipv6() { format!("[{bound}]") } else { bound.to_string() };
    right_port
        && (LOOPBACK_NAMES.contains(&name) || name == bound || name == config.hostname.to_ascii_lowercase())
}
