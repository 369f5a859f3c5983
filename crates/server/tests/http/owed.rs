//! A ledger that takes an answer and then nothing more for a while: what was acknowledged reaches the agent as soon as it
//! can, without anybody asking for it (I4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdpoint_ledger::{
    Append, AppendError, Counts, Ledger, MemoryLedger, QuestionFilter, QuestionRow, ReadError, Reply,
    SessionFilter, SessionRow, StoredEvent,
};
use holdpoint_model::ids::{QuestionId, RequestId, SessionId};
use holdpoint_model::session::Event;
use serde_json::json;
use tokio::sync::Notify;

use crate::rig::{Machine, say};
use crate::support::{Options, Tune};

/// The disk is full right after the first answer, until it is freed.
#[derive(Default)]
struct FullAfterAnswer {
    inner: MemoryLedger,
    full: AtomicBool,
    freed: AtomicBool,
    refused: Notify,
}

impl FullAfterAnswer {
    fn free(&self) {
        self.freed.store(true, Ordering::SeqCst);
    }
}

impl Ledger for FullAfterAnswer {
    fn append(&self, append: Append) -> Reply<Result<(), AppendError>> {
        if self.full.load(Ordering::SeqCst) && !self.freed.load(Ordering::SeqCst) {
            self.refused.notify_one();
            return Box::pin(std::future::ready(Err(AppendError::Unavailable(
                "the disk is full".to_owned(),
            ))));
        }
        if append.events.iter().any(|event| matches!(event, Event::Settled { .. })) {
            self.full.store(true, Ordering::SeqCst);
        }
        self.inner.append(append)
    }

    fn events(&self, session: &SessionId) -> Reply<Result<Vec<StoredEvent>, ReadError>> {
        self.inner.events(session)
    }

    fn question(&self, id: &QuestionId) -> Reply<Result<Option<QuestionRow>, ReadError>> {
        self.inner.question(id)
    }

    fn question_by_request(&self, id: &RequestId) -> Reply<Result<Option<QuestionRow>, ReadError>> {
        self.inner.question_by_request(id)
    }

    fn questions(&self, filter: QuestionFilter) -> Reply<Result<Vec<QuestionRow>, ReadError>> {
        self.inner.questions(filter)
    }

    fn session(&self, id: &SessionId) -> Reply<Result<Option<SessionRow>, ReadError>> {
        self.inner.session(id)
    }

    fn sessions(&self, filter: SessionFilter) -> Reply<Result<Vec<SessionRow>, ReadError>> {
        self.inner.sessions(filter)
    }

    fn counts(&self) -> Reply<Result<Counts, ReadError>> {
        self.inner.counts()
    }

    fn run(&self) -> u64 {
        self.inner.run()
    }

    fn shut(&self) -> Reply<()> {
        self.inner.shut()
    }
}

#[tokio::test]
async fn i4_an_answer_that_a_full_disk_kept_from_the_agent_reaches_it_by_itself() {
    let machine = Machine::new();
    let ledger = Arc::new(FullAfterAnswer::default());
    let options = Options { tune: Tune::default(), ..Options::default() };
    let life = machine.start_over(options, Arc::clone(&ledger) as Arc<dyn Ledger>).await;
    let (session, asked) = life.asking().await;
    let answered = life.vote(&session, &asked.request, None, &say("Blue")).await;
    assert_eq!(answered.status, 200, "{answered:?}");
    ledger.refused.notified().await;
    // Nobody can be told of it now, and nobody comes back to ask.
    let path = format!("/session/{}/status", session.id);
    while life.get(&path).await.status == 200 {
        tokio::task::yield_now().await;
    }
    let owed = life.get("/questions?state=undelivered").await;
    assert_eq!(owed.body["questions"][0]["questionId"], json!(asked.id), "{owed:?}");
    ledger.free();
    while life.question(&asked).await["outcome"]["delivered"] != true {
        tokio::task::yield_now().await;
    }
    life.stop().await;
}
