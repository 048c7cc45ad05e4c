-- An early approval covers one call of one run: `<run>/<step>`. An empty text means every call of the tool by the agent.
ALTER TABLE standing_approvals ADD COLUMN planned_call varchar NOT NULL DEFAULT '';
DROP INDEX standing_approvals_by_call;
CREATE INDEX standing_approvals_by_call ON standing_approvals (workspace, agent, tool, planned_call, is_revoked, expires_at);
