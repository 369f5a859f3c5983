//! The suite that every ledger must pass, whatever stores it.
//!
//! [`conformance_tests!`](crate::conformance_tests) makes one test of each check; the checks can be called alone too.
//! NUL in a text is not tested: one store keeps it and another refuses it, so it is refused at the edge.

mod appends;
mod lists;
pub mod sample;

use std::sync::Arc;

pub use appends::*;
pub use lists::*;

use crate::contract::{Append, AppendError, Ledger};

/// Where a ledger stores what it stores.
pub trait Store: Send + Sync {
    /// Opens the ledger on what earlier ones stored: the next run. Only one is open at a time.
    fn open(&self) -> Arc<dyn Ledger>;
}

/// Makes the tests of the suite; `$store` makes an empty [`Store`]. They need tokio's `macros` and
/// `rt-multi-thread`.
#[macro_export]
macro_rules! conformance_tests {
    ($store:expr) => {
        $crate::conformance_tests!(@each $store;
            nothing_is_there_at_first,
            q8_events_come_back_in_order,
            i2_another_version_is_a_conflict,
            a_conflict_leaves_nothing,
            a_conflict_refuses_only_itself,
            appends_back_to_back_are_in_order,
            lazy_appends_keep_their_place,
            d1_events_and_rows_are_one,
            a_question_belongs_to_one_session,
            what_contradicts_itself_is_refused,
            acknowledged_is_readable_at_once,
            i4_acknowledged_survives_a_restart,
            a_run_that_wrote_has_its_own_number,
            v6_a_permission_of_an_earlier_run_is_closed,
            shut_commits_what_waits,
            every_script_comes_back,
            large_content_comes_back,
            i2_one_of_many_writers_wins,
            many_sessions_at_once,
            a_dropped_reply_changes_nothing,
            d2_questions_are_listed_oldest_first,
            d2_pages_neither_skip_nor_repeat,
            d2_filters,
            d2_the_end_of_an_id_is_a_filter,
            d3_an_answer_is_owed_until_it_is_delivered,
            r17_every_request_id_finds_its_question,
            sessions_are_listed_last_changed_first,
            d6_a_deleted_session_is_in_no_list,
            d6_a_deleted_session_is_owed_no_answer,
            counts_are_those_of_the_inbox,
            a_limit_of_zero_is_none,
        );
    };
    (@each $store:expr; $($check:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                $crate::conformance::$check(&$store).await;
            }
        )*
    };
}

/// Appends, and expects that it is committed.
///
/// # Panics
/// It is not.
pub async fn commit(ledger: &dyn Ledger, append: Append) {
    let outcome = ledger.append(append).await;
    assert_eq!(outcome, Ok(()), "the append is committed");
}

/// Appends, and expects that it is refused.
///
/// # Panics
/// It is not.
pub async fn refuse(ledger: &dyn Ledger, append: Append) -> AppendError {
    ledger.append(append).await.expect_err("the append is refused")
}
