//! `session/load` and `session/resume`: stored answers first, then the look at the end of the file, then what
//! the client is shown (R1–R5, R21).

use agent_client_protocol::Error;
use holdpoint_model::restore::{OpenQuestion, assess};
use holdpoint_transcript::replay::{self, Finalise, Replay, Window};
use holdpoint_transcript::tail::{self, TailScan};
use holdpoint_transcript::{Durability, ReadError};
use serde_json::{Map, Value, json};

use super::batch::stored_outcome;
use super::scribe::updates;
use super::store::{StoreError, blocking};
use super::{Open, ReplayMode, Session, keys};
use crate::params::StoredAnswer;
use crate::rpc::not_found;

impl Session {
    /// Takes up the stored session, or attaches to it where it is live.
    pub(super) async fn open(&mut self, open: Open) -> Result<Value, Error> {
        let Open { cwd, mode, suppress, stored, replay, page } = open;
        let idle = match self.store.take() {
            // A turn has the transcript: the client sees it, and nothing is restored twice (E5).
            None => None,
            Some(mut store) => {
                let opened = store.open().await;
                self.store = Some(store);
                if !opened? {
                    return Err(not_found(format!("there is no session {}", self.id)));
                }
                Some(())
            }
        };
        if self.tools.is_none() || idle.is_some() {
            self.place(cwd, mode);
        } else if let Some(mode) = mode {
            self.modes.set(mode);
        }
        let scan = match idle {
            None => self.look().await?,
            Some(()) => self.take_stored(&stored, replay.is_none()).await?,
        };
        let restore = assess(&scan.tail);
        let shared = &self.shared;
        let restorable = idle.is_some()
            && shared.config.restore
            && shared.client.restores()
            && match &restore {
                Ok(_) => true,
                Err(reason) => {
                    tracing::debug!(session = %self.id, %reason, "not restored");
                    false
                }
            };
        let hint = restorable && !suppress;
        let finalise = match (&restore, hint, idle) {
            (_, _, None) => Finalise::Leave,
            (Ok(restore), true, _) => Finalise::Close { spare: restore.spared() },
            // Both or neither: what will not be asked again is shown as closed (R2).
            _ => Finalise::all(),
        };
        let mut meta = Map::new();
        if let Some(mode) = replay {
            let replay = self.replay(page, finalise).await?;
            if let Some(cut) = &replay.cut {
                let cut = json!({ "before": cut.before, "bytesBefore": cut.bytes_before });
                meta.insert("holdpoint.replayCut".to_owned(), cut);
            }
            match mode {
                ReplayMode::Bulk => {
                    meta.insert(keys::REPLAY.to_owned(), json!({ "v": 1, "updates": replay.updates }));
                }
                ReplayMode::Live => {
                    for update in replay.updates {
                        self.shared.peer.update(self.id.as_str(), update).await;
                    }
                }
            }
        }
        if hint {
            meta.insert(keys::RESTORE.to_owned(), json!(true));
        }
        meta.insert(keys::TAIL.to_owned(), tail_value(&scan, restorable));
        Ok(json!({ "modes": self.modes.to_value(), "_meta": meta }))
    }

    /// Looks at the end of the file without touching anything: another task writes it.
    async fn look(&self) -> Result<TailScan, Error> {
        let path = holdpoint_transcript::path(&self.shared.config.data_dir, &self.id);
        let scan = blocking(move || tail::scan(&path)).await?;
        match scan {
            Ok(scan) => Ok(scan),
            // A turn runs and has not written yet.
            Err(ReadError::NotFound { .. }) => Ok(TailScan {
                tail: holdpoint_model::restore::Tail::Empty,
                next_parent: holdpoint_transcript::Parent::Root,
                last_prompt_id: None,
                cwd: None,
                damaged: 0,
            }),
            Err(error) => Err(StoreError::from(error).into()),
        }
    }

    /// Writes the answers that people gave, for calls that do dangle (I4), on any load. `show`: no replay
    /// will show them.
    async fn take_stored(&mut self, stored: &[StoredAnswer], show: bool) -> Result<TailScan, Error> {
        let (Some(tools), Some(store)) = (self.tools.clone(), self.store.as_mut()) else {
            return self.look().await;
        };
        let mut scan = store.tail().await?;
        let Some(turn) = scan.tail.turn().cloned() else { return Ok(scan) };
        let wanted: Vec<(OpenQuestion, &StoredAnswer)> = turn
            .calls
            .iter()
            .filter(|call| call.dangles() && call.is_question())
            .filter_map(|call| {
                let id = call.id.clone()?;
                let answer = stored.iter().find(|stored| {
                    stored.call == id && stored.turn.as_ref().is_none_or(|record| *record == turn.record)
                })?;
                let questions = holdpoint_model::question::parse_questions(&call.args).ok()?;
                Some((OpenQuestion { call: id, args: call.args.clone(), questions }, answer))
            })
            .collect();
        if wanted.is_empty() {
            return Ok(scan);
        }
        let prompt = scan.last_prompt_id.clone();
        let scribe = self.scribe(&tools, prompt);
        let Some(store) = self.store.as_mut() else { return Ok(scan) };
        for (open, answer) in wanted {
            let outcome = match stored_outcome(&open, &answer.response) {
                Ok(Some(outcome)) => outcome,
                Ok(None) => continue,
                Err(problem) => {
                    tracing::error!(session = %self.id, call = %open.call, %problem, "a stored answer cannot be read");
                    continue;
                }
            };
            let record = scribe.result(&open.call, holdpoint_model::question::TOOL_NAME, outcome);
            let record = store.append(record, Durability::Fsync).await?;
            store.forget();
            holdpoint_crashpoint::hit("agent.result_stored");
            if show {
                for update in updates(&record) {
                    self.shared.peer.update(self.id.as_str(), update).await;
                }
            }
        }
        scan = store.tail().await?;
        Ok(scan)
    }

    async fn replay(&self, page: Option<usize>, finalise: Finalise) -> Result<Replay, Error> {
        let path = holdpoint_transcript::path(&self.shared.config.data_dir, &self.id);
        let mut window = Window::default();
        if let Some(page) = page {
            window.max_records = page.min(window.max_records);
        }
        match blocking(move || replay::window(&path, &window, &finalise)).await? {
            Ok(replay) => Ok(replay),
            Err(ReadError::NotFound { .. }) => Ok(Replay::default()),
            Err(error) => Err(StoreError::from(error).into()),
        }
    }
}

/// What the end of the file holds, for the daemon, and whether a load that does not suppress it would restore it.
fn tail_value(scan: &TailScan, restorable: bool) -> Value {
    let turn = scan.tail.turn();
    json!({
        "turnRecord": turn.map(|turn| &turn.record),
        "open": turn.map(|turn| turn.open()).unwrap_or_default(),
        "settled": turn.map(|turn| turn.settled()).unwrap_or_default(),
        "lastPromptId": scan.last_prompt_id,
        "restorable": restorable,
    })
}
