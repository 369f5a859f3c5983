//! What people see in a browser: the page, its login, and the answer form that needs no scripts.
//!
//! The page is files and nothing else: it talks to the same routes as every other client. The form and the login are
//! made here, and work without scripts.

mod assets;
mod form;
mod login;
mod pages;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};

use crate::state::App;

pub(crate) use assets::Assets;
pub use assets::Web;
pub(crate) use login::Logins;

/// Nothing but our own files, no frames, and no text that becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; font-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The routes of the browser's side.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(assets::index))
        .route("/s/{id}", get(assets::index))
        .route("/ui/{version}/{*path}", get(assets::file))
        .route("/favicon.ico", get(assets::icon))
        .route("/form.css", get(pages::style))
        .route("/q/{id}", get(form::show).post(form::answer))
        .route("/login", get(login::show).post(login::login))
        .route("/login/code", post(login::code))
        .route("/logout", post(login::logout))
        .layer(from_fn(harden))
}

/// Whether everybody may see a path: the page's files hold nothing, and a login cannot ask for one. `/q/…` looks
/// after itself, since a person without a login is to be shown the way to one.
pub(crate) fn is_public(path: &str) -> bool {
    let below = |prefix| path.starts_with(prefix);
    matches!(path, "/" | "/login" | "/favicon.ico" | "/form.css")
        || below("/ui/")
        || below("/s/")
        || below("/q/")
}

/// The headers of every response for a browser.
async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // With `no-referrer` browsers send forms with `Origin: null`, which is refused.
        (header::REFERRER_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
