//! The seam to a platform. A third one is a module that implements [`Channel`]; nothing else changes.
//!
//! A platform turns what it hears into a [`Delivery`] and hands it to the [`Desk`]. The desk answers once the delivery is
//! durable, and only then the platform is told that we have it (CR10).

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_model::session::Question;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::binding::{Binding, Element};
use crate::place::{Conversation, MessageId, Person, Platform, Position};
use crate::render::Frame;
use crate::words::Outcome;

/// A boxed future that owns what it needs.
pub type Reply<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// Something that a person did on a platform, as the platform vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// What the platform's own redelivery of the same thing repeats, with the platform and the app in it (CR11).
    pub key: String,
    /// Where.
    pub conversation: Conversation,
    /// Who.
    pub from: Person,
    /// Its place in the platform's order (CR5).
    pub at: Position,
    /// The way to tell this person something in private, while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<Way>,
    /// What.
    pub what: Inbound,
}

/// The platform's way back to somebody who clicked or sent a command: Slack's `response_url`, Discord's interaction id and
/// token. It is a secret, and works for some minutes only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Way(pub String);

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Way(…)")
    }
}

/// What a person did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Inbound {
    /// A message.
    Message {
        /// Its id.
        id: MessageId,
        /// Its text, without the mention of us.
        text: String,
        /// Whether it is for us whatever the conversation is: a mention, a direct message, a command. Otherwise it
        /// counts only where the conversation is ours already (C1).
        addressed: bool,
        /// The message that it replies to.
        #[serde(skip_serializing_if = "Option::is_none")]
        replies_to: Option<MessageId>,
    },
    /// `/ask`: a message that has no message id.
    Ask {
        /// Its text.
        text: String,
    },
    /// `/pending` or `/status`: what waits on whom.
    Pending,
    /// A control of a card was used.
    Click {
        /// The message that the card is.
        card: MessageId,
        /// What the control says that it is about: a claim (CR2).
        #[serde(flatten)]
        binding: Binding,
        /// Which control, as [`crate::binding::encode`] writes it.
        element: Element,
        /// What was filled in on the card by then.
        filled: Filled,
    },
    /// A form was submitted.
    Form {
        /// The message that the card is which the form was opened from, where the platform says.
        #[serde(skip_serializing_if = "Option::is_none")]
        card: Option<MessageId>,
        /// What the form says that it is about: a claim (CR2).
        #[serde(flatten)]
        binding: Binding,
        /// What it was opened for.
        element: Element,
        /// What was filled in.
        filled: Filled,
    },
}

/// What was filled in, by the part of the question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Filled(pub BTreeMap<u8, Filling>);

/// What was filled in for one part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filling {
    /// The options that were picked, by place (CR18).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<u16>,
    /// The text that was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What to say to the platform about a delivery that is durable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ack", rename_all = "snake_case")]
pub enum Ack {
    /// We have it.
    Taken,
    /// We have it, and the person is to be shown this form now: what [`Channel::draw`] made of [`Drawing::Form`].
    Form {
        /// The form in the platform's terms.
        view: Value,
    },
    /// We have it, and tell this person something that nobody else sees.
    Whisper {
        /// What.
        text: String,
    },
    /// It is not for us, and nothing was stored.
    NotOurs,
}

/// It could not be made durable in time: the platform must not be told that we have it (CR10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the delivery could not be stored")]
pub struct NotTaken;

/// Where platforms bring what they hear.
pub trait Desk: Send + Sync + 'static {
    /// Stores a delivery, once by its key; the same one again gets the same answer (CR11). The future ends when it is
    /// durable, within two seconds (CR10), and before anything is done about it.
    fn deliver(&self, delivery: Delivery) -> Reply<Result<Ack, NotTaken>>;
}

/// What there is to draw.
#[derive(Clone, Debug)]
pub enum Drawing<'a> {
    /// A question that is open.
    Card(Frame<'a>),
    /// The same card once the question has ended.
    Ended(&'a Question, &'a Outcome),
    /// The form behind a control of a card; a platform may have none for it.
    Form(Frame<'a>, Element),
    /// A text, in Markdown as models write it; it may be several messages long.
    Text(&'a str),
}

/// A message that the platform has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posted {
    /// Its id.
    pub message: MessageId,
    /// Its place in the platform's order.
    pub at: Position,
}

/// Why a call did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// Nothing was done; try again, after this long where the platform says so.
    #[error("the platform asks to try again later")]
    Later(Option<Duration>),
    /// It may have been done: the answer never came (CR13).
    #[error("the platform's answer never came: {0}")]
    Unknown(String),
    /// The message or the conversation is not there any more; trying again is of no use.
    #[error("it is not there any more: {0}")]
    Gone(String),
    /// The platform refuses this for good: a missing permission, or a body that it does not take.
    #[error("the platform refuses: {0}")]
    Refused(String),
    /// The token is not good: nothing more may be tried with it (a platform bans who goes on).
    #[error("the token is refused: {0}")]
    Unauthorized(String),
}

/// What `doctor` says about a platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether all is well.
    pub ok: bool,
    /// What was looked at, and what is.
    pub what: String,
    /// What to do, where it is not well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// A platform.
pub trait Channel: Send + Sync + 'static {
    /// Which.
    fn platform(&self) -> Platform;

    /// How long to wait between two posts in one channel.
    fn pace(&self) -> Duration;

    /// The bodies of the messages (or of the form) that show it. Pure; several only for a long text, none where the
    /// platform has no such form.
    fn draw(&self, what: Drawing<'_>) -> Vec<Value>;

    /// Posts one body. `key` marks the message, so that it can be found again when the answer is lost (CR13).
    fn post(&self, to: Conversation, body: Value, key: String) -> Reply<Result<Posted, Failed>>;

    /// Looks for the message that was posted with this key, in what was said after `since`; `None` if it is not there.
    fn find(
        &self,
        to: Conversation,
        key: String,
        since: Option<Position>,
    ) -> Reply<Result<Option<Posted>, Failed>>;

    /// Puts another body in the place of a message, with no deadline (CR14).
    fn update(&self, to: Conversation, message: MessageId, body: Value) -> Reply<Result<(), Failed>>;

    /// Tells one person something that nobody else sees.
    fn whisper(
        &self,
        to: Conversation,
        person: Person,
        way: Option<Way>,
        text: String,
    ) -> Reply<Result<(), Failed>>;

    /// Shows at once that a message was seen: a reaction, or that somebody types.
    fn seen(&self, to: Conversation, message: Option<MessageId>) -> Reply<Result<(), Failed>>;

    /// Hears what people do and brings it to the desk, until it is told to stop. It connects again by itself.
    fn listen(self: Arc<Self>, desk: Arc<dyn Desk>, stop: CancellationToken) -> Reply<()>;

    /// What is missing for all of this: a scope, an intent, a token, an invitation.
    fn check(&self) -> Reply<Vec<Finding>>;
}
