//! Clients come and go: create, load, resume, detach, close, and reading the stream.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_model::ids::{CallId, ClientId};
use holdpoint_model::session::{CloseCause, Command, Info, Rejection, TurnEnd, UnaskedCause};
use holdpoint_transcript::replay::Finalise;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::actor::{Actor, Done, Link, Made};
use super::message::{Answer, Attached, LoadAction, LoadRequest, Presence, Replay};
use super::take_up::{OnBehalf, asked_calls};
use crate::bus::{Cursor, Subscription};
use crate::error::EngineError;
use crate::frame::{Event, Frame, Told};
use crate::history::{self, Wanted};
use crate::wire::question as wire;

/// One who waits to be attached.
pub(super) struct Waiter {
    pub(super) request: LoadRequest,
    pub(super) client: ClientId,
    /// Whether this request attached the client, and not an earlier one.
    pub(super) is_new: bool,
    /// Whether the session was live when the request came.
    pub(super) attached: bool,
    pub(super) reply: Answer<Attached>,
}

/// Which calls without a result stay open in a history that is returned (R1, R2, R4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spare {
    /// None: nothing will be asked again for this one who waits.
    Nothing,
    /// Those that people can answer now; and of a turn that runs, those whose results are on their way.
    AskedNow,
    /// Those that are about to be asked again.
    These(BTreeSet<CallId>),
}

/// A history that was read while the session was taken up.
pub(super) struct FirstRead {
    pub(super) read: Result<history::Read, String>,
    /// The newest id of the stream when it was read.
    pub(super) cursor: u64,
    /// Whether its events have the first ids of the stream.
    pub(super) numbered: bool,
}

/// A history that was read for one who waits.
pub(super) struct ReadDone {
    waiter: Waiter,
    read: Result<history::Read, String>,
    /// The stream's events from here on are its journal.
    journal_from: u64,
    /// The cursor to answer with; `None` is the newest at the time of answering.
    cursor: Option<u64>,
    /// Whether the events of the history have the first ids of the stream.
    numbered: bool,
}

impl Actor {
    /// A session that is made now.
    pub(super) async fn create(&mut self, made: Made) {
        let Made { info, agent, taken, sink, from_agent, client, presence, reply } = made;
        self.link = Link::Up { agent, state: taken.state };
        self.sink = Some(sink);
        self.from_agent = Some(from_agent);
        let opened =
            self.execute_lazily(Command::Open { info }).and_then(|_| self.execute_lazily(Command::StartLife));
        let attached = match opened {
            Ok(_) => self.register(client, presence).await,
            Err(error) => Err(error),
        };
        match attached {
            Ok((client, _)) => {
                let attached = self.attached_view(client, false, self.bus.last_id(), None);
                let _ = reply.send(Ok(attached));
            }
            Err(error) => {
                self.let_agent_go();
                let _ = reply.send(Err(error));
                self.ended = true;
            }
        }
    }

    /// Attaches a client: keeps the id that it named if it is known here, else gives it a new one (WIRE a.7). Also says
    /// whether it was not attached before.
    async fn register(
        &mut self,
        presented: Option<ClientId>,
        presence: Presence,
    ) -> Result<(ClientId, bool), EngineError> {
        let minted = self.shared.world.client_id();
        let kept = presented.filter(|client| self.state.clients.contains(client));
        let client = kept.clone().unwrap_or_else(|| minted.clone());
        // Durable before it is told: votes have no way to heal an id that a restart forgot (R16).
        self.execute(Command::Attach { presented: kept, minted }).await?;
        let (is_new, others) = self.clients.attach(client.clone(), presence, Instant::now());
        if others {
            self.tell_clients();
        }
        Ok((client, is_new))
    }

    pub(super) fn release(&mut self, client: &ClientId) {
        if self.clients.detach(client) {
            self.tell_clients();
        }
    }

    /// Hints at who is attached now. The status has it: whoever misses the hint sees it there.
    pub(super) fn tell_clients(&mut self) {
        let clients: Vec<_> = self.clients.here().collect();
        let data = json!({ "sessionId": self.id, "clients": clients });
        let now = self.shared.world.now();
        self.bus.hint(&Event::new("session_clients_changed", data), now);
    }

    /// Takes a transcript in that the ledger does not know: a session that an editor ran, or a file that was
    /// put there. `false` where there is none.
    pub(super) async fn adopt(&mut self) -> Result<bool, EngineError> {
        let head = self.shared.transcripts.summary(&self.id).await?;
        let Some(head) = head else { return Ok(false) };
        let info = Info {
            workspace_cwd: head.cwd.unwrap_or_else(|| self.shared.config.workspace.clone()),
            agent: self.shared.config.agent.clone(),
            source_type: None,
            source_id: None,
            approval_mode: None,
        };
        self.execute(Command::Open { info }).await?;
        if let Some(title) = head.title {
            self.note(Command::Title { title });
        }
        Ok(true)
    }

    /// The first look of this process at a stored session: what another process asked is not asked now (V6).
    /// Durable before anything else is decided, since everything else is decided on it.
    pub(super) async fn recover(&mut self) -> Result<(), EngineError> {
        self.execute(Command::Recover).await.map(|_| ())
    }

    /// Attaches to the live session that a create found.
    pub(super) async fn attach_live(
        &mut self,
        client: Option<ClientId>,
        presence: Presence,
        reply: Answer<Attached>,
    ) {
        let outcome = if self.is_live() {
            match self.register(client, presence).await {
                Ok((client, _)) => Ok(self.attached_view(client, true, self.bus.last_id(), None)),
                Err(error) => Err(error),
            }
        } else {
            Err(EngineError::NotLive(self.id.clone()))
        };
        let _ = reply.send(outcome);
    }

    /// A load or a resume.
    pub(super) async fn load(&mut self, request: LoadRequest, reply: Answer<Attached>) {
        if let Link::TakingUp(taking) = &self.link
            && let Some(active) = taking.action
            && active != request.action
        {
            let _ = reply.send(Err(EngineError::RestoreInProgress {
                session: self.id.clone(),
                active: active.as_str(),
                requested: request.action.as_str(),
            }));
            return;
        }
        // One who joins a restore under way finds the session live, as far as it can tell.
        let attached = self.is_live();
        let registered = self.register(request.client.clone(), request.presence.clone()).await;
        let (client, is_new) = match registered {
            Ok(registered) => registered,
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
        };
        let on_behalf = match &request.client {
            Some(_) => OnBehalf::Somebody(Some(client.clone())),
            None => OnBehalf::Nobody,
        };
        let waiter = Waiter { request, client, is_new, attached, reply };
        if let Link::TakingUp(taking) = &mut self.link {
            taking.waiters.push(waiter);
            return;
        }
        match &self.link {
            Link::Down | Link::TakingUp(_) => {
                self.retry_at = None;
                let action = waiter.request.action;
                self.begin_take_up(vec![waiter], Some(action), on_behalf);
            }
            Link::Up { .. }
                if on_behalf != OnBehalf::Nobody && (self.can_ask_again() || self.owes_the_agent()) =>
            {
                let action = waiter.request.action;
                self.begin_take_up(vec![waiter], Some(action), on_behalf);
            }
            Link::Up { .. } => self.serve(waiter, None, Spare::AskedNow),
        }
    }

    /// Answers one who waits, with the history if it is a load. `read` is a history that fits; without one it
    /// is read beside the actor.
    pub(super) fn serve(&mut self, waiter: Waiter, read: Option<FirstRead>, spare: Spare) {
        if waiter.request.action == LoadAction::Resume {
            // A fresh stream is read from its start; of one that runs, only what is new (WIRE a.2).
            let cursor = if waiter.attached { self.bus.last_id() } else { 0 };
            let attached = self.attached_view(waiter.client, waiter.attached, cursor, None);
            let _ = waiter.reply.send(Ok(attached));
            return;
        }
        if let Some(first) = read {
            let (journal_from, cursor) = (first.cursor, Some(first.cursor));
            self.read(ReadDone { waiter, read: first.read, journal_from, cursor, numbered: first.numbered });
            return;
        }
        // What the running turn has written since it began is told from the stream, so the history ends there. Of one
        // that was interrupted all that there is is in the history.
        let (journal_from, end) = match self.mark {
            Some(mark) if self.state.running().is_some() && mark.event + 1 >= self.bus.earliest() => {
                (mark.event, mark.offset)
            }
            _ => (self.bus.last_id(), self.transcript_len()),
        };
        let finalise = match spare {
            Spare::Nothing => Finalise::all(),
            Spare::AskedNow if self.state.running().is_some() => Finalise::Leave,
            Spare::AskedNow => Finalise::Close { spare: asked_calls(&self.state) },
            Spare::These(spare) => Finalise::Close { spare },
        };
        let wanted = Wanted { end: Some(end), records: waiter.request.page_size, finalise };
        let reading = self.shared.transcripts.window(&self.id, wanted);
        let done = self.done.clone();
        self.shared.tasks.spawn(async move {
            let read = reading.await;
            let done_read = ReadDone { waiter, read, journal_from, cursor: None, numbered: false };
            let _ = done.send(Done::Read(Box::new(done_read))).await;
        });
    }

    /// The history is there: the one who waits is answered.
    pub(super) fn read(&mut self, done: ReadDone) {
        let replay = match done.read {
            Ok(read) => self.replay(read, done.journal_from, done.numbered),
            Err(problem) => Replay { error: Some(problem), ..Replay::default() },
        };
        let cursor = done.cursor.unwrap_or_else(|| self.bus.last_id());
        let attached = self.attached_view(done.waiter.client, done.waiter.attached, cursor, Some(replay));
        let _ = done.waiter.reply.send(Ok(attached));
    }

    fn replay(&self, read: history::Read, journal_from: u64, numbered: bool) -> Replay {
        let now = self.shared.world.now();
        let notice = read.has_more.then(|| {
            let data = json!({
                "reason": "replay_window_exceeded",
                // A client of the peer drops the event without a number here; this one is an estimate.
                "truncatedEvents": read.updates_before,
                "truncatedEventsEstimated": true,
                "retainedEvents": read.updates.len(),
                "maxBytes": holdpoint_transcript::replay::Window::default().max_bytes,
                "truncatedBytes": read.bytes_before,
                "recordId": read.anchor,
                "fullTranscriptAvailable": true,
            });
            Event::new("history_truncated", data).frame(None, now)
        });
        let frames: Vec<_> = self.bus.since(journal_from).collect();
        let asked = told_requests(&frames);
        let mut journal: Vec<_> = frames.iter().map(|frame| frame.raw().to_owned()).collect();
        for (question, asking) in self.state.asked_now() {
            if !asked.contains(asking.request.as_str()) {
                let event = wire::request_event(&self.id, question, asking);
                journal.push(event.frame(None, now).raw().to_owned());
            }
        }
        let error = (read.damaged > 0).then(|| {
            format!("{} damaged line(s) of the transcript could not be read and are left out", read.damaged)
        });
        let told = Told { session: self.id.clone(), notice, updates: read.updates, numbered, now };
        Replay { compacted: Some(told), journal, has_more: read.has_more, anchor: read.anchor, error }
    }

    fn attached_view(
        &self,
        client: ClientId,
        attached: bool,
        cursor: u64,
        replay: Option<Replay>,
    ) -> Attached {
        let info = self.state.info.as_ref();
        let state = match &self.link {
            Link::Up { state, .. } => state.clone(),
            Link::Down | Link::TakingUp(_) => json!({}),
        };
        Attached {
            session: self.id.clone(),
            workspace_cwd: info.map(|info| info.workspace_cwd.clone()).unwrap_or_default(),
            attached,
            client,
            created_at: self.state.created_at,
            has_active_prompt: self.state.running().is_some(),
            epoch: self.bus.epoch().to_string(),
            last_event_id: cursor,
            state,
            source: info.map(|info| (info.source_type.clone(), info.source_id.clone())).unwrap_or_default(),
            title: self.state.title.clone(),
            lost: self.lost.clone(),
            replay,
        }
    }

    /// A reader of the stream. One without a cursor is told the open questions first (R23).
    pub(super) fn subscribe(
        &mut self,
        cursor: Option<&Cursor>,
        max_queued: usize,
        client: Option<ClientId>,
    ) -> Result<Subscription, EngineError> {
        self.live(None)?;
        let open = self
            .state
            .asked_now()
            .map(|(question, asking)| {
                wire::request_event(&self.id, question, asking).with_meta("replayed", json!(true))
            })
            .collect();
        let now = self.shared.world.now();
        let subscription = self.bus.subscribe(cursor, max_queued, open, client.clone(), now)?;
        if client.is_some_and(|client| self.clients.hear(&client, true, Instant::now())) {
            self.tell_clients();
        }
        Ok(subscription)
    }

    /// A reader of the stream went away.
    pub(super) fn reader_left(&mut self) {
        self.clients.readers_changed(Instant::now(), |client| self.bus.is_read_by(client));
    }

    /// A client goes away. With the last of them, a session with nothing to do goes back to its rows.
    pub(super) async fn detach(&mut self, client: &ClientId) {
        self.release(client);
        if self.clients.nobody() && self.bus.readers() == 0 && self.is_idle() && self.is_live() {
            self.put_away("last_client_detached", None).await;
        }
    }

    /// Closes the session; the transcript stays, and so do its open questions with the flag on (R10).
    pub(super) async fn close(&mut self, client: Option<ClientId>, reply: Answer<()>) {
        if let Err(error) = self.live(client.as_ref()) {
            let _ = reply.send(Err(error));
            return;
        }
        let command = Command::EndAsking { generation: None, cause: UnaskedCause::SessionClosed };
        if let Err(error) = self.execute(command).await {
            let _ = reply.send(Err(error));
            return;
        }
        if let Some(turn) = self.state.running() {
            let prompt = turn.origin.prompt().clone();
            self.cancelled_at = Some(self.shared.world.now());
            let outcome = TurnEnd::Completed { stop_reason: "cancelled".to_owned(), parked: false };
            self.end_turn(prompt, outcome).await;
        }
        self.put_away("client_close", client.as_ref()).await;
        let _ = reply.send(Ok(()));
    }

    /// Whether the session may be copied now (d.4.20).
    pub(super) fn branch(&self, reply: Answer<()>) {
        let busy = self.state.running().is_some() || matches!(self.link, Link::TakingUp(_));
        let _ = reply.send(if busy { Err(EngineError::Rejected(Rejection::Busy)) } else { Ok(()) });
    }

    /// Deletes what is stored of the session (D6).
    pub(super) async fn delete(&mut self, reply: Answer<()>) {
        let outcome = self.execute(Command::Delete).await.map(|_| ());
        if outcome.is_ok() {
            holdpoint_crashpoint::hit("daemon.delete_committed");
            // Readers are told before the agent is: it may take its time.
            self.tell_closed("client_close", None, Some(CloseCause::SessionDeleted));
            self.let_go().await;
            if let Err(problem) = self.shared.transcripts.remove(&self.id) {
                let _ = reply.send(Err(EngineError::Transcript(problem)));
                return;
            }
        }
        let _ = reply.send(outcome);
    }

    /// The agent drops the session, the stream ends, and the actor with it.
    pub(super) async fn put_away(&mut self, reason: &'static str, by: Option<&ClientId>) {
        self.closing = true;
        self.let_go().await;
        self.tell_closed(reason, by, None);
    }

    async fn let_go(&mut self) {
        if let Link::Up { agent, .. } = &self.link {
            // Its writes must be done before another process opens the file; it bounds the wait itself.
            agent.close(&self.id).await;
        }
        self.link = Link::Down;
        self.from_agent = None;
        self.ended = true;
    }

    fn tell_closed(&mut self, reason: &'static str, by: Option<&ClientId>, cause: Option<CloseCause>) {
        let mut data = json!({ "sessionId": self.id, "reason": reason });
        if let Some(cause) = cause {
            data["cause"] = json!(cause);
        }
        if let Some(by) = by {
            data["closedBy"] = json!(by);
        }
        self.end_stream("session_closed", data);
    }

    fn let_agent_go(&mut self) {
        if let Link::Up { agent, .. } = std::mem::replace(&mut self.link, Link::Down) {
            self.shared.tasks.spawn(agent.close(&self.id));
        }
    }

    pub(super) async fn rename(
        &mut self,
        title: String,
        client: Option<ClientId>,
    ) -> Result<(), EngineError> {
        self.live(client.as_ref())?;
        self.execute(Command::Title { title }).await.map(|_| ())
    }
}

/// The requests that these frames tell of.
fn told_requests(frames: &[&Arc<Frame>]) -> BTreeSet<String> {
    let asked = frames.iter().filter(|frame| frame.kind == "permission_request");
    asked
        .filter_map(|frame| {
            let event: Value = serde_json::from_slice(&frame.json).ok()?;
            event["data"]["requestId"].as_str().map(str::to_owned)
        })
        .collect()
}
