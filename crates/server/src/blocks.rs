//! The content blocks of a prompt, as ACP has them. What is no block of ACP's is refused here, where the sender
//! still reads why: later it would be a failed turn.

use serde_json::{Map, Value};

use crate::error::ApiError;

/// Most blocks of a prompt that are no text (WIRE a.3).
const MAX_MEDIA: usize = 256;

/// The blocks of a request's `prompt`, without the keys that only the daemon may set (R6).
pub(crate) fn read(prompt: Option<&Value>) -> Result<Vec<Value>, ApiError> {
    let blocks = match prompt {
        Some(Value::Array(blocks)) if !blocks.is_empty() => blocks,
        _ => return Err(ApiError::bad("\"prompt\" must be a list of at least one content block")),
    };
    for (at, block) in blocks.iter().enumerate() {
        check(block).map_err(|problem| ApiError::bad(format!("prompt[{at}]{problem}")))?;
    }
    let media = blocks.iter().filter(|block| block["type"] != "text").count();
    if media > MAX_MEDIA {
        return Err(ApiError::bad(format!("a prompt may hold {MAX_MEDIA} media blocks, not {media}")));
    }
    Ok(blocks.iter().cloned().map(without_reserved_keys).collect())
}

/// What is wrong with a block, to stand behind its place.
fn check(block: &Value) -> Result<(), String> {
    let Some(fields) = block.as_object() else { return Err(" must be an object with a \"type\"".to_owned()) };
    match fields.get("type").and_then(Value::as_str) {
        Some("text") => texts(fields, &["text"]),
        Some("image" | "audio") => texts(fields, &["data", "mimeType"]),
        Some("resource_link") => texts(fields, &["uri"]),
        Some("resource") => {
            let Some(resource) = fields.get("resource").and_then(Value::as_object) else {
                return Err(".resource must be an object".to_owned());
            };
            let content = if resource.contains_key("blob") { "blob" } else { "text" };
            texts(resource, &["uri", content]).map_err(|problem| format!(".resource{problem}"))
        }
        Some(other) => {
            Err(format!(".type must be text, image, audio, resource_link or resource, not {other:?}"))
        }
        None => Err(" must be an object with a \"type\"".to_owned()),
    }
}

fn texts(fields: &Map<String, Value>, keys: &[&str]) -> Result<(), String> {
    match keys.iter().find(|key| !fields.get(**key).is_some_and(Value::is_string)) {
        Some(key) => Err(format!(".{key} must be a text")),
        None => Ok(()),
    }
}

/// A block without the keys that only the daemon may set, at whatever depth and in whatever spelling: parts of a block
/// have a `_meta` too, and what an agent takes for one is its own business (R6).
fn without_reserved_keys(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|key, _| !is_reserved(key));
            for field in fields.values_mut() {
                *field = without_reserved_keys(field.take());
            }
        }
        Value::Array(list) => {
            for item in list {
                *item = without_reserved_keys(item.take());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

fn is_reserved(key: &str) -> bool {
    let starts = |start: &str| key.get(..start.len()).is_some_and(|of| of.eq_ignore_ascii_case(start));
    starts("qwen.daemon.") || starts("holdpoint.")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_of_block_is_taken() {
        let blocks = json!([
            {"type": "text", "text": ""},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "audio", "data": "AA==", "mimeType": "audio/wav", "more": 1},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "a"}},
            {"type": "resource", "resource": {"uri": "file:///a", "blob": "AA==", "mimeType": "image/png"}},
        ]);
        assert_eq!(read(Some(&blocks)).ok(), blocks.as_array().cloned());
    }

    #[test]
    fn what_is_no_block_is_refused_with_its_place() {
        let refused = |block: Value| check(&block).unwrap_err();
        assert_eq!(refused(json!("hello")), " must be an object with a \"type\"");
        assert_eq!(refused(json!({"text": "hello"})), " must be an object with a \"type\"");
        assert_eq!(refused(json!({"type": "text"})), ".text must be a text");
        assert_eq!(refused(json!({"type": "image", "data": "AA=="})), ".mimeType must be a text");
        assert_eq!(
            refused(json!({"type": "resource", "resource": {"uri": "x"}})),
            ".resource.text must be a text"
        );
        assert!(refused(json!({"type": "hologram"})).contains("not \"hologram\""));
    }

    #[test]
    fn r6_reserved_keys_are_dropped_in_any_case() {
        let blocks =
            json!([{"type": "text", "text": "x", "_meta": {"Qwen.Daemon.x": 1, "holdpoint.Y": 2, "own": 3}}]);
        assert_eq!(read(Some(&blocks)).ok().unwrap()[0]["_meta"], json!({"own": 3}));
        let deep = json!([{"type": "resource", "resource": {"uri": "x", "text": "", "_meta": {"QWEN.daemon.x": 1}},
            "list": [[{"HOLDPOINT.y": {}, "é": 4}]]}]);
        let kept = json!([{"type": "resource", "resource": {"uri": "x", "text": "", "_meta": {}}, "list": [[{"é": 4}]]}]);
        assert_eq!(read(Some(&deep)).ok(), kept.as_array().cloned());
    }
}
