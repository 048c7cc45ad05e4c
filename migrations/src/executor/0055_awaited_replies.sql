-- The contact whose reply a step of the run waits for. Other runs have none.

ALTER TABLE runs ADD COLUMN reply_of varchar;
CREATE INDEX runs_by_awaited_reply ON runs (workspace, reply_of) WHERE reply_of IS NOT NULL;
CREATE INDEX runs_awaiting_reply ON runs (id) WHERE reply_of IS NOT NULL;
