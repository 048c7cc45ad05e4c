-- Tables that the kernel needs in every service.
--
-- `{lease}`: replicas compare leases by the one clock that they share, which is the clock of Postgres. A
-- replica adopts rows after the same time (`outbox/rows.rs`, `LEASE`).

CREATE TABLE outbox (
    id {serial},
    messages text NOT NULL,
    created_at {instant} NOT NULL,
    owner varchar NOT NULL DEFAULT '',
    leased_until {lease}
);

CREATE TABLE idempotency (
    "key" varchar NOT NULL PRIMARY KEY,
    digest varchar NOT NULL,
    answer text NOT NULL,
    created_at {instant} NOT NULL
);
CREATE INDEX idempotency_by_created_at ON idempotency (created_at);

CREATE TABLE dead_letters (
    id {serial},
    subject text NOT NULL,
    body text NOT NULL,
    reason text NOT NULL,
    created_at {instant} NOT NULL,
    digest varchar NOT NULL DEFAULT '',
    workspace varchar NOT NULL DEFAULT ''
);
CREATE INDEX dead_letters_by_workspace ON dead_letters (workspace, id);

CREATE TABLE desired_states (
    kind varchar NOT NULL,
    workspace varchar NOT NULL,
    id varchar NOT NULL,
    rev {bigint} NOT NULL,
    body text NOT NULL,
    created_at {instant} NOT NULL,
    PRIMARY KEY (kind, workspace, id)
);

CREATE TABLE kernels (
    name varchar NOT NULL PRIMARY KEY,
    deaths integer NOT NULL,
    started_at {instant} NOT NULL
);

CREATE TABLE suspects (
    digest varchar NOT NULL PRIMARY KEY,
    begun integer NOT NULL,
    noted_at {instant} NOT NULL
);
