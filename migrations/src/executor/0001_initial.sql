-- Agents, contacts, runs, steps, values, history, nodes, leases and tools.
-- `prior_version` is the version that the writer read: the guard of the upsert compares it.

CREATE TABLE agents (
    workspace varchar NOT NULL,
    name varchar NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    state text NOT NULL,
    updated_at {instant} NOT NULL,
    status varchar NOT NULL DEFAULT 'active' CHECK (status IN ('active','paused','deleted')),
    is_followed boolean NOT NULL DEFAULT TRUE,
    PRIMARY KEY (workspace, name)
);
CREATE INDEX agents_to_follow ON agents (workspace, name) WHERE NOT is_followed;

CREATE TABLE agent_versions (
    workspace varchar NOT NULL,
    agent varchar NOT NULL,
    version integer NOT NULL,
    plan text NOT NULL,
    created_at {instant} NOT NULL,
    PRIMARY KEY (workspace, agent, version)
);

CREATE TABLE contacts (
    workspace varchar NOT NULL,
    id varchar NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    state text NOT NULL,
    deleted_at {instant},
    updated_at {instant} NOT NULL,
    email varchar,
    PRIMARY KEY (workspace, id)
);
CREATE INDEX contacts_by_mail ON contacts (workspace, email) WHERE email IS NOT NULL;

-- The key grows with time, because ids sort by the time at which they were made.
CREATE TABLE runs (
    id {uuid} NOT NULL PRIMARY KEY,
    workspace varchar NOT NULL,
    agent varchar NOT NULL,
    status varchar NOT NULL CHECK (status IN ('queued','running','waiting','awaiting_approval','awaiting_input','paused_for_intervention','completed','failed','cancelled')),
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    state text NOT NULL,
    labels text NOT NULL,
    created_at {instant} NOT NULL,
    resume_at {instant},
    ended_at {instant},
    CHECK ((ended_at IS NOT NULL) = (status IN ('completed','failed','cancelled')))
);
CREATE INDEX runs_by_workspace ON runs (workspace, id);
CREATE INDEX runs_open_by_agent ON runs (workspace, agent, id) WHERE ended_at IS NULL;

CREATE TABLE run_values (
    run_id {uuid} NOT NULL,
    name varchar NOT NULL,
    value text NOT NULL
);
CREATE UNIQUE INDEX run_values_by_name ON run_values (run_id, name);

CREATE TABLE steps (
    run_id {uuid} NOT NULL,
    step_id varchar NOT NULL,
    status varchar NOT NULL,
    tool varchar,
    request text,
    response text,
    error_code varchar,
    claimed_by varchar,
    claimed_at {instant},
    started_at {instant},
    ended_at {instant},
    attempts integer NOT NULL,
    dispatch {bigint} NOT NULL,
    raw_error text
);
CREATE UNIQUE INDEX steps_by_run ON steps (run_id, step_id);
CREATE INDEX steps_queued ON steps (run_id, step_id) WHERE status = 'queued';

-- One row per decision, with its events inside, numbered within the run.
CREATE TABLE history (
    run_id {uuid} NOT NULL,
    first_seq {bigint} NOT NULL,
    last_seq {bigint} NOT NULL,
    at {instant} NOT NULL,
    events text NOT NULL
);
CREATE UNIQUE INDEX history_by_run ON history (run_id, last_seq);

CREATE TABLE workspace_scopes (
    workspace varchar NOT NULL PRIMARY KEY,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    state text NOT NULL,
    is_followed boolean NOT NULL
);
CREATE INDEX workspace_scopes_to_follow ON workspace_scopes (workspace) WHERE NOT is_followed;

CREATE TABLE nodes (
    name varchar NOT NULL PRIMARY KEY,
    status varchar NOT NULL CHECK (status IN ('UP','SUSPECT','DRAINING','DOWN')),
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    last_seen {instant} NOT NULL,
    state text NOT NULL
);

-- `expires_ms` is `heartbeat_at` plus the lease, in milliseconds since 1970: both databases can add these.
CREATE TABLE leases (
    id varchar NOT NULL PRIMARY KEY,
    run_id {uuid} NOT NULL,
    step_id varchar NOT NULL,
    workspace varchar NOT NULL,
    node varchar NOT NULL,
    dispatch {bigint} NOT NULL,
    claimed_at {instant} NOT NULL,
    heartbeat_at {instant} NOT NULL,
    lease_ms {bigint} NOT NULL,
    expires_ms {bigint} NOT NULL
);
CREATE INDEX leases_by_node ON leases (node);
CREATE INDEX leases_by_expiry ON leases (expires_ms);

-- Appended, never rewritten (S4-R7).
CREATE TABLE lease_events (
    run_id {uuid} NOT NULL,
    step_id varchar NOT NULL,
    dispatch {bigint} NOT NULL,
    action varchar NOT NULL CHECK (action IN ('claimed','taken_over','released')),
    node varchar NOT NULL,
    at {instant} NOT NULL
);
CREATE UNIQUE INDEX lease_events_by_step ON lease_events (run_id, step_id, dispatch, action);

CREATE TABLE tools (
    workspace varchar NOT NULL,
    name varchar NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    state text NOT NULL,
    deleted_at {instant},
    PRIMARY KEY (workspace, name)
);

CREATE TABLE contact_activities (
    workspace varchar NOT NULL,
    contact varchar NOT NULL,
    id varchar NOT NULL,
    kind varchar NOT NULL CHECK (kind IN ('email_in','email_out','call','note','meeting')),
    subject varchar,
    text text NOT NULL,
    at {instant} NOT NULL,
    PRIMARY KEY (workspace, contact, id)
);
CREATE INDEX contact_activities_by_time ON contact_activities (workspace, contact, at);
