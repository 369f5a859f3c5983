//! Tests of what is SQLite's own; the suite is `conformance`.

mod suite;
