-- Schedules. The timer of a schedule is the row of `timers` with owner `scheduler` and its name.

CREATE TABLE schedules (
    workspace varchar NOT NULL,
    name varchar NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    state text NOT NULL,
    updated_at {instant} NOT NULL,
    PRIMARY KEY (workspace, name)
);
