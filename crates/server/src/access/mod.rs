//! Who may talk to the daemon at all, and how often (WIRE e), in this order: Host, Origin, bearer, rate; then,
//! on routes that are marked so, whether the caller is the machine's own operator.

mod host;
mod origin;
mod rate;

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::ApiError;
use crate::ids;
use crate::state::{App, ServerConfig};
use crate::web::{self, Logins, Web};

pub use origin::{AllowedOrigins, OriginError};
pub(crate) use rate::{RateLimits, Tier};

/// Headers that a reverse proxy adds: what came through one is not from this machine, whatever its address.
const PROXY_HEADERS: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];

/// What the daemon knows of every request's sender.
#[derive(Clone, Copy, Debug)]
struct Caller {
    /// It may do what only the operator may: it had the token, or is a process of this machine and no page of
    /// another site.
    operator: bool,
}

/// What the guard needs, made once.
pub(crate) struct Gate {
    token: Option<[u8; 32]>,
    pub(crate) logins: Logins,
    pub(crate) rates: Option<RateLimits>,
}

impl Gate {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let digest = |token: &SecretString| Sha256::digest(token.expose_secret().trim()).into();
        let token = config.token.as_ref().map(digest);
        let logins = Logins::new(token, config.address.port());
        Self { token, logins, rates: config.rate_limit.then(RateLimits::default) }
    }

    /// By what a request comes in.
    fn pass(&self, headers: &HeaderMap) -> Pass {
        match &self.token {
            None => Pass::Free,
            Some(token) if bearer_matches(headers, token) => Pass::Token,
            Some(_) if self.logins.admits(headers) => Pass::Login,
            Some(_) => Pass::None,
        }
    }

    /// Whether a request may come in.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        self.pass(headers) != Pass::None
    }
}

/// By what a request comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// The daemon has no token, so nobody needs one.
    Free,
    /// It has the token.
    Token,
    /// It is of a browser that is logged in.
    Login,
    /// Nothing.
    None,
}

impl Pass {
    /// Whether a request that changes something must come from a page of ours: a browser sends a login along with
    /// what another site makes it send.
    fn needs_our_page(self) -> bool {
        match self {
            Self::Free | Self::Token => false,
            Self::Login | Self::None => true,
        }
    }
}

/// Refuses what may not come in, before anything is read of it.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let config = &app.config;
    if config.address.ip().is_loopback() && !host::is_ours(config, request.headers()) {
        return ApiError::bare(StatusCode::FORBIDDEN, "Invalid Host header").into_response();
    }
    let origin = config.origins.judge(config, request.headers());
    let mut response = match &origin {
        origin::Verdict::Refused => {
            ApiError::bare(StatusCode::FORBIDDEN, "Request denied by CORS policy").into_response()
        }
        origin::Verdict::Allowed(_) if origin::is_preflight(&request) => origin::preflight(),
        origin::Verdict::Allowed(_) => admitted(&app, true, request, next).await,
        origin::Verdict::Ours => admitted(&app, false, request, next).await,
    };
    config.origins.mark(&origin, response.headers_mut());
    response
}

/// The rest of the way in, for a request whose Host and Origin are right.
async fn admitted(app: &App, foreign: bool, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let open = path == "/health" && !app.config.require_auth && app.config.address.ip().is_loopback();
    let public = app.config.web != Web::Off && web::is_public(path);
    let pass = app.gate.pass(request.headers());
    if !open && !public && pass == Pass::None {
        return ApiError::bare(StatusCode::UNAUTHORIZED, "Unauthorized").into_response();
    }
    let our_page = !foreign && request.headers().contains_key(header::ORIGIN);
    if !request.method().is_safe() && pass.needs_our_page() && !our_page {
        let problem = "a browser that is logged in must send this from the daemon's own page";
        return ApiError::new(StatusCode::FORBIDDEN, "origin_required", problem).into_response();
    }
    if !is_well_encoded(path) {
        let problem = "the path holds a broken percent-encoding";
        return ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", problem).into_response();
    }
    let verdict = match (&app.gate.rates, tier(&request)) {
        (Some(rates), Some(tier)) => rates.take(tier, &rate_key(&app.config, &request)),
        _ => rate::Verdict::Untold,
    };
    if let rate::Verdict::Refused { .. } = verdict {
        metrics::counter!("holdpoint_http_rate_limited_total").increment(1);
        return verdict.into_refusal();
    }
    let operator = app.gate.token.is_some() || (!foreign && is_local(&request));
    request.extensions_mut().insert(Caller { operator });
    let mut response = next.run(request).await;
    verdict.mark(response.headers_mut());
    response
}

/// The strict mutation gate, laid around routes that are marked so.
pub(crate) async fn strict(request: Request, next: Next) -> Response {
    if request.extensions().get::<Caller>().is_some_and(|caller| caller.operator) {
        return next.run(request).await;
    }
    let problem = "this needs a token: start the daemon with HOLDPOINT_TOKEN set, and send it";
    ApiError::new(StatusCode::UNAUTHORIZED, "token_required", problem).into_response()
}

fn bearer_matches(headers: &HeaderMap, token: &[u8; 32]) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let given = match given.split_once(' ') {
        Some((scheme, given)) if scheme.eq_ignore_ascii_case("bearer") => given.trim(),
        _ => return false,
    };
    // Digests, so that neither length nor content shows in the time that it takes.
    Sha256::digest(given).as_slice().ct_eq(token).into()
}

/// Every `%` begins two hexadecimal digits, and what they make is UTF-8.
fn is_well_encoded(path: &str) -> bool {
    let mut rest = path.as_bytes();
    while let Some(at) = rest.iter().position(|b| *b == b'%') {
        match &rest[at + 1..] {
            [high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest = after,
            _ => return false,
        }
    }
    percent_decode_str(path).decode_utf8().is_ok()
}

/// Which bucket a request is taken from. Signs of life and streams are free: a client that shows that it is
/// there must not be locked out by it.
fn tier(request: &Request) -> Option<Tier> {
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    match (request.method(), path) {
        (&Method::OPTIONS, _) => None,
        (_, "/health" | "/session/{id}/heartbeat" | "/session/{id}/events") => None,
        (&Method::POST, "/session/{id}/prompt") => Some(Tier::Prompt),
        (&Method::GET | &Method::HEAD, _) => Some(Tier::Read),
        _ => Some(Tier::Mutation),
    }
}

/// Whose bucket: on loopback the client's, by its own word; elsewhere the address's, and the client's with it.
fn rate_key(config: &ServerConfig, request: &Request) -> String {
    // A malformed id is refused further in, and must not be a bucket of its own till then.
    let client = ids::client(request.headers()).ok().flatten();
    let client = client.as_ref().map_or("", |client| client.as_str());
    match peer(request) {
        Some(peer) if !config.address.ip().is_loopback() => format!("{} {client}", peer.ip().to_canonical()),
        _ => client.to_owned(),
    }
}

/// Whether a request comes from a process of this machine, and not through a proxy.
fn is_local(request: &Request) -> bool {
    peer(request).is_some_and(|peer| peer.ip().to_canonical().is_loopback()) && !is_proxied(request.headers())
}

/// Whether a request came through a reverse proxy.
pub(crate) fn is_proxied(headers: &HeaderMap) -> bool {
    PROXY_HEADERS.iter().any(|name| headers.contains_key(*name))
}

fn peer(request: &Request) -> Option<SocketAddr> {
    request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e_broken_percent_encoding_is_seen() {
        for good in ["/", "/session/a%20b", "/workspace/%2Ftmp%2F%C3%A4/sessions"] {
            assert!(is_well_encoded(good), "{good}");
        }
        for bad in ["/%", "/%4", "/%zz", "/session/%C3/status", "/%ff%fe", "/a%2"] {
            assert!(!is_well_encoded(bad), "{bad}");
        }
    }
}
