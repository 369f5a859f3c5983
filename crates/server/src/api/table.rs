//! The list.

use axum::http::Method;

use super::{Body, Content, Op, Param, Type};
use crate::routes::{daemon, health, history, question, session, stream, turn, vote};

use Body::{Optional, Required};
use Content::{Json, Metrics, Nothing, Stream};
use Type::{Integer, OneOf, Text};

/// The client's own id, on the routes of sessions.
const CLIENT: Param = ("X-Qwen-Client-Id", Text, "the client id that create, load or resume gave");
/// What asks or answers: `cli`, `web`, `slack`.
const SURFACE: Param = ("X-Holdpoint-Surface", Text, "what answers: cli, web, slack, …");
/// Who asks or answers.
const NAME: Param =
    ("X-Holdpoint-Name", Text, "a name for people to read, UTF-8 percent-encoded; nobody vouches for it");

/// Which part of an audit.
const AUDIT_PAGING: &[Param] = &[
    ("limit", Integer(1, 1000), "entries of a page; 200 unless given"),
    ("cursor", Text, "the nextCursor of the page before"),
];

/// Why a session cannot be brought to life.
const RESTORE_ERRORS: &[(u16, &[&str])] = &[
    (
        400,
        &[
            "workspace_mismatch",
            "invalid_transcript_limit",
            "invalid_compacted_replay_mode",
            "invalid_live_replay_mode",
        ],
    ),
    (404, &["session_not_found"]),
    (409, &["restore_in_progress", "transcript_format_newer", "session_writer_conflict"]),
    (500, &["storage_error"]),
    (503, &["acp_channel_unavailable", "ledger_unavailable", "session_limit_exceeded"]),
    (504, &["session_restore_timeout", "init_timeout"]),
];

/// Every operation that the daemon has.
pub(super) fn table() -> Vec<Op> {
    let mut table = daemon();
    table.extend(sessions());
    table.extend(turns());
    table.extend(questions());
    table
}

fn get<T: 'static>(
    path: &'static str,
    id: &'static str,
    handler: impl axum::handler::Handler<T, crate::state::App>,
) -> Op {
    Op::new(Method::GET, path, id, handler)
}

fn post<T: 'static>(
    path: &'static str,
    id: &'static str,
    handler: impl axum::handler::Handler<T, crate::state::App>,
) -> Op {
    Op::new(Method::POST, path, id, handler)
}

fn delete<T: 'static>(
    path: &'static str,
    id: &'static str,
    handler: impl axum::handler::Handler<T, crate::state::App>,
) -> Op {
    Op::new(Method::DELETE, path, id, handler)
}

fn daemon() -> Vec<Op> {
    vec![
        get("/health", "health", health::health)
            .summary("Whether the daemon is up; on loopback without a token, unless --require-auth")
            .query(&[("deep", OneOf(&["1", "true", ""]), "with what it does")])
            .answers(200, "it is", Json("Health"))
            .errors(&[(503, &[])]),
        get("/capabilities", "capabilities", daemon::capabilities).summary("What the daemon can do").answers(
            200,
            "features and limits",
            Json("Capabilities"),
        ),
        get("/daemon/status", "daemonStatus", daemon::status)
            .summary("The daemon's state, for people who run it")
            .query(&[("detail", OneOf(&["summary", "full"]), "how much")])
            .answers(200, "the state", Json("DaemonStatus"))
            .errors(&[(400, &["invalid_detail"])]),
        get("/metrics", "metrics", health::metrics).summary("Metrics for Prometheus").answers(
            200,
            "the text format",
            Metrics,
        ),
        get("/openapi.json", "openapi", daemon::openapi).summary("This document").answers(
            200,
            "an OpenAPI 3.1 document",
            Json("Object"),
        ),
    ]
}

fn sessions() -> Vec<Op> {
    vec![
        post("/session", "createSession", session::create)
            .summary("Make a session, or attach to the workspace's shared one")
            .headers(&[CLIENT, SURFACE, NAME])
            .body(Optional("CreateSession"))
            .answers(200, "the session is live", Json("Session"))
            .errors(&[
                (400, &["workspace_mismatch", "invalid_session_scope", "invalid_session_id"]),
                (409, &["session_id_conflict"]),
                (500, &["storage_error"]),
                (503, &["acp_channel_unavailable", "ledger_unavailable", "session_limit_exceeded"]),
                (504, &["init_timeout"]),
            ]),
        delete("/session/{id}", "closeSession", session::close)
            .summary("Close a live session; its transcript and its open questions stay")
            .headers(&[CLIENT])
            .answers(204, "it is closed", Nothing)
            .errors(&[(404, &["session_not_found", "session_closing"])]),
        post("/session/{id}/load", "loadSession", session::load)
            .summary("Bring a stored session to life, with its history")
            .headers(&[CLIENT, SURFACE, NAME])
            .body(Optional("LoadSession"))
            .answers(200, "it is live", Json("RestoredSession"))
            .errors(RESTORE_ERRORS),
        post("/session/{id}/resume", "resumeSession", session::resume)
            .summary("Bring a stored session to life, without its history")
            .headers(&[CLIENT, SURFACE, NAME])
            .body(Optional("LoadSession"))
            .answers(200, "it is live", Json("RestoredSession"))
            .errors(RESTORE_ERRORS),
        post("/session/{id}/branch", "branchSession", session::branch)
            .summary("Copy a whole session; the copy has no open question")
            .headers(&[CLIENT, SURFACE, NAME])
            .body(Optional("BranchSession"))
            .answers(201, "the copy is live", Json("BranchedSession"))
            .errors(&[
                (404, &["session_not_found"]),
                (409, &["branch_while_prompt_active", "branch_point_invalid", "restore_in_progress"]),
                (500, &["storage_error"]),
                (503, &["acp_channel_unavailable", "ledger_unavailable", "session_limit_exceeded"]),
            ]),
        post("/session/{id}/detach", "detachSession", session::detach)
            .summary("Leave a session; also where there is none")
            .headers(&[CLIENT])
            .answers(204, "the client is gone from it", Nothing),
        Op::new(Method::PATCH, "/session/{id}/metadata", "setMetadata", session::metadata)
            .summary("Give a live session a title")
            .headers(&[CLIENT])
            .body(Required("Metadata"))
            .answers(200, "it has it", Json("MetadataSet"))
            .errors(&[
                (400, &["invalid_metadata"]),
                (404, &["session_not_found", "session_closing"]),
                (503, &["ledger_unavailable"]),
            ])
            .strict(),
        get("/session/{id}/status", "sessionStatus", session::status)
            .summary("What a live session does and waits for")
            .headers(&[CLIENT])
            .answers(200, "its status", Json("SessionStatus"))
            .errors(&[(404, &["session_not_found", "session_closing"])]),
        get("/session/{id}/context", "sessionContext", session::context)
            .summary("A live session's modes and models, and whether it was interrupted")
            .headers(&[CLIENT])
            .answers(200, "its context", Json("SessionContext"))
            .errors(&[(404, &["session_not_found", "session_closing"])]),
        post("/session/{id}/heartbeat", "heartbeat", session::heartbeat)
            .summary("A sign of life")
            .headers(&[CLIENT])
            .answers(200, "it was seen", Json("Heartbeat"))
            .errors(&[(404, &["session_not_found", "session_closing"])]),
        get("/session/{id}/audit", "sessionAudit", session::audit)
            .summary("What happened to a session's questions, loaded or not, oldest first")
            .query(AUDIT_PAGING)
            .headers(&[CLIENT])
            .answers(200, "the entries", Json("SessionAudit"))
            .errors(&[
                (400, &["invalid_request", "invalid_cursor"]),
                (404, &["session_not_found"]),
                (500, &["storage_error"]),
            ]),
        post("/sessions/delete", "deleteSessions", session::delete)
            .summary("Delete stored sessions, and close their questions")
            .body(Required("SessionIds"))
            .answers(200, "what became of each", Json("DeleteReport"))
            .errors(&[(400, &["invalid_request"])]),
        get("/workspace/{cwd}/sessions", "listSessions", session::list)
            .summary("Sessions of a workspace (an absolute path, percent-encoded), the last changed first")
            .query(&[
                ("size", Integer(1, 1000), "rows of a page, at most 100; 20 unless given"),
                ("cursor", Text, "the nextCursor of the page before"),
                ("archiveState", OneOf(&["active", "archived", "all"]), "which"),
            ])
            .answers(200, "a page", Json("SessionList"))
            .errors(&[
                (400, &["workspace_mismatch", "invalid_cursor", "invalid_archive_state"]),
                (500, &["storage_error"]),
            ]),
    ]
}

fn turns() -> Vec<Op> {
    vec![
        post("/session/{id}/prompt", "prompt", turn::prompt)
            .summary("Send a prompt; it runs, or waits its turn")
            .headers(&[CLIENT])
            .body(Required("Prompt"))
            .answers(202, "it is on disk", Json("PromptAccepted"))
            .errors(&[
                (400, &["invalid_deadline_ms", "invalid_event_detail_mode", "invalid_prompt_id"]),
                (404, &["session_not_found", "session_closing"]),
                (409, &["prompt_id_reused"]),
                (503, &["prompt_queue_full", "ledger_unavailable", "acp_channel_unavailable"]),
            ]),
        get("/session/{id}/pending-prompts", "pendingPrompts", turn::pending)
            .summary("Prompts that run or wait")
            .headers(&[CLIENT])
            .answers(200, "in their order", Json("PendingPrompts"))
            .errors(&[(404, &["session_not_found", "session_closing"])]),
        delete("/session/{id}/pending-prompts/{prompt}", "removePrompt", turn::remove)
            .summary("Take a waiting prompt back")
            .headers(&[CLIENT])
            .answers(200, "whether it was there, and had not begun", Json("Removed"))
            .errors(&[(404, &["session_not_found", "session_closing"]), (503, &["ledger_unavailable"])]),
        post("/session/{id}/cancel", "cancel", turn::cancel)
            .summary("Stop the turn that runs")
            .headers(&[CLIENT])
            .body(Optional("Cancel"))
            .answers(204, "it is being stopped, or there was none", Nothing)
            .errors(&[(404, &["session_not_found", "session_closing"]), (503, &["ledger_unavailable"])]),
        post("/session/{id}/continue", "continueTurn", turn::go_on)
            .summary("Go on with a turn that was interrupted")
            .headers(&[CLIENT])
            .answers(200, "whether there was one", Json("Continued"))
            .errors(&[
                (404, &["session_not_found", "session_closing"]),
                (409, &["session_busy"]),
                (503, &["prompt_queue_full", "ledger_unavailable", "acp_channel_unavailable"]),
            ])
            .strict(),
        get("/session/{id}/events", "events", stream::events)
            .summary("The event stream of a live session (server-sent events); it does not end by itself")
            .query(&[
                ("maxQueued", Integer(16, 2048), "frames that may wait for a slow reader"),
                ("connectReason", Text, "for the log of the peer; not used"),
                ("previousStreamId", Text, "for the log of the peer; not used"),
            ])
            .headers(&[
                ("Last-Event-ID", Text, "the last event seen; 0 for all that are kept"),
                ("X-Qwen-Event-Epoch", Text, "what that id is of"),
            ])
            .answers(200, "the stream", Stream)
            .errors(&[
                (400, &["invalid_max_queued"]),
                (404, &["session_not_found", "session_closing"]),
                (429, &["subscriber_limit_exceeded"]),
            ]),
        get("/session/{id}/transcript", "transcript", history::transcript)
            .summary("A session's history by pages, loaded or not")
            .query(&[
                ("limit", Integer(1, 500), "records of a page; 100 unless given"),
                ("cursor", Text, "the nextCursor of the page before"),
                ("direction", OneOf(&["forward", "backward"]), "from the oldest, or from the newest"),
                ("beforeRecordId", Text, "a page that ends before this record"),
            ])
            .headers(&[CLIENT])
            .answers(200, "a page", Json("TranscriptPage"))
            .errors(&[
                (400, &["invalid_transcript_limit", "invalid_transcript_cursor"]),
                (404, &["session_not_found"]),
                (409, &["transcript_format_newer"]),
                (500, &["storage_error"]),
            ]),
        post("/session/{id}/permission/{request}", "vote", vote::vote)
            .summary("Vote on a request (the route of qwen serve)")
            .headers(&[CLIENT, SURFACE, NAME])
            .body(Required("Vote"))
            .answers(200, "the vote counts", Json("Voted"))
            .errors(VOTE_ERRORS),
        post("/permission/{request}", "voteAnywhere", vote::vote_anywhere)
            .summary("The same, without the session's id")
            .headers(&[CLIENT, SURFACE, NAME])
            .body(Required("Vote"))
            .answers(200, "the vote counts", Json("Voted"))
            .errors(VOTE_ERRORS),
    ]
}

const VOTE_ERRORS: &[(u16, &[&str])] = &[
    (400, &["invalid_option_id", "invalid_answers"]),
    (403, &["permission_forbidden"]),
    (404, &["session_not_found", "session_closing"]),
    (409, &["restore_disabled", "not_asked"]),
    (503, &["ledger_unavailable", "acp_channel_unavailable"]),
];

fn questions() -> Vec<Op> {
    vec![
        get("/questions", "questions", question::list)
            .summary("The inbox: what waits for a person, over all sessions, loaded or not, oldest first")
            .query(&[
                ("state", OneOf(&["open", "settled", "undelivered", "closed", "all"]), "open unless given"),
                ("session", Text, "of this session"),
                ("cwd", Text, "of this workspace"),
                ("kind", OneOf(&["user_question", "permission"]), "of this kind"),
                ("ending", Text, "whose ids end so"),
                ("limit", Integer(1, 500), "rows of a page; 50 unless given"),
                ("cursor", Text, "the nextCursor of the page before"),
            ])
            .answers(200, "a page", Json("QuestionList"))
            .errors(&[
                (400, &["invalid_request", "invalid_cursor"]),
                (404, &["session_not_found"]),
                (500, &["storage_error"]),
            ]),
        get("/questions/{id}", "question", question::show)
            .summary("One question, with its outcome once it has one")
            .answers(200, "the question", Json("Question"))
            .errors(&[(404, &["question_not_found"]), (500, &["storage_error"])]),
        post("/questions/{id}/answer", "answerQuestion", question::answer)
            .summary("Answer a question by its durable identity, before or after a restart, loaded or not")
            .headers(&[CLIENT, SURFACE, NAME])
            .body(Required("Answer"))
            .answers(200, "the answer is on disk", Json("Receipt"))
            .answers(202, "the vote counts, and the policy needs more", Json("Receipt"))
            .errors(&[
                (403, &["permission_forbidden"]),
                (404, &["question_not_found", "session_not_found"]),
                (
                    409,
                    &[
                        "already_answered",
                        "stale_generation",
                        "response_id_reused",
                        "restore_disabled",
                        "not_asked",
                        "restore_in_progress",
                    ],
                ),
                (410, &["closed"]),
                (422, &["invalid_answers", "invalid_option_id"]),
                (500, &["storage_error"]),
                (503, &["ledger_unavailable", "acp_channel_unavailable"]),
                (504, &["session_restore_timeout"]),
            ]),
        post("/questions/{id}/shown", "questionShown", question::shown)
            .summary("A surface has rendered a question")
            .body(Required("Shown"))
            .answers(204, "it is noted", Nothing)
            .errors(&[
                (404, &["question_not_found", "session_not_found"]),
                (409, &["stale_generation", "already_answered"]),
                (410, &["closed"]),
                (422, &["invalid_answers"]),
                (500, &["storage_error"]),
                (503, &["ledger_unavailable"]),
            ]),
        get("/questions/{id}/audit", "questionAudit", question::audit)
            .summary("What happened to a question, oldest first")
            .query(AUDIT_PAGING)
            .answers(200, "the entries", Json("QuestionAudit"))
            .errors(&[
                (400, &["invalid_request", "invalid_cursor"]),
                (404, &["question_not_found"]),
                (500, &["storage_error"]),
            ]),
    ]
}
