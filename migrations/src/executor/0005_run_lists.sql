-- Lists of runs by agent, by status, and of those that have not ended: newest first.

CREATE INDEX runs_by_agent ON runs (workspace, agent, id);
CREATE INDEX runs_open ON runs (workspace, id) WHERE ended_at IS NULL;
CREATE INDEX runs_ended_by_status ON runs (workspace, status, id) WHERE ended_at IS NOT NULL;
