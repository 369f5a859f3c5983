//! How cards look on each platform (CHANNELS 3.4 and 6).

pub mod discord;
pub mod slack;

use holdpoint_model::session::{Body, Question};

/// What a card is drawn with.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    /// The question, as it is stored.
    pub question: &'a Question,
    /// Counts the versions of this card: a platform must never take an old version's input for a new one's.
    pub revision: u32,
    /// Where the same question is on the page, if it has an address that people can open.
    pub link: Option<&'a str>,
    /// Who is asked, as the platform mentions them; `None` is anyone in the conversation.
    pub asked: Option<&'a str>,
}

impl Frame<'_> {
    /// What to do, and what happens when nobody does: the last line of a card.
    fn hint(&self) -> &'static str {
        match &self.question.body {
            Body::UserQuestion { questions } if questions.len() == 1 => {
                "Choose, or write your answer here. The agent waits, for as long as it takes."
            }
            Body::UserQuestion { .. } => "Fill it in and confirm. The agent waits, for as long as it takes.",
            Body::Permission { .. } => {
                "Only a button answers this. The agent waits, for as long as it takes."
            }
        }
    }
}

/// What a permission is about: the command or the title, as it was asked.
fn action(question: &Question) -> String {
    let Body::Permission { action } = &question.body else { return question.title.clone() };
    let input = action.get("rawInput");
    let command = input.and_then(|input| input.get("command")).and_then(serde_json::Value::as_str);
    command.map_or_else(|| question.title.clone(), str::to_owned)
}
