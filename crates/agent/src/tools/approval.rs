//! Approval modes: whether a planned call may run, must be asked for, or is refused. A pure function.

use serde::{Deserialize, Serialize};

/// What a call does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effects {
    /// It only looks.
    Reads,
    /// It changes files that it names.
    Edits,
    /// It runs a program, which may do anything.
    Executes,
}

/// How much a session may do without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalMode {
    /// Only reading; nothing is changed or run.
    Plan,
    /// Changes and commands are asked for.
    #[default]
    Default,
    /// Changes inside the workspace run; commands are asked for.
    AutoEdit,
    /// Everything inside the workspace runs.
    Yolo,
}

impl ApprovalMode {
    /// Every mode, from the most careful.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Default, Self::AutoEdit, Self::Yolo];

    /// The id on the wire.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Default => "default",
            Self::AutoEdit => "auto-edit",
            Self::Yolo => "yolo",
        }
    }

    /// A name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "Plan",
            Self::Default => "Ask",
            Self::AutoEdit => "Auto-edit",
            Self::Yolo => "Yolo",
        }
    }

    /// What the mode means, in a sentence.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Plan => "Reads only; changes and commands are refused.",
            Self::Default => "Asks before every change and every command.",
            Self::AutoEdit => "Changes files of the workspace without asking; asks before commands.",
            Self::Yolo => {
                "Runs everything without asking; only the file tools ask before they reach outside the workspace, and \
                 a command is not confined to it."
            }
        }
    }

    /// Reads an id. Underscores are taken for dashes, and case is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase().replace('_', "-");
        Self::ALL.into_iter().find(|mode| mode.id() == text || mode.id().replace('-', "") == text)
    }
}

/// What may happen with a planned call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It does not run; the text is for the model.
    Refuse(&'static str),
}

/// What the model reads in plan mode.
pub const PLAN_MODE: &str = "The session is in plan mode: only tools that read may run, so nothing was changed or run. \
     Describe the change that you would make, and leave it to the person to switch the mode.";

/// Decides on one call.
///
/// `granted` says that a person has allowed this tool for the rest of the session ("always"). It never
/// reaches outside the workspace: such a path is asked for each time, in every mode, for reading too. (A shell
/// command's paths cannot be checked; only its working directory is.)
pub fn decide(mode: ApprovalMode, effects: Effects, outside_workspace: bool, granted: bool) -> Verdict {
    match (mode, effects) {
        (ApprovalMode::Plan, Effects::Edits | Effects::Executes) => Verdict::Refuse(PLAN_MODE),
        _ if outside_workspace => Verdict::Ask,
        (_, Effects::Reads)
        | (ApprovalMode::AutoEdit, Effects::Edits)
        | (ApprovalMode::Yolo, Effects::Edits | Effects::Executes) => Verdict::Allow,
        (ApprovalMode::Default, Effects::Edits | Effects::Executes)
        | (ApprovalMode::AutoEdit, Effects::Executes) => {
            if granted {
                Verdict::Allow
            } else {
                Verdict::Ask
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_the_workspace_is_never_allowed_without_a_person() {
        for mode in ApprovalMode::ALL {
            for effects in [Effects::Reads, Effects::Edits, Effects::Executes] {
                for granted in [false, true] {
                    assert_ne!(decide(mode, effects, true, granted), Verdict::Allow);
                }
            }
        }
        assert_eq!(decide(ApprovalMode::Plan, Effects::Reads, true, false), Verdict::Ask);
    }

    #[test]
    fn each_mode_inside_the_workspace() {
        use ApprovalMode::{AutoEdit, Default, Plan, Yolo};
        use Effects::{Edits, Executes, Reads};
        let table = [
            (Plan, Reads, Verdict::Allow),
            (Plan, Edits, Verdict::Refuse(PLAN_MODE)),
            (Plan, Executes, Verdict::Refuse(PLAN_MODE)),
            (Default, Reads, Verdict::Allow),
            (Default, Edits, Verdict::Ask),
            (Default, Executes, Verdict::Ask),
            (AutoEdit, Reads, Verdict::Allow),
            (AutoEdit, Edits, Verdict::Allow),
            (AutoEdit, Executes, Verdict::Ask),
            (Yolo, Reads, Verdict::Allow),
            (Yolo, Edits, Verdict::Allow),
            (Yolo, Executes, Verdict::Allow),
        ];
        for (mode, effects, verdict) in table {
            assert_eq!(decide(mode, effects, false, false), verdict, "{mode:?} {effects:?}");
            let granted = if verdict == Verdict::Ask { Verdict::Allow } else { verdict };
            assert_eq!(decide(mode, effects, false, true), granted, "{mode:?} {effects:?} granted");
        }
    }

    #[test]
    fn ids_are_read_as_people_write_them() {
        for mode in ApprovalMode::ALL {
            assert_eq!(ApprovalMode::parse(mode.id()), Some(mode));
        }
        assert_eq!(ApprovalMode::parse("auto_edit"), Some(ApprovalMode::AutoEdit));
        assert_eq!(ApprovalMode::parse("autoEdit"), Some(ApprovalMode::AutoEdit));
        assert_eq!(ApprovalMode::parse("always"), None);
    }
}
