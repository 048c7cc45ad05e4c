-- The newest snapshot of a suspended run. It is deleted with its run.

CREATE TABLE snapshots (
    run_id {uuid} NOT NULL PRIMARY KEY,
    snapshot_json text NOT NULL,
    suspended_at {instant} NOT NULL,
    complete boolean NOT NULL
);
