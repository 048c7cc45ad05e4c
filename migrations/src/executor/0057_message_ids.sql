-- The Message-ID of a mail to or from a contact, so that a reply finds its thread. Other activities have none.

ALTER TABLE contact_activities ADD COLUMN message_id varchar;
CREATE INDEX contact_activities_by_message ON contact_activities (workspace, message_id) WHERE message_id IS NOT NULL;
