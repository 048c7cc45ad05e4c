-- Replies whose sender is not a contact. A closed reply was assigned or removed: its texts are gone, and the row only
-- recognizes a repetition.

CREATE TABLE unmatched_replies (
    id {serial},
    workspace varchar NOT NULL,
    "key" varchar NOT NULL UNIQUE,
    digest varchar NOT NULL,
    hook varchar NOT NULL,
    reply text,
    contact varchar,
    received_at {instant} NOT NULL,
    CHECK (reply IS NULL OR contact IS NULL)
);
CREATE INDEX unmatched_replies_by_workspace ON unmatched_replies (workspace, id);
CREATE INDEX unmatched_replies_by_age ON unmatched_replies (received_at);
