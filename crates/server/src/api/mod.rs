//! The routes, each with what is documented of it. The router and the OpenAPI document are made from the one
//! list, so neither has a route that the other has not; responses are compared with it by `tests/schemathesis`.

mod document;
mod table;

use axum::Router;
use axum::http::Method;
use axum::middleware::from_fn;
use axum::routing::{MethodRouter, on};

use crate::access;
use crate::state::App;

pub(crate) use document::document;

/// One operation: a method at a path.
pub(crate) struct Op {
    method: Method,
    path: &'static str,
    handler: MethodRouter<App>,
    id: &'static str,
    summary: &'static str,
    query: &'static [Param],
    headers: &'static [Param],
    body: Body,
    responses: Vec<Answer>,
    errors: &'static [(u16, &'static [&'static str])],
    strict: bool,
}

/// A parameter: its name, what it may be (a type of [`document()`]), and what it means.
type Param = (&'static str, Type, &'static str);

/// What a parameter may be.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Integer(u64, u64),
    OneOf(&'static [&'static str]),
}

/// The body of a request: a named schema.
#[derive(Clone, Copy)]
enum Body {
    None,
    Optional(&'static str),
    Required(&'static str),
}

/// A response that is no error.
struct Answer {
    status: u16,
    meaning: &'static str,
    content: Content,
}

/// What a response holds.
#[derive(Clone, Copy)]
enum Content {
    Nothing,
    Json(&'static str),
    Stream,
    Metrics,
}

impl Op {
    fn new<H, T>(method: Method, path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: axum::handler::Handler<T, App>,
        T: 'static,
    {
        let filter = method.clone().try_into().expect("only methods that axum routes are in the table");
        Self {
            method,
            path,
            handler: on(filter, handler),
            id,
            summary: "",
            query: &[],
            headers: &[],
            body: Body::None,
            responses: Vec::new(),
            errors: &[],
            strict: false,
        }
    }

    fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    fn query(mut self, query: &'static [Param]) -> Self {
        self.query = query;
        self
    }

    fn headers(mut self, headers: &'static [Param]) -> Self {
        self.headers = headers;
        self
    }

    fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    fn answers(mut self, status: u16, meaning: &'static str, content: Content) -> Self {
        self.responses.push(Answer { status, meaning, content });
        self
    }

    /// Beside those that every operation, and every one with a body or a client id, can give.
    fn errors(mut self, errors: &'static [(u16, &'static [&'static str])]) -> Self {
        self.errors = errors;
        self
    }

    /// Only for the operator (WIRE e).
    fn strict(mut self) -> Self {
        self.strict = true;
        self
    }
}

/// Every route.
pub(crate) fn routes() -> Router<App> {
    table::table().into_iter().fold(Router::new(), |router, op| {
        let handler = if op.strict { op.handler.layer(from_fn(access::strict)) } else { op.handler };
        router.route(op.path, handler)
    })
}
