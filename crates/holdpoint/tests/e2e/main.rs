//! The built program, run as people run it: real processes, real kills, a scripted model, HTTP as a client
//! speaks it. Each test has a machine of its own (home, data directory, workspace, model).
//!
//! The tests that kill at a named point need the feature `crash-points`, and are ignored without it;
//! `./scripts/test` turns it on.

#![expect(clippy::unwrap_used, reason = "a panic is the report")]

mod support;

mod asking;
mod bad_input;
mod command_line;
mod crash_points;
mod crash_table;
mod cut_off;
mod editors;
mod ends;
mod flags;
mod fsync_order;
mod full_disk;
mod given_up;
mod health;
mod histories;
mod ledger_files;
mod lockstep;
mod orphans;
mod permissions;
mod queue;
mod races;
mod random_kills;
mod reads;
mod seen;
mod signals;
mod smuggled;
mod suppressed;
mod tail_only;
mod unattended;
mod votes;
mod waking;
