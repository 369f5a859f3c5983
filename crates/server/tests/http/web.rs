//! Browsers: the page's files, logins, and the answer form that needs no scripts.

use serde_json::json;

use crate::rig::{Asked, Life, Machine, say};
use crate::support::{Options, Request, Response, Tune};
use holdpoint_server::Web;

const TOKEN: &str = "correct horse battery staple";
const OURS: &str = "http://127.0.0.1:PORT";

async fn plain(machine: &Machine) -> Life {
    machine.start(Tune::default()).await
}

async fn guarded(machine: &Machine) -> Life {
    machine.start_with(Options { token: Some(TOKEN), ..Options::default() }).await
}

async fn page(life: &Life, path: &str) -> Response {
    life.get(path).await
}

/// Sends the form as it stands on the question's page, with these fields more.
async fn submit(life: &Life, asked: &Asked, fields: &[(&str, &str)]) -> Response {
    let form = page(life, &format!("/q/{}", asked.id)).await;
    let (generation, response) = (hidden(&form, "generation"), hidden(&form, "response"));
    let mut all = vec![("generation", generation.as_str()), ("response", response.as_str())];
    all.extend_from_slice(fields);
    send(life, asked, &all).await
}

async fn send(life: &Life, asked: &Asked, fields: &[(&str, &str)]) -> Response {
    let request = Request::new("POST", &format!("/q/{}", asked.id)).header("origin", OURS).form(fields);
    life.daemon.send(request).await
}

/// The value of a hidden field.
fn hidden(page: &Response, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let (_, rest) = page.text.split_once(&start).unwrap_or_else(|| panic!("no {name} in {}", page.text));
    rest.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn i7_a_question_is_a_page_that_changes_nothing_and_takes_an_answer_once() {
    let machine = Machine::new();
    let life = plain(&machine).await;
    let (_, asked) = life.asking().await;
    let before = life.audit(&asked).await;
    let form = page(&life, &format!("/q/{}", asked.id)).await;
    assert_eq!(form.status, 200, "{form:?}");
    for text in ["Which", "Red", "Blue", "Decline", "Other"] {
        assert!(form.text.contains(text), "no {text} in {}", form.text);
    }
    assert_eq!(life.audit(&asked).await, before);
    assert_eq!(life.question(&asked).await["state"], "open");

    let fields = [("generation", hidden(&form, "generation")), ("response", hidden(&form, "response"))];
    let [generation, response] = &fields;
    let all = [(generation.0, generation.1.as_str()), (response.0, response.1.as_str()), ("pick0", "1")];
    let answered = send(&life, &asked, &all).await;
    assert_eq!(answered.status, 200, "{}", answered.text);
    assert!(answered.text.contains("Answered") && answered.text.contains("Blue"), "{}", answered.text);
    assert_eq!(life.question(&asked).await["outcome"]["answers"], json!({ "0": "Blue" }));
    // A second press, or a reload of the outcome: the same answer again (V3).
    assert_eq!(send(&life, &asked, &all).await.status, 200);
    let shown = page(&life, &format!("/q/{}", asked.id)).await;
    assert!(shown.text.contains("Answered") && !shown.text.contains("<form"), "{}", shown.text);
    life.stop().await;
}

#[tokio::test]
async fn v4_the_second_of_two_is_told_who_was_first() {
    let machine = Machine::new();
    let life = plain(&machine).await;
    let (session, asked) = life.asking().await;
    let form = page(&life, &format!("/q/{}", asked.id)).await;
    let (generation, response) = (hidden(&form, "generation"), hidden(&form, "response"));
    assert_eq!(life.vote(&session, &asked.request, Some(&session.client), &say("Red")).await.status, 200);
    let late =
        send(&life, &asked, &[("generation", &generation), ("response", &response), ("pick0", "1")]).await;
    assert_eq!(late.status, 409, "{}", late.text);
    assert!(late.text.contains("Red") && late.text.contains(&session.client), "{}", late.text);
    assert!(late.text.contains("Yours (“Blue”) came too late and was not used."), "{}", late.text);
    let winner = page(&life, &format!("/q/{}", asked.id)).await;
    assert!(!winner.text.contains("too late"), "who only looks was not late: {}", winner.text);
    life.stop().await;
}

#[tokio::test]
async fn q6_what_is_missing_is_said_and_what_was_filled_in_stays() {
    let machine = Machine::new();
    let life = plain(&machine).await;
    let (_, asked) = life.asking().await;
    let nothing = submit(&life, &asked, &[("do", "answer")]).await;
    assert_eq!(nothing.status, 422);
    assert!(nothing.text.contains("has no answer yet") && nothing.text.contains("role=\"alert\""));
    let empty = submit(&life, &asked, &[("pick0", "other")]).await;
    assert_eq!(empty.status, 422);
    let odd = submit(&life, &asked, &[("pick0", "9")]).await;
    assert!(
        odd.status == 422 && odd.text.contains("pick0 is a number from 0 to 1, or “other”."),
        "{}",
        odd.text
    );
    let both = submit(&life, &asked, &[("pick0", "0"), ("other0", "neither <b>of</b> them")]).await;
    assert_eq!(both.status, 422);
    assert!(
        both.text.contains("neither &#60;b&#62;of&#60;/b&#62; them"),
        "kept, and never markup: {}",
        both.text
    );
    assert!(both.text.contains("value=\"0\" checked"), "{}", both.text);
    let stale = send(&life, &asked, &[("generation", "99"), ("pick0", "1")]).await;
    assert_eq!(stale.status, 409, "{}", stale.text);
    assert!(stale.text.contains("asked anew"), "{}", stale.text);
    assert_eq!(life.question(&asked).await["state"], "open");

    let own = submit(&life, &asked, &[("pick0", "other"), ("other0", "Mauve")]).await;
    assert_eq!(own.status, 200, "{}", own.text);
    assert_eq!(life.question(&asked).await["outcome"]["answers"], json!({ "0": "Mauve" }));
    life.stop().await;
}

#[tokio::test]
async fn q7_a_decline_and_a_closed_question_have_pages_too() {
    let machine = Machine::new();
    let life = plain(&machine).await;
    let (_, asked) = life.asking().await;
    let declined = submit(&life, &asked, &[("do", "decline")]).await;
    assert!(declined.status == 200 && declined.text.contains("Declined"), "{}", declined.text);

    let (session, asked) = life.asking().await;
    assert_eq!(life.post(&format!("/session/{}/cancel", session.id), None, &json!({})).await.status, 204);
    let closed = page(&life, &format!("/q/{}", asked.id)).await;
    assert!(closed.text.contains("Closed") && closed.text.contains("cancelled"), "{}", closed.text);
    let unknown = page(&life, "/q/q_0195").await;
    assert!(unknown.status == 404 && unknown.text.contains("no such question"), "{}", unknown.text);
    life.stop().await;
}

#[tokio::test]
async fn e_the_pages_allow_nothing_but_our_own_files_and_no_frames() {
    let machine = Machine::new();
    let life = plain(&machine).await;
    let (_, asked) = life.asking().await;
    for path in ["/", "/s/any", &format!("/q/{}", asked.id), "/q/unknown", "/form.css", "/ui/x/y.js"] {
        let response = page(&life, path).await;
        let policy = response.header("content-security-policy").unwrap_or_default();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
    life.stop().await;
}

#[tokio::test]
async fn the_pages_files_never_change_under_their_names() {
    let machine = Machine::new();
    let life = plain(&machine).await;
    let index = page(&life, "/").await;
    assert_eq!(index.header("cache-control"), Some("no-cache"));
    let (_, rest) = index.text.split_once("src=\"/ui/").unwrap();
    let file = format!("/ui/{}", rest.split('"').next().unwrap());
    assert!(!file.starts_with("/ui/dev/"), "{file}");
    let script = page(&life, &file).await;
    assert_eq!(script.status, 200, "{file}");
    assert!(script.header("cache-control").unwrap().contains("immutable"));
    assert_eq!(script.header("content-type"), Some("text/javascript; charset=utf-8"));
    let known = Request::new("GET", &file).header("if-none-match", script.header("etag").unwrap());
    assert_eq!(life.daemon.send(known).await.status, 304);
    for path in ["/ui/dev/app/main.js", &format!("{file}x"), "/ui/..%2f..%2fCargo.toml/x"] {
        assert_eq!(page(&life, path).await.status, 404, "{path}");
    }
    life.stop().await;

    let life = machine.start_with(Options { web: Web::Off, ..Options::default() }).await;
    for path in ["/", &file, "/q/q_1", "/login"] {
        assert_eq!(page(&life, path).await.status, 404, "{path}");
    }
    life.stop().await;
}

#[tokio::test]
async fn e_a_browser_logs_in_with_the_token_or_a_code_and_is_known_by_a_cookie() {
    let machine = Machine::new();
    let life = guarded(&machine).await;
    let sent = |request: Request<'static>| life.daemon.send(request.header("origin", OURS));
    // The page is for everybody, what it shows is not; a question's page leads to the login.
    assert_eq!(page(&life, "/").await.status, 200);
    assert_eq!(page(&life, "/questions").await.status, 401);
    let away = page(&life, "/q/q_1").await;
    assert_eq!((away.status, away.header("location")), (303, Some("/login?next=%2Fq%2Fq_1")));
    // A link from another site comes without the cookie that there may be: once more, as from here.
    let from_chat = Request::new("GET", "/q/q_1").header("sec-fetch-site", "cross-site");
    let again = life.daemon.send(from_chat).await;
    assert!(
        again.text.contains("http-equiv=\"refresh\"") && again.text.contains("/q/q_1?again=1"),
        "{}",
        again.text
    );

    let wrong = sent(Request::new("POST", "/login").form(&[("token", "wrong"), ("next", "/q/q_1")])).await;
    assert!(wrong.status == 401 && wrong.header("set-cookie").is_none(), "{wrong:?}");
    let right = sent(Request::new("POST", "/login").form(&[("token", TOKEN), ("next", "/q/q_1")])).await;
    assert_eq!((right.status, right.header("location")), (303, Some("/q/q_1")), "{right:?}");
    let cookie = right.header("set-cookie").unwrap().to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let with = |request: Request<'static>| life.daemon.send(request.header("cookie", cookie.clone()));
    assert_eq!(with(Request::new("GET", "/questions")).await.status, 200);
    // What changes something must come from our page.
    let make = || Request::new("POST", "/session").json(&json!({}));
    let unsaid = with(make()).await;
    assert_eq!((unsaid.status, unsaid.code()), (403, Some("origin_required")));
    assert_eq!(with(make().header("origin", "http://evil.example")).await.status, 403);
    assert_eq!(with(make().header("origin", OURS)).await.status, 200);

    // A one-time code, from somebody who is in.
    let code = with(Request::new("POST", "/login/code").header("origin", OURS)).await;
    let code = code.body["code"].as_str().unwrap().to_owned();
    let by_code = || Request::new("POST", "/login").json(&json!({ "code": code }));
    let first = sent(by_code()).await;
    assert!(first.status == 204 && first.header("set-cookie").is_some(), "{first:?}");
    let second = sent(by_code()).await;
    assert_eq!((second.status, second.code()), (401, Some("login_refused")));
    assert_eq!(page(&life, "/login/code").await.status, 401, "a code is not for everybody");
    life.stop().await;

    // A restart logs nobody out.
    let life = guarded(&machine).await;
    let value = cookie.split_once('=').unwrap().1;
    let cookie = format!("holdpoint_{}={value}", life.daemon.port);
    let known = Request::new("GET", "/questions").header("cookie", cookie);
    assert_eq!(life.daemon.send(known).await.status, 200);
    life.stop().await;
}
