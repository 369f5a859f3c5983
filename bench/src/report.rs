//! What was measured, as a table and as JSON.

use serde_json::{Value, json};

use crate::rig::Place;
use crate::stats::Sample;

/// One line of the table.
struct Row {
    suite: &'static str,
    name: String,
    aim: Option<f64>,
    /// Whether more is better.
    floor: bool,
    value: f64,
    unit: &'static str,
    note: String,
}

impl Row {
    fn within(&self) -> Option<bool> {
        self.aim.map(|aim| if self.floor { self.value >= aim } else { self.value <= aim })
    }
}

/// The rows so far. They are printed as they come.
pub(crate) struct Report {
    rows: Vec<Row>,
    machine: String,
    print: bool,
    suite: &'static str,
}

impl Report {
    pub(crate) fn new(print: bool, place: &Place) -> Self {
        let machine = place.describe();
        if print {
            println!("{machine}");
        }
        Self { rows: Vec::new(), machine, print, suite: "" }
    }

    pub(crate) fn begin(&mut self, suite: &'static str) {
        self.suite = suite;
        if self.print {
            println!("\n{suite}   (load {})", load());
            println!("  {:<58} {:>12} {:>14}", "", "aim", "measured");
        }
    }

    /// A row without an aim.
    pub(crate) fn shows(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        note: impl Into<String>,
    ) {
        self.put(name.into(), None, false, value, unit, note.into());
    }

    /// A row that must not be over its aim.
    pub(crate) fn at_most(
        &mut self,
        name: impl Into<String>,
        aim: f64,
        value: f64,
        unit: &'static str,
        note: impl Into<String>,
    ) {
        self.put(name.into(), Some(aim), false, value, unit, note.into());
    }

    /// A row that must not be under its aim.
    pub(crate) fn at_least(
        &mut self,
        name: impl Into<String>,
        aim: f64,
        value: f64,
        unit: &'static str,
        note: impl Into<String>,
    ) {
        self.put(name.into(), Some(aim), true, value, unit, note.into());
    }

    /// The median of times, against an aim if there is one.
    pub(crate) fn times(&mut self, name: impl Into<String>, aim: Option<f64>, sample: &Sample) {
        self.put(name.into(), aim, false, sample.median(), "ms", sample.spread());
    }

    fn put(
        &mut self,
        name: String,
        aim: Option<f64>,
        floor: bool,
        value: f64,
        unit: &'static str,
        note: String,
    ) {
        let row = Row { suite: self.suite, name, aim, floor, value, unit, note };
        if self.print {
            let aim = row.aim.map_or_else(String::new, |aim| {
                format!("{} {}", if row.floor { "≥" } else { "≤" }, number(aim, row.unit))
            });
            let verdict = match row.within() {
                Some(true) => "ok",
                Some(false) => "OVER",
                None => "",
            };
            println!(
                "  {:<58} {aim:>12} {:>14}  {verdict:<5} {}",
                row.name,
                number(row.value, row.unit),
                row.note
            );
        }
        self.rows.push(row);
    }

    pub(crate) fn end(&self) {
        if self.print {
            let over = self.rows.iter().filter(|row| row.within() == Some(false)).count();
            println!("\n{over} of {} aims missed", self.rows.iter().filter(|row| row.aim.is_some()).count());
        }
    }

    pub(crate) fn all_within(&self) -> bool {
        self.rows.iter().all(|row| row.within() != Some(false))
    }

    pub(crate) fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "suite": row.suite, "name": row.name, "aim": row.aim, "value": row.value, "unit": row.unit,
                "within": row.within(), "note": row.note,
            })
        };
        json!({ "machine": self.machine, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}

fn number(value: f64, unit: &str) -> String {
    match unit {
        "x" => format!("{value:.2} x"),
        "1/s" => format!("{value:.0} /s"),
        "MB" => format!("{value:.1} MB"),
        _ if value < 10.0 => format!("{value:.2} {unit}"),
        _ => format!("{value:.1} {unit}"),
    }
}

/// The load of the last minute: measurements beside other work are worth less, and should say so.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
