//! The rules once more, as a book of plain rows that are written in place. It knows nothing of events: what
//! RULES says of a question, a prompt and a turn is done to the rows, and what it forbids has a name.

use holdpoint_model::session::UnaskedCause;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    First,
    Designated,
    Consensus,
    Local,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Snapshot {
    Anybody,
    Only(Vec<String>),
    Quorum(Vec<String>, usize),
    Here,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Live {
    pub(crate) request: String,
    pub(crate) life: u64,
    pub(crate) who: Snapshot,
    /// Who voted, and for what.
    pub(crate) votes: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fate {
    Waiting,
    Decided { what: String, response: Option<String> },
    Ended(&'static str),
}

/// One question: its number is its place in the book.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) turn: Option<String>,
    pub(crate) call: String,
    pub(crate) words: String,
    pub(crate) consent: bool,
    pub(crate) prompt: Option<String>,
    pub(crate) author: Option<String>,
    pub(crate) requests: Vec<String>,
    pub(crate) live: Option<Live>,
    pub(crate) fate: Fate,
    pub(crate) in_history: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Client,
    Restore,
    Continue,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Work {
    pub(crate) prompt: String,
    pub(crate) client: Option<String>,
    pub(crate) kind: Kind,
    pub(crate) life: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Who {
    pub(crate) client: Option<String>,
    pub(crate) near: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) id: String,
    pub(crate) request: String,
    pub(crate) turn: Option<String>,
    pub(crate) call: String,
    pub(crate) words: String,
    pub(crate) consent: bool,
}

/// What an answer would decide, already read: or the name of what is wrong with it.
pub(crate) type Read = Result<String, &'static str>;

#[derive(Clone, Debug)]
pub(crate) struct Book {
    pub(crate) flag: bool,
    pub(crate) policy: Policy,
    pub(crate) quorum: Option<usize>,
    pub(crate) deleted: bool,
    pub(crate) life: u64,
    pub(crate) rows: Vec<Row>,
    pub(crate) queue: Vec<(String, Option<String>)>,
    pub(crate) turn: Option<Work>,
    pub(crate) clients: Vec<String>,
    pub(crate) present: Vec<String>,
    /// Every end of a turn: its prompt, and whether it was parked (`None`: it was lost or failed).
    pub(crate) ended: Vec<(String, Option<bool>)>,
}

type Said = Result<(), &'static str>;

impl Book {
    pub(crate) fn new(flag: bool, policy: Policy, quorum: Option<usize>) -> Self {
        Self {
            flag,
            policy,
            quorum,
            deleted: false,
            life: 1,
            rows: Vec::new(),
            queue: Vec::new(),
            turn: None,
            clients: Vec::new(),
            present: Vec::new(),
            ended: Vec::new(),
        }
    }

    pub(crate) fn running(&self) -> Option<&Work> {
        self.turn.as_ref().filter(|work| work.life == self.life)
    }

    pub(crate) fn asked_now(&self, row: &Row) -> bool {
        row.fate == Fate::Waiting && row.live.as_ref().is_some_and(|live| live.life == self.life)
    }

    fn end_row(&mut self, at: usize, why: &'static str) {
        self.rows[at].fate = Fate::Ended(why);
        self.rows[at].live = None;
    }

    /// V6: consent does not outlive the process that was asked for it.
    fn drop_consents(&mut self) {
        for at in 0..self.rows.len() {
            if self.rows[at].consent && self.rows[at].fate == Fate::Waiting {
                self.end_row(at, "process_restarted");
            }
        }
    }

    pub(crate) fn start_life(&mut self) {
        self.drop_consents();
        self.life += 1;
    }

    /// A new process of the daemon: whatever was going on is over, and nobody is there.
    pub(crate) fn restart(&mut self, flag: bool, policy: Policy) {
        let asked = self.rows.iter().any(|row| self.asked_now(row));
        if asked || self.running().is_some() || !self.present.is_empty() {
            self.life += 1;
        }
        self.drop_consents();
        self.present.clear();
        (self.flag, self.policy) = (flag, policy);
    }

    pub(crate) fn attach(&mut self, presented: Option<&str>, minted: &str) {
        let client =
            presented.filter(|client| self.clients.iter().any(|known| known == client)).unwrap_or(minted);
        for list in [&mut self.clients, &mut self.present] {
            if !list.iter().any(|known| known == client) {
                list.push(client.to_owned());
                list.sort();
            }
        }
    }

    /// Something else goes to the model: what nobody answered, and nobody is asked, is repaired (R2).
    fn start(&mut self, prompt: String, client: Option<String>, kind: Kind) {
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            if row.fate == Fate::Waiting && !row.consent && !self.asked_now(row) {
                self.end_row(at, "orphan_repair");
            }
        }
        self.give_up_interrupted();
        self.turn = Some(Work { prompt, client, kind, life: self.life });
    }

    /// Nobody goes on with what a crash left behind.
    fn give_up_interrupted(&mut self) {
        if let Some(work) = self.turn.take() {
            self.ended.push((work.prompt, None));
        }
    }

    pub(crate) fn start_next(&mut self) {
        if self.running().is_some() || self.queue.is_empty() {
            return;
        }
        let (prompt, client) = self.queue.remove(0);
        self.start(prompt, client, Kind::Client);
    }

    pub(crate) fn prompt(&mut self, id: &str, client: Option<&str>, hold: bool) -> Said {
        let known = self.queue.iter().any(|(waits, _)| waits == id)
            || self.turn.as_ref().is_some_and(|work| work.prompt == id);
        if known {
            // D5: the same prompt again.
            return Ok(());
        }
        self.queue.push((id.to_owned(), client.map(ToOwned::to_owned)));
        if !hold {
            self.start_next();
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, id: &str) -> Said {
        let before = self.queue.len();
        self.queue.retain(|(waits, _)| waits != id);
        if self.queue.len() == before { Err("UnknownPrompt") } else { Ok(()) }
    }

    /// R6, R15.
    pub(crate) fn restore(&mut self, fresh: &str, client: Option<&str>) -> Said {
        if self.running().is_some() {
            return Err("Busy");
        }
        let prompt = self.turn.take().map_or_else(|| fresh.to_owned(), |work| work.prompt);
        let client = client.map(ToOwned::to_owned);
        self.turn = Some(Work { prompt, client, kind: Kind::Restore, life: self.life });
        Ok(())
    }

    pub(crate) fn go_on(&mut self, fresh: &str, client: Option<&str>) -> Said {
        if self.running().is_some() || !self.queue.is_empty() {
            return Err("Busy");
        }
        self.start(fresh.to_owned(), client.map(ToOwned::to_owned), Kind::Continue);
        Ok(())
    }

    /// `completed`: the agent says how it went, instead of failing.
    pub(crate) fn end_turn(&mut self, life: u64, prompt: &str, completed: bool) -> Said {
        if life != self.life {
            return Err("StaleLife");
        }
        if self.running().is_none_or(|work| work.prompt != prompt) {
            return Err("UnknownPrompt");
        }
        self.end_asking(None, UnaskedCause::Aborted);
        let waits =
            |row: &Row| !row.consent && row.fate == Fate::Waiting && row.prompt.as_deref() == Some(prompt);
        let parked = self.rows.iter().any(waits);
        self.ended.push((prompt.to_owned(), completed.then_some(parked)));
        self.turn = None;
        Ok(())
    }

    fn newest(&self, turn: Option<&str>, call: &str) -> Option<usize> {
        self.rows.iter().rposition(|row| row.turn.as_deref() == turn && row.call == call)
    }

    /// V2: who may answer, as of now. `there` are those whom a consensus counts.
    fn snapshot(&self, names: Vec<Option<&String>>, there: &[String]) -> Snapshot {
        let mut names: Vec<String> = names.into_iter().flatten().cloned().collect();
        names.sort();
        names.dedup();
        match self.policy {
            Policy::First => Snapshot::Anybody,
            Policy::Local => Snapshot::Here,
            Policy::Designated if names.is_empty() => Snapshot::Anybody,
            Policy::Designated => Snapshot::Only(names),
            Policy::Consensus => {
                let m = there.len();
                let quorum = match self.quorum {
                    Some(set) => set.min(m).max(1),
                    None => (m / 2 + 1).max(1),
                };
                Snapshot::Quorum(there.to_vec(), quorum)
            }
        }
    }

    pub(crate) fn ask(&mut self, life: u64, asked: Asked) -> Said {
        if life != self.life {
            return Err("StaleLife");
        }
        let newest = self.newest(asked.turn.as_deref(), &asked.call);
        let running = self.running().map(|work| work.prompt.clone());
        let same = newest.filter(|at| {
            let row = &self.rows[*at];
            let provable = asked.turn.is_some() || row.fate == Fate::Waiting || row.prompt == running;
            row.words == asked.words && row.consent == asked.consent && provable
        });
        let issue = |book: &Self, author: Option<&String>| Live {
            request: asked.request.clone(),
            life: book.life,
            who: book
                .snapshot(vec![author, book.running().and_then(|work| work.client.as_ref())], &book.present),
            votes: Vec::new(),
        };
        match same {
            Some(at) if self.rows[at].fate == Fate::Waiting => {
                let author = self.rows[at].author.clone();
                self.rows[at].live = Some(issue(self, author.as_ref()));
                self.rows[at].requests.push(asked.request);
                if running.is_some() {
                    self.rows[at].prompt = running;
                }
                return Ok(());
            }
            // I4: what a person has decided, and what ended in a way that the model must read.
            Some(at) if !asked.consent && !self.rows[at].in_history => {
                let told = match &self.rows[at].fate {
                    Fate::Waiting => false,
                    Fate::Decided { .. } => true,
                    Fate::Ended(why) => {
                        ["cancelled_before_answer", "unreachable_question", "timed_out", "session_closed"]
                            .contains(why)
                    }
                };
                if told {
                    self.rows[at].requests.push(asked.request);
                    return Ok(());
                }
            }
            _ => {}
        }
        if let Some(at) = newest
            && self.rows[at].fate == Fate::Waiting
        {
            self.end_row(at, "withdrawn");
        }
        let author = self.running().and_then(|work| work.client.clone());
        let live = issue(self, author.as_ref());
        self.rows.push(Row {
            id: asked.id,
            turn: asked.turn,
            call: asked.call,
            words: asked.words,
            consent: asked.consent,
            prompt: running,
            author,
            requests: vec![asked.request],
            live: Some(live),
            fate: Fate::Waiting,
            in_history: false,
        });
        Ok(())
    }

    fn ended_as(&self, at: usize) -> Said {
        match self.rows[at].fate {
            Fate::Waiting => Ok(()),
            Fate::Decided { .. } => Err("AlreadySettled"),
            Fate::Ended(_) => Err("Closed"),
        }
    }

    /// The truth table of WIRE c.2 and c.3. `says` is `None` for the outcome `cancelled`.
    pub(crate) fn vote(&mut self, request: &str, who: &Who, says: Option<Read>) -> Said {
        let holds = |row: &Row| row.requests.iter().any(|known| known == request);
        let at = self.rows.iter().position(holds).ok_or("UnknownQuestion")?;
        self.ended_as(at)?;
        let newest = self.rows[at].live.as_ref().is_some_and(|live| live.request == request);
        let live = newest && self.asked_now(&self.rows[at]);
        if !live && !self.flag {
            return Err("StaleRequest");
        }
        match says {
            None => {
                self.rows[at].fate = Fate::Decided { what: "no".to_owned(), response: None };
                self.rows[at].live = None;
                Ok(())
            }
            Some(read) => {
                let what = read?;
                self.weigh(at, who, what, None)
            }
        }
    }

    /// The answer route (D2).
    pub(crate) fn answer(
        &mut self,
        id: &str,
        generation: u64,
        who: &Who,
        says: Read,
        response: Option<&str>,
    ) -> Said {
        let at = self.rows.iter().position(|row| row.id == id).ok_or("UnknownQuestion")?;
        if generation != at as u64 + 1 {
            return Err("StaleGeneration");
        }
        if let Fate::Decided { what, response: Some(by) } = &self.rows[at].fate
            && response == Some(by.as_str())
        {
            return if says.as_ref() == Ok(what) { Ok(()) } else { Err("ResponseIdReused") };
        }
        self.ended_as(at)?;
        if !self.asked_now(&self.rows[at]) {
            if self.rows[at].consent {
                return Err("Closed");
            }
            if !self.flag {
                return Err("RestoreDisabled");
            }
        }
        let what = says?;
        self.weigh(at, who, what, response)
    }

    fn weigh(&mut self, at: usize, who: &Who, what: String, response: Option<&str>) -> Said {
        let asked = self.asked_now(&self.rows[at]);
        let rule = match &self.rows[at].live {
            Some(live) if asked => live.who.clone(),
            _ => {
                let known = who.client.iter().filter(|client| self.clients.contains(client));
                let mut there: Vec<String> = self.present.iter().chain(known).cloned().collect();
                there.sort();
                there.dedup();
                self.snapshot(vec![self.rows[at].author.as_ref()], &there)
            }
        };
        // A no is a no, however it was said.
        let agrees = |a: &str, b: &str| a == b || (a.starts_with("no") && b.starts_with("no"));
        match rule {
            Snapshot::Anybody => {}
            Snapshot::Here if who.near => {}
            Snapshot::Only(names) if who.client.as_ref().is_some_and(|client| names.contains(client)) => {}
            Snapshot::Here | Snapshot::Only(_) => return Err("Forbidden"),
            Snapshot::Quorum(names, quorum) => {
                let client = who.client.clone().filter(|client| names.contains(client)).ok_or("Forbidden")?;
                let votes = match &self.rows[at].live {
                    Some(live) if asked => live.votes.as_slice(),
                    _ => &[],
                };
                if votes.iter().any(|(voter, _)| *voter == client) {
                    return Ok(());
                }
                let agreeing = votes.iter().filter(|(_, other)| agrees(other, &what)).count() + 1;
                if agreeing < quorum {
                    return match &mut self.rows[at].live {
                        Some(live) if asked => {
                            live.votes.push((client, what));
                            Ok(())
                        }
                        _ => Err("NotAsked"),
                    };
                }
            }
        }
        self.rows[at].fate = Fate::Decided { what, response: response.map(ToOwned::to_owned) };
        self.rows[at].live = None;
        Ok(())
    }

    /// R13, H9.
    pub(crate) fn cancel(&mut self, unreachable: bool) {
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            if !self.asked_now(row) {
                continue;
            }
            let abort = !row.consent && self.flag && (unreachable || row.requests.len() > 1);
            if abort {
                self.rows[at].live = None;
            } else {
                self.end_row(
                    at,
                    if unreachable { "unreachable_question" } else { "cancelled_before_answer" },
                );
            }
        }
    }

    /// R10, and V6 for consents.
    pub(crate) fn end_asking(&mut self, only: Option<u64>, cause: UnaskedCause) {
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            if !self.asked_now(row) || only.is_some_and(|only| only != at as u64 + 1) {
                continue;
            }
            let stays = self.flag || row.requests.len() > 1 || cause == UnaskedCause::AgentGone;
            if stays && !row.consent {
                self.rows[at].live = None;
                continue;
            }
            let why = match cause {
                UnaskedCause::AgentGone => "process_restarted",
                UnaskedCause::TimedOut => "timed_out",
                UnaskedCause::SessionClosed => "session_closed",
                UnaskedCause::Aborted => "withdrawn",
            };
            self.end_row(at, why);
        }
    }

    pub(crate) fn call_ended(&mut self, life: u64, call: &str, repaired: bool) -> Said {
        if life != self.life {
            return Err("StaleLife");
        }
        if let Some(at) = self.rows.iter().rposition(|row| row.call == call) {
            if self.rows[at].fate == Fate::Waiting {
                self.end_row(at, if repaired { "orphan_repair" } else { "withdrawn" });
            }
            self.rows[at].in_history = true;
        }
        Ok(())
    }

    pub(crate) fn reconcile(
        &mut self,
        turn: Option<&str>,
        open: &[String],
        last: Option<&str>,
        restoring: bool,
        given_up: bool,
    ) {
        if self.running().is_some() {
            return;
        }
        let mut waits = false;
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            let dangles = row.turn.is_none() || (row.turn.as_deref() == turn && open.contains(&row.call));
            let newest = self.newest(row.turn.as_deref(), &row.call) == Some(at);
            match (&row.fate, dangles) {
                (Fate::Waiting, true) => waits |= !row.consent && !given_up,
                // R20: the agent is told, and the turn goes on.
                (Fate::Decided { .. }, true) if newest => waits |= !row.consent && !row.in_history,
                (Fate::Waiting, false) if !row.consent => {
                    self.end_row(at, "orphan_repair");
                    self.rows[at].in_history = true;
                }
                (Fate::Decided { .. } | Fate::Ended(_), false) if newest => self.rows[at].in_history = true,
                _ => {}
            }
        }
        let Some(work) = self.turn.clone() else { return };
        if work.kind == Kind::Client && last != Some(&work.prompt) {
            // D5: the agent never had it.
            self.queue.insert(0, (work.prompt, work.client));
            self.turn = None;
        } else {
            let goes_on = restoring || (waits && self.flag);
            if !goes_on {
                self.give_up_interrupted();
            }
        }
    }

    pub(crate) fn delete(&mut self) {
        for at in 0..self.rows.len() {
            if self.rows[at].fate == Fate::Waiting {
                self.end_row(at, "session_deleted");
            }
        }
        self.deleted = true;
    }
}
