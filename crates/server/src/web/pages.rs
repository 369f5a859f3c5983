//! The pages that are made here: they need no scripts.

use askama::Template;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

/// How these pages look.
pub(super) async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("../../templates/form.css"))
}

/// A form to answer a question.
#[derive(Template)]
#[template(path = "question.html")]
pub(super) struct QuestionPage {
    pub(super) id: String,
    pub(super) title: String,
    /// Who asks where: session, workspace, agent.
    pub(super) context: Vec<(&'static str, String)>,
    pub(super) generation: u64,
    pub(super) response: String,
    pub(super) parts: Vec<Part>,
    /// A permission: what shall be done.
    pub(super) action: Option<Action>,
    /// What was wrong with what was sent, if something was.
    pub(super) problem: Option<String>,
    /// What an answer does now, where that needs a word.
    pub(super) note: Option<&'static str>,
}

/// One part of a question.
pub(super) struct Part {
    pub(super) key: usize,
    pub(super) header: String,
    pub(super) question: String,
    pub(super) multiple: bool,
    pub(super) options: Vec<Choice>,
    /// What was typed into it.
    pub(super) other: String,
    pub(super) other_picked: bool,
}

/// One option of a part.
pub(super) struct Choice {
    pub(super) value: usize,
    pub(super) label: String,
    pub(super) description: String,
    pub(super) picked: bool,
}

/// What a permission is for.
pub(super) struct Action {
    pub(super) title: String,
    /// Its details as text: arguments, changes.
    pub(super) details: Vec<(&'static str, String)>,
    pub(super) options: Vec<(String, String)>,
}

/// What became of an answer, or of a question.
#[derive(Template)]
#[template(path = "outcome.html")]
pub(super) struct OutcomePage {
    pub(super) heading: String,
    pub(super) lines: Vec<String>,
    /// Header and answer of each part.
    pub(super) answers: Vec<(String, String)>,
    pub(super) session: Option<String>,
    /// The question's page, where it makes sense to go back to it.
    pub(super) back: Option<String>,
    /// The address that is loaded anew every few seconds, while something is still to come.
    pub(super) again: Option<String>,
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    next: &'a str,
    refused: bool,
}

#[derive(Template)]
#[template(path = "again.html")]
struct AgainPage<'a> {
    address: &'a str,
}

pub(super) fn login(next: &str, refused: bool) -> Response {
    render(StatusCode::OK, &LoginPage { next, refused })
}

/// Sends the browser to the same address once more, as from this site: a strict cookie does not come with a link
/// from another one.
pub(super) fn once_more(address: &str) -> Response {
    render(StatusCode::OK, &AgainPage { address })
}

pub(super) fn render(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page cannot be rendered");
            (StatusCode::INTERNAL_SERVER_ERROR, "the page cannot be shown").into_response()
        }
    }
}
