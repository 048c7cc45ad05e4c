-- Timers.

CREATE TABLE timers (
    workspace varchar NOT NULL,
    owner varchar NOT NULL,
    id varchar NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    rev {bigint} NOT NULL,
    shard integer NOT NULL,
    status varchar NOT NULL CHECK (status IN ('pending','fired','cleared')),
    due_at {instant},
    updated_at {instant} NOT NULL,
    PRIMARY KEY (workspace, owner, id),
    CHECK ((status = 'pending') = (due_at IS NOT NULL))
);
-- Only timers that may still fire are in it; it grows with time.
CREATE INDEX timers_by_due_at ON timers (due_at) WHERE status = 'pending';
CREATE INDEX timers_over_by_updated_at ON timers (updated_at) WHERE status <> 'pending';
