-- A user directory needs only the newest change of a user. Changes that are older than this column have no name and are
-- never deleted.
ALTER TABLE user_changes ADD COLUMN name varchar NOT NULL DEFAULT '';
CREATE INDEX user_changes_by_name ON user_changes (workspace, name);

-- Two kinds of requests ask no person: standalone timers, and holds that were withdrawn before they were opened. They are
-- deleted after their retention. Every other request is a record of a decision and stays.
CREATE INDEX requests_unasked_over_by_updated_at ON requests (updated_at)
    WHERE (kind = 'timer' OR kind IS NULL) AND status <> 'open';
