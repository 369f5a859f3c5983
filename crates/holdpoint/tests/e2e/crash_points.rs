//! Crashes beside the life of a question: a prompt that was accepted and not begun, a cancel that was committed and not
//! delivered, a delete, a copy. The process dies by SIGKILL right there and is started again; the table says what
//! the ledger and the next load show then.

use serde_json::{Value, json};

use crate::support::{Api, Question, Rig, Session, same, selected, tool_results, undisturbed};

const BLUE: &[(&str, &str)] = &[("0", "Blue1")];

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// A prompt to a session that does nothing.
    Prompt,
    /// A prompt behind a question.
    Queue,
    /// `POST /session/:id/cancel` while a question is asked.
    Cancel,
    /// `POST /sessions/delete` while a question is asked.
    Delete,
    /// `POST /session/:id/branch` of a stored session with an open question.
    Branch,
}

/// What the next load shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// The prompt is sent by itself, once.
    Runs,
    /// The question is asked again; what queued behind it goes out after its turn.
    Asks,
    /// Nothing goes on; the model reads with the next prompt that the call was cancelled.
    Cancelled,
    /// There is no such session.
    Gone,
}

#[derive(Debug)]
struct Row {
    doing: Doing,
    /// Where the process dies.
    point: &'static str,
    /// The question in the ledger: its state, and the cause.
    ledger: Option<(&'static str, Option<&'static str>)>,
    /// How many rows the inbox has before anything is loaded.
    inbox: usize,
    load: Load,
}

const OPEN: Option<(&str, Option<&str>)> = Some(("open", None));

#[rustfmt::skip]
const TABLE: [Row; 7] = [
    Row { doing: Doing::Prompt, point: "daemon.prompt_committed",   ledger: None, inbox: 0, load: Load::Runs },
    Row { doing: Doing::Prompt, point: "agent.prompt_received",     ledger: None, inbox: 0, load: Load::Runs },
    Row { doing: Doing::Queue,  point: "daemon.prompt_committed:2", ledger: OPEN, inbox: 1, load: Load::Asks },
    Row { doing: Doing::Cancel, point: "daemon.cancel_committed",   ledger: Some(("closed", Some("cancelled_before_answer"))), inbox: 0, load: Load::Cancelled },
    Row { doing: Doing::Delete, point: "daemon.delete_committed",   ledger: Some(("closed", Some("session_deleted"))), inbox: 0, load: Load::Gone },
    Row { doing: Doing::Branch, point: "daemon.branch_copied",      ledger: OPEN, inbox: 1, load: Load::Asks },
    Row { doing: Doing::Branch, point: "daemon.branch_taken_in",    ledger: OPEN, inbox: 1, load: Load::Asks },
];

/// A session whose daemon has died in the middle of something.
struct Dead {
    rig: Rig,
    row: &'static Row,
    session: Session,
    question: Option<Question>,
}

impl Dead {
    async fn of(row: &'static Row) -> Self {
        let mut rig = Rig::new().await;
        let env = [("HOLDPOINT_CRASH_AT", row.point)];
        let api = if row.doing == Doing::Branch { rig.start().await } else { rig.start_with(&env).await };
        let session = api.create("yolo").await;
        let api = api.of(&session.client);
        let question = if row.doing == Doing::Prompt {
            None
        } else {
            api.prompt(&session, "please ASK").await;
            let [question] = api.wait_asked(&session).await;
            Some(question)
        };
        let of_session = |verb: &str| format!("/session/{}/{verb}", session.id);
        let text = |text: &str| json!({ "prompt": [{ "type": "text", "text": text }] });
        let (path, body) = match row.doing {
            Doing::Prompt => (of_session("prompt"), text("hello")),
            Doing::Queue => (of_session("prompt"), text("and then this")),
            Doing::Cancel => (of_session("cancel"), json!({})),
            Doing::Delete => ("/sessions/delete".to_owned(), json!({ "sessionIds": [session.id] })),
            Doing::Branch => (of_session("branch"), json!({})),
        };
        let api = if row.doing == Doing::Branch {
            rig.kill_all().await;
            rig.start_with(&env).await.of(&session.client)
        } else {
            api
        };
        // Whether a response still comes is a matter of luck.
        let _ = api.try_send("POST", &path, Some(&body)).await;
        rig.died().await;
        Self { rig, row, session, question }
    }

    async fn plays(mut self) {
        let row = self.row;
        let api = self.rig.start().await.of(&self.session.client);
        let calls = self.rig.model.calls();
        let rows = api.inbox().await;
        assert_eq!(rows.len(), row.inbox, "{row:?}: {rows:#?}");
        if let Some(question) = &self.question {
            let view = api.question(&question.id).await;
            let got = (view["state"].as_str(), view["outcome"]["cause"].as_str());
            let (state, cause) = row.ledger.unwrap();
            assert_eq!(got, (Some(state), cause), "{row:?}: {view:#}");
        }
        assert_eq!(self.rig.model.calls(), calls, "{row:?}: R12, a start does nothing");
        match row.load {
            Load::Gone => self.is_gone(&api).await,
            Load::Runs => self.runs(&api).await,
            Load::Asks => self.asks(&api).await,
            Load::Cancelled => self.was_cancelled(&api).await,
        }
    }

    /// D5: what was accepted goes out by itself, once, whoever loads.
    async fn runs(&self, api: &Api) {
        api.load(&self.session).await;
        self.rig.model.called(1).await;
        api.wait_idle(&self.session).await;
        assert_eq!(self.rig.model.calls(), 1, "{:?}: once", self.row);
        same(&self.rig.story(&self.session), &undisturbed("hello", &[]).await);
        api.load(&self.session).await;
        api.wait_idle(&self.session).await;
        assert_eq!(self.rig.model.calls(), 1, "{:?}: and not once more", self.row);
    }

    async fn asks(&self, api: &Api) {
        let row = self.row;
        let question = self.question.as_ref().unwrap();
        api.load(&self.session).await;
        let [again] = api.wait_asked(&self.session).await;
        assert_eq!(again.id, question.id, "{row:?}");
        api.vote(&self.session, &again.request, &selected(BLUE)).await.expect(200);
        let calls = if row.doing == Doing::Queue { 3 } else { 2 };
        self.rig.model.called(calls).await;
        api.wait_idle(&self.session).await;
        assert_eq!(self.rig.model.calls(), calls, "{row:?}");
        let story = self.rig.story(&self.session);
        if row.doing == Doing::Queue {
            let last = &story.history.last().unwrap()["content"];
            assert_eq!(last, "and then this", "{row:?}: once, and after the question's turn");
            return;
        }
        same(&story, &undisturbed("please ASK", &[BLUE]).await);
        // E7: nobody is asked by a copy, whole or half.
        let list = api.get("/questions").await.expect(200);
        let sessions = list["questions"].as_array().unwrap().iter().map(|q| q["sessionId"].as_str().unwrap());
        assert!(sessions.clone().all(|id| id == self.session.id), "{row:?}: {list:#}");
        // A copy that was made is whole, and repaired.
        for entry in std::fs::read_dir(self.rig.data_dir.join("sessions")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if let Some(id) = name.strip_suffix(".jsonl").filter(|id| *id != self.session.id) {
                let copy = Session { id: id.to_owned(), client: String::new() };
                let results = tool_results(&self.rig.transcript(&copy));
                assert!(
                    results.len() == 1 && results[0].2.starts_with("Not answered"),
                    "{row:?}: {results:?}"
                );
                let nobody = self.rig.api();
                let view = nobody.load(&copy).await;
                assert_eq!(view["hasActivePrompt"], false, "{row:?}: {view:#}");
                assert!(nobody.asked(&copy).await.is_empty(), "{row:?}");
            }
        }
    }

    /// R13: what was decided holds; the turn does not go on by itself.
    async fn was_cancelled(&self, api: &Api) {
        let row = self.row;
        let mut events = api.load_and_follow(&self.session).await;
        api.wait_idle(&self.session).await;
        assert!(api.asked(&self.session).await.is_empty(), "{row:?}");
        assert_eq!(self.rig.model.calls(), 1, "{row:?}: a turn that was cancelled does not go on");
        let next = api.prompt(&self.session, "then go on").await;
        events.turn_end(&next).await;
        let history = self.rig.story(&self.session).history;
        let results: Vec<_> = history.iter().filter(|message| message["role"] == "tool").collect();
        assert_eq!(results.len(), 1, "{row:?}: {history:#?}");
        let text = results[0]["content"].as_str().unwrap();
        assert!(text.starts_with("Cancelled before the user answered"), "{row:?}: the model reads {text:?}");
        assert_eq!(self.rig.model.calls(), 2, "{row:?}");
    }

    /// D6: deleted is deleted, and what a crash left of it goes when somebody asks again.
    async fn is_gone(&self, api: &Api) {
        let (row, id) = (self.row, &self.session.id);
        for verb in ["load", "resume"] {
            let refused = api.post(&format!("/session/{id}/{verb}"), &json!({})).await;
            assert_eq!(refused.status, 404, "{row:?}: {verb}: {:#}", refused.json());
        }
        let page = api.get(&format!("/session/{id}/transcript")).await;
        assert_eq!(page.status, 404, "{row:?}: nothing of it is shown any more: {:#}", page.json());
        let cwd: String = self.rig.work().to_str().unwrap().replace('/', "%2F");
        let list = api.get(&format!("/workspace/{cwd}/sessions")).await.expect(200);
        assert_eq!(list["sessions"], json!([]), "{row:?}");
        let again = api.post("/sessions/delete", &json!({ "sessionIds": [id] })).await.expect(200);
        assert_eq!(again["errors"], json!([]), "{row:?}: {again:#}");
        assert!(!self.rig.transcript_path(&self.session).exists(), "{row:?}: {again:#}");
        let late = json!({ "generation": 1, "answers": { "0": "Blue1" }, "responseId": "late" });
        let late = api.answer(&self.question.as_ref().unwrap().id, &late).await;
        let got = (late.status, late.json()["cause"].clone());
        assert_eq!(got, (410, Value::from("session_deleted")), "{row:?}");
    }
}

async fn all_of(doing: &[Doing]) {
    for row in TABLE.iter().filter(|row| doing.contains(&row.doing)) {
        Dead::of(row).await.plays().await;
    }
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn d5_r12_i4_a_prompt_that_was_accepted_and_not_begun_goes_out_once() {
    all_of(&[Doing::Prompt, Doing::Queue]).await;
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn r13_i4_a_cancel_that_was_committed_and_not_delivered_holds() {
    all_of(&[Doing::Cancel]).await;
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn d6_a_delete_that_died_half_way_is_a_delete() {
    all_of(&[Doing::Delete]).await;
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn e7_a_copy_that_died_half_way_leaves_the_original_as_it_was() {
    all_of(&[Doing::Branch]).await;
}
