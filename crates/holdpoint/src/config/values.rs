//! Values of the file, each with what is expected of it in words.

use std::path::PathBuf;

use camino::Utf8PathBuf;
use holdpoint_agent::tools::ApprovalMode;
use serde::de::{Deserialize, Deserializer, Error};
use toml::Value;

/// Reads a value; what `read` makes nothing of is an error that says what was expected.
fn value<'de, D: Deserializer<'de>, T>(
    from: D,
    expected: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(from)?;
    match read(&value) {
        Some(read) => Ok(Some(read)),
        None => Err(D::Error::custom(format!("{value} is not {expected}"))),
    }
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

pub(super) fn port<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    value(from, "a port, 0 to 65535", |value| value.as_integer()?.try_into().ok())
}

/// 1 or more.
pub(super) fn count<'de, D: Deserializer<'de>, T: TryFrom<i64>>(from: D) -> Result<Option<T>, D::Error> {
    value(from, "a number of 1 or more", |value| value.as_integer().filter(|n| *n > 0)?.try_into().ok())
}

pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    value(from, "a text in quotes", string)
}

pub(super) fn path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Utf8PathBuf>, D::Error> {
    value(from, "a path in quotes", |value| string(value).map(Utf8PathBuf::from))
}

pub(super) fn paths<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    let read = |value: &Value| value.as_array()?.iter().map(|path| string(path).map(PathBuf::from)).collect();
    Ok(value(from, "a list of paths: [\"/one\", \"/two\"]", read)?.unwrap_or_default())
}

pub(super) fn approval_mode<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ApprovalMode>, D::Error> {
    let text = text(from)?.unwrap_or_default();
    let names = &["plan", "default", "auto-edit", "yolo"];
    match ApprovalMode::parse(&text) {
        Some(mode) => Ok(Some(mode)),
        None => Err(D::Error::unknown_variant(&text, names)),
    }
}
