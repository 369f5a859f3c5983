//! The file and the memory agree, whatever is done to them.

use std::sync::Arc;

use holdpoint_model::ids::Micros;
use holdpoint_model::session::Question;
use proptest::prelude::*;

use super::Dir;
use crate::conformance::sample::{Book, cursor, question_id, request_id, session_id};
use crate::contract::{Append, Ledger, QuestionFilter, QuestionRow, SessionFilter, StateFilter, Urgency};
use crate::memory::MemoryLedger;

#[derive(Clone, Debug)]
enum Step {
    Open {
        session: u8,
    },
    Title {
        session: u8,
        at: i64,
        lazy: bool,
    },
    Ask {
        session: u8,
        at: i64,
        permission: bool,
    },
    /// Asks under an id that may be another session's.
    AskTaken {
        session: u8,
        name: u8,
    },
    AskAgain {
        session: u8,
        which: u8,
        request: u8,
    },
    Settle {
        session: u8,
        which: u8,
    },
    Deliver {
        session: u8,
        which: u8,
    },
    Close {
        session: u8,
        which: u8,
    },
    Stale {
        session: u8,
        off: i8,
    },
    Delete {
        session: u8,
    },
    Restart,
    /// Compares everything.
    Look {
        page: u8,
        session: Option<u8>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0..4_u8;
    prop_oneof![
        2 => session.clone().prop_map(|session| Step::Open { session }),
        2 => (session.clone(), 0..20_i64, any::<bool>()).prop_map(|(session, at, lazy)| Step::Title { session, at, lazy }),
        5 => (session.clone(), 0..20_i64, any::<bool>())
            .prop_map(|(session, at, permission)| Step::Ask { session, at, permission }),
        1 => (session.clone(), 0..6_u8).prop_map(|(session, name)| Step::AskTaken { session, name }),
        2 => (session.clone(), any::<u8>(), 0..5_u8)
            .prop_map(|(session, which, request)| Step::AskAgain { session, which, request }),
        2 => (session.clone(), any::<u8>()).prop_map(|(session, which)| Step::Settle { session, which }),
        2 => (session.clone(), any::<u8>()).prop_map(|(session, which)| Step::Deliver { session, which }),
        2 => (session.clone(), any::<u8>()).prop_map(|(session, which)| Step::Close { session, which }),
        1 => (session.clone(), -2..3_i8).prop_map(|(session, off)| Step::Stale { session, off }),
        1 => session.clone().prop_map(|session| Step::Delete { session }),
        1 => Just(Step::Restart),
        3 => (1..5_u8, proptest::option::of(session)).prop_map(|(page, session)| Step::Look { page, session }),
    ]
}

struct Pair {
    dir: Dir,
    file: Arc<dyn Ledger>,
    memory: MemoryLedger,
    books: Vec<Book>,
    questions: Vec<Vec<Question>>,
    asked: usize,
}

impl Pair {
    fn new() -> Self {
        let dir = Dir::new();
        let file: Arc<dyn Ledger> = Arc::new(dir.open());
        let memory = MemoryLedger::new();
        Self {
            dir,
            file,
            memory,
            books: (0..4)
                .map(|number| {
                    Book::new(&format!("s{number}")).in_workspace(if number % 2 == 0 { "/a" } else { "/b" })
                })
                .collect(),
            questions: vec![Vec::new(); 4],
            // The names below are those that `AskTaken` takes.
            asked: 5,
        }
    }

    /// Appends to both; keeps what it changed only if it was committed.
    async fn append(&mut self, session: u8, make: impl FnOnce(&mut Book) -> (Append, Option<Question>)) {
        let mut book = self.books[usize::from(session)].clone();
        let (append, question) = make(&mut book);
        let on_file = self.file.append(append.clone());
        let in_memory = self.memory.append(append).await;
        let on_file = on_file.await;
        assert_eq!(
            on_file.clone().map_err(|error| error.to_string()),
            in_memory.map_err(|error| error.to_string())
        );
        if on_file.is_ok() {
            self.books[usize::from(session)] = book;
            if let Some(question) = question {
                let all = &mut self.questions[usize::from(session)];
                all.retain(|known| known.id != question.id);
                all.push(question);
            }
        }
    }

    fn pick(&self, session: u8, which: u8) -> Option<Question> {
        let all = &self.questions[usize::from(session)];
        (!all.is_empty()).then(|| all[usize::from(which) % all.len()].clone())
    }

    async fn run(&mut self, step: Step) {
        match step {
            Step::Open { session } => {
                self.append(session, |book| (book.open(3), None)).await;
            }
            Step::Title { session, at, lazy } => {
                self.append(session, |book| {
                    let mut append = book.title(at, &format!("at {at}"));
                    append.urgency = if lazy { Urgency::Lazy } else { Urgency::Now };
                    (append, None)
                })
                .await;
            }
            Step::Ask { session, at, permission } => {
                self.asked += 1;
                let name = format!("n{}", self.asked);
                self.append(session, |book| {
                    let (append, question) =
                        if permission { book.permission(at, &name) } else { book.ask(at, &name) };
                    (append, Some(question))
                })
                .await;
            }
            Step::AskTaken { session, name } => {
                self.append(session, |book| {
                    let (append, question) = book.ask(5, &format!("n{name}"));
                    (append, Some(question))
                })
                .await;
            }
            Step::AskAgain { session, which, request } => {
                let Some(question) = self.pick(session, which) else { return };
                self.append(session, |book| {
                    let (append, question) = book.ask_again(7, &question, &format!("again-{request}"));
                    (append, Some(question))
                })
                .await;
            }
            Step::Settle { session, which } => {
                let Some(question) = self.pick(session, which) else { return };
                self.append(session, |book| {
                    let (append, question) = book.settle(8, &question);
                    (append, Some(question))
                })
                .await;
            }
            Step::Deliver { session, which } => {
                let Some(question) = self.pick(session, which) else { return };
                self.append(session, |book| {
                    let (append, question) = book.deliver(9, &question);
                    (append, Some(question))
                })
                .await;
            }
            Step::Close { session, which } => {
                let Some(question) = self.pick(session, which) else { return };
                self.append(session, |book| {
                    let (append, question) = book.close(9, &question);
                    (append, Some(question))
                })
                .await;
            }
            Step::Stale { session, off } => {
                self.append(session, |book| {
                    let mut append = book.title(10, "stale");
                    append.expected = append.expected.saturating_add_signed(i64::from(off));
                    book.version = append.expected + 1;
                    (append, None)
                })
                .await;
            }
            Step::Delete { session } => {
                self.append(session, |book| {
                    book.row.deleted = true;
                    (book.title(11, "deleted"), None)
                })
                .await;
            }
            Step::Restart => {
                self.file.shut().await;
                self.file = Arc::new(self.dir.open());
                self.memory = self.memory.reopen();
            }
            Step::Look { page, session } => self.look(page, session).await,
        }
    }

    async fn look(&self, page: u8, session: Option<u8>) {
        // Numbers of runs differ where one opened without writing; what they mean does not.
        let plain = |mut row: QuestionRow, run: u64| {
            row.run = u64::from(row.run == run);
            row
        };
        let (on_file, in_memory) = (&self.file, &self.memory);
        for number in 0..4 {
            let id = session_id(&format!("s{number}"));
            assert_eq!(on_file.events(&id).await, in_memory.events(&id).await);
            assert_eq!(on_file.session(&id).await, in_memory.session(&id).await);
        }
        assert_eq!(on_file.counts().await, in_memory.counts().await);
        for state in [
            StateFilter::Open,
            StateFilter::Settled,
            StateFilter::Undelivered,
            StateFilter::Closed,
            StateFilter::Any,
        ] {
            for workspace in [None, Some("/a")] {
                let mut filter = QuestionFilter {
                    state,
                    session: session.map(|number| session_id(&format!("s{number}"))),
                    workspace_cwd: workspace.map(str::to_owned),
                    user_questions: None,
                    ending: None,
                    after: None,
                    limit: page.into(),
                };
                loop {
                    let one = on_file.questions(filter.clone()).await.unwrap();
                    let other = in_memory.questions(filter.clone()).await.unwrap();
                    filter.after = one.last().map(cursor);
                    let one: Vec<_> = one.into_iter().map(|row| plain(row, on_file.run())).collect();
                    let other: Vec<_> = other.into_iter().map(|row| plain(row, in_memory.run())).collect();
                    assert_eq!(one, other, "{filter:?}");
                    if filter.after.is_none() {
                        break;
                    }
                }
            }
        }
        let mut before: Option<(Micros, _)> = None;
        loop {
            let filter = SessionFilter { workspace_cwd: None, before, limit: page.into() };
            let one = on_file.sessions(filter.clone()).await.unwrap();
            assert_eq!(Ok(&one), in_memory.sessions(filter).await.as_ref());
            let Some(last) = one.last() else { break };
            before = Some((last.updated_at, last.session.clone()));
        }
        let requests = (0..self.asked).map(|number| format!("r-n{number}"));
        for request in requests.chain((0..5).map(|number| format!("again-{number}"))) {
            let id = request_id(&request);
            let one = on_file.question_by_request(&id).await.unwrap().map(|row| plain(row, on_file.run()));
            let other =
                in_memory.question_by_request(&id).await.unwrap().map(|row| plain(row, in_memory.run()));
            assert_eq!(one, other, "{request}");
        }
        assert_eq!(on_file.question(&question_id("none")).await, Ok(None));
    }
}

proptest! {
    // Each case opens files and waits for the disk.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_file_and_the_memory_agree(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut pair = Pair::new();
            for step in steps {
                pair.run(step).await;
            }
            pair.look(3, None).await;
        });
    }
}
