-- Events of contacts, and mentions. SQLite cannot change a CHECK, so the table is made again.
CREATE TABLE new_notification_events (
    workspace varchar NOT NULL,
    hold varchar NOT NULL,
    rev {bigint} NOT NULL,
    notification_rev {bigint} NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    kind varchar NOT NULL CHECK (kind IN ('opened','assigned','escalated','taken_over','mentioned','decided','expired','withdrawn','run_end','system','new_lead','deal_won','deal_lost','contact_erased')),
    fanning boolean NOT NULL,
    notified_for varchar,
    state text NOT NULL,
    created_at {instant} NOT NULL,
    updated_at {instant} NOT NULL,
    PRIMARY KEY (workspace, hold, rev)
);
INSERT INTO new_notification_events (workspace, hold, rev, notification_rev, version, prior_version, kind, fanning, notified_for, state, created_at, updated_at)
    SELECT workspace, hold, rev, notification_rev, version, prior_version, kind, fanning, notified_for, state, created_at, updated_at
    FROM notification_events ORDER BY created_at;
DROP TABLE notification_events;
ALTER TABLE new_notification_events RENAME TO notification_events;
CREATE INDEX notification_events_fanning ON notification_events (created_at) WHERE fanning;
CREATE INDEX notification_events_ended ON notification_events (updated_at) WHERE kind IN ('decided','expired','withdrawn','run_end','system','new_lead','deal_won','deal_lost','contact_erased');
CREATE INDEX notification_events_by_notified_for ON notification_events (workspace, notified_for) WHERE notified_for IS NOT NULL;
CREATE INDEX notification_events_of_contacts ON notification_events (workspace, kind, created_at) WHERE kind IN ('new_lead','deal_won','deal_lost');
