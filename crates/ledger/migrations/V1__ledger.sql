-- The ledger, format 1. Times are microseconds since 1970. Nothing here is particular to SQLite but the two
-- pragmas, STRICT and the rowid keys.
PRAGMA application_id = 1215261796; -- "Hold"
PRAGMA user_version = 1;

-- One row: who this file is, and the last run of the daemon that wrote to it.
CREATE TABLE meta (
    ref INTEGER PRIMARY KEY CHECK (ref = 1),
    identity TEXT NOT NULL,
    run INTEGER NOT NULL,
    -- Counts the times that the writer took a new connection after a failed commit.
    heals INTEGER NOT NULL
) STRICT;
INSERT INTO meta (ref, identity, run, heals) VALUES (1, lower(hex(randomblob(16))), 0, 0);

CREATE TABLE sessions (
    ref INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    -- How many events it has.
    version INTEGER NOT NULL,
    workspace_cwd TEXT NOT NULL,
    agent TEXT NOT NULL,
    title TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    source_type TEXT,
    source_id TEXT,
    deleted INTEGER NOT NULL
) STRICT;

-- In the order of their commits, so that a batch of many sessions fills few pages.
CREATE TABLE events (
    ref INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (ref),
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    event TEXT NOT NULL,
    UNIQUE (session, version)
) STRICT;

CREATE TABLE questions (
    ref INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL REFERENCES sessions (ref),
    asked_at INTEGER NOT NULL,
    -- 0 open, 1 settled, 2 closed.
    state INTEGER NOT NULL,
    permission INTEGER NOT NULL,
    run INTEGER NOT NULL,
    -- All that changes, as JSON; what is put to people never does, and may be large.
    head TEXT NOT NULL
) STRICT;
-- The inbox and its counts; it holds all that they filter by, so that a skipped row costs nothing.
CREATE INDEX questions_open ON questions (asked_at, id, permission, run) WHERE state = 0;
CREATE INDEX questions_asked ON questions (asked_at, id);
CREATE INDEX questions_session ON questions (session, asked_at, id);

CREATE TABLE bodies (
    question INTEGER PRIMARY KEY REFERENCES questions (ref),
    body TEXT NOT NULL
) STRICT;

CREATE TABLE requests (
    ref INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    question INTEGER NOT NULL REFERENCES questions (ref)
) STRICT;
