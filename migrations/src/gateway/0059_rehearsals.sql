-- Rehearsals of agents, kept for some days. The runs have a table of their own, so that they are read in pages and
-- those of an erased contact are deleted.

CREATE TABLE rehearsals (
    id {serial},
    workspace varchar NOT NULL,
    created_by varchar NOT NULL,
    agent varchar NOT NULL,
    version integer,
    steps text NOT NULL,
    start_at {instant} NOT NULL,
    contacts {bigint} NOT NULL,
    rehearsed {bigint} NOT NULL,
    status varchar NOT NULL,
    detail text,
    created_at {instant} NOT NULL,
    seen_at {instant} NOT NULL,
    ended_at {instant},
    CHECK ((status = 'running') = (ended_at IS NULL))
);
CREATE INDEX rehearsals_by_workspace ON rehearsals (workspace, id);
CREATE INDEX rehearsals_by_age ON rehearsals (created_at);
CREATE INDEX rehearsals_that_run ON rehearsals (seen_at) WHERE ended_at IS NULL;

CREATE TABLE rehearsed_runs (
    rehearsal {bigint} NOT NULL,
    place {bigint} NOT NULL,
    workspace varchar NOT NULL,
    contact varchar NOT NULL,
    head text NOT NULL,
    timeline text NOT NULL,
    PRIMARY KEY (rehearsal, place)
);
CREATE INDEX rehearsed_runs_by_contact ON rehearsed_runs (workspace, contact);

-- How many erasures of contacts a workspace has had. A rehearsal that began before one of them is not added.
CREATE TABLE rehearsal_erasures (
    workspace varchar NOT NULL PRIMARY KEY,
    erasures {bigint} NOT NULL
);
