//! The daemon's HTTP and SSE side: the wire that `qwen serve` clients speak (WIRE.md), and our own additions.
//!
//! Handlers read a request, hand a command to the engine and shape what comes back. Nothing is decided here,
//! and nothing durable happens in a handler's future, which axum drops when its client goes away.

mod auth;
mod body;
mod error;
mod ids;
mod routes;
mod sse;
mod state;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, patch, post};

pub use state::{App, ServerConfig};

/// Largest request body, in bytes (WIRE a).
pub const MAX_BODY: usize = 10 * 1024 * 1024;

/// Every route of the daemon.
pub fn router(app: App) -> Router {
    use routes::{daemon, history, question, session, stream, turn, vote};
    Router::new()
        .route("/health", get(daemon::health))
        .route("/capabilities", get(daemon::capabilities))
        .route("/daemon/status", get(daemon::status))
        .route("/metrics", get(daemon::metrics))
        .route("/session", post(session::create))
        .route("/session/{id}", delete(session::close))
        .route("/session/{id}/load", post(session::load))
        .route("/session/{id}/resume", post(session::resume))
        .route("/session/{id}/detach", post(session::detach))
        .route("/session/{id}/metadata", patch(session::metadata))
        .route("/session/{id}/status", get(session::status))
        .route("/session/{id}/context", get(session::context))
        .route("/session/{id}/heartbeat", post(session::heartbeat))
        .route("/sessions/delete", post(session::delete))
        .route("/workspace/{cwd}/sessions", get(session::list))
        .route("/session/{id}/prompt", post(turn::prompt))
        .route("/session/{id}/pending-prompts", get(turn::pending))
        .route("/session/{id}/pending-prompts/{prompt}", delete(turn::remove))
        .route("/session/{id}/cancel", post(turn::cancel))
        .route("/session/{id}/continue", post(turn::go_on))
        .route("/session/{id}/events", get(stream::events))
        .route("/session/{id}/transcript", get(history::transcript))
        .route("/session/{id}/permission/{request}", post(vote::vote))
        .route("/permission/{request}", post(vote::vote_anywhere))
        .route("/questions", get(question::list))
        .route("/questions/{id}", get(question::show))
        .route("/questions/{id}/answer", post(question::answer))
        .fallback(daemon::not_found)
        .method_not_allowed_fallback(daemon::method_not_allowed)
        .layer(from_fn_with_state(app.clone(), auth::guard))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(app)
}
