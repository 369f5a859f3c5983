//! What the model is told: the system prompt, and a prompt's content.

use std::io::Read as _;

use agent_client_protocol::Error;
use camino::Utf8Path;
use holdpoint_model::history::Part;
use serde_json::Value;

use crate::rpc::invalid_params;

/// How much of `AGENTS.md` is taken: what people write by hand, and not a context window full.
const AGENTS_MAX: usize = 32 * 1024;

/// The system prompt of a workspace. Reads `AGENTS.md`, so it runs off the async threads.
pub(crate) fn system(workspace: &Utf8Path) -> String {
    let mut text = format!(
        "You are a coding agent in the workspace {workspace}. You work with the tools that you are given: \
         look before you change, keep changes small, and check what you did. Paths are relative to the \
         workspace unless they are absolute. A person watches and may be asked.\n\n\
         When a decision is the person's and you cannot find it out yourself, call ask_user_question with \
         concrete options, and wait: an answer may take hours, and that is fine. Never guess an answer, and \
         never treat a declined or unanswered question as one.\n\n\
         A tool's error says what was wrong; correct the call or try another way. When you are done, say in \
         a few sentences what you did and what is left."
    );
    if let Some(agents) = agents_file(workspace) {
        text.push_str("\n\nThe workspace's AGENTS.md says:\n\n");
        text.push_str(&agents);
    }
    text
}

fn agents_file(workspace: &Utf8Path) -> Option<String> {
    let path = workspace.join("AGENTS.md");
    // Before it is opened: to open a pipe that nobody writes to takes for ever.
    if !std::fs::metadata(&path).ok()?.is_file() {
        return None;
    }
    let file = std::fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(AGENTS_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
    let cut = bytes.len() > AGENTS_MAX;
    bytes.truncate(AGENTS_MAX);
    let mut text = String::from_utf8_lossy(&bytes).trim().to_owned();
    if cut {
        text.push_str("\n\n(AGENTS.md is longer; read the file for the rest.)");
    }
    (!text.is_empty()).then_some(text)
}

/// Reads the content blocks of a prompt.
pub(crate) fn parts(params: &Value) -> Result<Vec<Part>, Error> {
    let blocks = params
        .get("prompt")
        .and_then(Value::as_array)
        .ok_or_else(|| invalid_params("prompt: is missing or not a list of content blocks"))?;
    blocks.iter().enumerate().map(|(i, block)| part(block).map_err(|problem| wrong(i, &problem))).collect()
}

fn wrong(index: usize, problem: &str) -> Error {
    invalid_params(format!("prompt[{index}]: {problem}"))
}

fn part(block: &Value) -> Result<Part, String> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    match block.get("type").and_then(Value::as_str) {
        Some("text") => {
            text(block, "text").map(Part::text).ok_or_else(|| "a text block has no text".to_owned())
        }
        Some("resource_link") => {
            let uri = text(block, "uri").ok_or("a resource_link has no uri")?;
            let name = text(block, "name").unwrap_or_else(|| uri.clone());
            Ok(Part::text(format!("[{name}]({uri})")))
        }
        Some("resource") => {
            let resource = block.get("resource").ok_or("a resource block has no resource")?;
            let uri = text(resource, "uri").unwrap_or_default();
            let content = text(resource, "text").ok_or("only resources of text can be read")?;
            Ok(Part::text(format!("Content of {uri}:\n\n{content}")))
        }
        Some(kind @ ("image" | "audio")) => Err(format!("{kind} is not supported; the capabilities say so")),
        Some(other) => Err(format!("content of the unknown type {other:?}")),
        None => Err("is no content block: it has no type".to_owned()),
    }
}

/// The texts of a prompt, for lists and logs of turns.
pub(crate) fn plain_text(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::visible_text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn agents_md_is_part_of_the_system_prompt_up_to_a_size() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Utf8Path::from_path(dir.path()).unwrap();
        assert!(!system(workspace).contains("AGENTS.md says"));
        std::fs::write(workspace.join("AGENTS.md"), "Use tabs.\n").unwrap();
        assert!(system(workspace).ends_with("AGENTS.md says:\n\nUse tabs."));
        std::fs::write(workspace.join("AGENTS.md"), "é".repeat(AGENTS_MAX)).unwrap();
        let long = system(workspace);
        assert!(long.len() < 2 * AGENTS_MAX && long.contains("longer"));
    }

    #[test]
    fn an_agents_md_that_is_no_file_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Utf8Path::from_path(dir.path()).unwrap();
        let made = std::process::Command::new("mkfifo").arg(workspace.join("AGENTS.md")).status().unwrap();
        assert!(made.success());
        assert!(!system(workspace).contains("AGENTS.md says"));
    }

    #[test]
    fn each_block_is_read_or_refused_with_its_place() {
        let good = json!({"prompt": [
            {"type": "text", "text": "hi"},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "B"}}]});
        let texts: Vec<_> = parts(&good).unwrap().into_iter().map(|part| part.text.unwrap()).collect();
        assert_eq!(texts, ["hi", "[a](file:///a)", "Content of file:///b:\n\nB"]);
        for bad in
            [json!({"type": "image"}), json!({"type": "x"}), json!({}), json!({"type": "text"}), json!(7)]
        {
            let error = parts(&json!({"prompt": [bad]})).unwrap_err();
            assert!(error.message.starts_with("prompt[0]"), "{}", error.message);
        }
        assert!(parts(&json!({})).is_err());
    }
}
