-- Approvals of calls in advance. The requests keep the decisions, so that these rows are deleted after their expiry.
CREATE TABLE standing_approvals (
    workspace varchar NOT NULL,
    id varchar NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    agent varchar NOT NULL,
    tool varchar NOT NULL,
    expires_at {instant} NOT NULL,
    is_revoked boolean NOT NULL,
    state text NOT NULL,
    PRIMARY KEY (workspace, id)
);
CREATE INDEX standing_approvals_by_call ON standing_approvals (workspace, agent, tool, is_revoked, expires_at);
CREATE INDEX standing_approvals_by_expires_at ON standing_approvals (expires_at);

-- One row for each use. The key makes two requests that take the same number conflict.
CREATE TABLE standing_approval_uses (
    workspace varchar NOT NULL,
    standing_approval varchar NOT NULL,
    number integer NOT NULL,
    request varchar NOT NULL,
    at {instant} NOT NULL,
    PRIMARY KEY (workspace, standing_approval, number)
);
