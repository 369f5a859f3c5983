//! Every way in which the asking of a question can end, in its first life and restored, alone and in a batch of
//! three of which one is answered: what is stored, what the ledger says, what the next load shows, and what the
//! model reads in the end (WIRE d.3, d.4; R9, R10, R13, R14, R18). With the flag on.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::support::{Api, Question, Rig, Session, Stream, selected, tool_results, until};

/// What ends the asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// `POST /session/:id/cancel`.
    Cancel,
    /// A vote that declines; in the batch it is for the second question.
    Decline,
    /// `--permission-response-timeout-ms`.
    TimeOut,
    /// `DELETE /session/:id`.
    Close,
    /// SIGKILL to the agent.
    AgentDeath,
    /// SIGTERM to the daemon.
    Term,
    /// SIGKILL to the daemon.
    Kill,
}

/// Since when the question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    First,
    Restored,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    One,
    /// Three questions of one turn; the first is answered before the end.
    Batch,
}

/// How the turn ends on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It does not: it goes on waiting, or the stream ends with the process.
    Waits,
    /// `turn_complete` with this stop reason, not parked.
    Over(&'static str),
    /// `cancelled`, and `parked`: nobody decided (R10).
    Parked,
}

/// One row of the matrix.
#[derive(Debug)]
struct Row {
    end: End,
    life: Life,
    shape: Shape,
    turn: Turn,
    /// The results in the transcript after the end, in the order of the file.
    stored: &'static [&'static str],
    /// What the ledger says of each question, in the order of the calls.
    ledger: &'static [&'static str],
    /// Which questions the next load asks again, from 1.
    again: &'static [usize],
}

const ANSWERED: &str = "The person answered";
const DECLINED: &str = "The person declined";
const CANCELLED: &str = "Cancelled before the user answered";
const OPEN: &str = "open";
const CLOSED: &str = "closed cancelled_before_answer";

use self::End::{AgentDeath, Cancel, Close, Decline, Kill, Term, TimeOut};
use self::Life::{First, Restored};
use self::Shape::{Batch, One};
use self::Turn::{Over, Parked, Waits};

#[rustfmt::skip]
const MATRIX: [Row; 28] = [
    Row { end: Cancel, life: First, shape: One, turn: Over("cancelled"), stored: &[CANCELLED], ledger: &[CLOSED], again: &[] },
    Row { end: Cancel, life: First, shape: Batch, turn: Over("cancelled"), stored: &[ANSWERED, CANCELLED, CANCELLED], ledger: &["answered", CLOSED, CLOSED], again: &[] },
    Row { end: Cancel, life: Restored, shape: One, turn: Parked, stored: &[], ledger: &[OPEN], again: &[1] },
    Row { end: Cancel, life: Restored, shape: Batch, turn: Parked, stored: &[ANSWERED], ledger: &["answered", OPEN, OPEN], again: &[2, 3] },
    Row { end: Decline, life: First, shape: One, turn: Over("end_turn"), stored: &[DECLINED], ledger: &["declined"], again: &[] },
    Row { end: Decline, life: First, shape: Batch, turn: Waits, stored: &[ANSWERED, DECLINED], ledger: &["answered", "declined", OPEN], again: &[3] },
    Row { end: Decline, life: Restored, shape: One, turn: Over("end_turn"), stored: &[DECLINED], ledger: &["declined"], again: &[] },
    Row { end: Decline, life: Restored, shape: Batch, turn: Waits, stored: &[ANSWERED, DECLINED], ledger: &["answered", "declined", OPEN], again: &[3] },
    Row { end: TimeOut, life: First, shape: One, turn: Parked, stored: &[], ledger: &[OPEN], again: &[1] },
    Row { end: TimeOut, life: First, shape: Batch, turn: Parked, stored: &[ANSWERED], ledger: &["answered", OPEN, OPEN], again: &[2, 3] },
    Row { end: TimeOut, life: Restored, shape: One, turn: Parked, stored: &[], ledger: &[OPEN], again: &[1] },
    Row { end: TimeOut, life: Restored, shape: Batch, turn: Parked, stored: &[ANSWERED], ledger: &["answered", OPEN, OPEN], again: &[2, 3] },
    Row { end: Close, life: First, shape: One, turn: Parked, stored: &[], ledger: &[OPEN], again: &[1] },
    Row { end: Close, life: First, shape: Batch, turn: Parked, stored: &[ANSWERED], ledger: &["answered", OPEN, OPEN], again: &[2, 3] },
    Row { end: Close, life: Restored, shape: One, turn: Parked, stored: &[], ledger: &[OPEN], again: &[1] },
    Row { end: Close, life: Restored, shape: Batch, turn: Parked, stored: &[ANSWERED], ledger: &["answered", OPEN, OPEN], again: &[2, 3] },
    Row { end: AgentDeath, life: First, shape: One, turn: Waits, stored: &[], ledger: &[OPEN], again: &[1] },
    Row { end: AgentDeath, life: First, shape: Batch, turn: Waits, stored: &[ANSWERED], ledger: &["answered", OPEN, OPEN], again: &[2, 3] },
    Row { end: AgentDeath, life: Restored, shape: One, turn: Waits, stored: &[], ledger: &[OPEN], again: &[1] },
    Row { end: AgentDeath, life: Restored, shape: Batch, turn: Waits, stored: &[ANSWERED], ledger: &["answered", OPEN, OPEN], again: &[2, 3] },
    Row { end: Term, life: First, shape: One, turn: Waits, stored: &[], ledger: &[OPEN], again: &[1] },
    Row { end: Term, life: First, shape: Batch, turn: Waits, stored: &[ANSWERED], ledger: &["answered", OPEN, OPEN], again: &[2, 3] },
    Row { end: Term, life: Restored, shape: One, turn: Waits, stored: &[], ledger: &[OPEN], again: &[1] },
    Row { end: Term, life: Restored, shape: Batch, turn: Waits, stored: &[ANSWERED], ledger: &["answered", OPEN, OPEN], again: &[2, 3] },
    Row { end: Kill, life: First, shape: One, turn: Waits, stored: &[], ledger: &[OPEN], again: &[1] },
    Row { end: Kill, life: First, shape: Batch, turn: Waits, stored: &[ANSWERED], ledger: &["answered", OPEN, OPEN], again: &[2, 3] },
    Row { end: Kill, life: Restored, shape: One, turn: Waits, stored: &[], ledger: &[OPEN], again: &[1] },
    Row { end: Kill, life: Restored, shape: Batch, turn: Waits, stored: &[ANSWERED], ledger: &["answered", OPEN, OPEN], again: &[2, 3] },
];

/// How long a question is asked in the rows of the time-out: longer on a machine that is too slow for the first.
const TIME_OUTS: [Duration; 3] =
    [Duration::from_millis(1500), Duration::from_secs(6), Duration::from_secs(24)];

/// A row that is played.
struct Case {
    row: &'static Row,
    session: Session,
    prompt: String,
    /// Each question of the turn, in order; those that are asked have their live request.
    questions: Vec<Question>,
    events: Stream,
}

fn blue(n: usize) -> Value {
    selected(&[("0", &format!("Blue{n}"))])
}

impl Case {
    /// The session asks, and of the batch the first question is answered.
    async fn ask(rig: &Rig, row: &'static Row) -> Self {
        let api = rig.api();
        let session = api.create("yolo").await;
        let api = api.of(&session.client);
        let mut events = api.events(&session).await;
        let text = if row.shape == One { "please ASK" } else { "please ASK_THREE" };
        let prompt = api.prompt(&session, text).await;
        let questions = match row.shape {
            One => api.wait_asked::<1>(&session).await.to_vec(),
            Batch => api.wait_asked::<3>(&session).await.to_vec(),
        };
        if row.shape == Batch {
            api.vote(&session, &questions[0].request, &blue(1)).await.expect(200);
            events.wait("the first answer is stored", completed).await;
        }
        Self { row, session, prompt, questions, events }
    }

    /// The questions that are asked now.
    fn open(&self) -> std::ops::Range<usize> {
        if self.row.shape == One { 0..1 } else { 1..3 }
    }

    fn api(&self, rig: &Rig) -> Api {
        rig.api().of(&self.session.client)
    }

    /// Loads the session; the questions that are asked have new requests.
    async fn load(&mut self, rig: &Rig) {
        let api = self.api(rig);
        self.events = api.load_and_follow(&self.session).await;
        for _ in self.open() {
            let event = self.events.wait_for("permission_request").await;
            let at = self.questions.iter().position(|q| event["data"]["questionId"] == q.id.as_str());
            let at = at.unwrap_or_else(|| panic!("{:?}: {event:#}", self.row));
            self.questions[at].request = event["data"]["requestId"].as_str().unwrap().to_owned();
        }
    }

    /// The end of the turn as the row says it, where it has one.
    async fn turn_ends(&mut self) {
        let row = self.row;
        let (reason, parked) = match row.turn {
            Waits => return,
            Over(reason) => (reason, false),
            Parked => ("cancelled", true),
        };
        let end = self.events.turn_end(&self.prompt).await;
        let got = (&end["type"], &end["data"]["stopReason"], end["data"]["parked"] == true);
        assert_eq!(got, (&json!("turn_complete"), &json!(reason), parked), "{row:?}: {end:#}");
    }

    /// What is stored and what the ledger says. The daemon need not know the session.
    async fn is_as_the_row_says(&self, rig: &Rig) {
        let row = self.row;
        let stored: Vec<_> = tool_results(&rig.transcript(&self.session));
        let texts: Vec<_> = stored.iter().map(|(_, _, text)| text.as_str()).collect();
        let as_said = texts.len() == row.stored.len()
            && texts.iter().zip(row.stored).all(|(text, start)| text.starts_with(start));
        assert!(as_said, "{row:?}: stored {stored:#?}");
        for (question, wanted) in self.questions.iter().zip(row.ledger) {
            let view = rig.api().question(&question.id).await;
            let state = view["state"].as_str().unwrap();
            let said = match view["outcome"]["cause"].as_str() {
                Some(cause) => format!("{state} {cause}"),
                None => state.to_owned(),
            };
            assert_eq!(said, *wanted, "{row:?}: {view:#}");
            assert_eq!(view["restorable"] == true, *wanted == OPEN, "{row:?}: {view:#}");
        }
        let open = rig.api().get(&format!("/questions?session={}", self.session.id)).await.expect(200);
        let open = open["questions"].as_array().unwrap().len();
        assert_eq!(open, row.ledger.iter().filter(|state| **state == OPEN).count(), "{row:?}");
    }

    /// The next load: what it shows, and what it asks again.
    async fn next_load(&mut self, rig: &Rig) {
        let row = self.row;
        let api = self.api(rig);
        let view = api.load(&self.session).await;
        assert_eq!(view["hasActivePrompt"], !row.again.is_empty(), "{row:?}");
        let (last, epoch) = (view["lastEventId"].as_u64().unwrap(), view["eventEpoch"].as_str());
        self.events = api.events_from(&self.session, last, epoch).await;
        let asked = until("what is asked again", async || {
            let asked = api.asked(&self.session).await;
            (asked.len() >= row.again.len()).then_some(asked)
        })
        .await;
        let mut again: Vec<usize> = asked
            .iter()
            .map(|question| self.questions.iter().position(|q| q.id == question.id).unwrap() + 1)
            .collect();
        again.sort_unstable();
        assert_eq!(again, row.again, "{row:?}: asked again");
        for question in &asked {
            let known = self.questions.iter().find(|q| q.id == question.id).unwrap();
            assert_eq!(question.generation, known.generation, "{row:?}");
            let same_life = row.end == AgentDeath || row.turn == Waits && row.end == Decline;
            assert!(same_life || question.request != known.request, "{row:?}: R7, a new request id");
        }
        for (at, wanted) in row.ledger.iter().enumerate() {
            let shown = match (row.again.contains(&(at + 1)), *wanted) {
                (true, _) => "in_progress",
                (false, "answered") => "completed",
                (false, _) => "failed",
            };
            assert_eq!(shown_as(&view, &format!("call_{}", at + 1)), shown, "{row:?}: {view:#}");
        }
        self.the_model_reads(rig, &asked).await;
    }

    /// What is asked again is answered, else a new prompt is sent: the model reads every end by its own text.
    async fn the_model_reads(&mut self, rig: &Rig, asked: &[Question]) {
        let row = self.row;
        let api = self.api(rig);
        let calls = rig.model.calls();
        if asked.is_empty() {
            let next = api.prompt(&self.session, "then go on").await;
            self.events.turn_end(&next).await;
        }
        for question in asked {
            let n = self.questions.iter().position(|q| q.id == question.id).unwrap() + 1;
            api.vote(&self.session, &question.request, &blue(n)).await.expect(200);
        }
        rig.model.called(calls + 1).await;
        api.wait_idle(&self.session).await;
        assert_eq!(rig.model.calls(), calls + 1, "{row:?}: Q4, once for the whole batch");
        let history = rig.story(&self.session).history;
        let results: Vec<_> = history.iter().filter(|m| m["role"] == "tool").collect();
        assert_eq!(results.len(), row.ledger.len(), "{row:?}: {history:#?}");
        for (at, (result, wanted)) in results.iter().zip(row.ledger).enumerate() {
            let text = result["content"].as_str().unwrap();
            let reads = match *wanted {
                OPEN | "answered" => text.starts_with(ANSWERED) && text.contains(&format!("Blue{}", at + 1)),
                "declined" => text.starts_with(DECLINED),
                _ => text.starts_with(CANCELLED),
            };
            assert!(reads, "{row:?}: the model reads {text:?}");
        }
    }
}

fn completed(event: &Value) -> bool {
    let update = &event["data"]["update"];
    update["sessionUpdate"] == "tool_call_update" && update["status"] == "completed"
}

/// The last status of a call in the response of a load.
fn shown_as(view: &Value, call: &str) -> String {
    let lists = [&view["compactedReplay"], &view["liveJournal"]];
    let all = lists.iter().flat_map(|list| list.as_array().unwrap());
    let mut of_call = all.map(|event| &event["data"]["update"]).filter(|update| update["toolCallId"] == call);
    let last = of_call.next_back().map(|update| update["status"].as_str().unwrap().to_owned());
    // The first frame of a live question says "pending" (b.3); on replay it is "in_progress".
    last.map(|status| if status == "pending" { "in_progress".to_owned() } else { status }).unwrap_or_default()
}

/// Both shapes of one end in one life, on one daemon. `false` where the machine was too slow for the time-out.
async fn play(end: End, life: Life, time_out: Duration) -> bool {
    let mut rig = Rig::new().await;
    let limit = vec!["--permission-response-timeout-ms".to_owned(), time_out.as_millis().to_string()];
    if (end, life) == (TimeOut, First) {
        rig.args.clone_from(&limit);
    }
    rig.start().await;
    let mut cases = Vec::new();
    for row in MATRIX.iter().filter(|row| (row.end, row.life) == (end, life)) {
        let start = Instant::now();
        cases.push(Case::ask(&rig, row).await);
        if (end, life) == (TimeOut, First) && start.elapsed() > time_out / 2 {
            return false;
        }
    }
    if life == Restored {
        rig.kill().await;
        if end == TimeOut {
            rig.args = limit;
        }
        rig.start().await;
        for case in &mut cases {
            case.load(&rig).await;
        }
    }
    strike(&mut rig, &mut cases, end).await;
    for case in &mut cases {
        case.turn_ends().await;
    }
    for case in &cases {
        if end == Decline {
            // The vote is acknowledged before its result is in the file.
            let results = case.row.stored.len();
            until("the decline is stored", async || {
                (tool_results(&rig.transcript(&case.session)).len() == results).then_some(())
            })
            .await;
        }
        case.is_as_the_row_says(&rig).await;
    }
    if matches!(end, Decline | TimeOut) {
        rig.kill().await;
        rig.args.clear();
        rig.start().await;
    }
    for case in &mut cases {
        case.is_as_the_row_says(&rig).await;
        case.next_load(&rig).await;
    }
    true
}

async fn strike(rig: &mut Rig, cases: &mut [Case], end: End) {
    match end {
        TimeOut => {}
        Cancel | Decline | Close => {
            for case in cases {
                let api = case.api(rig);
                let session = format!("/session/{}", case.session.id);
                match end {
                    Cancel => api.post(&format!("{session}/cancel"), &json!({})).await.expect(204),
                    Close => api.delete(&session).await.expect(204),
                    _ => {
                        let at = case.open().next().unwrap();
                        let no = json!({ "outcome": { "outcome": "selected", "optionId": "cancel" } });
                        api.vote(&case.session, &case.questions[at].request, &no).await.expect(200)
                    }
                };
            }
        }
        AgentDeath => {
            let agents = rig.daemon().children();
            assert_eq!(agents.len(), 1, "one agent a workspace");
            kill_process(agents[0], Signal::KILL).unwrap();
            for case in cases {
                // R14: the daemon starts it again by itself, and asks again what is open.
                let before = case.questions.clone();
                for _ in case.open() {
                    let event = case
                        .events
                        .wait("the question, asked again", |event| {
                            let known = |q: &Question| event["data"]["requestId"] == q.request.as_str();
                            event["type"] == "permission_request" && !before.iter().any(known)
                        })
                        .await;
                    let at = before.iter().position(|q| event["data"]["questionId"] == q.id.as_str());
                    let request = event["data"]["requestId"].as_str().unwrap().to_owned();
                    case.questions[at.unwrap()].request = request;
                }
                assert!(!case.events.saw("session_died"), "{:?}", case.row);
            }
        }
        Term => {
            let mut daemon = rig.take_daemon();
            daemon.signal(Signal::TERM);
            assert_eq!(daemon.ended().await.code(), Some(0));
            rig.start().await;
        }
        Kill => {
            rig.restart().await;
        }
    }
}

async fn both_lives(end: End) {
    for life in [First, Restored] {
        let mut limits = TIME_OUTS.into_iter();
        while !play(end, life, limits.next().expect("a machine that answers within 12 s")).await {}
    }
}

#[tokio::test]
async fn r10_r13_r18_cancel_decides_in_first_life_and_aborts_when_restored() {
    both_lives(Cancel).await;
}

#[tokio::test]
async fn r9_r18_q7_decline_is_kept_and_settles_its_own_question_only() {
    both_lives(Decline).await;
}

#[tokio::test]
async fn r10_r18_time_out_decides_nothing() {
    both_lives(TimeOut).await;
}

#[tokio::test]
async fn r10_r18_close_decides_nothing() {
    both_lives(Close).await;
}

#[tokio::test]
async fn r14_r18_agent_death_decides_nothing_and_asks_again_by_itself() {
    both_lives(AgentDeath).await;
}

#[tokio::test]
async fn r10_r18_i12_sigterm_decides_nothing() {
    both_lives(Term).await;
}

#[tokio::test]
async fn q4_r1_r18_sigkill_decides_nothing() {
    both_lives(Kill).await;
}

/// Nobody adds a row without playing it, nor leaves one out.
#[test]
fn the_matrix_is_whole() {
    for end in [Cancel, Decline, TimeOut, Close, AgentDeath, Term, Kill] {
        for life in [First, Restored] {
            for shape in [One, Batch] {
                let rows = MATRIX.iter().filter(|row| (row.end, row.life, row.shape) == (end, life, shape));
                assert_eq!(rows.count(), 1, "{end:?} {life:?} {shape:?}");
            }
        }
    }
}
