//! The shapes in which people and clients see questions and sessions (WIRE a.2, b.2, b.3; RULES D2).

pub mod audit;
pub mod question;
pub mod session;

use holdpoint_model::ids::Micros;

/// A time as ISO 8601 with milliseconds, as the peer writes it.
pub fn iso(at: Micros) -> String {
    jiff::Timestamp::from_microsecond(at.0)
        .map(|time| format!("{time:.3}"))
        .unwrap_or_else(|_| "1970-01-01T00:00:00.000Z".to_owned())
}

/// Reads what [`iso`] writes.
pub fn read_iso(text: &str) -> Option<Micros> {
    text.parse::<jiff::Timestamp>().ok().map(|time| Micros(time.as_microsecond()))
}
