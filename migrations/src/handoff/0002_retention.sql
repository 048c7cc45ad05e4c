-- The newest change of each user is enough for a copy, so older ones are deleted. Rows before this file have no name
-- and stay.
ALTER TABLE user_changes ADD COLUMN name varchar NOT NULL DEFAULT '';
CREATE INDEX user_changes_by_name ON user_changes (workspace, name);

-- Requests that no person was asked are deleted after their retention: timers of programs, and holds that were
-- withdrawn before they came. Every other request is a record of a decision and stays.
CREATE INDEX requests_unasked_over_by_updated_at ON requests (updated_at)
    WHERE (kind = 'timer' OR kind IS NULL) AND status <> 'open';
