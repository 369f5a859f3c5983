//! Who speaks to us, as far as it decides how a question is put (Q3, Q5).

use serde_json::Value;

/// The kinds of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// Our daemon: it keeps questions, and knows what a restore is.
    Daemon,
    /// `qwen serve`, or what speaks like it.
    Qwen,
    /// Another client, with forms.
    Forms,
    /// Another client, without.
    Plain,
}

impl Client {
    /// Reads the params of `initialize`.
    pub(crate) fn of(params: &Value) -> Self {
        let meta = params.get("_meta");
        let capabilities = params.get("clientCapabilities");
        if meta.is_some_and(|meta| meta.get("holdpoint.daemon").is_some_and(Value::is_object)) {
            return Self::Daemon;
        }
        let name = params.pointer("/clientInfo/name").and_then(Value::as_str).unwrap_or_default();
        let metas = [meta, capabilities.and_then(|c| c.get("_meta"))];
        if name.to_ascii_lowercase().contains("qwen") || metas.into_iter().flatten().any(speaks_qwen) {
            return Self::Qwen;
        }
        // `{}` advertises forms, null does not.
        if capabilities.and_then(|c| c.pointer("/elicitation/form")).is_some_and(Value::is_object) {
            Self::Forms
        } else {
            Self::Plain
        }
    }

    /// Whether the client sends the restore prompt that a hint asks for (R5, R6). With another one a question
    /// that is left open would never be asked again.
    pub(crate) fn restores(self) -> bool {
        matches!(self, Self::Daemon | Self::Qwen)
    }
}

fn speaks_qwen(meta: &Value) -> bool {
    meta.as_object().is_some_and(|meta| {
        meta.keys().any(|key| key.starts_with("qwen.") || key.starts_with("qwen-code") || key == "qwen")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn q3_each_kind_of_client_is_told_apart() {
        let cases = [
            (json!({"_meta": {"holdpoint.daemon": {"v": 1}}}), Client::Daemon),
            (json!({"clientInfo": {"name": "qwen-code-serve"}}), Client::Qwen),
            (json!({"clientCapabilities": {"_meta": {"qwen.daemon.x": true}}}), Client::Qwen),
            (json!({"clientCapabilities": {"elicitation": {"form": {}}}}), Client::Forms),
            (json!({"clientCapabilities": {"elicitation": {"form": null}}}), Client::Plain),
            (json!({"clientInfo": {"name": "editor"}}), Client::Plain),
        ];
        for (params, client) in cases {
            assert_eq!(Client::of(&params), client, "{params}");
        }
    }
}
