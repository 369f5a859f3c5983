//! Lists: the inbox and the sessions.

use holdpoint_client::{Kind, QuestionView, SessionRow};
use jiff::Timestamp;

use super::advice::START_WITH_FLAG;
use super::{Paint, one_line};
use crate::resolve::SHORTEST;

/// The inbox as a table: oldest first. Of a question's id the end is shown, as short as it is unique: questions
/// of the same minute begin alike.
pub(crate) fn inbox(questions: &[QuestionView], now: Timestamp, width: usize, paint: Paint) -> String {
    if questions.is_empty() {
        return "Nothing waits for you.\n".to_owned();
    }
    let ids = shortened(questions.iter().map(|q| q.question_id.as_str()), End::Last);
    let sessions = shortened(questions.iter().map(|q| q.session_id.as_str()), End::First);
    let rows = questions.iter().zip(ids.iter().zip(&sessions)).map(|(view, (id, session))| {
        let name = match view.session_title.as_deref() {
            Some(title) if !title.is_empty() => format!("{session} {}", one_line(title, 24)),
            _ => session.clone(),
        };
        let mut what = match view.kind {
            Kind::Permission => format!("[permission] {}", view.title),
            Kind::UserQuestion | Kind::Other(_) => view.title.clone(),
        };
        if !view.takes_answers() {
            what.insert_str(0, "[*] ");
        }
        let place = view.workspace_cwd.as_deref().map_or_else(String::new, tail);
        vec![id.clone(), age(view.asked_at.as_deref(), now), name, place, what]
    });
    let mut text = table(&["ID", "AGE", "SESSION", "WORKSPACE", "QUESTION"], rows.collect(), width, paint);
    let stuck = questions.iter().filter(|view| !view.takes_answers()).count();
    if stuck > 0 {
        // A width cuts a line, but not a reason.
        text.push_str(&format!(
            "\n[*] takes no answer now: nobody asks it, and the daemon runs without --restore-ask-user-question;\n    \
             {START_WITH_FLAG}\n"
        ));
    }
    let answers = match stuck {
        0 => ", `holdpoint answer ID` answers it",
        _ if stuck < questions.len() => ", `holdpoint answer ID` answers one without the mark",
        _ => "",
    };
    text.push_str(
        &paint.dim(&format!(
            "\n`holdpoint inbox ID` shows one whole{answers}. An ID here is the end of one.\n"
        )),
    );
    text
}

/// Sessions as a table.
pub(crate) fn sessions(
    rows: &[SessionRow],
    more: bool,
    now: Timestamp,
    width: usize,
    paint: Paint,
) -> String {
    if rows.is_empty() {
        return "No sessions here.\n".to_owned();
    }
    let ids = shortened(rows.iter().map(|row| row.session_id.as_str()), End::First);
    let cells = rows.iter().zip(&ids).map(|(row, id)| {
        let at = row.updated_at.as_deref().or(row.created_at.as_deref());
        vec![
            id.clone(),
            age(at, now),
            state(row),
            row.client_count.to_string(),
            row.display_name.clone().unwrap_or_default(),
        ]
    });
    let mut text = table(&["ID", "AGE", "STATE", "CLIENTS", "TITLE"], cells.collect(), width, paint);
    if more {
        text.push_str(&paint.dim("\nThere are more: --limit N.\n"));
    }
    text
}

fn state(row: &SessionRow) -> String {
    let waits = row.pending_interaction_count.max(row.open_question_count).max(1);
    // One that nobody asks waits all the same (I6).
    let asks = row.is_waiting_for_user_question || row.open_question_count > row.pending_interaction_count;
    if asks && row.is_waiting_for_permission {
        format!("waits ({waits} decisions)")
    } else if asks {
        if waits > 1 { format!("waits ({waits} questions)") } else { "waits (a question)".to_owned() }
    } else if row.is_waiting_for_permission {
        "waits (a permission)".to_owned()
    } else if row.has_active_prompt {
        "runs".to_owned()
    } else if row.live == Some(false) {
        "stored".to_owned()
    } else {
        "idle".to_owned()
    }
}

/// How long ago, in one unit; `?` if it can't be told.
pub(crate) fn age(at: Option<&str>, now: Timestamp) -> String {
    let Some(at) = at.and_then(|at| at.parse::<Timestamp>().ok()) else { return "?".to_owned() };
    // A clock that is a little ahead is no news.
    let seconds = now.as_second().saturating_sub(at.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Which end of an id is shown.
#[derive(Clone, Copy)]
enum End {
    /// The first characters.
    First,
    /// The last ones.
    Last,
}

/// Ids cut to the same length, the shortest at which they are all different (equal ones apart). One that is not
/// longer than that stays whole.
fn shortened<'a>(ids: impl Iterator<Item = &'a str>, end: End) -> Vec<String> {
    let ids: Vec<&str> = ids.collect();
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let longest = distinct.iter().map(|id| id.chars().count()).max().unwrap_or(0);
    let cut = |id: &str, length: usize| -> String {
        let count = id.chars().count();
        match end {
            End::First => id.chars().take(length).collect(),
            // What is left of the mark in front would make it look like a whole id.
            End::Last if count <= length + "q_".len() => id.to_owned(),
            End::Last => id.chars().skip(count - length).collect(),
        }
    };
    let length = (SHORTEST..longest)
        .find(|length| {
            let mut cuts: Vec<String> = distinct.iter().map(|id| cut(id, *length)).collect();
            cuts.sort_unstable();
            cuts.dedup();
            cuts.len() == distinct.len()
        })
        .unwrap_or(longest);
    ids.iter().map(|id| cut(id, length)).collect()
}

/// The end of a path, where the difference is.
fn tail(path: &str) -> String {
    let path = one_line(path, 400);
    let count = path.chars().count();
    if count <= 24 { path } else { format!("…{}", path.chars().skip(count - 23).collect::<String>()) }
}

/// Columns as wide as they need; the last one takes what is left of the line.
fn table(head: &[&str], rows: Vec<Vec<String>>, width: usize, paint: Paint) -> String {
    let last = head.len() - 1;
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.iter().map(|cell| one_line(cell, 400)).collect()).collect();
    let widths: Vec<usize> = (0..last)
        .map(|i| rows.iter().map(|row| row[i].chars().count()).chain([head[i].len()]).max().unwrap_or(0))
        .collect();
    let used: usize = widths.iter().map(|width| width + 2).sum();
    let left = width.saturating_sub(used).max(20);
    let line = |row: &[String]| {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            text.push_str(cell);
            text.push_str(&" ".repeat(width + 2 - cell.chars().count()));
        }
        text.push_str(&one_line(&row[last], left));
        text.trim_end().to_owned()
    };
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    let mut text = format!("{}\n", paint.dim(&line(&head)));
    for row in &rows {
        text.push_str(&line(row));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::question::samples::{colour, unanswerable, write_file};

    fn now() -> Timestamp {
        "2026-03-01T13:00:05Z".parse().unwrap()
    }

    #[test]
    fn i8_the_inbox_as_a_table() {
        let mut long = write_file();
        long.question_id = holdpoint_model::ids::QuestionId::new("q_01abcdef0999ffff").unwrap();
        long.title =
            "run_shell_command: \u{1b}[31mfind . -name target -type d -exec rm -r {} +\nand more".into();
        long.workspace_cwd = Some("/home/somebody/projects/a/very/deep/place".into());
        insta::assert_snapshot!(inbox(&[colour(false), long], now(), 100, Paint::new(false)), @"
        ID        AGE  SESSION                   WORKSPACE                 QUESTION
        cdef0123  3 h  0195aaaa Redo the header  /proj/site                Which colour should the header h…
        0999ffff  ?    s                         …jects/a/very/deep/place  [permission] run_shell_command:…

        `holdpoint inbox ID` shows one whole, `holdpoint answer ID` answers it. An ID here is the end of one.
        ");
        insta::assert_snapshot!(inbox(&[unanswerable(), colour(false)], now(), 100, Paint::new(false)), @"
        ID        AGE  SESSION                   WORKSPACE   QUESTION
        cdef0123  3 h  0195aaaa Redo the header  /proj/site  [*] Which colour should the header have?
        cdef0123  3 h  0195aaaa Redo the header  /proj/site  Which colour should the header have?

        [*] takes no answer now: nobody asks it, and the daemon runs without --restore-ask-user-question;
            stop the daemon, and start it with --restore-ask-user-question

        `holdpoint inbox ID` shows one whole, `holdpoint answer ID` answers one without the mark. An ID here is the end of one.
        ");
        insta::assert_snapshot!(inbox(&[unanswerable()], now(), 100, Paint::new(false)), @"
        ID        AGE  SESSION                   WORKSPACE   QUESTION
        cdef0123  3 h  0195aaaa Redo the header  /proj/site  [*] Which colour should the header have?

        [*] takes no answer now: nobody asks it, and the daemon runs without --restore-ask-user-question;
            stop the daemon, and start it with --restore-ask-user-question

        `holdpoint inbox ID` shows one whole. An ID here is the end of one.
        ");
        insta::assert_snapshot!(inbox(&[], now(), 100, Paint::new(false)), @"Nothing waits for you.");
    }

    #[test]
    fn d4_6_stored_sessions_show_that_they_wait() {
        let row = |more: serde_json::Value| {
            let mut row = json!({"sessionId": "0195aaaa-0000-7000-8000-000000000001", "workspaceCwd": "/w",
                "updatedAt": "2026-02-27T10:00:00Z", "displayName": "Redo the header"});
            row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value::<SessionRow>(row).unwrap()
        };
        let rows = [
            row(json!({"isWaitingForUserQuestion": true, "pendingInteractionCount": 1, "clientCount": 0})),
            row(
                json!({"sessionId": "0195bbbb-0000-7000-8000-000000000002", "hasActivePrompt": true, "clientCount": 2}),
            ),
            row(
                json!({"sessionId": "0195bbbc-0000-7000-8000-000000000003", "displayName": null, "live": true}),
            ),
            row(json!({"sessionId": "0195bbbd-0000-7000-8000-000000000004", "live": false})),
            // Its question is not asked now.
            row(
                json!({"sessionId": "0195bbbe-0000-7000-8000-000000000005", "live": true, "openQuestionCount": 2}),
            ),
        ];
        insta::assert_snapshot!(sessions(&rows, true, now(), 100, Paint::new(false)), @"
        ID        AGE  STATE                CLIENTS  TITLE
        0195aaaa  2 d  waits (a question)   0        Redo the header
        0195bbbb  2 d  runs                 2        Redo the header
        0195bbbc  2 d  idle                 0
        0195bbbd  2 d  stored               0        Redo the header
        0195bbbe  2 d  waits (2 questions)  0        Redo the header

        There are more: --limit N.
        ");
    }

    #[test]
    fn ages() {
        for (at, want) in [
            ("2026-03-01T13:00:00Z", "5 s"),
            ("2026-03-01T13:10:00Z", "0 s"),
            ("2026-03-01T12:00:06Z", "59 min"),
            ("2026-03-01T12:00:05Z", "1 h"),
            ("2026-02-01T00:00:00Z", "28 d"),
            ("yesterday", "?"),
        ] {
            assert_eq!(age(Some(at), now()), want);
        }
    }

    #[test]
    fn ids_are_cut_where_they_differ() {
        let first = |ids: [&'static str; 2]| shortened(ids.into_iter(), End::First);
        assert_eq!(first(["abcdefgh1", "abcdefgh2"]), ["abcdefgh1", "abcdefgh2"]);
        assert_eq!(first(["abcdefgh1", "abcx"]), ["abcdefgh", "abcx"]);
        assert_eq!(first(["same-same-same", "same-same-same"]), ["same-sam", "same-sam"]);
        let last = |ids: [&'static str; 2]| shortened(ids.into_iter(), End::Last);
        assert_eq!(last(["q_01a22e6c0001aaaaaaaa", "q_01a22e6c0001bbbbbbbb"]), ["aaaaaaaa", "bbbbbbbb"]);
        assert_eq!(last(["q_01a22e6c0001aaaaaaaa", "q_01a22e6c0002aaaaaaaa"]), ["1aaaaaaaa", "2aaaaaaaa"]);
        assert_eq!(last(["q_01a22e6c0001aaaaaaaa", "q_1"]), ["aaaaaaaa", "q_1"]);
    }
}
