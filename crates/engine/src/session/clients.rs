//! Who is attached, and who of them is there: a client that is killed says no goodbye.

use std::collections::BTreeMap;
use std::time::Duration;

use holdpoint_model::ids::ClientId;
use tokio::time::Instant;

use super::message::Presence;

/// The attached clients of a live session. One that attaches again is still one.
#[derive(Debug)]
pub(super) struct Clients {
    /// How long one counts as there that neither reads the stream nor does anything.
    patience: Duration,
    known: BTreeMap<ClientId, Client>,
}

#[derive(Debug)]
struct Client {
    presence: Presence,
    /// Since when it neither reads the stream nor did anything; `None` while it reads.
    quiet_since: Option<Instant>,
    /// It was quiet for too long. It keeps its place: its next request shows that it is there.
    away: bool,
}

impl Client {
    fn heard(&mut self, quiet_since: Option<Instant>) -> bool {
        self.quiet_since = quiet_since;
        std::mem::replace(&mut self.away, false)
    }
}

impl Clients {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, known: BTreeMap::new() }
    }

    /// Attaches one. Says whether it is a new one, and whether those who are there are others than before.
    pub(super) fn attach(&mut self, id: ClientId, presence: Presence, now: Instant) -> (bool, bool) {
        match self.known.get_mut(&id) {
            Some(client) => {
                let quiet_since = client.quiet_since.map(|_| now);
                let came_back = client.heard(quiet_since);
                let changed = client.presence != presence;
                client.presence = presence;
                (false, came_back || changed)
            }
            None => {
                self.known.insert(id, Client { presence, quiet_since: Some(now), away: false });
                (true, true)
            }
        }
    }

    /// Forgets one; `true` if it was there.
    pub(super) fn detach(&mut self, id: &ClientId) -> bool {
        self.known.remove(id).is_some_and(|client| !client.away)
    }

    /// One did something, or began to read the stream; `true` if it had been away.
    pub(super) fn hear(&mut self, id: &ClientId, reads: bool, now: Instant) -> bool {
        self.known.get_mut(id).is_some_and(|client| client.heard((!reads).then_some(now)))
    }

    /// Somebody may have stopped reading: who did not, `reads` says.
    pub(super) fn readers_changed(&mut self, now: Instant, reads: impl Fn(&ClientId) -> bool) {
        for (id, client) in &mut self.known {
            if client.quiet_since.is_none() && !reads(id) {
                client.quiet_since = Some(now);
            }
        }
    }

    /// When the next one is away, should nothing be heard of it.
    pub(super) fn due(&self) -> Option<Instant> {
        let here = self.known.values().filter(|client| !client.away);
        here.filter_map(|client| client.quiet_since).min().map(|since| since + self.patience)
    }

    /// Counts as away whoever was quiet for too long; `true` if somebody was.
    pub(super) fn miss(&mut self, now: Instant) -> bool {
        let patience = self.patience;
        let mut missed = false;
        for client in self.known.values_mut().filter(|client| !client.away) {
            client.away = client.quiet_since.is_some_and(|since| since + patience <= now);
            missed |= client.away;
        }
        missed
    }

    /// How those who are there show themselves.
    pub(super) fn here(&self) -> impl Iterator<Item = &Presence> {
        self.known.values().filter(|client| !client.away).map(|client| &client.presence)
    }

    /// Whether nobody is there.
    pub(super) fn nobody(&self) -> bool {
        self.here().next().is_none()
    }

    /// One who is attached, there or not.
    pub(super) fn any(&self) -> Option<&ClientId> {
        self.known.keys().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn client(id: &str) -> ClientId {
        ClientId::new(id).unwrap()
    }

    fn names(clients: &Clients) -> Vec<&str> {
        clients.here().filter_map(|presence| presence.name.as_deref()).collect()
    }

    fn presence(name: &str) -> Presence {
        Presence { name: Some(name.to_owned()), surface: "cli".to_owned() }
    }

    #[test]
    fn who_is_quiet_for_too_long_is_away_until_it_is_heard_of_again() {
        let start = Instant::now();
        let (ann, ben) = (client("ann"), client("ben"));
        let mut clients = Clients::new(PATIENCE);
        assert_eq!(clients.attach(ann.clone(), presence("Ann"), start), (true, true));
        assert_eq!(clients.attach(ben.clone(), presence("Ben"), start), (true, true));
        assert!(!clients.hear(&ben, true, start), "it was never away");
        assert_eq!(clients.due(), Some(start + PATIENCE), "who reads is never due");

        assert!(!clients.miss(start + PATIENCE - Duration::from_millis(1)));
        assert!(clients.miss(start + PATIENCE));
        assert_eq!(names(&clients), ["Ben"]);
        assert_eq!(clients.due(), None);
        assert_eq!(clients.any(), Some(&ann), "it keeps its place");

        // The stream ends without a word: from then on it counts.
        let later = start + 10 * PATIENCE;
        clients.readers_changed(later, |_| false);
        assert_eq!(clients.due(), Some(later + PATIENCE));
        assert!(clients.miss(later + PATIENCE));
        assert!(clients.nobody());

        assert!(clients.hear(&ann, false, later + PATIENCE), "it is there again");
        assert_eq!(names(&clients), ["Ann"]);
        assert_eq!(clients.attach(ben.clone(), presence("Ben"), later + PATIENCE), (false, true));
        assert!(clients.detach(&ben));
        assert!(!clients.detach(&ben));
    }

    #[test]
    fn attaching_again_changes_nothing_but_how_it_shows_itself() {
        let now = Instant::now();
        let mut clients = Clients::new(PATIENCE);
        clients.attach(client("ann"), presence("Ann"), now);
        assert_eq!(clients.attach(client("ann"), presence("Ann"), now), (false, false));
        assert_eq!(clients.attach(client("ann"), presence("Anna"), now), (false, true));
        assert_eq!(names(&clients), ["Anna"]);
    }
}
