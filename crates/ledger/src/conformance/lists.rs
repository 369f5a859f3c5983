//! Lists, their places and their filters.

use holdpoint_model::ids::Micros;

use super::sample::{Book, cursor, request_id, session_id};
use super::{Store, commit};
use crate::contract::{Counts, Ledger, QuestionFilter, QuestionRow, SessionFilter, StateFilter};

async fn list(ledger: &dyn Ledger, filter: QuestionFilter) -> Vec<QuestionRow> {
    ledger.questions(filter).await.expect("a list")
}

fn names(rows: &[QuestionRow]) -> Vec<&str> {
    rows.iter().map(|row| row.question.id.as_str()).collect()
}

fn everything(state: StateFilter) -> QuestionFilter {
    QuestionFilter { state, limit: usize::MAX, ..Default::default() }
}

/// D2: oldest first; of the same time, by id.
pub async fn d2_questions_are_listed_oldest_first(store: &dyn Store) {
    let ledger = store.open();
    let (mut one, mut other) = (Book::new("one"), Book::new("other"));
    commit(&*ledger, one.open(1)).await;
    commit(&*ledger, other.open(1)).await;
    for (at, name) in [(30, "c"), (10, "z"), (20, "b"), (10, "a"), (-5, "m"), (20, "B")] {
        let book = if at == 20 { &mut other } else { &mut one };
        let (append, _) = book.ask(at, name);
        commit(&*ledger, append).await;
    }
    for state in [StateFilter::Open, StateFilter::Any] {
        let rows = list(&*ledger, everything(state)).await;
        assert_eq!(names(&rows), ["q_m", "q_a", "q_z", "q_B", "q_b", "q_c"]);
    }
}

/// D2: pages put together are the list, whatever their size, also where many have the same time; and what is
/// settled between two pages shifts nothing.
pub async fn d2_pages_neither_skip_nor_repeat(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    let mut asked = Vec::new();
    for number in 0..40 {
        let (append, question) = book.ask(number / 9, &format!("n{:02}", (number * 7) % 40));
        commit(&*ledger, append).await;
        asked.push(question);
    }
    let whole = list(&*ledger, everything(StateFilter::Open)).await;
    assert_eq!(whole.len(), 40);
    for size in [1, 2, 7, 39, 40, 41] {
        let mut pages = Vec::new();
        let mut after = None;
        loop {
            let filter = QuestionFilter { after: after.clone(), limit: size, ..Default::default() };
            let page = list(&*ledger, filter).await;
            assert!(page.len() <= size);
            let Some(last) = page.last() else { break };
            after = Some(cursor(last));
            pages.extend(page);
        }
        assert_eq!(names(&pages), names(&whole), "in pages of {size}");
    }

    let first = list(&*ledger, QuestionFilter { limit: 20, ..Default::default() }).await;
    for row in [&first[3], &first[19]] {
        let question = asked.iter().find(|question| question.id == row.question.id).expect("it was asked");
        let (append, _) = book.settle(99, question);
        commit(&*ledger, append).await;
    }
    let after = Some(cursor(&first[19]));
    let rest = list(&*ledger, QuestionFilter { after, limit: 99, ..Default::default() }).await;
    assert_eq!(names(&rest), names(&whole[20..]));
}

/// D2: by state, session, workspace and kind, alone and together.
pub async fn d2_filters(store: &dyn Store) {
    let ledger = store.open();
    let mut here = Book::new("here").in_workspace("/here");
    let mut there = Book::new("there").in_workspace("/there");
    let mut beside = Book::new("beside").in_workspace("/here");
    for book in [&mut here, &mut there, &mut beside] {
        commit(&*ledger, book.open(1)).await;
    }
    let mut at = 10;
    for book in [&mut here, &mut there, &mut beside] {
        let name = book.row.session.as_str().to_owned();
        for what in ["open", "settled", "closed"] {
            at += 1;
            let (append, question) = book.ask(at, &format!("{name}{what}"));
            commit(&*ledger, append).await;
            let (append, permission) = book.permission(at, &format!("{name}{what}P"));
            commit(&*ledger, append).await;
            for question in [question, permission] {
                match what {
                    "settled" => commit(&*ledger, book.settle(at, &question).0).await,
                    "closed" => commit(&*ledger, book.close(at, &question).0).await,
                    _ => {}
                }
            }
        }
    }
    let all = list(&*ledger, everything(StateFilter::Any)).await;
    assert_eq!(all.len(), 18);
    let states = [
        StateFilter::Open,
        StateFilter::Settled,
        StateFilter::Undelivered,
        StateFilter::Closed,
        StateFilter::Any,
    ];
    for state in states {
        for session in [None, Some("here"), Some("nowhere")] {
            for workspace in [None, Some("/here"), Some("/nowhere")] {
                for questions in [None, Some(true), Some(false)] {
                    for after in [None, Some(cursor(&all[5]))] {
                        let filter = QuestionFilter {
                            state,
                            session: session.map(session_id),
                            workspace_cwd: workspace.map(str::to_owned),
                            user_questions: questions,
                            ending: None,
                            after: after.clone(),
                            limit: 99,
                        };
                        let what = match state {
                            StateFilter::Open => "open",
                            StateFilter::Settled | StateFilter::Undelivered => "settled",
                            StateFilter::Closed => "closed",
                            StateFilter::Any => "",
                        };
                        let expected: Vec<&str> = all
                            .iter()
                            .enumerate()
                            .filter(|(place, _)| after.is_none() || *place > 5)
                            .map(|(_, row)| row)
                            .filter(|row| row.question.id.as_str().contains(what))
                            // Nothing here is delivered, and consent is nothing that an agent is owed.
                            .filter(|row| {
                                state != StateFilter::Undelivered || row.question.body.is_question()
                            })
                            .filter(|row| session.is_none_or(|wanted| row.session.session.as_str() == wanted))
                            .filter(|row| workspace.is_none_or(|wanted| row.session.workspace_cwd == wanted))
                            .filter(|row| {
                                questions.is_none_or(|wanted| row.question.body.is_question() == wanted)
                            })
                            .map(|row| row.question.id.as_str())
                            .collect();
                        let found = list(&*ledger, filter.clone()).await;
                        assert_eq!(names(&found), expected, "{filter:?}");
                    }
                }
            }
        }
    }
}

/// D2: by how the id ends, letter for letter, in every state, in pages, and together with the other filters.
pub async fn d2_the_end_of_an_id_is_a_filter(store: &dyn Store) {
    let ledger = store.open();
    let (mut one, mut other) = (Book::new("one"), Book::new("other"));
    for book in [&mut one, &mut other] {
        commit(&*ledger, book.open(1)).await;
    }
    let (append, settled) = one.ask(2, "1ab");
    commit(&*ledger, append).await;
    commit(&*ledger, one.settle(3, &settled).0).await;
    let (append, closed) = one.permission(4, "2ab");
    commit(&*ledger, append).await;
    commit(&*ledger, one.close(5, &closed).0).await;
    commit(&*ledger, one.ask(6, "3aB").0).await;
    commit(&*ledger, one.ask(7, "4xb").0).await;
    commit(&*ledger, other.ask(8, "5ab").0).await;
    let any = QuestionFilter { state: StateFilter::Any, limit: 99, ..Default::default() };
    let table = [
        ("ab", vec!["q_1ab", "q_2ab", "q_5ab"]),
        ("q_4xb", vec!["q_4xb"]),
        ("0q_4xb", vec![]),
        ("%ab", vec![]),
        ("_ab", vec![]),
        ("", vec!["q_1ab", "q_2ab", "q_3aB", "q_4xb", "q_5ab"]),
    ];
    for (ending, expected) in table {
        let filter = QuestionFilter { ending: Some(ending.to_owned()), ..any.clone() };
        assert_eq!(names(&list(&*ledger, filter).await), expected, "{ending:?}");
    }
    let ab = QuestionFilter { ending: Some("ab".to_owned()), ..any };
    let first = list(&*ledger, QuestionFilter { limit: 1, ..ab.clone() }).await;
    let after = Some(cursor(&first[0]));
    let filters = [
        (QuestionFilter { after, ..ab.clone() }, vec!["q_2ab", "q_5ab"]),
        (QuestionFilter { state: StateFilter::Open, ..ab.clone() }, vec!["q_5ab"]),
        (QuestionFilter { session: Some(session_id("one")), ..ab.clone() }, vec!["q_1ab", "q_2ab"]),
        (QuestionFilter { user_questions: Some(false), ..ab }, vec!["q_2ab"]),
    ];
    for (filter, expected) in filters {
        assert_eq!(names(&list(&*ledger, filter.clone()).await), expected, "{filter:?}");
    }
}

/// D3: a settled question is among the settled at once, and among the undelivered until its agent has the answer.
pub async fn d3_an_answer_is_owed_until_it_is_delivered(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    let (append, one) = book.ask(2, "one");
    commit(&*ledger, append).await;
    commit(&*ledger, book.ask(3, "other").0).await;
    let (append, settled) = book.settle(4, &one);
    let (delivery, _) = book.deliver(5, &settled);
    for (append, owed) in [(append, vec!["q_one"]), (delivery, vec![])] {
        commit(&*ledger, append).await;
        for (state, expected) in [
            (StateFilter::Open, vec!["q_other"]),
            (StateFilter::Settled, vec!["q_one"]),
            (StateFilter::Undelivered, owed.clone()),
            (StateFilter::Closed, vec![]),
            (StateFilter::Any, vec!["q_one", "q_other"]),
        ] {
            assert_eq!(names(&list(&*ledger, everything(state)).await), expected, "{state:?}");
        }
        assert_eq!(ledger.counts().await, Ok(Counts { open: 1, oldest: Some(Micros(3)) }));
    }
}

/// R17: every id that it was ever asked under finds it; an id that was another question's stays that one's.
pub async fn r17_every_request_id_finds_its_question(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    let (append, question) = book.ask(2, "a");
    commit(&*ledger, append).await;
    let (append, question) = book.ask_again(3, &question, "r-second");
    commit(&*ledger, append).await;
    drop(ledger);
    let ledger = store.open();
    let (append, question) = book.ask_again(4, &question, "r-third");
    commit(&*ledger, append).await;
    for request in ["r-a", "r-second", "r-third"] {
        let row =
            ledger.question_by_request(&request_id(request)).await.expect("a read").expect("it is found");
        assert_eq!(row.question, question);
    }
    assert_eq!(ledger.question_by_request(&request_id("r-other")).await, Ok(None));

    let (append, other) = book.ask(5, "b");
    commit(&*ledger, append).await;
    let (append, _) = book.ask_again(6, &other, "r-second");
    commit(&*ledger, append).await;
    let row =
        ledger.question_by_request(&request_id("r-second")).await.expect("a read").expect("it is found");
    assert_eq!(row.question.id, question.id);
}

/// Sessions: the last changed first, in pages.
pub async fn sessions_are_listed_last_changed_first(store: &dyn Store) {
    let ledger = store.open();
    let mut books = Vec::new();
    for number in 0..12 {
        let cwd = if number % 3 == 0 { "/third" } else { "/work" };
        let mut book = Book::new(&format!("s{number:02}")).in_workspace(cwd);
        commit(&*ledger, book.open(number / 4)).await;
        books.push(book);
    }
    commit(&*ledger, books[1].title(50, "touched")).await;
    let filter = |before, limit| SessionFilter { workspace_cwd: None, before, limit };
    let whole = ledger.sessions(filter(None, 99)).await.expect("a list");
    let ids: Vec<&str> = whole.iter().map(|row| row.session.as_str()).collect();
    assert_eq!(ids, ["s01", "s11", "s10", "s09", "s08", "s07", "s06", "s05", "s04", "s03", "s02", "s00"]);
    assert_eq!(whole[0], books[1].row);
    for size in [1, 5, 12, 13] {
        let mut pages = Vec::new();
        let mut before = None;
        loop {
            let page = ledger.sessions(filter(before, size)).await.expect("a list");
            let Some(last) = page.last() else { break };
            before = Some((last.updated_at, last.session.clone()));
            pages.extend(page);
        }
        assert_eq!(pages, whole, "in pages of {size}");
    }
    let third = SessionFilter { workspace_cwd: Some("/third".to_owned()), limit: 99, ..Default::default() };
    let third = ledger.sessions(third).await.expect("a list");
    assert_eq!(third.len(), 4);
    assert!(third.iter().all(|row| row.workspace_cwd == "/third"));
}

/// D6: a deleted session is in no list; its row says that it is deleted.
pub async fn d6_a_deleted_session_is_in_no_list(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    book.row.deleted = true;
    commit(&*ledger, book.append(2, vec![holdpoint_model::session::Event::Deleted], Vec::new())).await;
    let filter = SessionFilter { limit: 9, ..Default::default() };
    assert_eq!(ledger.sessions(filter).await, Ok(Vec::new()));
    let row = ledger.session(&book.row.session).await.expect("a read").expect("the row stays");
    assert!(row.deleted);
    assert_eq!(ledger.events(&book.row.session).await.expect("events").len(), 2);
}

/// D6: what a deleted session's agent will never have is owed no more, and is settled all the same.
pub async fn d6_a_deleted_session_is_owed_no_answer(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    let (append, one) = book.ask(2, "one");
    commit(&*ledger, append).await;
    commit(&*ledger, book.settle(3, &one).0).await;
    assert_eq!(names(&list(&*ledger, everything(StateFilter::Undelivered)).await), ["q_one"]);
    book.row.deleted = true;
    commit(&*ledger, book.append(4, vec![holdpoint_model::session::Event::Deleted], Vec::new())).await;
    assert!(list(&*ledger, everything(StateFilter::Undelivered)).await.is_empty());
    assert_eq!(names(&list(&*ledger, everything(StateFilter::Settled)).await), ["q_one"]);
    assert_eq!(ledger.counts().await, Ok(Counts::default()));
}

/// The counts are those of the inbox, and the oldest is its first.
pub async fn counts_are_those_of_the_inbox(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    let (append, first) = book.ask(7, "a");
    commit(&*ledger, append).await;
    commit(&*ledger, book.permission(5, "p").0).await;
    commit(&*ledger, book.ask(9, "b").0).await;
    assert_eq!(ledger.counts().await, Ok(Counts { open: 3, oldest: Some(Micros(5)) }));
    commit(&*ledger, book.settle(10, &first).0).await;
    assert_eq!(ledger.counts().await, Ok(Counts { open: 2, oldest: Some(Micros(5)) }));
    assert_eq!(list(&*ledger, everything(StateFilter::Open)).await.len(), 2);
}

/// A limit of 0 is an empty list.
pub async fn a_limit_of_zero_is_none(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    commit(&*ledger, book.ask(2, "a").0).await;
    assert_eq!(list(&*ledger, QuestionFilter::default()).await, []);
    assert_eq!(ledger.sessions(SessionFilter::default()).await, Ok(Vec::new()));
}
