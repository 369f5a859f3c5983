-- The ledger, format 2: every list of questions has an index that begins with what it is filtered by, so that a page
-- costs its own rows, also where the filter matches few or none.
PRAGMA user_version = 2;

CREATE TABLE workspaces (
    ref INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO workspaces (path) SELECT DISTINCT workspace_cwd FROM sessions ORDER BY workspace_cwd;

-- That of the question's session, which never changes it.
ALTER TABLE questions ADD COLUMN workspace INTEGER REFERENCES workspaces (ref);
-- In which list it is: 0 the current ones, 1 the settled, 2 the closed. An answered question is current until its agent
-- has the answer. So while somebody waits for an answer to be stored, only the short index of the owed ones changes;
-- the long ones change with the delivery, for which nobody waits.
ALTER TABLE questions ADD COLUMN list INTEGER NOT NULL DEFAULT 0;
UPDATE questions SET
    workspace = (
        SELECT w.ref FROM sessions s JOIN workspaces w ON w.path = s.workspace_cwd WHERE s.ref = questions.session
    ),
    list = CASE
        WHEN state = 1 AND permission = 0 AND json_extract(head, '$.delivered') = 0 THEN 0
        ELSE state
    END;

DROP INDEX questions_open;
DROP INDEX questions_asked;
-- The run is in them so that permissions of earlier runs, which are open and not asked, are skipped at no cost.
CREATE INDEX questions_current ON questions (permission, asked_at, id, run) WHERE list = 0;
CREATE INDEX questions_current_in ON questions (workspace, permission, asked_at, id, run) WHERE list = 0;
CREATE INDEX questions_owed ON questions (asked_at, id) WHERE list = 0 AND state = 1;
CREATE INDEX questions_ended ON questions (list, asked_at, id) WHERE list > 0;
