//! The restore flag in every form of the command line (S1, S2).

use crate::support::{Acp, Rig};

const FLAG: &str = "--restore-ask-user-question";

#[tokio::test]
async fn s1_s2_the_flag_needs_the_mode_and_the_mode_needs_the_flag() {
    let rig = Rig::new().await;
    for (args, restores) in [
        (vec!["acp", FLAG], true),
        (vec!["--acp", FLAG], true),
        (vec![FLAG, "--acp"], true),
        (vec![FLAG, "acp"], true),
        (vec!["acp"], false),
        (vec!["--acp"], false),
    ] {
        let mut command = rig.command();
        command.args(&args);
        assert_eq!(*Acp::start(command).await.restores(), restores, "{args:?}");
    }
}

/// Where nobody could be asked again the flag is accepted and changes nothing.
#[tokio::test]
async fn s2_outside_acp_mode_the_flag_is_accepted_and_ignored() {
    let mut rig = Rig::new().await;
    rig.restore = false;
    let alone = rig.run(&[FLAG]).await;
    let bare = rig.run(&[]).await;
    assert_eq!(alone.status.code(), bare.status.code());
    assert_eq!(alone.stdout, bare.stdout);
    assert_eq!(alone.stderr, bare.stderr);

    let api = rig.start().await;
    let session = api.create("yolo").await;
    api.of(&session.client).prompt(&session, "please ASK").await;
    api.of(&session.client).wait_asked::<1>(&session).await;
    let api = rig.restart().await;
    let with = rig.run(&[FLAG, "inbox", "--json"]).await;
    let without = rig.run(&["inbox", "--json"]).await;
    assert_eq!(with.status.code(), Some(0), "{with:?}");
    assert_eq!(with.stdout, without.stdout);
    let rows = api.inbox().await;
    assert_eq!(rows[0]["restorable"], false, "S3: the daemon's flag counts, not the client's: {rows:#?}");
}
