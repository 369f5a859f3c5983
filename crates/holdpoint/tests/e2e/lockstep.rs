//! Repair, replay and re-hang agree, whatever the way on which a stored question is met again (R2, R4): a table
//! over all ways, against a function that says the rules and nothing else.

use serde_json::{Value, json};

use crate::support::{Acp, Api, Rig, Session, selected, until};

/// How the session is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Load,
    Resume,
    /// The agent's read-only `qwen/session/loadUpdates`; the daemon has no route for it.
    LoadUpdates,
    /// `GET /session/:id/transcript`.
    Page,
}

/// What the request says about who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// No client id.
    Nobody,
    /// The id that the session gave before the restart.
    Known,
    /// A well-formed id that the session never gave (E6).
    Stranger,
}

/// How the session is before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// On disk only.
    Cold,
    /// Live, and its question is not being asked.
    Parked,
    /// Live, and its question is being asked.
    Asked,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    flag: bool,
    who: Who,
    how: How,
    before: Before,
    /// It is a copy of such a session that is met.
    fork: bool,
}

/// What the next model request has in the place of the question's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// What a person answers.
    Answer,
    /// A repair: nobody can answer any more.
    Repair,
    /// There is none: the session is not live.
    None,
}

/// What the rules say about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    /// Whether people can answer afterwards.
    asked: bool,
    /// How the call is shown in the history that is returned, if one is.
    shown: Option<&'static str>,
    /// `live` and `restorable` in the inbox, if there is a row.
    inbox: Option<(bool, bool)>,
    next: Next,
}

/// The rules, said once more.
fn rules(row: Row) -> Wanted {
    let takes_up = matches!(row.how, How::Load | How::Resume);
    // E1 the flag, E6 a client id, E7 no copy; R4: only load and resume ask again.
    let can_be_asked_again = row.flag && !row.fork;
    let asked_again = can_be_asked_again && takes_up && row.who != Who::Nobody;
    // E5: what is asked already stays so. A copy asks nobody (E7).
    let asked = !row.fork && row.before == Before::Asked || asked_again;
    let waits = match row.how {
        How::Resume => None,
        How::LoadUpdates => Some(false),
        How::Load => Some(asked),
        // A page changes nothing, so it shows as waiting what the next load can still have asked.
        How::Page => Some(asked || can_be_asked_again),
    };
    let live = takes_up || row.before != Before::Cold;
    Wanted {
        asked,
        shown: waits.map(|waits| if waits { "in_progress" } else { "failed" }),
        // S3: with the flag off the row stays, and cannot be restored. The copy has none (E7, CR20).
        inbox: (!row.fork).then_some((asked, row.flag)),
        next: match (asked, live) {
            (true, _) => Next::Answer,
            (false, true) => Next::Repair,
            (false, false) => Next::None,
        },
    }
}

fn table() -> Vec<Row> {
    let mut rows = Vec::new();
    for flag in [true, false] {
        for who in [Who::Nobody, Who::Known, Who::Stranger] {
            for how in [How::Load, How::Resume, How::LoadUpdates, How::Page] {
                for before in [Before::Cold, Before::Parked, Before::Asked] {
                    for fork in [false, true] {
                        // A session that waits cannot be copied (d.4.20); the table of refusals has that.
                        if !(fork && before == Before::Asked) {
                            rows.push(Row { flag, who, how, before, fork });
                        }
                    }
                }
            }
        }
    }
    rows
}

/// A row and its session, which waits.
struct Case {
    row: Row,
    name: String,
    session: Session,
    question: String,
}

async fn ask(api: &Api, row: Row) -> Case {
    let name = format!("{row:?}");
    let session = api.create("yolo").await;
    api.of(&session.client).prompt(&session, &format!("{name}: please ASK")).await;
    let [question] = api.wait_asked(&session).await;
    Case { row, name, session, question: question.id }
}

/// The last status of the session's call in a history. A live question's first frame says "pending" (b.3), and
/// nothing more comes until it ends.
fn status_of_call(updates: &[Value]) -> Option<&str> {
    let mut calls = updates.iter().filter(|update| update["toolCallId"].is_string());
    let status = calls.next_back().map(|update| update["status"].as_str().unwrap());
    status.map(|status| if status == "pending" { "in_progress" } else { status })
}

impl Case {
    fn api(&self, api: &Api) -> Api {
        match self.row.who {
            Who::Nobody => api.clone(),
            Who::Known => api.of(&self.session.client),
            Who::Stranger => api.of("client_of-elsewhere"),
        }
    }

    /// Brings the session to where the row starts; the one that is met.
    async fn prepare(&self, rig: &Rig, api: &Api) -> Session {
        let by_somebody = api.of(&self.session.client);
        match self.row.before {
            Before::Cold => {}
            Before::Parked => {
                api.load(&self.session).await;
                assert_eq!(api.asked(&self.session).await.len(), 0, "{}: R2", self.name);
            }
            Before::Asked => {
                if api.get(&format!("/session/{}/status", self.session.id)).await.status == 404 {
                    by_somebody.load(&self.session).await;
                }
                by_somebody.wait_asked::<1>(&self.session).await;
            }
        }
        if !self.row.fork {
            return self.session.clone();
        }
        let view = self.api(api).post(&format!("/session/{}/branch", self.session.id), &json!({})).await;
        let view = view.expect(201);
        let text = |key: &str| view[key].as_str().unwrap().to_owned();
        let copy = Session { id: text("sessionId"), client: text("clientId") };
        assert_eq!(view["hasActivePrompt"], false, "{}: E7", self.name);
        assert_eq!(api.asked(&copy).await.len(), 0, "{}: E7", self.name);
        assert_eq!(heard(rig, &self.name).len(), 1, "{}: a copy does nothing by itself", self.name);
        let updates = view["compactedReplay"].as_array().unwrap();
        let updates: Vec<_> = updates.iter().map(|event| event["data"]["update"].clone()).collect();
        assert_eq!(status_of_call(&updates), Some("failed"), "{}: E7", self.name);
        if self.row.before == Before::Cold {
            api.delete(&format!("/session/{}", copy.id)).await.expect(204);
        }
        copy
    }

    /// Meets it; the history that comes back, if any does, and the client id to go on with.
    async fn meet(&self, api: &Api, acp: &mut Acp, met: &Session) -> (Option<Vec<Value>>, String) {
        let api = self.api(api);
        match self.row.how {
            How::Load | How::Resume => {
                let verb = if self.row.how == How::Load { "load" } else { "resume" };
                let view = api.post(&format!("/session/{}/{verb}", met.id), &json!({})).await.expect(200);
                assert!(!view.to_string().contains("qwen.daemon."), "{}: R5 {view:#}", self.name);
                let wanted = rules(self.row);
                assert_eq!(view["hasActivePrompt"], wanted.asked, "{}: R8", self.name);
                let client = view["clientId"].as_str().unwrap().to_owned();
                let known = client == met.client;
                assert_eq!(known, self.row.who == Who::Known && !self.row.fork, "{}: E6, a.7", self.name);
                let updates = view["compactedReplay"].as_array().map(|events| {
                    let journal = view["liveJournal"].as_array().unwrap();
                    let all = events.iter().chain(journal);
                    all.map(|event| event["data"]["update"].clone()).collect()
                });
                (updates, client)
            }
            How::LoadUpdates => {
                let params = json!({ "sessionId": met.id, "cwd": "/" });
                let loaded = acp.call("qwen/session/loadUpdates", params).await.unwrap();
                (Some(loaded["updates"].as_array().unwrap().clone()), met.client.clone())
            }
            How::Page => {
                let page = api.get(&format!("/session/{}/transcript", met.id)).await.expect(200);
                let events = page["events"].as_array().unwrap();
                (Some(events.iter().map(|event| event["data"].clone()).collect()), met.client.clone())
            }
        }
    }

    async fn run(&self, rig: &Rig, acp: &mut Acp) {
        let (name, wanted) = (&self.name, rules(self.row));
        let api = rig.api();
        let original = std::fs::read(rig.transcript_path(&self.session)).unwrap();
        let met = self.prepare(rig, &api).await;
        let before = std::fs::read(rig.transcript_path(&met)).unwrap();
        let (updates, client) = self.meet(&api, acp, &met).await;

        let shown = updates.as_deref().map(|updates| status_of_call(updates).unwrap());
        assert_eq!(shown, wanted.shown, "{name}: replay: {updates:#?}");
        let live = api.get(&format!("/session/{}/status", met.id)).await.status == 200;
        if wanted.asked {
            let [question] = api.wait_asked(&met).await;
            assert_eq!(question.id, self.question, "{name}: re-hang");
        } else if live {
            assert_eq!(api.asked(&met).await.len(), 0, "{name}: re-hang");
            assert_eq!(api.status(&met).await["hasActivePrompt"], false, "{name}: re-hang");
        }
        let rows = api.get(&format!("/questions?state=open&session={}", met.id)).await.expect(200);
        let rows = rows["questions"].as_array().unwrap();
        let row = rows.first().map(|row| (row["live"] == true, row["restorable"] == true));
        assert_eq!(row, wanted.inbox, "{name}: inbox: {rows:#?}");
        assert_eq!(
            std::fs::read(rig.transcript_path(&met)).unwrap(),
            before,
            "{name}: what is stored stays as it is until something is sent to the model"
        );
        if self.row.fork {
            self.original_keeps_its_own(rig, &original).await;
        }
        self.next(rig, &met, &client, wanted, &before).await;
    }

    /// E7, CR20: the question of the original is where it was.
    async fn original_keeps_its_own(&self, rig: &Rig, before: &[u8]) {
        let name = &self.name;
        assert_eq!(std::fs::read(rig.transcript_path(&self.session)).unwrap(), before, "{name}");
        let row = rig.api().question(&self.question).await;
        assert_eq!((&row["state"], &row["restorable"]), (&json!("open"), &json!(self.row.flag)), "{name}");
    }

    /// The next thing that a model reads of this session agrees with what was shown.
    async fn next(&self, rig: &Rig, met: &Session, client: &str, wanted: Wanted, before: &[u8]) {
        let name = &self.name;
        let api = rig.api().of(client);
        let calls = heard(rig, name).len();
        match wanted.next {
            Next::None => {
                assert_eq!(api.get(&format!("/session/{}/status", met.id)).await.status, 404, "{name}: I7");
                assert_eq!(std::fs::read(rig.transcript_path(met)).unwrap(), before, "{name}: I7");
                return;
            }
            Next::Answer => {
                let [question] = api.wait_asked(met).await;
                api.vote(met, &question.request, &selected(&[("0", "Blue1")])).await.expect(200);
            }
            Next::Repair => {
                api.prompt(met, "and now without").await;
            }
        }
        let history = until("the model is called", async || {
            let heard = heard(rig, name);
            (heard.len() > calls).then(|| heard.last().cloned()).flatten()
        })
        .await;
        let result = history[2]["content"].as_str().unwrap();
        let text = if wanted.next == Next::Answer { "Blue1" } else { "Not answered" };
        assert!(history[2]["role"] == "tool" && result.contains(text), "{name}: repair: {history:#?}");
        api.wait_idle(met).await;
        if !self.row.fork {
            let row = api.question(&self.question).await;
            let told = match wanted.next {
                Next::Answer => json!(["answered", null]),
                _ => json!(["closed", "orphan_repair"]),
            };
            assert_eq!(json!([row["state"], row["outcome"]["cause"]]), told, "{name}: {row:#}");
        }
    }
}

/// What the model heard of a row, by the text of its first prompt.
fn heard(rig: &Rig, name: &str) -> Vec<Vec<Value>> {
    let of_row = |history: &Vec<Value>| {
        history[0]["content"].as_str().is_some_and(|text| text.starts_with(&format!("{name}:")))
    };
    rig.model.histories().into_iter().filter(of_row).collect()
}

#[tokio::test]
async fn r1_r2_r3_r4_r5_r14_r19_e1_e5_e6_e7_s3_repair_replay_and_re_hang_agree_on_every_way() {
    let mut rig = Rig::new().await;
    let (on, off): (Vec<Row>, Vec<Row>) = table().into_iter().partition(|row| row.flag);
    let mut cases = Vec::new();
    let api = rig.start().await;
    for row in on.iter().chain(&off) {
        if row.flag || row.before != Before::Asked {
            cases.push(ask(&api, *row).await);
        }
    }
    for flag in [true, false] {
        rig.kill().await;
        rig.restore = flag;
        let api = rig.start().await;
        let mut command = rig.command();
        command.arg("acp").args(flag.then_some("--restore-ask-user-question"));
        let mut acp = Acp::start(command).await;
        if !flag {
            // With the flag off only a question in its first life is asked.
            for row in off.iter().filter(|row| row.before == Before::Asked) {
                cases.push(ask(&api, *row).await);
            }
        }
        for case in cases.iter().filter(|case| case.row.flag == flag) {
            case.run(&rig, &mut acp).await;
        }
    }
    assert_eq!(cases.len(), table().len());
}

/// d.4.20: what waits is not copied, and goes on waiting.
#[tokio::test]
async fn e7_a_session_that_waits_is_not_copied() {
    for restore in [true, false] {
        let mut rig = Rig::new().await;
        rig.restore = restore;
        let api = rig.start().await;
        let session = api.create("yolo").await;
        let of = api.of(&session.client);
        of.prompt(&session, "please ASK").await;
        let [question] = of.wait_asked(&session).await;
        for client in [&api, &of] {
            let refused = client.post(&format!("/session/{}/branch", session.id), &json!({})).await;
            assert_eq!((refused.status, refused.code().as_str()), (409, "branch_while_prompt_active"));
        }
        let [still] = of.wait_asked(&session).await;
        assert_eq!((still.id, still.request), (question.id, question.request));
        assert_eq!(api.inbox().await.len(), 1);
    }
}
