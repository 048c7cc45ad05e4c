-- Tokens, sessions, inbound hooks, workspaces and accepted commands.

CREATE TABLE tokens (
    id {serial},
    workspace text NOT NULL,
    user_name text NOT NULL,
    token_sha256 text NOT NULL UNIQUE CHECK (length(token_sha256) = 64),
    created_at {instant} NOT NULL,
    expires_at {instant},
    role varchar,
    printed boolean NOT NULL DEFAULT TRUE,
    asked_key varchar,
    asked_digest varchar,
    made_by varchar
);
CREATE UNIQUE INDEX tokens_by_asked_key ON tokens (asked_key);
CREATE INDEX tokens_by_workspace ON tokens (workspace, id);

CREATE TABLE workspaces (
    name varchar NOT NULL PRIMARY KEY,
    made_by varchar NOT NULL,
    created_at {instant} NOT NULL,
    token_made_at {instant}
);

CREATE TABLE commands (
    id varchar NOT NULL PRIMARY KEY,
    workspace varchar NOT NULL,
    caller varchar NOT NULL,
    roles text NOT NULL,
    service varchar NOT NULL,
    subject text NOT NULL,
    ask_subject text NOT NULL,
    envelope text NOT NULL,
    "key" varchar NOT NULL UNIQUE,
    digest varchar NOT NULL,
    after_id varchar,
    state varchar NOT NULL CHECK (state IN ('accepted','done')),
    answer text,
    published boolean NOT NULL,
    tries {bigint} NOT NULL,
    created_at {instant} NOT NULL,
    done_at {instant},
    CHECK ((state = 'done') = (answer IS NOT NULL AND done_at IS NOT NULL))
);
CREATE INDEX commands_open ON commands (tries, id) WHERE state = 'accepted';
CREATE INDEX commands_by_done_at ON commands (done_at);

CREATE TABLE sessions (
    id {serial},
    session_sha256 varchar NOT NULL CHECK (length(session_sha256) = 64),
    workspace varchar NOT NULL,
    user_name varchar NOT NULL,
    role varchar,
    token_id {bigint},
    shown boolean NOT NULL,
    created_at {instant} NOT NULL,
    seen_at {instant} NOT NULL
);
CREATE UNIQUE INDEX sessions_by_digest ON sessions (session_sha256, workspace);
CREATE INDEX sessions_by_user ON sessions (workspace, user_name);

CREATE TABLE logins (
    code_sha256 varchar NOT NULL PRIMARY KEY,
    workspace varchar NOT NULL,
    user_name varchar NOT NULL,
    expires_at {instant} NOT NULL
);

CREATE TABLE inbound_hooks (
    workspace varchar NOT NULL,
    name varchar NOT NULL,
    secret varchar NOT NULL,
    made_by varchar NOT NULL,
    created_at {instant} NOT NULL,
    PRIMARY KEY (workspace, name)
);
