-- Contacts whose erasure has not deleted all their runs.

ALTER TABLE contacts ADD COLUMN erasing boolean NOT NULL DEFAULT FALSE;
CREATE INDEX contacts_erasing ON contacts (workspace, id) WHERE erasing;
