//! Order, conflicts, atomicity, durability.

use std::sync::Arc;

use holdpoint_model::session::{Body, Event};
use serde_json::json;

use super::sample::{Book, question_id, request_id, session_id};
use super::{Store, commit, refuse};
use crate::contract::{
    AppendError, Counts, Ledger, QuestionFilter, ReadError, SessionFilter, StateFilter, Urgency,
};

/// An empty ledger has nothing, and says so without an error.
pub async fn nothing_is_there_at_first(store: &dyn Store) {
    let ledger = store.open();
    assert_eq!(ledger.events(&session_id("none")).await, Ok(Vec::new()));
    assert_eq!(ledger.session(&session_id("none")).await, Ok(None));
    assert_eq!(ledger.question(&question_id("none")).await, Ok(None));
    assert_eq!(ledger.question_by_request(&request_id("none")).await, Ok(None));
    assert_eq!(ledger.questions(QuestionFilter { limit: 9, ..Default::default() }).await, Ok(Vec::new()));
    assert_eq!(ledger.sessions(SessionFilter { limit: 9, ..Default::default() }).await, Ok(Vec::new()));
    assert_eq!(ledger.counts().await, Ok(Counts { open: 0, oldest: None }));
    assert!(ledger.run() > 0);
}

/// Q8: what was stored is read as it was, in its order, with its times.
pub async fn q8_events_come_back_in_order(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(10)).await;
    let (append, question) = book.ask(20, "a");
    commit(&*ledger, append).await;
    let several = ["x", "y", "z"].map(|title| Event::Titled { title: title.to_owned() });
    commit(&*ledger, book.append(30, several.to_vec(), Vec::new())).await;
    let events = ledger.events(&session_id("s")).await.expect("events");
    let versions: Vec<u64> = events.iter().map(|event| event.version).collect();
    assert_eq!(versions, [0, 1, 2, 3, 4]);
    let times: Vec<i64> = events.iter().map(|event| event.at.0).collect();
    assert_eq!(times, [10, 20, 30, 30, 30]);
    assert!(matches!(events[0].event, Event::Opened { .. }));
    assert!(matches!(&events[1].event, Event::Asked { question: id, .. } if *id == question.id));
    assert_eq!(events[4].event, several[2]);
    assert_eq!(ledger.session(&session_id("s")).await, Ok(Some(book.row)));
}

/// I2: who believes in another number of events learns the true one.
pub async fn i2_another_version_is_a_conflict(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    commit(&*ledger, book.title(2, "two")).await;
    for wrong in [0, 1, 3, 9] {
        let mut append = book.clone().title(3, "wrong");
        append.expected = wrong;
        let error = refuse(&*ledger, append).await;
        assert_eq!(error, AppendError::Conflict { expected: wrong, actual: 2 });
    }
    let mut unknown = Book::new("t").open(1);
    unknown.expected = 1;
    assert_eq!(refuse(&*ledger, unknown).await, AppendError::Conflict { expected: 1, actual: 0 });
}

/// A refused append leaves no event, no row and no request.
pub async fn a_conflict_leaves_nothing(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    let before = book.row.clone();
    let (mut append, question) = book.ask(2, "a");
    append.expected = 7;
    append.row.title = Some("never".to_owned());
    refuse(&*ledger, append).await;
    assert_eq!(ledger.events(&session_id("s")).await.expect("events").len(), 1);
    assert_eq!(ledger.session(&session_id("s")).await, Ok(Some(before)));
    assert_eq!(ledger.question(&question.id).await, Ok(None));
    assert_eq!(ledger.question_by_request(&question.requests[0]).await, Ok(None));
}

/// A conflict in the midst of appends that are made together refuses only that one.
pub async fn a_conflict_refuses_only_itself(store: &dyn Store) {
    let ledger = store.open();
    let mut books = ["a", "b", "c"].map(Book::new);
    let mut replies: Vec<_> = books.iter_mut().map(|book| ledger.append(book.open(1))).collect();
    let mut wrong = books[1].clone().title(2, "wrong");
    wrong.expected = 5;
    replies.insert(2, ledger.append(wrong));
    replies.push(ledger.append(books[1].title(3, "right")));
    let mut outcomes = Vec::new();
    for reply in replies {
        outcomes.push(reply.await);
    }
    assert_eq!(
        outcomes,
        [Ok(()), Ok(()), Err(AppendError::Conflict { expected: 5, actual: 1 }), Ok(()), Ok(())]
    );
    let row = ledger.session(&session_id("b")).await.expect("a row").expect("it is there");
    assert_eq!(row.title.as_deref(), Some("right"));
}

/// An append has its place when the call returns, though nobody has polled its future.
pub async fn appends_back_to_back_are_in_order(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    let mut replies = vec![ledger.append(book.open(1))];
    for number in 0..200 {
        replies.push(ledger.append(book.title(number, &number.to_string())));
    }
    // The last first: no future needs another to be polled before it.
    for reply in replies.into_iter().rev() {
        assert_eq!(reply.await, Ok(()));
    }
    let events = ledger.events(&session_id("s")).await.expect("events");
    let titles: Vec<String> = events
        .iter()
        .filter_map(|event| match &event.event {
            Event::Titled { title } => Some(title.clone()),
            _ => None,
        })
        .collect();
    let expected: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    assert_eq!(titles, expected);
}

/// Lazy appends are committed in their place, with an urgent one behind them and without one.
pub async fn lazy_appends_keep_their_place(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    let lazy = |mut append: crate::contract::Append| {
        append.urgency = Urgency::Lazy;
        append
    };
    let first = ledger.append(lazy(book.title(2, "first")));
    let second = ledger.append(book.title(3, "second"));
    assert_eq!(second.await, Ok(()));
    assert_eq!(first.await, Ok(()));
    let alone = ledger.append(lazy(book.title(4, "alone")));
    assert_eq!(alone.await, Ok(()));
    let events = ledger.events(&session_id("s")).await.expect("events");
    let titles: Vec<_> = events[1..].iter().map(|event| &event.event).collect();
    let expected = ["first", "second", "alone"].map(|title| Event::Titled { title: title.to_owned() });
    assert_eq!(titles, expected.iter().collect::<Vec<_>>());
}

/// D1: after an append the rows are those that came with it.
pub async fn d1_events_and_rows_are_one(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    let (append, first) = book.ask(2, "a");
    commit(&*ledger, append).await;
    let (append, second) = book.permission(2, "b");
    commit(&*ledger, append).await;
    let stored = |id| {
        let row = ledger.question(id);
        async { row.await.expect("a read").expect("the question is there") }
    };
    let row = stored(&first.id).await;
    assert_eq!(row.question, first);
    assert_eq!(row.run, ledger.run());
    assert_eq!(stored(&second.id).await.question, second);
    let (append, settled) = book.settle(3, &first);
    commit(&*ledger, append).await;
    assert_eq!(stored(&first.id).await.question, settled);
    let (append, closed) = book.close(4, &second);
    commit(&*ledger, append).await;
    let row = stored(&second.id).await;
    assert_eq!(row.question, closed);
    assert_eq!(row.session, book.row, "every row shows the session as it is now");
}

/// A question's id names one question for ever; another session cannot take it.
pub async fn a_question_belongs_to_one_session(store: &dyn Store) {
    let ledger = store.open();
    let (mut one, mut other) = (Book::new("one"), Book::new("other"));
    commit(&*ledger, one.open(1)).await;
    commit(&*ledger, other.open(1)).await;
    let (append, question) = one.ask(2, "a");
    commit(&*ledger, append).await;
    let before = other.clone();
    let (thief, _) = other.ask(3, "a");
    // With others around it, so that a store which commits them together must undo exactly this one.
    let good = ledger.append(one.title(4, "good"));
    let bad = ledger.append(thief);
    let after = ledger.append(before.clone().title(5, "after"));
    assert_eq!(good.await, Ok(()));
    assert!(matches!(bad.await, Err(AppendError::Unavailable(_))));
    assert_eq!(after.await, Ok(()));
    let row = ledger.question(&question.id).await.expect("a read").expect("it is there");
    assert_eq!(row.session.session, one.row.session);
    assert_eq!(row.question, question);
    assert_eq!(ledger.events(&before.row.session).await.expect("events").len(), 2);
}

/// An append without events, or with another session's row, is refused.
pub async fn what_contradicts_itself_is_refused(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    let empty = book.append(1, Vec::new(), Vec::new());
    assert!(matches!(refuse(&*ledger, empty).await, AppendError::Unavailable(_)));
    let mut foreign = book.open(1);
    foreign.row.session = session_id("t");
    assert!(matches!(refuse(&*ledger, foreign).await, AppendError::Unavailable(_)));
    assert_eq!(ledger.sessions(SessionFilter { limit: 9, ..Default::default() }).await, Ok(Vec::new()));
}

/// A read that is made after an acknowledgement sees what was acknowledged.
pub async fn acknowledged_is_readable_at_once(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    for number in 0..100 {
        let (append, question) = book.ask(number, &format!("n{number}"));
        commit(&*ledger, append).await;
        let id = question.id.clone();
        assert_eq!(ledger.question(&id).await.expect("a read").map(|row| row.question), Some(question));
        assert_eq!(ledger.events(&book.row.session).await.expect("events").len() as u64, book.version);
        assert_eq!(ledger.counts().await.expect("counts").open, number as u64 + 1);
    }
}

/// I4: a restart finds every acknowledged append.
pub async fn i4_acknowledged_survives_a_restart(store: &dyn Store) {
    let mut book = Book::new("s");
    let mut asked = Vec::new();
    for round in 0..4 {
        let ledger = store.open();
        assert_eq!(ledger.events(&book.row.session).await.expect("events").len() as u64, book.version);
        if round == 0 {
            commit(&*ledger, book.open(1)).await;
        }
        let (append, question) = book.ask(round, &format!("n{round}"));
        commit(&*ledger, append).await;
        asked.push(question);
        for question in &asked {
            let row = ledger.question(&question.id).await.expect("a read").expect("it is there");
            assert_eq!(row.question, *question);
        }
        if round % 2 == 0 {
            ledger.shut().await;
        }
    }
}

/// Every run that wrote something has its own number, and they go up.
pub async fn a_run_that_wrote_has_its_own_number(store: &dyn Store) {
    let mut book = Book::new("s");
    let mut last = 0;
    for round in 0..3 {
        let ledger = store.open();
        let append = if round == 0 { book.open(1) } else { book.title(1, "again") };
        commit(&*ledger, append).await;
        assert!(ledger.run() > last, "{} comes after {last}", ledger.run());
        last = ledger.run();
        // One that only reads.
        drop(ledger);
        let reader = store.open();
        assert_eq!(reader.events(&book.row.session).await.expect("events").len() as u64, book.version);
        assert!(reader.run() > last);
    }
}

/// V6: consent is not asked for by a run that did not ask; a question still is.
pub async fn v6_a_permission_of_an_earlier_run_is_closed(store: &dyn Store) {
    let mut book = Book::new("s");
    let first = store.open();
    commit(&*first, book.open(1)).await;
    let (append, permission) = book.permission(2, "p");
    commit(&*first, append).await;
    let (append, question) = book.ask(3, "q");
    commit(&*first, append).await;
    let listed = |ledger: &Arc<dyn Ledger>, state| {
        let list = ledger.questions(QuestionFilter { state, limit: 9, ..Default::default() });
        async {
            let list = list.await.expect("a list");
            list.into_iter().map(|row| row.question.id).collect::<Vec<_>>()
        }
    };
    let both = [permission.id.clone(), question.id.clone()];
    assert_eq!(listed(&first, StateFilter::Open).await, both);
    assert_eq!(first.counts().await.expect("counts").open, 2);
    let old_run = first.run();
    drop(first);

    let second = store.open();
    assert_eq!(listed(&second, StateFilter::Open).await, both[1..]);
    assert_eq!(listed(&second, StateFilter::Closed).await, both[..1]);
    assert_eq!(listed(&second, StateFilter::Settled).await, []);
    assert_eq!(listed(&second, StateFilter::Any).await, both);
    let counts = second.counts().await.expect("counts");
    assert_eq!(counts, Counts { open: 1, oldest: Some(question.asked_at) });
    let row = second.question(&permission.id).await.expect("a read").expect("it is there");
    assert_eq!((row.run, row.question.is_open()), (old_run, true), "the row says by whom it was left open");
    // The same session asks for consent again, and that is asked now.
    let (append, again) = book.permission(4, "again");
    commit(&*second, append).await;
    assert_eq!(listed(&second, StateFilter::Open).await, [question.id, again.id]);
}

/// Shutting commits what waits, lazy appends too, and then refuses.
pub async fn shut_commits_what_waits(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    let mut replies = vec![ledger.append(book.open(1))];
    for number in 0..50 {
        let mut append = book.title(number, "t");
        append.urgency = Urgency::Lazy;
        replies.push(ledger.append(append));
    }
    let shut = ledger.shut();
    // From the call on, not only from its end.
    assert_eq!(refuse(&*ledger, book.clone().title(99, "late")).await, AppendError::Shut);
    shut.await;
    for reply in replies {
        assert_eq!(reply.await, Ok(()));
    }
    ledger.shut().await;
    assert_eq!(refuse(&*ledger, book.clone().title(99, "late")).await, AppendError::Shut);
    assert_eq!(ledger.events(&book.row.session).await, Err(ReadError::Shut));
    drop(ledger);
    let ledger = store.open();
    assert_eq!(ledger.events(&book.row.session).await.expect("events").len() as u64, book.version);
}

/// Texts of every script, quotes and control characters come back as they were.
pub async fn every_script_comes_back(store: &dyn Store) {
    let texts = [
        "Größe «ñ»",
        "問題はどれ？",
        "🦀👩‍👩‍👧‍👦",
        "مرحبا",
        "'; DROP TABLE events; --",
        "\"\\\u{1}\t\r\n\u{7f}",
        "\u{fffd}\u{10ffff}",
        "",
    ];
    let ledger = store.open();
    for (number, text) in texts.iter().enumerate() {
        let mut book = Book::new(&format!("s{number}")).in_workspace(text);
        book.row.agent = (*text).to_owned();
        book.row.source_id = Some((*text).to_owned());
        commit(&*ledger, book.open(1)).await;
        commit(&*ledger, book.title(2, text)).await;
        let body = Body::Permission { action: json!({ "text": text, *text: [null, -1, 1.5, true] }) };
        let (append, question) = book.put(3, &format!("n{number}"), body);
        commit(&*ledger, append).await;
        let row = ledger.question(&question.id).await.expect("a read").expect("it is there");
        assert_eq!((row.question, row.session), (question, book.row.clone()));
        let events = ledger.events(&book.row.session).await.expect("events");
        assert_eq!(events[1].event, Event::Titled { title: (*text).to_owned() });
        let filter =
            QuestionFilter { workspace_cwd: Some((*text).to_owned()), limit: 9, ..Default::default() };
        assert_eq!(ledger.questions(filter).await.expect("a list").len(), 1);
    }
}

/// A megabyte is stored and read as anything else, among small appends.
pub async fn large_content_comes_back(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    let text = "0123456789abcdef".repeat(64 * 1024);
    let mut replies = Vec::new();
    let mut asked = Vec::new();
    for number in 0..3 {
        let body = Body::Permission { action: json!({ "diff": text }) };
        let (append, question) = book.put(number, &format!("n{number}"), body);
        replies.push(ledger.append(append));
        replies.push(ledger.append(book.title(number, "small")));
        asked.push(question);
    }
    for reply in replies {
        assert_eq!(reply.await, Ok(()));
    }
    let (append, settled) = book.settle(9, &asked[1]);
    commit(&*ledger, append).await;
    drop(ledger);
    let ledger = store.open();
    let row = ledger.question(&settled.id).await.expect("a read").expect("it is there");
    assert_eq!(row.question, settled);
    assert_eq!(ledger.events(&book.row.session).await.expect("events").len() as u64, book.version);
}

/// I2: of many who write at one version, one wins, and the others learn where the session is.
pub async fn i2_one_of_many_writers_wins(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    commit(&*ledger, book.open(1)).await;
    for round in 0..10 {
        let tasks: Vec<_> = (0..16)
            .map(|number| {
                let ledger = Arc::clone(&ledger);
                let append = book.clone().title(round, &format!("{round}-{number}"));
                tokio::spawn(async move { ledger.append(append).await })
            })
            .collect();
        let mut won = 0;
        for task in tasks {
            match task.await.expect("the task ends") {
                Ok(()) => won += 1,
                Err(error) => {
                    assert_eq!(
                        error,
                        AppendError::Conflict { expected: book.version, actual: book.version + 1 }
                    );
                }
            }
        }
        assert_eq!(won, 1);
        book.version += 1;
    }
    assert_eq!(ledger.events(&book.row.session).await.expect("events").len() as u64, book.version);
}

/// Sessions do not stand in each other's way, and none loses an event.
pub async fn many_sessions_at_once(store: &dyn Store) {
    let ledger = store.open();
    let tasks: Vec<_> = (0..24)
        .map(|number| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                let mut book = Book::new(&format!("s{number}"));
                commit(&*ledger, book.open(1)).await;
                for round in 0..20 {
                    let (append, question) = book.ask(round, &format!("n{number}x{round}"));
                    commit(&*ledger, append).await;
                    let (append, _) = book.settle(round, &question);
                    commit(&*ledger, append).await;
                }
                book
            })
        })
        .collect();
    for task in tasks {
        let book = task.await.expect("the task ends");
        assert_eq!(ledger.events(&book.row.session).await.expect("events").len() as u64, book.version);
    }
    assert_eq!(ledger.counts().await, Ok(Counts::default()));
    let filter = QuestionFilter { state: StateFilter::Settled, limit: 1000, ..Default::default() };
    assert_eq!(ledger.questions(filter).await.expect("a list").len(), 24 * 20);
}

/// Who does not wait for the outcome has appended all the same.
pub async fn a_dropped_reply_changes_nothing(store: &dyn Store) {
    let ledger = store.open();
    let mut book = Book::new("s");
    drop(ledger.append(book.open(1)));
    drop(ledger.append(book.title(2, "dropped")));
    commit(&*ledger, book.title(3, "kept")).await;
    assert_eq!(ledger.events(&book.row.session).await.expect("events").len(), 3);
}
