//! The OpenAPI document, made from the list.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::table::table;
use super::{Body, Content, Op, Param, Type};

/// The shapes of bodies, by name. Only fields that clients may rely on are in them; more may come.
const SCHEMAS: &str = include_str!("schemas.json");

/// Errors that many operations share as they are: a name, the status, and the codes.
const COMMON: &[(&str, u16, &[&str])] = &[
    ("Malformed", 400, &["invalid_request"]),
    ("MalformedOfClient", 400, &["invalid_client_id", "invalid_request"]),
    ("Unauthorized", 401, &[]),
    ("NotTheOperator", 401, &["token_required"]),
    ("Refused", 403, &[]),
    ("SessionNotLive", 404, &["session_closing", "session_not_found"]),
    ("BodyTooSlow", 408, &[]),
    ("BodyTooLarge", 413, &[]),
    ("TooMany", 429, &["rate_limit_exceeded"]),
    ("StorageError", 500, &["storage_error"]),
    ("Stopping", 503, &["daemon_stopping"]),
];

/// Statuses that name a time to come again.
const RETRY_AFTER: [u16; 3] = [429, 503, 504];

/// The document, in OpenAPI 3.1.
pub(crate) fn document() -> Value {
    let table = table();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for op in &table {
        let path = paths.entry(op.path).or_default();
        path.insert(op.method.as_str().to_ascii_lowercase(), operation(op, &table));
    }
    let schemas: Value = serde_json::from_str(SCHEMAS).expect("the schemas are JSON; a test reads them");
    let common: Map<_, _> = COMMON
        .iter()
        .map(|(name, status, codes)| ((*name).to_owned(), error(*status, &codes.iter().copied().collect())))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Holdpoint",
            "version": "1",
            "description": "The daemon's HTTP interface. Objects may get further fields; clients ignore what \
                they don't know. Errors are `{error, code?, …}`: programs read the status and the code.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:4170" }],
        "security": [{ "bearer": [] }, {}],
        "paths": paths,
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
            "responses": common,
            "schemas": schemas,
        },
    })
}

fn operation(op: &Op, table: &[Op]) -> Value {
    let mut view = json!({ "operationId": op.id, "summary": op.summary });
    if op.strict {
        view["description"] =
            json!("Only for the operator: with the token, or without one from this machine itself.");
    }
    let mut parameters: Vec<_> = path_parameters(op.path).map(path_parameter).collect();
    parameters.extend(op.query.iter().map(|param| parameter("query", param)));
    parameters.extend(op.headers.iter().map(|param| parameter("header", param)));
    if !parameters.is_empty() {
        view["parameters"] = Value::Array(parameters);
    }
    let body = match op.body {
        Body::None => None,
        Body::Optional(name) => Some((name, false)),
        Body::Required(name) => Some((name, true)),
    };
    if let Some((name, required)) = body {
        view["requestBody"] = json!({
            "required": required,
            "content": { "application/json": { "schema": reference(name) } },
        });
    }
    view["responses"] = responses(op, table);
    view
}

fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn path_parameter(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } })
}

fn parameter(place: &str, (name, kind, meaning): &Param) -> Value {
    let schema = match kind {
        Type::Text => json!({ "type": "string" }),
        Type::Integer(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Type::OneOf(words) => json!({ "type": "string", "enum": words }),
    };
    json!({ "name": name, "in": place, "description": meaning, "schema": schema })
}

fn responses(op: &Op, table: &[Op]) -> Value {
    let mut all = Map::new();
    for answer in &op.responses {
        let mut view = json!({ "description": answer.meaning });
        let content = match answer.content {
            Content::Nothing => None,
            Content::Json(name) => Some(("application/json", reference(name))),
            Content::Stream => Some(("text/event-stream", json!({ "type": "string" }))),
            Content::Metrics => Some(("text/plain", json!({ "type": "string" }))),
        };
        if let Some((kind, schema)) = content {
            let mut content = Map::new();
            content.insert(kind.to_owned(), json!({ "schema": schema }));
            view["content"] = Value::Object(content);
        }
        let links = links(op, table);
        if !links.is_empty() {
            view["links"] = Value::Object(links);
        }
        all.insert(answer.status.to_string(), view);
    }
    for (status, codes) in errors(op) {
        let common =
            COMMON.iter().find(|(_, common, code)| *common == status && codes.iter().eq(code.iter()));
        let view = match common {
            Some((name, ..)) => json!({ "$ref": format!("#/components/responses/{name}") }),
            None => error(status, &codes),
        };
        all.insert(status.to_string(), view);
    }
    Value::Object(all)
}

/// The errors that an operation can give, with the codes of each. Those of the way in are every operation's.
fn errors(op: &Op) -> BTreeMap<u16, BTreeSet<&'static str>> {
    let mut errors: BTreeMap<u16, BTreeSet<&'static str>> = BTreeMap::new();
    let mut add = |status: u16, codes: &[&'static str]| errors.entry(status).or_default().extend(codes);
    add(400, &["invalid_request"]);
    add(401, if op.strict { &["token_required"] } else { &[] });
    add(403, &[]);
    if op.path != "/health" {
        add(429, &["rate_limit_exceeded"]);
    }
    if !matches!(op.body, Body::None) {
        add(408, &[]);
        add(413, &[]);
    }
    if op.headers.iter().any(|(name, ..)| *name == "X-Qwen-Client-Id") {
        add(400, &["invalid_client_id"]);
        add(503, &["daemon_stopping"]);
    }
    for (status, codes) in op.errors {
        add(*status, codes);
    }
    errors
}

fn error(status: u16, codes: &BTreeSet<&'static str>) -> Value {
    let meaning = match status {
        400 => "the request is malformed",
        401 => "the token is missing or wrong",
        403 => "not from there, or not you",
        404 => "there is none",
        408 => "the body took too long",
        409 => "not as things are now",
        410 => "it is over",
        413 => "the body is too large",
        422 => "the answer is malformed, and the question still open",
        429 => "too many",
        500 => "something broke; the daemon's log has it",
        503 => "not now; nothing was accepted",
        504 => "it took too long",
        _ => "an error",
    };
    let mut schema = reference("Error");
    let mut description = meaning.to_owned();
    if !codes.is_empty() {
        let list: Vec<_> = codes.iter().map(|code| format!("`{code}`")).collect();
        description = format!("{meaning}: {}", list.join(", "));
        schema = json!({ "allOf": [reference("Error"), { "properties": { "code": { "enum": codes } } }] });
    }
    let mut view =
        json!({ "description": description, "content": { "application/json": { "schema": schema } } });
    if RETRY_AFTER.contains(&status) {
        view["headers"] = json!({
            "Retry-After": { "description": "seconds", "schema": { "type": "integer", "minimum": 1 } },
        });
    }
    view
}

/// What can be done with what a response names: for readers, and for tools that walk from one operation to
/// the next.
fn links(op: &Op, table: &[Op]) -> Map<String, Value> {
    let (start, parameter, expression) = match op.id {
        "createSession" => ("/session/{id}", "id", "$response.body#/sessionId"),
        "questions" => ("/questions/{id}", "id", "$response.body#/questions/0/questionId"),
        "prompt" => return one_link("removePrompt", "$response.body#/promptId"),
        _ => return Map::new(),
    };
    let mut links = Map::new();
    for target in table {
        let same =
            target.path == start || target.path.strip_prefix(start).is_some_and(|rest| rest.starts_with('/'));
        if same && path_parameters(target.path).count() == 1 {
            let mut parameters = Map::new();
            parameters.insert(format!("path.{parameter}"), json!(expression));
            links.insert(target.id.to_owned(), json!({ "operationId": target.id, "parameters": parameters }));
        }
    }
    links
}

fn one_link(target: &str, prompt: &str) -> Map<String, Value> {
    let mut links = Map::new();
    links.insert(
        target.to_owned(),
        json!({
            "operationId": target,
            "parameters": { "path.id": "$request.path.id", "path.prompt": prompt },
        }),
    );
    links
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside this crate, where people look for it.
    const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

    #[test]
    fn the_checked_in_document_is_the_generated_one() {
        let mut generated = serde_json::to_string_pretty(&document()).unwrap();
        generated.push('\n');
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(CHECKED_IN, &generated).unwrap();
        }
        let checked_in = std::fs::read_to_string(CHECKED_IN).unwrap_or_default();
        let line = generated.lines().zip(checked_in.lines()).position(|(new, old)| new != old);
        assert!(
            generated == checked_in,
            "docs/openapi.json is not what the routes say (from line {:?}); look at the difference after \
             UPDATE_OPENAPI=1 cargo test -p holdpoint-server",
            line.map(|line| line + 1),
        );
    }

    #[test]
    fn every_schema_that_is_named_is_there_and_used() {
        let document = document();
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for name in schemas.keys() {
            assert!(text.contains(&format!("\"#/components/schemas/{name}\"")), "{name} is not used");
        }
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name} is not there");
        }
    }

    #[test]
    fn operations_have_their_own_ids_and_say_what_they_do() {
        let table = table();
        let ids: BTreeSet<_> = table.iter().map(|op| op.id).collect();
        assert_eq!(ids.len(), table.len());
        for op in &table {
            assert!(!op.summary.is_empty() && !op.responses.is_empty(), "{}", op.id);
        }
    }
}
