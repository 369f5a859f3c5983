//! One call of the model: stream what it says, store it, and find what it calls.

use std::time::Instant;

use holdpoint_model::history::{Content, FunctionCall, Part, Role};
use holdpoint_model::ids::RecordId;
use holdpoint_transcript::Durability;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::batch::{Batch, Call};
use super::scribe::{new_call_id, new_record_id};
use super::store::Said;
use super::turn::{Failure, Turn};
use crate::provider::{DELTA_QUEUE, Delta, Finish, ModelTurn, ProviderError, Request};

/// What came of one call of the model.
pub(crate) enum Step {
    /// The turn is over; ACP's stop reason.
    Said(&'static str),
    /// The turn was stopped while the model spoke.
    Cancelled,
    /// The model called tools, and the turn that says so is on the disk.
    Called(Batch),
}

impl Turn {
    /// Calls the model once.
    pub(crate) async fn step(&mut self) -> Result<Step, Failure> {
        let brief = self.brief().await?;
        let said = self.store.said().await?;
        said.check();
        // Lent to the request; the store is not touched before it comes back.
        let contents = std::mem::take(&mut said.contents);
        let id = new_record_id();
        let began = Instant::now();
        let request = Request { system: &brief.system, history: &contents, tools: &brief.tools };
        let (reply, spoken) = self.listen(request, &id).await;
        self.store.said().await?.contents = contents;
        match reply {
            Ok(reply) => self.take_reply(id, reply, began).await,
            Err(ProviderError::Cancelled) if self.stop.is_set() => {
                self.keep_partial(id, spoken).await?;
                Ok(Step::Cancelled)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Streams a reply to the client. Also gives what was said so far.
    async fn listen(
        &self,
        request: Request<'_>,
        id: &RecordId,
    ) -> (Result<ModelTurn, ProviderError>, String) {
        let (sender, mut deltas) = mpsc::channel(DELTA_QUEUE);
        let mut spoken = String::new();
        let reply = self.provider.stream(request, sender, self.stop.token());
        tokio::pin!(reply);
        let reply = loop {
            tokio::select! {
                biased;
                Some(delta) = deltas.recv() => self.tell(delta, &mut deltas, id, &mut spoken).await,
                reply = &mut reply => break reply,
                // A provider that does not end when told is left behind.
                () = self.stop.expired() => break Err(ProviderError::Cancelled),
            }
        };
        while let Ok(delta) = deltas.try_recv() {
            self.tell(delta, &mut deltas, id, &mut spoken).await;
        }
        (reply, spoken)
    }

    /// Shows a delta, with what waits of the same kind behind it.
    async fn tell(
        &self,
        delta: Delta,
        deltas: &mut mpsc::Receiver<Delta>,
        id: &RecordId,
        spoken: &mut String,
    ) {
        let mut next = Some(delta);
        while let Some(delta) = next.take() {
            match delta {
                Delta::Text(mut text) => {
                    while let Ok(more) = deltas.try_recv() {
                        match more {
                            Delta::Text(more) => text.push_str(&more),
                            other => {
                                next = Some(other);
                                break;
                            }
                        }
                    }
                    spoken.push_str(&text);
                    self.chunk("agent_message_chunk", &text, self.meta(id)).await;
                }
                Delta::Thought(mut text) => {
                    while let Ok(more) = deltas.try_recv() {
                        match more {
                            Delta::Thought(more) => text.push_str(&more),
                            other => {
                                next = Some(other);
                                break;
                            }
                        }
                    }
                    self.chunk("agent_thought_chunk", &text, self.meta(id)).await;
                }
                // Its id may be one that we have to replace, and nothing of it is stored yet.
                Delta::ToolCallStarted { .. } => {}
                Delta::Retrying { attempt, after, reason, restarts } => {
                    if restarts {
                        spoken.clear();
                    }
                    let mut meta = self.meta(id);
                    let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                    meta["holdpoint.retrying"] = json!({ "attempt": attempt, "afterMs": millis, "reason": reason, "restarts": restarts });
                    let text = if restarts {
                        format!("(The reply broke off: {reason}. It starts again.)\n")
                    } else {
                        format!("(The model does not answer: {reason}. Trying again.)\n")
                    };
                    self.chunk("agent_thought_chunk", &text, meta).await;
                }
            }
        }
    }

    async fn chunk(&self, kind: &str, text: &str, meta: Value) {
        if !text.is_empty() {
            let content = json!({ "type": "text", "text": text });
            self.update(json!({ "sessionUpdate": kind, "content": content, "_meta": meta })).await;
        }
    }

    /// Stores a reply before anything of it is acted on (Q8).
    async fn take_reply(&mut self, id: RecordId, reply: ModelTurn, began: Instant) -> Result<Step, Failure> {
        let ModelTurn { mut parts, finish, usage } = reply;
        let calls = mint(&mut parts, self.store.said().await?);
        if !parts.is_empty() {
            let record = self.scribe.assistant(id.clone(), parts.clone(), usage);
            let record = self.store.append(record, Durability::Fsync).await?;
            self.store.said().await?.contents.push(Content { role: Role::Model, parts });
            let batch = (!calls.is_empty()).then(|| Batch::fresh(id, calls));
            if let Some(batch) = &batch {
                holdpoint_crashpoint::hit("agent.turn_stored");
                self.show_calls(batch).await;
            }
            self.show_usage(&record, began).await;
            if let Some(batch) = batch {
                return Ok(Step::Called(batch));
            }
        }
        Ok(Step::Said(match finish {
            Finish::Stop | Finish::ToolCalls => "end_turn",
            Finish::MaxTokens => "max_tokens",
            Finish::Refusal => "refusal",
        }))
    }

    /// The chunk that carries what the reply cost.
    async fn show_usage(&self, record: &holdpoint_transcript::Record, began: Instant) {
        let chunks = super::scribe::updates(record);
        let Some(mut chunk) = chunks.into_iter().find(|update| update["_meta"].get("usage").is_some()) else {
            return;
        };
        let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        chunk["_meta"]["durationMs"] = json!(millis);
        self.update(chunk).await;
    }

    /// What the model had said when it was stopped stays in the history, since the person has read it.
    async fn keep_partial(&mut self, id: RecordId, spoken: String) -> Result<(), Failure> {
        if spoken.trim().is_empty() {
            return Ok(());
        }
        let parts = vec![Part::text(spoken)];
        let mut record = self.scribe.assistant(id, parts.clone(), None);
        record.set_own("partial", true);
        self.store.append(record, Durability::Buffered).await?;
        self.store.said().await?.contents.push(Content { role: Role::Model, parts });
        Ok(())
    }
}

/// Gives each call an id of its own in the session: providers send none, or `call_0` in every turn.
fn mint(parts: &mut [Part], said: &mut Said) -> Vec<Call> {
    let mut calls = Vec::new();
    for FunctionCall { id, name, args } in parts.iter_mut().filter_map(|part| part.function_call.as_mut()) {
        let own = match id.take() {
            Some(given) if said.call_ids.insert(given.clone()) => given,
            _ => {
                let minted = new_call_id();
                said.call_ids.insert(minted.clone());
                minted
            }
        };
        *id = Some(own.clone());
        calls.push(Call { id: own, name: name.clone(), args: args.clone(), result: None });
    }
    calls
}

#[cfg(test)]
mod tests {
    use holdpoint_model::ids::CallId;

    use super::*;

    #[test]
    fn missing_and_used_call_ids_are_minted_anew() {
        let call = |id: Option<&str>| {
            let id = id.map(|id| CallId::new(id).unwrap());
            Part::call(FunctionCall { id, name: "glob".to_owned(), args: json!({}) })
        };
        let mut said = Said::default();
        said.call_ids.insert(CallId::new("call_0").unwrap());
        let mut parts =
            vec![Part::text("x"), call(Some("call_0")), call(None), call(Some("new")), call(Some("new"))];
        let calls = mint(&mut parts, &mut said);
        let ids: Vec<_> = calls.iter().map(|call| call.id.to_string()).collect();
        assert_eq!(ids[2], "new");
        assert!(!ids.contains(&"call_0".to_owned()));
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
        let stored: Vec<_> = parts
            .iter()
            .filter_map(|part| Some(part.function_call.as_ref()?.id.clone()?.to_string()))
            .collect();
        assert_eq!(stored, ids);
    }
}
