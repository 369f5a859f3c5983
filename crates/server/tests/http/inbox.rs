//! The inbox and answers by a question's durable identity (D2, D4, D6, V4), and its pages.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_ledger::MemoryLedger;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::rig::{Asked, Life, Machine, cancelled, kinds, say};
use crate::support::{Options, PATIENCE, Request, Tune};
use crate::votes::got;

fn body(asked: &Asked, answer: &str, response: &str) -> Value {
    json!({ "generation": asked.generation, "answers": { "0": answer }, "responseId": response })
}

fn holds(body: &Value, fields: &Value) {
    for (key, value) in fields.as_object().unwrap() {
        assert_eq!(&body[key], value, "{key} of {body:#}");
    }
}

fn off() -> Tune {
    Tune { restore: false, ..Tune::default() }
}

#[tokio::test]
async fn d2_a_retry_gets_the_same_receipt_also_over_a_restart() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let (session, asked) = life.asking().await;
    let client = Some(session.client.as_str());
    let receipt = life.answer(&asked, client, &body(&asked, "Blue", "mine")).await;
    assert_eq!(receipt.status, 200, "{receipt:?}");
    let same = json!({
        "status": "answered",
        "questionId": asked.id,
        "generation": asked.generation,
        "responseId": "mine",
        "answers": { "0": "Blue" },
        "answeredBy": { "clientId": session.client, "surface": "http" },
        "answeredAt": receipt.body["answeredAt"],
    });
    holds(&receipt.body, &same);
    assert!(["delivering", "delivered"].contains(&receipt.body["delivery"].as_str().unwrap()));
    // Of another client, too: the response id says which answer it is.
    for by in [client, None] {
        let again = life.answer(&asked, by, &body(&asked, "Blue", "mine")).await;
        assert_eq!(again.status, 200, "{again:?}");
        holds(&again.body, &same);
    }
    life.stop().await;
    let life = machine.start(off()).await;
    let again = life.answer(&asked, client, &body(&asked, "Blue", "mine")).await;
    assert_eq!(again.status, 200, "whatever the flag: {again:?}");
    holds(&again.body, &same);
    life.stop().await;
}

#[tokio::test]
async fn d2_v4_what_one_who_is_late_is_told() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let (session, asked) = life.asking().await;
    let mut events = life.events(&session).await;
    life.told(&session, &mut events).await;
    let first = Request::new("POST", &format!("/questions/{}/answer", asked.id))
        .json(&body(&asked, "Blue", "mine"))
        .header("x-holdpoint-surface", "cli");
    assert_eq!(life.daemon.send(first).await.status, 200);
    let check = async |life: &Life| {
        let late = life.answer(&asked, None, &body(&asked, "Red", "other")).await;
        assert_eq!(got(&late), (409, "already_answered"), "{late:?}");
        let verdict = json!({
            "questionId": asked.id,
            "state": "answered",
            "answers": { "0": "Blue" },
            "answeredBy": { "surface": "cli" },
            "outcome": { "outcome": "selected", "optionId": "proceed_once" },
        });
        holds(&late.body, &verdict);
        assert!(late.body["answeredAt"].is_string());
        let decline = json!({ "generation": asked.generation, "decline": true });
        assert_eq!(got(&life.answer(&asked, None, &decline).await), (409, "already_answered"));
        let reused = life.answer(&asked, None, &body(&asked, "Red", "mine")).await;
        assert_eq!(got(&reused), (409, "response_id_reused"), "{reused:?}");
        let other = Asked { generation: asked.generation + 1, ..asked.clone() };
        let stale = life.answer(&asked, None, &body(&other, "Blue", "mine")).await;
        assert_eq!(got(&stale), (409, "stale_generation"), "{stale:?}");
        assert_eq!(stale.body["generation"], json!(asked.generation), "this one's");
    };
    check(&life).await;
    let told = life.told(&session, &mut events).await;
    assert_eq!(kinds(&told)[0], "permission_resolved");
    assert_eq!(told[0]["data"]["answeredBy"]["surface"], "cli");
    life.stop().await;
    let life = machine.start(Tune::default()).await;
    check(&life).await;
    assert_eq!(life.daemon.engine.live_sessions(), 0, "what has ended wakes nothing");
    life.stop().await;
}

#[tokio::test]
async fn d2_a_malformed_answer_is_refused_and_the_question_stays_open() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let session = life.make().await;
    life.prompt(&session, Some(&session.client), "parts 2").await;
    let asked = life.asked(&session, 1).await.remove(0);
    let g = asked.generation;
    for bad in [
        json!({ "answers": { "0": "Red", "1": "Red" } }),
        json!({ "generation": "1", "answers": { "0": "Red", "1": "Red" } }),
        json!({ "generation": -1, "answers": { "0": "Red", "1": "Red" } }),
        json!({ "generation": g }),
        json!({ "generation": g, "answers": null }),
        json!({ "generation": g, "answers": {} }),
        json!({ "generation": g, "answers": [] }),
        json!({ "generation": g, "answers": "Red" }),
        json!({ "generation": g, "answers": { "0": "Red" } }),
        json!({ "generation": g, "answers": { "0": "Red", "1": "" } }),
        json!({ "generation": g, "answers": { "0": "Red", "1": "Red", "2": "Red" } }),
        json!({ "generation": g, "answers": { "0": "Red", "01": "Red" } }),
        json!({ "generation": g, "answers": { "0": "Red", "1": ["Red", "Blue"] } }),
        json!({ "generation": g, "answers": { "0": "Red", "1": 1 } }),
        json!({ "generation": g, "decline": "yes" }),
        json!({ "generation": g, "decline": true, "answers": { "0": "Red", "1": "Red" } }),
        json!({ "generation": g, "optionId": "proceed_once" }),
        json!({ "generation": g, "answers": { "0": "Red", "1": "Red" }, "responseId": "a b" }),
        json!({ "generation": g, "answers": { "0": "Red", "1": "Red" }, "responseId": "" }),
    ] {
        let refused = life.answer(&asked, Some(&session.client), &bad).await;
        assert_eq!(got(&refused), (422, "invalid_answers"), "{bad}: {refused:?}");
    }
    for bad in [json!([]), json!("x"), json!(null)] {
        assert_eq!(life.answer(&asked, None, &bad).await.status, 400, "{bad}");
    }
    assert_eq!(life.question(&asked).await["state"], "open");
    let other = Asked { generation: g + 1, ..asked.clone() };
    assert_eq!(got(&life.answer(&asked, None, &body(&other, "Red", "x")).await), (409, "stale_generation"));
    let nothing = Asked { id: "q_0".to_owned(), ..asked.clone() };
    for nothing in [nothing, Asked { id: "nothing".to_owned(), ..asked.clone() }] {
        let missing = life.answer(&nothing, None, &body(&asked, "Red", "x")).await;
        assert_eq!(got(&missing), (404, "question_not_found"), "{missing:?}");
    }
    assert_eq!(life.question(&asked).await["state"], "open");
    let whole = json!({ "generation": g, "answers": { "0": "Red", "1": ["my own words"] } });
    let receipt = life.answer(&asked, None, &whole).await;
    assert_eq!(
        (receipt.status, &receipt.body["answers"]),
        (200, &json!({ "0": "Red", "1": "my own words" }))
    );
    life.stop().await;
}

#[tokio::test]
async fn d2_a_permission_takes_an_option_and_nothing_else() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let session = life.make().await;
    life.prompt(&session, Some(&session.client), "permit").await;
    let asked = life.asked(&session, 1).await.remove(0);
    let g = asked.generation;
    let wrong = life.answer(&asked, None, &body(&asked, "Red", "x")).await;
    assert_eq!(got(&wrong), (422, "invalid_answers"), "{wrong:?}");
    let wrong = life.answer(&asked, None, &json!({ "generation": g, "optionId": "nope" })).await;
    assert_eq!(got(&wrong), (422, "invalid_option_id"), "{wrong:?}");
    let row = &life.inbox().await[0];
    assert_eq!((&row["kind"], &row["action"]["title"]), (&json!("permission"), &json!("rm -r build")));
    let right = json!({ "generation": g, "optionId": "proceed_always", "responseId": "x" });
    let receipt = life.answer(&asked, None, &right).await;
    assert_eq!((receipt.status, &receipt.body["optionId"]), (200, &json!("proceed_always")), "{receipt:?}");
    assert_eq!(life.answer(&asked, None, &right).await.status, 200, "a retry");
    let other = json!({ "generation": g, "optionId": "proceed_once", "responseId": "x" });
    assert_eq!(got(&life.answer(&asked, None, &other).await), (409, "response_id_reused"));
    life.stop().await;
}

#[tokio::test]
async fn d2_s3_with_the_flag_off_what_nobody_asks_is_not_answered() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let (_, asked) = life.asking().await;
    life.stop().await;
    let life = machine.start(off()).await;
    let row = &life.inbox().await[0];
    assert_eq!((&row["live"], &row["restorable"]), (&json!(false), &json!(false)));
    let refused = life.answer(&asked, None, &body(&asked, "Red", "x")).await;
    assert_eq!(got(&refused), (409, "restore_disabled"), "{refused:?}");
    assert_eq!(life.question(&asked).await["state"], "open");
    life.stop().await;
}

#[tokio::test]
async fn d2_i1_a_ledger_that_refuses_takes_no_answer() {
    let machine = Machine::new();
    let ledger = Arc::new(MemoryLedger::new());
    let life = machine.start_over(Options::default(), ledger.clone()).await;
    let (session, asked) = life.asking().await;
    ledger.refuse(Some("no space is left"));
    let refused = life.answer(&asked, None, &body(&asked, "Red", "x")).await;
    assert_eq!(got(&refused), (503, "ledger_unavailable"), "{refused:?}");
    assert!(refused.header("retry-after").is_some());
    let refused = life.vote(&session, &asked.request, None, &say("Red")).await;
    assert_eq!(got(&refused), (503, "ledger_unavailable"), "{refused:?}");
    assert_eq!(life.question(&asked).await["state"], "open");
    ledger.refuse(None);
    assert_eq!(life.answer(&asked, None, &body(&asked, "Red", "x")).await.status, 200);
    life.stop().await;
}

#[tokio::test]
async fn d4_a_surface_says_that_it_has_shown_a_question() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let (session, asked) = life.asking().await;
    let path = format!("/questions/{}/shown", asked.id);
    let shown = |surface: Value, generation: u64| json!({ "surface": surface, "generation": generation });
    let long = "x".repeat(33);
    for bad in [json!(null), json!(""), json!("a b"), json!("<b>"), json!(1), json!(long)] {
        assert_eq!(life.post(&path, None, &shown(bad, asked.generation)).await.status, 400);
    }
    assert_eq!(got(&life.post(&path, None, &json!({ "surface": "web" })).await), (422, "invalid_answers"));
    let stale = life.post(&path, None, &shown(json!("web"), asked.generation + 1)).await;
    assert_eq!(got(&stale), (409, "stale_generation"));
    let missing = life.post("/questions/q_0/shown", None, &shown(json!("web"), 1)).await;
    assert_eq!(got(&missing), (404, "question_not_found"));
    assert_eq!(life.question(&asked).await["shown"], json!([]));
    for surface in ["web", "slack", "web"] {
        assert_eq!(life.post(&path, None, &shown(json!(surface), asked.generation)).await.status, 204);
    }
    let told = async |life: &Life| {
        let question = life.question(&asked).await;
        let surfaces: Vec<_> =
            question["shown"].as_array().unwrap().iter().map(|s| s["surface"].clone()).collect();
        assert_eq!(surfaces, ["web", "slack"]);
        assert!(question["shown"][0]["at"].is_string());
        question["shown"].clone()
    };
    let before = told(&life).await;
    life.stop().await;
    let life = machine.start(Tune::default()).await;
    assert_eq!(told(&life).await, before, "durable");
    let stored = life.post(&path, None, &shown(json!("cli"), asked.generation)).await;
    assert_eq!(stored.status, 204, "loaded or not");
    assert_eq!(life.question(&asked).await["shown"][2]["surface"], "cli");
    assert_eq!(life.vote(&session, &asked.request, None, &cancelled()).await.status, 200);
    let late = life.post(&path, None, &shown(json!("web"), asked.generation)).await;
    assert_eq!(got(&late), (409, "already_answered"));
    life.stop().await;
}

#[tokio::test]
async fn d4_a_question_that_is_shown_nowhere_is_marked_counted_and_warned_of() {
    let machine = Machine::new();
    let tune = Tune { unseen_after: Some(Duration::from_millis(1)), ..Tune::default() };
    let life = machine.start(tune.clone()).await;
    let (_, asked) = life.asking().await;
    let (_, seen) = life.asking().await;
    let shown = json!({ "surface": "web", "generation": seen.generation });
    life.post(&format!("/questions/{}/shown", seen.id), None, &shown).await;
    // The counter moves when the warning is given.
    let counted = async {
        while !metric(&life, "holdpoint_questions_unseen_total").await.is_some_and(|n| n >= 1.0) {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, counted).await.expect("it is counted");
    assert_eq!(metric(&life, "holdpoint_questions_unseen").await, Some(1.0));
    assert_eq!(life.question(&asked).await["unseen"], true);
    assert!(life.question(&seen).await.get("unseen").is_none());
    let marked: Vec<_> = life.inbox().await.iter().map(|row| row["unseen"].clone()).collect();
    assert_eq!(marked, [json!(true), Value::Null]);
    let status = life.get("/daemon/status").await.body;
    assert_eq!(
        (&status["status"], &status["issues"][0]["code"]),
        (&json!("warning"), &json!("unshown_questions"))
    );
    life.stop().await;

    // The mark is what is true now, and needs nobody to have watched: it is there for one that is not loaded.
    let life = machine.start(tune).await;
    assert_eq!(life.question(&asked).await["unseen"], true);
    let shown = json!({ "surface": "cli", "generation": asked.generation });
    life.post(&format!("/questions/{}/shown", asked.id), None, &shown).await;
    assert!(life.question(&asked).await.get("unseen").is_none());
    life.stop().await;
}

#[tokio::test]
async fn d4_before_its_time_and_with_no_time_set_nothing_is_marked() {
    for unseen_after in [Some(Duration::from_secs(30)), None] {
        let machine = Machine::new();
        let life = machine.start(Tune { unseen_after, ..Tune::default() }).await;
        let (session, asked) = life.asking().await;
        assert!(life.question(&asked).await.get("unseen").is_none());
        assert_eq!(metric(&life, "holdpoint_questions_unseen").await, Some(0.0));
        let status = life.get("/daemon/status").await.body;
        assert_eq!((&status["status"], &status["issues"]), (&json!("ok"), &json!([])));
        let limits = &life.get("/capabilities").await.body["limits"];
        assert_eq!(limits["unseenQuestionAfterMs"], unseen_after.map_or(0, |after| after.as_millis() as u64));
        // An answered one is no concern of anybody's.
        life.vote(&session, &asked.request, None, &say("Red")).await;
        assert!(life.question(&asked).await.get("unseen").is_none());
        life.stop().await;
    }
}

/// The value of a metric without labels.
pub(crate) async fn metric(life: &Life, name: &str) -> Option<f64> {
    let text = life.daemon.text("/metrics").await;
    let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
    line.split(' ').nth(1)?.parse().ok()
}

#[tokio::test]
async fn d2_counts_and_ages_in_metrics() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    assert_eq!(metric(&life, "holdpoint_questions_open").await, Some(0.0));
    assert_eq!(metric(&life, "holdpoint_questions_oldest_age_seconds").await, Some(0.0));
    let (session, asked) = life.asking().await;
    life.asking().await;
    assert_eq!(metric(&life, "holdpoint_questions_open").await, Some(2.0));
    assert!(metric(&life, "holdpoint_questions_oldest_age_seconds").await.unwrap() > 0.0);
    assert_eq!(metric(&life, "holdpoint_sessions_live").await, Some(2.0));
    assert_eq!(metric(&life, "holdpoint_turns_active").await, Some(2.0));
    assert_eq!(metric(&life, "holdpoint_questions_asked_total").await, Some(2.0));
    life.vote(&session, &asked.request, None, &say("Red")).await;
    assert_eq!(metric(&life, "holdpoint_questions_open").await, Some(1.0));
    assert_eq!(metric(&life, "holdpoint_questions_settled_total").await, Some(1.0));
    life.stop().await;
    let life = machine.start(Tune::default()).await;
    assert_eq!(metric(&life, "holdpoint_questions_open").await, Some(1.0), "loaded or not");
    assert_eq!(metric(&life, "holdpoint_sessions_live").await, Some(0.0));
    life.stop().await;
}

#[tokio::test]
async fn d6_a_deletion_closes_the_question_on_every_surface_at_once() {
    for loaded in [true, false] {
        let machine = Machine::new();
        let mut life = machine.start(Tune::default()).await;
        let (session, asked) = life.asking().await;
        let (_, other) = life.asking().await;
        if !loaded {
            life.stop().await;
            life = machine.start(Tune::default()).await;
        }
        let mut events = if loaded { Some(life.events(&session).await) } else { None };
        let deleted = life.post("/sessions/delete", None, &json!({ "sessionIds": [session.id] })).await;
        assert_eq!(deleted.body["removed"], json!([session.id]), "{deleted:?}");
        // Nothing is waited for: the answer to the deletion means that it is so.
        let rows = life.inbox().await;
        assert!(matches!(&rows[..], [row] if row["questionId"] == json!(other.id)), "{rows:#?}");
        let question = life.question(&asked).await;
        assert_eq!(
            (&question["state"], &question["outcome"]["cause"]),
            (&json!("closed"), &json!("session_deleted"))
        );
        for response in ["x", "y"] {
            let late = life.answer(&asked, None, &body(&asked, "Red", response)).await;
            assert_eq!(got(&late), (410, "closed"), "{late:?}");
            assert_eq!(late.body["cause"], "session_deleted");
            assert!(late.body["closedAt"].is_string());
        }
        let vote = life.vote(&session, &asked.request, Some(&session.client), &say("Red")).await;
        assert_eq!(vote.status, 404, "{vote:?}");
        let shown = json!({ "surface": "web", "generation": asked.generation });
        let shown = life.post(&format!("/questions/{}/shown", asked.id), None, &shown).await;
        assert_eq!(got(&shown), (410, "closed"), "{shown:?}");
        let list = life.get(&format!("/questions?state=closed&session={}", session.id)).await.body;
        assert_eq!(list["questions"][0]["questionId"], json!(asked.id));
        if let Some(events) = &mut events {
            let resolved = events.wait_for("permission_resolved").await;
            assert_eq!(resolved["data"]["cause"], "session_deleted", "{resolved:#}");
            assert_eq!(resolved["data"]["outcome"], json!({ "outcome": "cancelled" }));
            events.wait_for("session_closed").await;
        }
        assert_eq!(life.answer(&other, None, &body(&other, "Red", "z")).await.status, 200, "a sibling lives");
        life.stop().await;
    }
}

#[tokio::test]
async fn d2_the_inbox_by_pages_and_filters() {
    let machine = Machine::new();
    let life = machine.start(Tune::default()).await;
    let first = life.make().await;
    life.prompt(&first, Some(&first.client), "ask 5").await;
    let asked = life.asked(&first, 5).await;
    let second = life.make().await;
    life.prompt(&second, Some(&second.client), "permit").await;
    let permission = life.asked(&second, 1).await.remove(0);
    life.vote(&first, &asked[1].request, None, &say("Red")).await;
    life.vote(&first, &asked[2].request, None, &cancelled()).await;
    let mut expected: Vec<_> = [0, 3, 4].iter().map(|at| asked[*at].id.clone()).collect();
    expected.push(permission.id.clone());
    let ids = |body: &Value| -> Vec<String> {
        let rows = body["questions"].as_array().unwrap();
        rows.iter().map(|row| row["questionId"].as_str().unwrap().to_owned()).collect()
    };
    for limit in 1..=5 {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = life.get(&format!("/questions?limit={limit}{cursor}")).await.body;
            assert!(ids(&page).len() <= limit);
            found.extend(ids(&page));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(found, expected, "oldest first, each once, by {limit}");
    }
    let cwd = life.inbox().await[0]["workspaceCwd"].as_str().unwrap().to_owned();
    let table = [
        ("state=open&kind=user_question".to_owned(), expected[..3].to_vec()),
        ("kind=permission".to_owned(), vec![permission.id.clone()]),
        ("state=settled".to_owned(), vec![asked[1].id.clone(), asked[2].id.clone()]),
        ("state=closed".to_owned(), vec![]),
        (format!("session={}", second.id), vec![permission.id.clone()]),
        (format!("session={}&state=all", second.id), vec![permission.id.clone()]),
        (format!("cwd={cwd}"), expected.clone()),
        ("cwd=/elsewhere".to_owned(), vec![]),
        (format!("state=all&ending={}", &asked[1].id[8..]), vec![asked[1].id.clone()]),
        (format!("ending={}", &asked[1].id[8..]), vec![]),
    ];
    for (query, expected) in table {
        let page = life.get(&format!("/questions?{query}")).await.body;
        assert_eq!(ids(&page), expected, "{query}");
    }
    assert_eq!(ids(&life.get("/questions?state=all").await.body).len(), 6);
    for bad in ["limit=0", "limit=501", "limit=x", "state=maybe", "kind=other"] {
        assert_eq!(got(&life.get(&format!("/questions?{bad}")).await), (400, "invalid_request"), "{bad}");
    }
    for bad in ["cursor=", "cursor=x", "cursor=1.2", "cursor=9999999999999999999999.q_1"] {
        assert_eq!(got(&life.get(&format!("/questions?{bad}")).await), (400, "invalid_cursor"), "{bad}");
    }
    life.stop().await;
}
