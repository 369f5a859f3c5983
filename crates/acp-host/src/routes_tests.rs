//! Tests of how what an agent says finds its session.

use holdpoint_engine::port::Exit;
use serde_json::json;

use super::*;

fn update(text: &str) -> FromAgent {
    FromAgent::Update(json!(text))
}

fn texts(items: Vec<FromAgent>) -> Vec<String> {
    let text = |item| match item {
        FromAgent::Update(update) => update.as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    items.into_iter().map(text).collect()
}

fn sends(routes: &Routes, session: &str) -> Option<mpsc::Sender<FromAgent>> {
    match routes.place(session, update("x")) {
        Place::Send { sink, .. } => Some(sink),
        Place::Done => None,
    }
}

#[test]
fn what_comes_before_a_session_has_its_id_is_given_to_it_and_to_no_other() {
    let routes = Routes::new(1000);
    let (sink, _inbox) = mpsc::channel(1);
    // Nobody makes a session, so nobody can want it.
    routes.place("a", update("lost"));
    routes.making();
    routes.place("a", update("one"));
    routes.place("b", update("other"));
    routes.place("a", update("two"));
    assert_eq!(texts(routes.open("a", sink.clone())), ["one", "two"]);
    routes.made();
    routes.making();
    assert!(
        routes.open("b", sink).is_empty(),
        "what was parked is gone with the request that it could belong to"
    );
}

#[test]
fn parked_updates_are_bounded() {
    let routes = Routes::new(1000);
    routes.making();
    for _ in 0..10 * PARKED {
        routes.place("a", update("x"));
    }
    assert_eq!(routes.open("a", mpsc::channel(1).0).len(), PARKED);
}

#[test]
fn a_take_up_keeps_what_comes_until_it_ends() {
    let routes = Routes::new(1000);
    let (sink, _inbox) = mpsc::channel(1);
    let ticket = routes.begin("a", sink.clone());
    assert!(ticket.is_fresh());
    assert!(sends(&routes, "a").is_none());
    assert_eq!(texts(routes.commit(&ticket).unwrap()), ["x"]);
    assert!(sends(&routes, "a").unwrap().same_channel(&sink));
}

#[test]
fn a_take_up_that_fails_leaves_the_session_as_it_was() {
    let routes = Routes::new(1000);
    let (first, _inbox) = mpsc::channel(1);
    let (second, _inbox2) = mpsc::channel(1);
    let ticket = routes.begin("a", first.clone());
    assert!(routes.roll_back(ticket).is_empty());
    assert_eq!(routes.known("a"), Known::No);

    let ticket = routes.begin("a", first.clone());
    routes.commit(&ticket).unwrap();
    let ticket = routes.begin("a", second);
    assert!(!ticket.is_fresh());
    routes.place("a", update("live"));
    assert_eq!(
        texts(routes.roll_back(ticket)),
        ["live"],
        "it belongs to the sink that the session has again"
    );
    assert!(sends(&routes, "a").unwrap().same_channel(&first));
}

#[test]
fn a_take_up_that_ends_after_a_newer_one_began_changes_nothing() {
    let routes = Routes::new(1000);
    let (first, _inbox) = mpsc::channel(1);
    let (second, _inbox2) = mpsc::channel(1);
    let old = routes.begin("a", first);
    let new = routes.begin("a", second.clone());
    assert!(routes.commit(&old).is_none());
    routes.place("a", update("kept"));
    assert!(routes.roll_back(old).is_empty());
    assert_eq!(texts(routes.commit(&new).unwrap()), ["kept"]);
    assert!(sends(&routes, "a").unwrap().same_channel(&second));
}

#[test]
fn a_take_up_of_a_session_that_was_closed_meanwhile_is_void() {
    let routes = Routes::new(1000);
    let ticket = routes.begin("a", mpsc::channel(1).0);
    routes.close("a");
    assert!(routes.commit(&ticket).is_none());
    assert_eq!(routes.known("a"), Known::Closed);
}

#[test]
fn a_replay_is_bounded_and_loses_its_oldest_updates_but_no_end_of_a_prompt() {
    let routes = Routes::new(1000);
    let ticket = routes.begin("a", mpsc::channel(1).0);
    let prompt = holdpoint_model::ids::PromptId::new("p").unwrap();
    let end = Err(holdpoint_engine::port::AgentError::Gone(Exit::default()));
    routes.place("a", FromAgent::PromptEnded { prompt, end });
    for number in 0..1000 {
        routes.place("a", update(&format!("{number:068}")));
    }
    let kept = routes.commit(&ticket).unwrap();
    assert!(matches!(kept[0], FromAgent::PromptEnded { .. }));
    let (replay, rest) = split_replay(kept);
    assert_eq!(rest.len(), 1);
    assert_eq!(replay.len(), 10);
    assert_eq!(replay[9], json!(format!("{:068}", 999)));
}

#[test]
fn a_sink_that_is_gone_closes_its_own_route_only() {
    let routes = Routes::new(1000);
    let (sink, inbox) = mpsc::channel(1);
    routes.open("a", sink);
    let Place::Send { incarnation, .. } = routes.place("a", update("x")) else { panic!("it has a route") };
    routes.sink_gone("a", incarnation);
    assert_eq!(routes.known("a"), Known::Routed, "its sink is there");
    drop(inbox);
    routes.sink_gone("a", incarnation + 1);
    assert_eq!(routes.known("a"), Known::Routed);
    routes.sink_gone("a", incarnation);
    assert_eq!(routes.known("a"), Known::Closed);
    routes.open("a", mpsc::channel(1).0);
    assert_eq!(routes.known("a"), Known::Routed);
}
