//! Forms of the command line that are older than the subcommands.

use std::ffi::OsString;

const ACP_FLAG: &str = "--acp";
const RESTORE_FLAG: &str = "--restore-ask-user-question";

/// `holdpoint --acp …` is `holdpoint acp …` (S1), wherever the flag stands; and the restore flag before a
/// subcommand is that subcommand's. One that has no use for it does not get to see it (S2).
pub(crate) fn rewrite(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let options_end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let begins_with_flag = args.get(1).is_some_and(|arg| arg.to_string_lossy().starts_with('-'));
    if !begins_with_flag {
        return args;
    }
    if let Some(at) = args[..options_end].iter().position(|arg| arg == ACP_FLAG) {
        args.remove(at);
        args.insert(1, "acp".into());
    } else if args[1] == RESTORE_FLAG {
        let owner = args[..options_end].iter().position(|arg| arg == "serve" || arg == "acp");
        let flag = args.remove(1);
        if let Some(at) = owner {
            args.insert(at, flag);
        }
    }
    args
}

/// Whether errors, those of the arguments too, are wanted as JSON.
pub(crate) fn wants_json(args: &[OsString]) -> bool {
    args.iter().skip(1).take_while(|arg| *arg != "--").any(|arg| arg == "--json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let args = rewrite(line.split(' ').map(OsString::from));
        args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn s1_the_agents_flag_is_its_subcommand() {
        for (line, want) in [
            ("holdpoint --acp", "holdpoint acp"),
            ("holdpoint --acp --restore-ask-user-question", "holdpoint acp --restore-ask-user-question"),
            ("holdpoint --restore-ask-user-question --acp", "holdpoint acp --restore-ask-user-question"),
            ("holdpoint --model m --acp", "holdpoint acp --model m"),
            ("holdpoint acp", "holdpoint acp"),
            ("holdpoint prompt --acp", "holdpoint prompt --acp"),
            ("holdpoint -- --acp", "holdpoint -- --acp"),
            ("holdpoint", "holdpoint"),
            ("holdpoint --version", "holdpoint --version"),
        ] {
            assert_eq!(rewritten(line), want, "{line}");
        }
    }

    #[test]
    fn s1_the_restore_flag_before_a_subcommand_is_not_lost() {
        assert_eq!(
            rewritten("holdpoint --restore-ask-user-question serve --port 0"),
            "holdpoint serve --restore-ask-user-question --port 0"
        );
    }

    #[test]
    fn s2_the_restore_flag_is_dropped_where_nothing_could_ask_again() {
        for (line, want) in [
            ("holdpoint --restore-ask-user-question", "holdpoint"),
            ("holdpoint --restore-ask-user-question inbox --json", "holdpoint inbox --json"),
            (
                "holdpoint prompt -- --restore-ask-user-question",
                "holdpoint prompt -- --restore-ask-user-question",
            ),
        ] {
            assert_eq!(rewritten(line), want, "{line}");
        }
    }

    #[test]
    fn json_after_the_end_of_options_is_text() {
        let args = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&args("holdpoint prompt x --json")));
        assert!(!wants_json(&args("holdpoint prompt -- --json")));
    }
}
