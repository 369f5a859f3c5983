//! The queries use the indexes: what a list costs is its page, not what is stored.

use rusqlite::Connection;

use super::super::read;
use super::Dir;
use crate::conformance::sample::{cursor, session_id};
use crate::contract::{Ledger, QuestionFilter, StateFilter};

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

#[tokio::test]
async fn the_inbox_and_its_counts_read_the_open_questions_only() {
    let dir = Dir::new();
    let ledger = dir.open();
    let mut book = crate::conformance::sample::Book::new("s");
    ledger.append(book.open(1)).await.unwrap();
    ledger.append(book.ask(2, "a").0).await.unwrap();
    let row = ledger.questions(QuestionFilter { limit: 1, ..Default::default() }).await.unwrap().remove(0);

    for after in [None, Some(cursor(&row))] {
        for user_questions in [None, Some(true)] {
            let filter = QuestionFilter { after: after.clone(), user_questions, ..Default::default() };
            let plan = plan(&dir, &read::list_sql(&filter));
            assert!(plan.contains("q USING INDEX questions_open"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
    let counts = plan(&dir, read::COUNTS_SQL);
    assert!(counts.contains("COVERING INDEX questions_open"), "{counts}");

    for state in [StateFilter::Any, StateFilter::Settled, StateFilter::Closed] {
        let plan = plan(&dir, &read::list_sql(&QuestionFilter { state, ..Default::default() }));
        assert!(plan.contains("q USING INDEX questions_asked"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
    for state in [StateFilter::Any, StateFilter::Settled, StateFilter::Closed, StateFilter::Open] {
        let filter = QuestionFilter { state, session: Some(session_id("s")), ..Default::default() };
        let plan = plan(&dir, &read::list_sql(&filter));
        assert!(plan.contains("q USING INDEX questions_session (session=?"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
