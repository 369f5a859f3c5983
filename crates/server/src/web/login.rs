//! Logging in with a browser, where the daemon has a token (WIRE e): a page can neither be trusted with the token
//! nor send it with a stream, so it has a cookie that scripts cannot read.
//!
//! The cookie holds its own end and a code over it that is made with the token: nothing is stored, a restart logs
//! nobody out, and another token logs out everybody.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Form, Json};
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::{Mutex, PoisonError};
use subtle::ConstantTimeEq;

use super::pages;
use crate::error::ApiError;
use crate::state::App;

/// How long a login lasts.
const LASTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long a one-time code can be used.
const CODE_LASTS: Duration = Duration::from_secs(10 * 60);
/// Most codes that wait to be used; the oldest goes first.
const MAX_CODES: usize = 64;

type Digest256 = [u8; 32];

/// Who is logged in, and who may.
pub(crate) struct Logins {
    /// Made from the token; without one nobody needs a login.
    key: Option<Digest256>,
    /// Cookies are shared by all ports of a host.
    cookie: String,
    /// One-time codes, by digest.
    codes: Mutex<HashMap<Digest256, Instant>>,
}

impl Logins {
    pub(crate) fn new(token: Option<Digest256>, port: u16) -> Self {
        Self { key: token, cookie: format!("holdpoint_{port}"), codes: Mutex::default() }
    }

    /// Whether a request is of somebody who is logged in.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(key) = &self.key else { return false };
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|list| list.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && is_valid(key, value, now()))
    }

    fn mint_code(&self) -> String {
        let code = uuid::Uuid::new_v4().simple().to_string();
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, made| made.elapsed() < CODE_LASTS);
        if codes.len() >= MAX_CODES
            && let Some(oldest) = codes.iter().min_by_key(|(_, made)| **made).map(|(code, _)| *code)
        {
            codes.remove(&oldest);
        }
        codes.insert(Sha256::digest(&code).into(), Instant::now());
        code
    }

    /// Takes a code, which is then used up.
    fn redeem(&self, code: &str) -> bool {
        let digest: Digest256 = Sha256::digest(code.trim()).into();
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.remove(&digest).is_some_and(|made| made.elapsed() < CODE_LASTS)
    }

    fn is_token(&self, token: &str) -> bool {
        self.key.is_some_and(|key| Sha256::digest(token.trim()).as_slice().ct_eq(&key).into())
    }

    fn set_cookie(&self, key: &Digest256) -> HeaderValue {
        let seconds = LASTS.as_secs();
        let value = value(key, now() + seconds);
        let cookie = format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict", self.cookie);
        HeaderValue::try_from(cookie).expect("a cookie of letters and digits is a header")
    }

    fn clear_cookie(&self) -> HeaderValue {
        let cookie = format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", self.cookie);
        HeaderValue::try_from(cookie).expect("a cookie of letters and digits is a header")
    }
}

/// In seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn value(key: &Digest256, end: u64) -> String {
    let code: String = code_over(key, end).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{end}.{code}")
}

fn code_over(key: &Digest256, end: u64) -> Digest256 {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(format!("holdpoint login until {end}").as_bytes());
    mac.finalize().into_bytes().into()
}

fn is_valid(key: &Digest256, given: &str, now: u64) -> bool {
    let Some((end, _)) = given.split_once('.') else { return false };
    let Ok(end) = end.parse::<u64>() else { return false };
    let right: bool = value(key, end).as_bytes().ct_eq(given.as_bytes()).into();
    right && now < end
}

/// Where to go after a login.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Next {
    next: Option<String>,
    #[serde(default)]
    again: bool,
}

impl Next {
    /// A path of ours; nobody is sent elsewhere.
    fn path(&self) -> &str {
        // Browsers leave control characters out, and what is left may begin with two slashes.
        let ours = |path: &&str| {
            let plain = |c: char| !c.is_control() && c != '\\';
            path.starts_with('/') && !path.starts_with("//") && path.chars().all(plain)
        };
        self.next.as_deref().filter(ours).unwrap_or("/")
    }
}

/// What a form or the page sends.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Attempt {
    token: Option<String>,
    code: Option<String>,
    next: Option<String>,
}

pub(crate) async fn show(State(app): State<App>, Query(next): Query<Next>) -> Response {
    if app.gate.logins.key.is_none() {
        return Redirect::to(next.path()).into_response();
    }
    pages::login(next.path(), next.again)
}

/// Exchanges the token, or a one-time code, for a cookie.
pub(crate) async fn login(State(app): State<App>, headers: HeaderMap, request: Request) -> Response {
    let by_page = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let attempt = match read(by_page, request).await {
        Ok(attempt) => attempt,
        Err(problem) => return problem.into_response(),
    };
    let next = Next { next: attempt.next.clone(), again: false };
    let Some(key) = &app.gate.logins.key else {
        return if by_page {
            StatusCode::NO_CONTENT.into_response()
        } else {
            Redirect::to(next.path()).into_response()
        };
    };
    let right = attempt.token.as_deref().is_some_and(|token| app.gate.logins.is_token(token))
        || attempt.code.as_deref().is_some_and(|code| app.gate.logins.redeem(code));
    metrics::counter!("holdpoint_logins_total", "outcome" => if right { "ok" } else { "refused" })
        .increment(1);
    match (right, by_page) {
        (true, true) => {
            (StatusCode::NO_CONTENT, [(header::SET_COOKIE, app.gate.logins.set_cookie(key))]).into_response()
        }
        (true, false) => {
            let cookie = [(header::SET_COOKIE, app.gate.logins.set_cookie(key))];
            (cookie, Redirect::to(next.path())).into_response()
        }
        (false, true) => {
            let problem = "that is neither the daemon's token nor a login code that is still good; \
                           `holdpoint open` makes a new one";
            ApiError::new(StatusCode::UNAUTHORIZED, "login_refused", problem).into_response()
        }
        (false, false) => (StatusCode::UNAUTHORIZED, pages::login(next.path(), true)).into_response(),
    }
}

async fn read(by_page: bool, request: Request) -> Result<Attempt, ApiError> {
    use axum::RequestExt as _;
    let unreadable = |problem: String| ApiError::bad(format!("the login cannot be read: {problem}"));
    if by_page {
        let Json(attempt) =
            request.extract::<Json<Attempt>, _>().await.map_err(|error| unreadable(error.body_text()))?;
        Ok(attempt)
    } else {
        let Form(attempt) =
            request.extract::<Form<Attempt>, _>().await.map_err(|error| unreadable(error.body_text()))?;
        Ok(attempt)
    }
}

/// Makes a one-time code, for somebody who is in already.
pub(crate) async fn code(State(app): State<App>) -> Json<Value> {
    if app.gate.logins.key.is_none() {
        return Json(json!({ "needed": false, "path": "/" }));
    }
    let code = app.gate.logins.mint_code();
    // In the fragment, which no server and no log sees.
    let path = format!("/#login={code}");
    Json(json!({ "needed": true, "code": code, "path": path, "expiresInSeconds": CODE_LASTS.as_secs() }))
}

pub(crate) async fn logout(State(app): State<App>) -> Response {
    let headers = [(header::SET_COOKIE, app.gate.logins.clear_cookie())];
    (headers, Redirect::to("/login")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Digest256 = [7; 32];

    #[test]
    fn e_a_cookie_is_good_until_its_end_and_only_as_it_was_made() {
        let good = value(&KEY, 1000);
        assert!(is_valid(&KEY, &good, 999));
        assert!(!is_valid(&KEY, &good, 1000), "it is over");
        assert!(!is_valid(&[8; 32], &good, 999), "another token");
        let (plus, zero) = (format!("+{good}"), format!("0{good}"));
        let later = good.replacen("1000", "2000", 1);
        for bad in ["", ".", "1000", "1000.", "x.y", later.as_str(), &plus, &zero, &good[..good.len() - 1]] {
            assert!(!is_valid(&KEY, bad, 999), "{bad}");
        }
    }

    #[test]
    fn e_a_code_is_good_once() {
        let logins = Logins::new(Some(KEY), 4170);
        let code = logins.mint_code();
        assert!(!logins.redeem("another"));
        assert!(logins.redeem(&code));
        assert!(!logins.redeem(&code));
    }

    #[test]
    fn e_codes_are_bounded_and_the_newest_stay() {
        let logins = Logins::new(Some(KEY), 4170);
        let codes: Vec<_> = (0..=MAX_CODES).map(|_| logins.mint_code()).collect();
        assert_eq!(logins.codes.lock().unwrap().len(), MAX_CODES);
        assert!(logins.redeem(codes.last().unwrap()));
    }

    #[test]
    fn e_nobody_is_sent_to_another_site() {
        for (next, path) in [
            ("/q/q_1", "/q/q_1"),
            ("//evil.example", "/"),
            ("https://evil.example", "/"),
            ("/\\evil.example", "/"),
            ("/\t/evil.example", "/"),
            ("/\n", "/"),
            ("/\u{7f}", "/"),
            ("", "/"),
        ] {
            assert_eq!(Next { next: Some(next.to_owned()), again: false }.path(), path);
        }
    }
}
