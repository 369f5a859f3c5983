//! Rows that are not what they were.

use super::{Dir, fill};
use crate::conformance::sample::Book;
use crate::contract::{Ledger, QuestionFilter, ReadError, SessionFilter, StateFilter};

fn damage<T: std::fmt::Debug>(result: Result<T, ReadError>) -> String {
    match result {
        Err(ReadError::Damaged(what)) => what,
        other => panic!("expected damage, found {other:?}"),
    }
}

/// STRICT tables refuse another type; a text can hold anything.
#[tokio::test]
async fn a_damaged_row_is_named_and_others_are_read() {
    let dir = Dir::new();
    let ledger = dir.open();
    let (mut good, mut bad) = (Book::new("good"), Book::new("bad"));
    fill(&ledger, &mut good, 3).await;
    fill(&ledger, &mut bad, 3).await;
    let (append, question) = bad.ask(5, "a");
    ledger.append(append).await.unwrap();
    let (append, fine) = good.ask(6, "b");
    ledger.append(append).await.unwrap();

    for rubbish in ["'{\"type\":\"from_the_future\"}'", "'{\"type\":'", "''", "CAST(X'ff00fe' AS TEXT)"] {
        dir.sql(&format!("UPDATE events SET event = {rubbish} WHERE ref = 6"));
        let what = damage(ledger.events(&bad.row.session).await);
        assert!(what.contains("events row 6 (session bad, version 1)"), "{what}");
        assert_eq!(ledger.events(&good.row.session).await.unwrap().len(), 5);
    }

    for (sql, told) in [
        ("UPDATE questions SET head = '{}' WHERE id = 'q_a'", "questions row 1 (q_a), column head"),
        ("UPDATE questions SET id = 'no id' WHERE id = 'q_a'", "questions row 1, column id"),
    ] {
        let before = "CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM questions WHERE id = 'q_a'";
        dir.sql(before);
        dir.sql(sql);
        let any = QuestionFilter { state: StateFilter::Any, limit: 9, ..Default::default() };
        let what = damage(ledger.questions(any).await);
        assert!(what.contains(told), "{what}");
        assert!(ledger.question(&fine.id).await.unwrap().is_some());
        dir.sql(
            "UPDATE questions SET id = (SELECT id FROM kept), head = (SELECT head FROM kept) WHERE ref = 1",
        );
    }
    dir.sql("DELETE FROM bodies WHERE question = 1");
    let what = damage(ledger.question(&question.id).await);
    assert!(what.contains("q_a") && what.contains("missing"), "{what}");

    dir.sql("UPDATE sessions SET id = '../bad' WHERE id = 'bad'");
    let what = damage(ledger.sessions(SessionFilter { limit: 9, ..Default::default() }).await);
    assert!(what.contains("sessions row 2, column id"), "{what}");
}

/// I4: a session is never folded from a part of its events.
#[tokio::test]
async fn i4_a_missing_event_is_damage() {
    for (version, told) in
        [(0, "event 0 of 5 is missing"), (2, "event 2 of 5 is missing"), (4, "4 events are there of 5")]
    {
        let dir = Dir::new();
        let ledger = dir.open();
        let mut book = Book::new("s");
        fill(&ledger, &mut book, 4).await;
        dir.sql(&format!("DELETE FROM events WHERE version = {version}"));
        let what = damage(ledger.events(&book.row.session).await);
        assert!(what.contains(told), "{what}");
    }
}

/// Pages of rubbish: an error or a right answer, and never a panic.
#[tokio::test]
async fn rubbish_in_any_page_is_an_error() {
    let dir = Dir::new();
    let mut book = Book::new("s");
    {
        let ledger = dir.open();
        fill(&ledger, &mut book, 50).await;
        for number in 0..50 {
            ledger.append(book.ask(number, &format!("n{number}")).0).await.unwrap();
        }
        ledger.shut().await;
    }
    dir.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    let whole = std::fs::read(dir.file()).unwrap();
    let pages = whole.len() / 4096;
    let mut found = 0;
    for page in 1..pages {
        let mut content = whole.clone();
        content[page * 4096..(page + 1) * 4096].fill(0x5a);
        let _ = std::fs::remove_file(dir.log());
        std::fs::write(dir.file(), content).unwrap();
        let Ok(ledger) = super::SqliteLedger::open(&dir.path) else {
            found += 1;
            continue;
        };
        let any = QuestionFilter { state: StateFilter::Any, limit: 99, ..Default::default() };
        let reads = [
            ledger
                .events(&book.row.session)
                .await
                .map(|events| assert_eq!(events.len() as u64, book.version)),
            ledger.questions(any).await.map(drop),
            ledger.counts().await.map(drop),
            ledger.sessions(SessionFilter { limit: 9, ..Default::default() }).await.map(drop),
        ];
        found += usize::from(reads.iter().any(Result::is_err));
        ledger.shut().await;
    }
    assert!(found > pages / 2, "{found} of {pages}");
}
