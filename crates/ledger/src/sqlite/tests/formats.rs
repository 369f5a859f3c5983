//! Files of earlier formats: brought up, they are what they would be if they had been made now.

use super::super::open;
use super::{Dir, SqliteLedger};
use crate::conformance::sample::Book;
use crate::contract::{Ledger, QuestionFilter, QuestionRow, StateFilter};

/// Questions and permissions in every state, of two workspaces.
async fn fill(ledger: &dyn Ledger) {
    for (name, cwd) in [("a", "/one"), ("b", "/two"), ("c", "/one")] {
        let mut book = Book::new(name).in_workspace(cwd);
        ledger.append(book.open(1)).await.unwrap();
        for at in 0..12 {
            let ask = if at % 3 == 0 { Book::permission } else { Book::ask };
            let (append, question) = ask(&mut book, at, &format!("{name}{at}"));
            ledger.append(append).await.unwrap();
            match at % 4 {
                0 => {
                    let (append, question) = book.settle(at, &question);
                    ledger.append(append).await.unwrap();
                    if at == 8 {
                        ledger.append(book.deliver(at, &question).0).await.unwrap();
                    }
                }
                1 => ledger.append(book.close(at, &question).0).await.unwrap(),
                _ => {}
            }
        }
    }
}

/// Every list that there is.
async fn lists(ledger: &dyn Ledger) -> Vec<Vec<QuestionRow>> {
    let mut lists = Vec::new();
    let states = [
        StateFilter::Open,
        StateFilter::Settled,
        StateFilter::Undelivered,
        StateFilter::Closed,
        StateFilter::Any,
    ];
    for state in states {
        for workspace in [None, Some("/one"), Some("/three")] {
            for user_questions in [None, Some(true), Some(false)] {
                let workspace_cwd = workspace.map(str::to_owned);
                let filter =
                    QuestionFilter { state, workspace_cwd, user_questions, limit: 99, ..Default::default() };
                lists.push(ledger.questions(filter).await.unwrap());
            }
        }
    }
    lists
}

/// A file of format 1 with what a new one holds.
fn as_format_1(new: &Dir) -> Dir {
    let old = Dir::new();
    drop(SqliteLedger::open_with(&old.path, &open::migrations()[..1], Default::default()).unwrap());
    old.sql(&format!(
        "ATTACH '{}' AS new;
         INSERT INTO sessions SELECT * FROM new.sessions;
         INSERT INTO events SELECT * FROM new.events;
         INSERT INTO questions (ref, id, session, asked_at, state, permission, run, head)
         SELECT ref, id, session, asked_at, state, permission, run, head FROM new.questions;
         INSERT INTO bodies SELECT * FROM new.bodies;
         INSERT INTO requests SELECT * FROM new.requests;
         UPDATE meta SET run = (SELECT run FROM new.meta);",
        new.file()
    ));
    old
}

#[tokio::test]
async fn d2_a_file_of_format_1_has_the_same_lists_when_it_is_brought_up() {
    let new = Dir::new();
    let ledger = new.open();
    fill(&ledger).await;
    ledger.shut().await;
    let old = as_format_1(&new);

    // Both in their next run, in which the permissions that were left open are closed (V6).
    let (ledger, brought_up) = (new.open(), old.open());
    assert_eq!(ledger.run(), brought_up.run());
    let expected = lists(&ledger).await;
    assert!(expected.iter().filter(|list| !list.is_empty()).count() > 20);
    assert_eq!(lists(&brought_up).await, expected);
    assert_eq!(brought_up.counts().await, ledger.counts().await);

    // And it is written to as a new one is.
    for ledger in [&ledger, &brought_up] {
        let mut book = Book::new("d").in_workspace("/two");
        ledger.append(book.open(1)).await.unwrap();
        ledger.append(book.ask(5, "d").0).await.unwrap();
    }
    assert_eq!(lists(&brought_up).await, lists(&ledger).await);
}
