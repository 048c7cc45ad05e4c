-- Operations on all runs that match a filter, and what each did with each run.

CREATE TABLE operations (
    id {uuid} NOT NULL PRIMARY KEY,
    workspace varchar NOT NULL,
    status varchar NOT NULL CHECK (status IN ('running','completed','cancelled')),
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    state text NOT NULL,
    ended_at {instant},
    CHECK ((ended_at IS NULL) = (status = 'running'))
);
CREATE INDEX operations_by_workspace ON operations (workspace, id);
CREATE INDEX operations_running ON operations (workspace, id) WHERE ended_at IS NULL;
CREATE INDEX operations_by_end ON operations (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE operation_results (
    operation {uuid} NOT NULL,
    run_id {uuid} NOT NULL,
    result varchar NOT NULL CHECK (result IN ('changed','unchanged','refused')),
    code varchar,
    at {instant} NOT NULL,
    PRIMARY KEY (operation, run_id)
);
CREATE INDEX operation_results_by_result ON operation_results (operation, result, run_id);
