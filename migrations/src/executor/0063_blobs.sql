-- Blobs of runs: contents of values that are too large for a snapshot, in chunks. They are deleted with their run. A
-- blob to which the newest snapshot does not refer expires.

CREATE TABLE blob_chunks (
    run_id {uuid} NOT NULL,
    step_id varchar NOT NULL,
    sha256 varchar NOT NULL,
    chunk_offset {bigint} NOT NULL,
    content {bytes} NOT NULL,
    expires_at {instant},
    PRIMARY KEY (run_id, step_id, sha256, chunk_offset)
);
CREATE INDEX blob_chunks_that_expire ON blob_chunks (expires_at) WHERE expires_at IS NOT NULL;
