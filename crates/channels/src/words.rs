//! What people are told: each end of a question in words of its own (CR15), and for every message or click that was
//! taken a line that says for what (CR9).

use holdpoint_model::ids::Micros;
use holdpoint_model::session::{Answerer, Body, CloseCause, Decision, Question, State};

/// What became of a question. Six kinds, and no two share a text (CR15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Somebody answered, or chose an option of a permission.
    Answered {
        /// What.
        what: String,
        /// Who, and where.
        by: By,
        /// When.
        at: Micros,
    },
    /// Somebody declined.
    Declined {
        /// Who, and where.
        by: By,
        /// When.
        at: Micros,
    },
    /// The turn was stopped, the agent took it back, the session was closed or deleted: nobody waits for it any more.
    Withdrawn {
        /// How, in words.
        how: &'static str,
    },
    /// The session went on without an answer.
    Superseded,
    /// Its time ran out, or consent ended with the process that asked.
    Expired {
        /// How, in words.
        how: &'static str,
    },
    /// No surface could show it.
    Unreachable,
}

/// How a platform writes what is not a text of ours.
pub trait Style {
    /// A time.
    fn time(&self, at: Micros) -> String;
    /// A text that an agent or a person wrote: whatever it holds, it is read as text.
    fn quoted(&self, text: &str) -> String;
}

/// Who decided, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// Their name, where the surface knew one.
    pub name: Option<String>,
    /// The surface.
    pub surface: String,
}

impl By {
    fn of(answerer: &Answerer) -> Self {
        Self { name: answerer.name.clone(), surface: answerer.surface.clone() }
    }

    /// `Ann, in Slack`.
    pub fn words(&self) -> String {
        let place = place(&self.surface);
        match &self.name {
            Some(name) => format!("{name}, {place}"),
            None => format!("somebody {place}"),
        }
    }
}

fn place(surface: &str) -> String {
    match surface {
        "slack" => "in Slack".to_owned(),
        "discord" => "in Discord".to_owned(),
        "web" => "on the page".to_owned(),
        "cli" => "in a terminal".to_owned(),
        "http" => "over HTTP".to_owned(),
        other => format!("in {other}"),
    }
}

/// What became of it; `None` while it is open.
pub fn outcome(question: &Question) -> Option<Outcome> {
    Some(match &question.state {
        State::Open => return None,
        State::Settled(settlement) => {
            let (by, at) = (By::of(&settlement.by), settlement.at);
            match &settlement.decision {
                Decision::Declined { .. } => Outcome::Declined { by, at },
                decision => Outcome::Answered { what: decided(question, decision), by, at },
            }
        }
        State::Closed { cause, .. } => match cause {
            CloseCause::CancelledBeforeAnswer => Outcome::Withdrawn { how: "the turn was stopped" },
            CloseCause::SessionDeleted => Outcome::Withdrawn { how: "the session was deleted" },
            CloseCause::SessionClosed => Outcome::Withdrawn { how: "the session was closed" },
            CloseCause::Withdrawn => Outcome::Withdrawn { how: "the agent took it back" },
            CloseCause::OrphanRepair => Outcome::Superseded,
            CloseCause::TimedOut => Outcome::Expired { how: "its time ran out" },
            CloseCause::ProcessRestarted => {
                Outcome::Expired { how: "the process that asked for consent has ended" }
            }
            CloseCause::UnreachableQuestion => Outcome::Unreachable,
        },
    })
}

/// What was decided: the answers with their headers where there are several, the name of an option.
fn decided(question: &Question, decision: &Decision) -> String {
    match decision {
        Decision::Answered { answers } => {
            let parts = question.body.questions();
            let words = answers.iter().map(|(place, text)| match parts.get(place) {
                Some(part) if parts.len() > 1 => format!("{}: {text}", part.header),
                _ => text.to_owned(),
            });
            words.collect::<Vec<_>>().join("; ")
        }
        Decision::Selected { option_id } | Decision::Declined { option_id: Some(option_id) } => {
            let option = question.options.iter().find(|option| option.option_id == *option_id);
            option.map_or_else(|| option_id.clone(), |option| option.name.clone())
        }
        Decision::Declined { option_id: None } => "declined".to_owned(),
    }
}

impl Outcome {
    /// The line that replaces the controls of a card.
    pub fn on_card(&self, style: &impl Style) -> String {
        let who = |by: &By, at: &Micros| format!("{}, {}", style.quoted(&by.words()), style.time(*at));
        match self {
            Self::Answered { what, by, at } => {
                format!("Answered by {}: {}", who(by, at), style.quoted(what))
            }
            Self::Declined { by, at } => format!("Declined by {}", who(by, at)),
            Self::Withdrawn { how } => format!("Withdrawn: {how}. Nothing is needed any more."),
            Self::Superseded => "Replaced: the session went on without an answer.".to_owned(),
            Self::Expired { how } => format!("Expired: {how}."),
            Self::Unreachable => "Interrupted: no surface could show it, so the turn was stopped.".to_owned(),
        }
    }

    /// What somebody is told, in private, who comes too late with something else (CR12).
    pub fn to_the_loser(&self, question: &Question, style: &impl Style) -> String {
        let name = style.quoted(&name(question));
        format!("{name} is not open any more. {} Yours was not used.", ended(&self.on_card(style)))
    }
}

fn ended(line: &str) -> String {
    if line.ends_with(['.', '!', '?']) { line.to_owned() } else { format!("{line}.") }
}

/// How a question is named to people: its number in the session and what it is about. Unique in a conversation.
pub fn name(question: &Question) -> String {
    let about = match &question.body {
        Body::UserQuestion { questions } => match questions.as_slice() {
            [only] => only.header.clone(),
            many => many.iter().map(|part| part.header.as_str()).collect::<Vec<_>>().join(", "),
        },
        Body::Permission { .. } => question.title.clone(),
    };
    format!("#{} “{about}”", question.generation)
}

/// The line for who was heard, after the commit (CR9).
pub fn recorded(question: &Question, what: &str) -> String {
    format!("Recorded for {}: {what}", name(question))
}

/// For the same answer of the same person again (CR12).
pub fn already_recorded(question: &Question, what: &str) -> String {
    format!("Already recorded for {}: {what}", name(question))
}
