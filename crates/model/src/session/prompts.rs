//! The prompts that a session was given: one and the same, sent again, is one turn, over restarts too.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher};

use serde_json::Value;

use super::state::Prompt;
use crate::ids::PromptId;

/// How many prompts a session remembers. A repeat comes seconds or days after the prompt, not thousands of prompts.
pub const PROMPTS_KEPT: usize = 4096;

/// The newest prompts that were accepted: their ids, and what they said in short.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given(VecDeque<(PromptId, u64)>);

impl Given {
    /// A prompt was accepted.
    pub(super) fn note(&mut self, prompt: &Prompt) {
        if self.0.len() == PROMPTS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back((prompt.id.clone(), digest(&prompt.blocks)));
    }

    /// Whether a prompt with this id was accepted, and said the same.
    pub fn said(&self, prompt: &Prompt) -> Option<bool> {
        let (_, known) = self.0.iter().rev().find(|(id, _)| *id == prompt.id)?;
        Some(*known == digest(&prompt.blocks))
    }
}

/// A number for some content. It is never stored: the ledger has the content, and each fold makes the number anew.
fn digest(blocks: &[Value]) -> u64 {
    let mut hasher = DefaultHasher::new();
    blocks.len().hash(&mut hasher);
    for block in blocks {
        hash(block, &mut hasher);
    }
    hasher.finish()
}

/// The order of an object's keys does not count.
fn hash(value: &Value, hasher: &mut impl Hasher) {
    match value {
        Value::Null => 0_u8.hash(hasher),
        Value::Bool(value) => (1_u8, value).hash(hasher),
        Value::Number(value) => (2_u8, value.to_string()).hash(hasher),
        Value::String(value) => (3_u8, value).hash(hasher),
        Value::Array(values) => {
            (4_u8, values.len()).hash(hasher);
            for value in values {
                hash(value, hasher);
            }
        }
        Value::Object(fields) => {
            (5_u8, fields.len()).hash(hasher);
            let mut keys: Vec<_> = fields.keys().collect();
            keys.sort_unstable();
            for key in keys {
                key.hash(hasher);
                hash(&fields[key], hasher);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ids::Micros;

    fn prompt(id: &str, block: Value) -> Prompt {
        let id = PromptId::new(id).unwrap();
        Prompt { id, blocks: vec![block], client: None, at: Micros(0), deadline_ms: None }
    }

    #[test]
    fn d5_a_prompt_is_known_by_its_id_and_by_what_it_says() {
        let mut given = Given::default();
        given.note(&prompt("a", json!({"type": "text", "text": "one"})));
        assert_eq!(given.said(&prompt("a", json!({"text": "one", "type": "text"}))), Some(true));
        assert_eq!(given.said(&prompt("a", json!({"type": "text", "text": "two"}))), Some(false));
        assert_eq!(given.said(&prompt("b", json!({"type": "text", "text": "one"}))), None);
    }

    #[test]
    fn d5_only_the_newest_prompts_are_remembered() {
        let mut given = Given::default();
        for n in 0..=PROMPTS_KEPT {
            given.note(&prompt(&n.to_string(), json!(n)));
        }
        assert_eq!(given.said(&prompt("0", json!(0))), None);
        assert_eq!(given.said(&prompt("1", json!(1))), Some(true));
        assert_eq!(given.0.len(), PROMPTS_KEPT);
    }
}
