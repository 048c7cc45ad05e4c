-- The request of another call of the same fan-out, whose notification this event replaces. Other events have none.

ALTER TABLE notification_events ADD COLUMN notified_for varchar;
CREATE INDEX notification_events_by_notified_for ON notification_events (workspace, notified_for) WHERE notified_for IS NOT NULL;
