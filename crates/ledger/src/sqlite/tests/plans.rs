//! The queries use the indexes: what a list costs is its page, not what is stored.

use rusqlite::Connection;

use super::super::{lists, read};
use super::Dir;
use crate::conformance::sample::{cursor, session_id};
use crate::contract::{Ledger, QuestionCursor, QuestionFilter, StateFilter};

fn plan(dir: &Dir, sql: &str) -> String {
    let connection = Connection::open(dir.file()).unwrap();
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    // Its parameters stay unbound: a plan does not depend on them.
    let mut rows = statement.raw_query();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        lines.push(row.get::<_, String>("detail").unwrap());
    }
    lines.join("\n")
}

/// Every list but those of one session.
fn filters(after: Option<QuestionCursor>) -> Vec<QuestionFilter> {
    let mut filters = Vec::new();
    let states = [
        StateFilter::Open,
        StateFilter::Settled,
        StateFilter::Undelivered,
        StateFilter::Closed,
        StateFilter::Any,
    ];
    for state in states {
        for user_questions in [None, Some(true), Some(false)] {
            for workspace_cwd in [None, Some("/work".to_owned())] {
                for after in [None, after.clone()] {
                    for ending in [None, Some("a".to_owned())] {
                        filters.push(QuestionFilter {
                            state,
                            user_questions,
                            workspace_cwd: workspace_cwd.clone(),
                            ending,
                            after: after.clone(),
                            ..Default::default()
                        });
                    }
                }
            }
        }
    }
    filters
}

#[tokio::test]
async fn d2_every_list_reads_the_rows_of_its_filter_only() {
    let dir = Dir::new();
    let ledger = dir.open();
    let mut book = crate::conformance::sample::Book::new("s");
    ledger.append(book.open(1)).await.unwrap();
    ledger.append(book.ask(2, "a").0).await.unwrap();
    let row = ledger.questions(QuestionFilter { limit: 1, ..Default::default() }).await.unwrap().remove(0);

    for filter in filters(Some(cursor(&row))) {
        let Some(sql) = read::list_sql(&filter) else { continue };
        let plan = plan(&dir, &sql);
        let mut reads: Vec<&str> = plan.lines().filter(|line| line.contains(" questions USING ")).collect();
        reads.retain(|line| !line.contains("questions_owed") && !line.contains("questions_ended (list=?"));
        let current = if filter.workspace_cwd.is_some() {
            "questions_current_in (workspace=? AND permission=?"
        } else {
            "questions_current (permission=?"
        };
        assert!(reads.iter().all(|line| line.contains(current)), "{filter:?}: {plan}");
        // Only the page itself is sorted.
        assert!(plan.matches("TEMP B-TREE").count() <= 1, "{filter:?}: {plan}");
    }
    let counts = plan(&dir, lists::COUNTS);
    for line in counts.lines().filter(|line| line.contains(" questions ")) {
        let first = line.contains("USING INDEX questions_current (permission=?)");
        assert!(line.contains("USING COVERING INDEX questions_") || first, "{counts}");
    }

    for filter in filters(None).into_iter().filter(|filter| filter.workspace_cwd.is_none()) {
        let filter = QuestionFilter { session: Some(session_id("s")), ..filter };
        let Some(sql) = read::list_sql(&filter) else { continue };
        let plan = plan(&dir, &sql);
        assert!(plan.contains("questions USING INDEX questions_session (session=?"), "{plan}");
    }
}
