//! One question being put to the person at this terminal.

use std::collections::BTreeMap;

use holdpoint_client::{Answer, AnswerValue, Kind, QuestionView};

use crate::picks::{self, Pick};
use crate::render::{Paint, one_line};

/// The question, and what has been answered of it so far. A draft: nothing of it is sent before it is whole.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    pub(crate) view: QuestionView,
    answers: BTreeMap<usize, AnswerValue>,
    part: usize,
}

/// What a typed line led to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Not understood; here is why.
    Again(String),
    /// The next part.
    Next,
    /// The whole answer.
    Done(Answer),
}

impl Asking {
    pub(crate) fn new(view: QuestionView) -> Self {
        Self { view, answers: BTreeMap::new(), part: 0 }
    }

    /// Starts again: the answer was not taken.
    pub(crate) fn restart(&mut self) {
        self.answers.clear();
        self.part = 0;
    }

    /// What stands before the cursor.
    pub(crate) fn mark(&self, paint: Paint) -> String {
        let name = match (self.view.kind == Kind::Permission, self.view.questions.get(self.part)) {
            (false, Some(part)) if self.view.questions.len() > 1 => {
                format!("[{}] {}", self.part, one_line(&part.header, 40))
            }
            (false, Some(part)) => one_line(&part.header, 40),
            _ => "choose".to_owned(),
        };
        format!("{} ", paint.bold(&format!("{name}>")))
    }

    /// Takes a typed line.
    pub(crate) fn take(&mut self, line: &str) -> Step {
        if self.view.kind == Kind::Permission || self.view.questions.is_empty() {
            return match picks::permission(line, &self.view.options) {
                Ok(option) => Step::Done(Answer::Option(option)),
                Err(problem) => Step::Again(problem),
            };
        }
        match picks::typed(line, &self.view.questions[self.part]) {
            Err(problem) => Step::Again(problem),
            Ok(Pick::Decline) => Step::Done(picks::decline(&self.view)),
            Ok(Pick::Answer(value)) => {
                self.answers.insert(self.part, value);
                self.part += 1;
                if self.part < self.view.questions.len() {
                    Step::Next
                } else {
                    Step::Done(Answer::Answers(std::mem::take(&mut self.answers)))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples::{colour, two_parts, write_file};

    #[test]
    fn h11_an_answer_is_sent_only_when_every_part_has_one() {
        let mut asking = Asking::new(two_parts());
        assert_eq!(asking.mark(Paint::new(false)), "[0] Colour> ");
        assert!(matches!(asking.take("9"), Step::Again(_)));
        assert_eq!(asking.take("1 2"), Step::Next);
        assert_eq!(asking.mark(Paint::new(false)), "[1] Size> ");
        let Step::Done(Answer::Answers(answers)) = asking.take("large") else { panic!() };
        assert_eq!(answers[&0], AnswerValue::Picks(vec!["Red".into(), "Pale blue".into()]));
        assert_eq!(answers[&1], AnswerValue::Text("Large".into()));
    }

    #[test]
    fn q7_a_decline_at_any_part_declines_the_question() {
        let mut asking = Asking::new(two_parts());
        assert_eq!(asking.take("1"), Step::Next);
        assert_eq!(asking.take("d"), Step::Done(Answer::Decline));
        assert_eq!(Asking::new(write_file()).take("d"), Step::Done(Answer::Option("cancel".into())));
        assert_eq!(Asking::new(colour(false)).mark(Paint::new(false)), "Colour> ");
    }
}
