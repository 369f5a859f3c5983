//! The daemon's HTTP and SSE side: the wire that `qwen serve` clients speak (WIRE.md), and our own additions.
//!
//! Handlers read a request, hand a command to the engine and shape what comes back. Nothing is decided here,
//! and nothing durable happens in a handler's future, which axum drops when its client goes away.

mod access;
mod api;
mod blocks;
mod body;
mod error;
mod extract;
#[cfg(feature = "faults")]
mod faults;
#[doc(hidden)]
pub mod fuzz;
mod ids;
mod listen;
mod routes;
mod sse;
mod stall;
mod state;
mod web;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;

pub use access::{AllowedOrigins, OriginError};
pub use listen::{ConnectionLimits, serve};
pub use state::{App, ServerConfig};
pub use web::Web;

/// Largest request body, in bytes (WIRE a).
pub const MAX_BODY: usize = 10 * 1024 * 1024;

/// Every route of the daemon.
pub fn router(app: App) -> Router {
    use routes::daemon;
    let browser = if app.config.web == Web::Off { Router::new() } else { web::routes() };
    let routes = api::routes()
        .merge(browser)
        .fallback(daemon::not_found)
        .method_not_allowed_fallback(daemon::method_not_allowed)
        .layer(from_fn_with_state(app.clone(), access::guard))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(app);
    #[cfg(feature = "faults")]
    let routes = routes.layer(from_fn_with_state(faults::Faults::default(), faults::intercept));
    routes
}
