//! Requests that meet a session while it is put away (WIRE a.2).

use std::sync::Arc;

use futures::FutureExt as _;
use holdpoint_engine::{CreateRequest, EngineError};
use holdpoint_ledger::MemoryLedger;

use crate::support::{Daemon, Hold, Idle, Options, Place};

#[tokio::test]
async fn a2_what_meets_a_session_that_is_put_away_is_told_what_is_true() {
    for deleted in [false, true] {
        let hold = Arc::new(Hold::default());
        let agents = Arc::new(Idle::held_by(Arc::clone(&hold)));
        let ledger = Arc::new(MemoryLedger::new());
        let daemon = Daemon::over(&Place::new(), Options::default(), ledger, agents).await;
        let engine = daemon.engine.clone();
        let id = engine.create(CreateRequest::default()).await.unwrap().session;

        let first = tokio::spawn({
            let (engine, id) = (engine.clone(), id.clone());
            async move { if deleted { engine.delete(&id).await } else { engine.close(&id, None).await } }
        });
        hold.asked.notified().await;
        // Each has its place in the session's queue once it was asked, and no answer yet.
        let mut second = Box::pin(engine.close(&id, None));
        let mut status = Box::pin(engine.status(&id, None));
        assert!(second.as_mut().now_or_never().is_none() && status.as_mut().now_or_never().is_none());
        hold.may.notify_one();

        first.await.unwrap().unwrap();
        for refused in [second.await.unwrap_err(), status.await.unwrap_err()] {
            match refused {
                EngineError::Closing(closing) => assert!(!deleted && closing == id),
                EngineError::NotLive(gone) => assert!(deleted && gone == id),
                other => panic!("deleted {deleted}: {other:?}"),
            }
        }
        let late = engine.close(&id, None).await.unwrap_err();
        assert!(matches!(late, EngineError::NotLive(_)), "{late:?}");
        daemon.stop().await;
    }
}
