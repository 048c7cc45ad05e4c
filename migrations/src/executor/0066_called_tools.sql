-- What counted for the tool of a step at its newest call. The registry may say something else later.

ALTER TABLE steps ADD COLUMN risk varchar CHECK (risk IN ('low', 'medium', 'high'));
ALTER TABLE steps ADD COLUMN waiting_confirm boolean;
ALTER TABLE steps ADD COLUMN app varchar;
ALTER TABLE steps ADD COLUMN credential_id varchar;
ALTER TABLE steps ADD COLUMN redaction text;
