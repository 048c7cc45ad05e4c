-- Places of agents with `concurrency`, turns of agents with `rate`, and starts of agents that start once. Other runs
-- have no row.
-- Indexes that are named `contended_…` decide between replicas, and the loser decides again.

CREATE TABLE run_limits (
    run_id {uuid} NOT NULL PRIMARY KEY,
    workspace varchar NOT NULL,
    once_key varchar,
    place_key varchar,
    place integer,
    wanted_at {instant},
    rate_key varchar,
    start_number {bigint},
    starts_at {instant},
    CHECK ((place_key IS NULL) = (wanted_at IS NULL)),
    CHECK (place IS NULL OR place_key IS NOT NULL),
    CHECK ((rate_key IS NULL) = (start_number IS NULL) AND (rate_key IS NULL) = (starts_at IS NULL))
);
CREATE UNIQUE INDEX contended_once ON run_limits (once_key) WHERE once_key IS NOT NULL;
CREATE UNIQUE INDEX contended_places ON run_limits (place_key, place) WHERE place IS NOT NULL;
CREATE UNIQUE INDEX contended_starts ON run_limits (rate_key, start_number) WHERE rate_key IS NOT NULL;
CREATE INDEX run_limits_queued ON run_limits (place_key, wanted_at, run_id)
    WHERE place IS NULL AND place_key IS NOT NULL;
