//! The crash table of ARCHITECTURE.md, row by row: the process dies by SIGKILL right there, is started again,
//! and the job ends as if nothing had happened.

use serde_json::Value;

use crate::support::{
    Api, Asking, Question, Rig, Session, Story, Stream, answers, same, selected, undisturbed,
};

const ANSWER: &[(&str, &str)] = &[("0", "Blue1")];

/// How the session is taken up again.
#[derive(Clone, Copy, Debug)]
enum Again {
    Load,
    Resume,
}

/// A job that died at a named point.
struct Job {
    rig: Rig,
    session: Session,
    prompt: String,
    /// The question, where the client saw it before the end.
    seen: Option<Question>,
}

impl Job {
    /// Prompts, and lets the point strike while the question is on its way to people.
    async fn killed_asking(point: &str) -> Self {
        let mut rig = Rig::new().await;
        let api = rig.start_with(&[("HOLDPOINT_CRASH_AT", point)]).await;
        let session = api.create("yolo").await;
        let mut events = api.of(&session.client).events(&session).await;
        let prompt = api.of(&session.client).prompt(&session, "please ASK").await;
        events.drain().await;
        rig.died().await;
        let seen = events.seen.iter().find(|event| event["type"] == "permission_request").map(|event| {
            let text = |key: &str| event["data"][key].as_str().unwrap().to_owned();
            Question {
                id: text("questionId"),
                generation: event["data"]["generation"].as_u64().unwrap(),
                request: text("requestId"),
                view: event.clone(),
            }
        });
        Self { rig, session, prompt, seen }
    }

    /// Prompts, answers, and lets the point strike while the answer is on its way to the model.
    async fn killed_answering(point: &str) -> Self {
        let mut rig = Rig::new().await;
        let api = rig.start_with(&[("HOLDPOINT_CRASH_AT", point)]).await;
        let session = api.create("yolo").await;
        let api = api.of(&session.client);
        let prompt = api.prompt(&session, "please ASK").await;
        let [question] = api.wait_asked(&session).await;
        // Whether a response still comes is a matter of luck; that the answer counts is not.
        let _ = api.try_answer(&question, &answers(&question, ANSWER, "first")).await;
        rig.died().await;
        Self { rig, session, prompt, seen: Some(question) }
    }

    /// Starts the daemon again and attaches; the stream from the beginning of this life.
    async fn back(&mut self, again: Again) -> (Api, Stream) {
        let api = self.rig.start().await.of(&self.session.client);
        let view = match again {
            Again::Load => api.load(&self.session).await,
            Again::Resume => api.resume(&self.session).await,
        };
        assert_eq!(view["clientId"], self.session.client.as_str(), "R16: the client id stays registered");
        let (last, epoch) = (view["lastEventId"].as_u64().unwrap(), view["eventEpoch"].as_str());
        let events = api.events_from(&self.session, last, epoch).await;
        (api, events)
    }

    /// The question is asked again, and the job ends with it.
    async fn asked_again(mut self, again: Again, known: bool) {
        let api = self.rig.start().await;
        let rows = api.inbox().await;
        assert_eq!(rows.len(), usize::from(known), "in the inbox before anything is loaded: {rows:#?}");
        assert_eq!(self.rig.model.calls(), 1, "R12: a start resumes nothing");
        self.rig.kill().await;

        let (api, mut events) = self.back(again).await;
        let [question] = api.wait_asked(&self.session).await;
        if let Some(row) = rows.first() {
            assert_eq!(question.id, row["questionId"].as_str().unwrap());
        }
        if let Some(seen) = &self.seen {
            assert_eq!(question.id, seen.id);
            assert_eq!(question.generation, seen.generation);
            assert_ne!(question.request, seen.request, "R7: a new request id");
        }
        let status = api.status(&self.session).await;
        assert_eq!(status["isWaitingForUserQuestion"], true, "R8: {status:#}");
        assert_eq!(status["hasActivePrompt"], true, "R8: {status:#}");
        api.vote(&self.session, &question.request, &selected(ANSWER)).await.expect(200);
        self.finished(&api, &mut events, &question.id).await;
    }

    /// Nobody is asked, and the job ends by itself.
    async fn goes_on(mut self, again: Again) {
        let question = self.seen.clone().unwrap();
        let api = self.rig.start().await;
        assert_eq!(api.inbox().await, Vec::<Value>::new(), "I4: an answer that counts is not asked for");
        let receipt = api.answer(&question.id, &answers(&question, ANSWER, "first")).await.expect(200);
        assert_eq!(receipt["status"], "answered", "{receipt:#}");
        self.rig.kill().await;

        let (api, mut events) = self.back(again).await;
        self.finished(&api, &mut events, &question.id).await;
        assert!(!events.saw("permission_request"), "I4: asked again: {:#?}", events.seen);
    }

    async fn finished(&self, api: &Api, events: &mut Stream, question: &str) {
        let end = events.turn_end(&self.prompt).await;
        assert_eq!(end["type"], "turn_complete", "R15, the same prompt id: {end:#}");
        assert_eq!(end["data"]["stopReason"], "end_turn", "{end:#}");
        assert_eq!(self.rig.model.calls(), 2, "the model is called once more");
        let outcome = api.question(question).await["outcome"].clone();
        assert_eq!(outcome["state"], "answered", "{outcome:#}");
        assert_eq!(outcome["delivered"], true, "{outcome:#}");
        assert_eq!(outcome["answers"]["0"], "Blue1", "{outcome:#}");
        same(&self.rig.story(&self.session), &reference().await);
    }
}

async fn reference() -> Story {
    undisturbed("please ASK", &[ANSWER]).await
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn row_1_the_turn_is_stored_and_nothing_was_asked() {
    Job::killed_asking("agent.turn_stored").await.asked_again(Again::Load, false).await;
    Job::killed_asking("agent.turn_stored").await.asked_again(Again::Resume, false).await;
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn row_1_the_daemon_has_the_request_and_not_stored_it() {
    Job::killed_asking("daemon.ask_received").await.asked_again(Again::Load, false).await;
    Job::killed_asking("daemon.ask_received").await.asked_again(Again::Resume, false).await;
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn row_2_the_question_is_committed_and_told_to_nobody() {
    Job::killed_asking("daemon.ask_committed").await.asked_again(Again::Load, true).await;
    Job::killed_asking("daemon.ask_committed").await.asked_again(Again::Resume, true).await;
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn row_3_the_question_is_published() {
    Job::killed_asking("daemon.ask_published").await.asked_again(Again::Load, true).await;
    Job::killed_asking("daemon.ask_published").await.asked_again(Again::Resume, true).await;
}

/// Asks, and kills from outside once a person has seen the question.
async fn killed_when_seen() -> Job {
    let mut rig = Rig::started().await;
    let Asking { session, prompt, question, .. } = rig.asking("please ASK").await;
    rig.kill().await;
    Job { rig, session, prompt, seen: Some(question) }
}

#[tokio::test]
async fn r1_r7_r8_r15_r16_row_3_the_question_is_seen() {
    killed_when_seen().await.asked_again(Again::Load, true).await;
    killed_when_seen().await.asked_again(Again::Resume, true).await;
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn row_5_i4_the_answer_is_committed_and_not_acknowledged() {
    Job::killed_answering("daemon.answer_committed").await.goes_on(Again::Load).await;
    Job::killed_answering("daemon.answer_committed").await.goes_on(Again::Resume).await;
}

/// Answers with 200, withholds the answer from the agent, and kills.
async fn killed_acknowledged() -> Job {
    let mut rig = Rig::new().await;
    let api = rig.start_with(&[("HOLDPOINT_WITHHOLD", "daemon.answer_acknowledged")]).await;
    let session = api.create("yolo").await;
    let api = api.of(&session.client);
    let prompt = api.prompt(&session, "please ASK").await;
    let [question] = api.wait_asked(&session).await;
    api.answer(&question.id, &answers(&question, ANSWER, "first")).await.expect(200);
    rig.kill().await;
    Job { rig, session, prompt, seen: Some(question) }
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn row_6_i4_the_answer_is_acknowledged_and_the_agent_has_not_heard_it() {
    killed_acknowledged().await.goes_on(Again::Load).await;
    killed_acknowledged().await.goes_on(Again::Resume).await;
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn row_7_the_result_is_stored_and_the_daemon_not_told() {
    Job::killed_answering("agent.result_stored").await.goes_on(Again::Load).await;
    Job::killed_answering("agent.result_stored").await.goes_on(Again::Resume).await;
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn r20_all_results_are_stored_and_the_model_not_called() {
    Job::killed_answering("agent.before_model").await.goes_on(Again::Load).await;
    Job::killed_answering("agent.before_model").await.goes_on(Again::Resume).await;
}

#[tokio::test]
#[cfg_attr(not(feature = "crash-points"), ignore = "needs the feature crash-points")]
async fn r18_a_batch_dies_right_after_its_first_answer_is_stored() {
    let mut rig = Rig::new().await;
    let api = rig.start_with(&[("HOLDPOINT_CRASH_AT", "agent.result_stored")]).await;
    let session = api.create("yolo").await;
    let api = api.of(&session.client);
    let prompt = api.prompt(&session, "please ASK_TWO").await;
    let [first, second] = api.wait_asked(&session).await;
    let _ = api.try_answer(&first, &answers(&first, ANSWER, "first")).await;
    rig.died().await;

    let api = rig.start().await.of(&session.client);
    let mut events = api.load_and_follow(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, second.id, "only the other one is asked again");
    api.vote(&session, &again.request, &selected(&[("0", "Red2")])).await.expect(200);
    events.turn_end(&prompt).await;
    same(&rig.story(&session), &undisturbed("please ASK_TWO", &[ANSWER, &[("0", "Red2")]]).await);
}
