//! Reads the arguments of a call. Models know these tools under slightly different argument names; all that
//! mean one thing are taken, and numbers and truths may come as text.

use serde_json::{Map, Value};

use super::ToolError;

/// The arguments of one call.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    tool: &'static str,
    map: &'a Map<String, Value>,
}

impl<'a> Args<'a> {
    /// The arguments, if they are an object.
    pub(crate) fn new(tool: &'static str, args: &'a Value) -> Result<Self, ToolError> {
        match args {
            Value::Object(map) => Ok(Self { tool, map }),
            Value::String(raw) => {
                let problem = match serde_json::from_str::<Value>(raw) {
                    Err(error) => {
                        format!("they are not valid JSON ({error}); send them again as one JSON object")
                    }
                    Ok(_) => "they are a JSON text; send a JSON object".to_owned(),
                };
                Err(ToolError::Arguments { tool, problem })
            }
            _ => Err(ToolError::Arguments { tool, problem: "they must be a JSON object".to_owned() }),
        }
    }

    /// An error about these arguments.
    pub(crate) fn invalid(&self, problem: impl Into<String>) -> ToolError {
        ToolError::Arguments { tool: self.tool, problem: problem.into() }
    }

    fn get(&self, names: &[&str]) -> Option<&'a Value> {
        names.iter().find_map(|name| self.map.get(*name)).filter(|value| !value.is_null())
    }

    /// A text that may be missing. The first name is the one that errors use.
    pub(crate) fn text(&self, names: &[&str]) -> Result<Option<&'a str>, ToolError> {
        match self.get(names) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.invalid(format!("{:?} must be a text", names[0]))),
        }
    }

    /// A text that must be there. It may be empty.
    pub(crate) fn required(&self, names: &[&str]) -> Result<&'a str, ToolError> {
        self.text(names)?.ok_or_else(|| self.invalid(format!("{:?} is missing", names[0])))
    }

    /// A text that must be there and hold something.
    pub(crate) fn filled(&self, names: &[&str]) -> Result<&'a str, ToolError> {
        let text = self.required(names)?;
        if text.trim().is_empty() {
            return Err(self.invalid(format!("{:?} must not be empty", names[0])));
        }
        Ok(text)
    }

    /// A number of at least 0 that may be missing.
    pub(crate) fn number(&self, names: &[&str]) -> Result<Option<u64>, ToolError> {
        let Some(value) = self.get(names) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_u64().or_else(|| {
                let float = number.as_f64()?;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "checked just before"
                )]
                ((0.0..1e15).contains(&float) && float.fract() == 0.0).then_some(float as u64)
            }),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        number
            .map(Some)
            .ok_or_else(|| self.invalid(format!("{:?} must be a whole number of at least 0", names[0])))
    }

    /// A truth; missing is false.
    pub(crate) fn truth(&self, names: &[&str]) -> Result<bool, ToolError> {
        match self.get(names) {
            None => Ok(false),
            Some(Value::Bool(truth)) => Ok(*truth),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(self.invalid(format!("{:?} must be true or false", names[0]))),
        }
    }
}
