//! That a question was shown survives a kill; one that was shown nowhere in time is told of (D4).

use serde_json::{Value, json};

use crate::support::{Api, Rig, until};

/// A metric without labels.
async fn metric(api: &Api, name: &str) -> f64 {
    let page = String::from_utf8(api.get("/metrics").await.body).unwrap();
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().unwrap())
}

fn warnings(rig: &Rig) -> usize {
    rig.log().matches("no surface has shown it").count()
}

#[tokio::test]
async fn d4_a_question_that_no_surface_has_shown_in_time_is_marked_counted_and_warned_of() {
    let mut rig = Rig::new().await;
    rig.args = vec!["--unseen-question-after-ms".to_owned(), "50".to_owned()];
    let api = rig.start().await;
    let session = api.create("yolo").await;
    api.of(&session.client).prompt(&session, "please ASK").await;
    let [question] = api.wait_asked(&session).await;
    until("it is warned of", async || (warnings(&rig) == 1).then_some(())).await;
    assert!(metric(&api, "holdpoint_questions_unseen_total").await >= 1.0);
    assert!((metric(&api, "holdpoint_questions_unseen").await - 1.0).abs() < f64::EPSILON);
    assert_eq!(api.inbox().await[0]["unseen"], true);
    let status = api.get("/daemon/status").await.expect(200);
    assert!(status["issues"].to_string().contains("unshown_questions"), "{status:#}");

    // The mark needs nobody to have watched: it is there after a kill, with nothing loaded.
    rig.kill_all().await;
    let api = rig.start().await;
    assert_eq!(api.inbox().await[0]["unseen"], true);
    assert_eq!(api.question(&question.id).await["unseen"], true);

    // A surface renders it, and that is durable: it is gone for good.
    let shown = json!({ "surface": "cli", "generation": question.generation });
    api.post(&format!("/questions/{}/shown", question.id), &shown).await.expect(204);
    assert_eq!(api.inbox().await[0].get("unseen"), None);
    rig.kill_all().await;
    let api = rig.start().await;
    assert_eq!(api.inbox().await[0].get("unseen"), None);
    assert_eq!(api.inbox().await[0]["shown"][0]["surface"], "cli");
}

#[tokio::test]
async fn d4_that_a_question_was_shown_survives_a_kill_and_keeps_the_warning_away() {
    let mut rig = Rig::started().await;
    let api = rig.api();
    let session = api.create("yolo").await;
    api.of(&session.client).prompt(&session, "please ASK").await;
    let [question] = api.wait_asked(&session).await;
    let path = format!("/questions/{}/shown", question.id);
    for surface in ["web", "slack"] {
        let shown = json!({ "surface": surface, "generation": question.generation });
        api.post(&path, &shown).await.expect(204);
    }
    let receipts = |row: &Value| row["shown"].clone();
    let before = receipts(&api.inbox().await[0]);
    let surfaces: Vec<_> = before.as_array().unwrap().iter().map(|shown| shown["surface"].clone()).collect();
    assert_eq!(surfaces, ["web", "slack"]);
    assert!(before.as_array().unwrap().iter().all(|shown| shown["at"].is_string()), "{before:#}");
    rig.kill_all().await;

    // From here on a question is late as soon as it is asked.
    rig.args = vec!["--unseen-question-after-ms".to_owned(), "1".to_owned()];
    let api = rig.start().await.of(&session.client);
    assert_eq!(receipts(&api.inbox().await[0]), before, "with nothing loaded");
    api.load(&session).await;
    let [again] = api.wait_asked(&session).await;
    assert_eq!(again.id, question.id);
    assert_eq!(receipts(&api.inbox().await[0]), before, "and asked again");
    assert_eq!(api.inbox().await[0].get("unseen"), None);
    // One beside it that is shown nowhere has its warning: the clock has gone by, and only that one was late.
    let other = rig.api().create("yolo").await;
    api.of(&other.client).prompt(&other, "please ASK").await;
    let [late] = api.of(&other.client).wait_asked(&other).await;
    until("the other is warned of", async || (warnings(&rig) > 0).then_some(())).await;
    let log = rig.log();
    let warned: Vec<_> = log.lines().filter(|line| line.contains("no surface has shown it")).collect();
    assert!(warned.iter().all(|line| line.contains(&late.id) && !line.contains(&question.id)), "{warned:?}");
    assert!((metric(&api, "holdpoint_questions_unseen").await - 1.0).abs() < f64::EPSILON);
}
