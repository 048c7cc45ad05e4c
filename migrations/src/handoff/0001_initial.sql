-- Users, requests and policies.

CREATE TABLE requests (
    workspace varchar NOT NULL,
    id varchar NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    status varchar NOT NULL CHECK (status IN ('open','decided','expired','withdrawn')),
    kind varchar CHECK (kind IN ('timer','approval','input','handoff')),
    run_id {uuid},
    effect varchar CHECK (effect IN ('applied','on_resume','run_ended','pending')),
    deadline_at {instant},
    state text NOT NULL,
    created_at {instant} NOT NULL,
    updated_at {instant} NOT NULL,
    stage varchar CHECK (stage IN ('offered','accepted','taken_over','reassigned','completed')),
    assignee varchar,
    audience text NOT NULL DEFAULT '',
    priority varchar NOT NULL DEFAULT 'normal' CHECK (priority IN ('low','normal','high','urgent','critical')),
    snoozed_until {instant},
    additional_deciders text NOT NULL DEFAULT '',
    voters text NOT NULL DEFAULT '',
    snoozed_by text NOT NULL DEFAULT '',
    PRIMARY KEY (workspace, id),
    CHECK (kind IS NOT NULL OR status = 'withdrawn')
);
CREATE INDEX requests_by_created_at ON requests (workspace, created_at, id);
CREATE INDEX requests_open ON requests (workspace, created_at, id) WHERE status = 'open';
CREATE INDEX requests_by_run ON requests (run_id);
CREATE INDEX requests_open_by_assignee ON requests (workspace, assignee) WHERE status = 'open' AND assignee IS NOT NULL;

CREATE TABLE users (
    workspace varchar NOT NULL,
    name varchar NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    is_active_owner boolean NOT NULL,
    state text NOT NULL,
    updated_at {instant} NOT NULL,
    roles text NOT NULL DEFAULT '',
    is_active boolean NOT NULL DEFAULT TRUE,
    is_leaving boolean NOT NULL DEFAULT FALSE,
    PRIMARY KEY (workspace, name)
);
CREATE INDEX users_leaving ON users (workspace, name) WHERE is_leaving;

CREATE TABLE user_changes (
    seq {bigint} NOT NULL PRIMARY KEY,
    workspace varchar NOT NULL,
    body text NOT NULL,
    at {instant} NOT NULL
);

CREATE TABLE user_change_counter (
    id integer NOT NULL PRIMARY KEY CHECK (id = 1),
    last {bigint} NOT NULL
);
INSERT INTO user_change_counter (id, last) VALUES (1, 0);

CREATE TABLE policies (
    workspace varchar NOT NULL,
    name varchar NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    is_deleted boolean NOT NULL,
    state text NOT NULL,
    updated_at {instant} NOT NULL,
    PRIMARY KEY (workspace, name)
);
