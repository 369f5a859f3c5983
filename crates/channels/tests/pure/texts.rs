//! CR9, CR12, CR15: what people are told.

use std::collections::BTreeSet;

use holdpoint_channels::render::slack::Mrkdwn;
use holdpoint_channels::words::{already_recorded, name, outcome, recorded};
use holdpoint_model::answers::Answers;
use holdpoint_model::session::{CloseCause, Decision};
use serde_json::json;

use crate::sample::{closed, part, permission, question, settled};

#[test]
fn cr15_every_end_has_a_text_of_its_own() {
    let asked = || question(vec![part("Database", &["Postgres", "SQLite"], false)]);
    let answers = Answers::strict(&json!({ "0": "Postgres" }), asked().body.questions()).unwrap();
    let ends = [
        settled(asked(), Decision::Answered { answers }),
        settled(asked(), Decision::Declined { option_id: None }),
        closed(asked(), CloseCause::Withdrawn),
        closed(asked(), CloseCause::OrphanRepair),
        closed(asked(), CloseCause::TimedOut),
        closed(asked(), CloseCause::UnreachableQuestion),
        closed(asked(), CloseCause::CancelledBeforeAnswer),
        closed(asked(), CloseCause::SessionDeleted),
        closed(asked(), CloseCause::SessionClosed),
        closed(asked(), CloseCause::ProcessRestarted),
    ];
    let texts: Vec<_> = ends.iter().map(|end| outcome(end).unwrap().on_card(&Mrkdwn)).collect();
    assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), texts.len(), "{texts:#?}");
    insta::assert_snapshot!(texts.join("\n"));
    assert_eq!(outcome(&asked()), None);
}

#[test]
fn cr9_cr12_a_receipt_names_the_question_and_what_was_taken() {
    let asked = question(vec![part("Database", &["Postgres", "SQLite"], false)]);
    assert_eq!(recorded(&asked, "SQLite"), "Recorded for #3 “Database”: SQLite");
    assert_eq!(already_recorded(&asked, "SQLite"), "Already recorded for #3 “Database”: SQLite");
    assert_eq!(name(&permission("rm -rf target")), "#3 “Run a command”");
    let lost = settled(asked, Decision::Declined { option_id: None });
    let told = outcome(&lost).unwrap().to_the_loser(&lost, &Mrkdwn);
    insta::assert_snapshot!(told);
}
