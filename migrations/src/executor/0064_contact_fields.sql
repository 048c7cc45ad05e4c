-- How many contacts of a workspace have a field of a name. Warnings of agents look for misspelled names here.

CREATE TABLE contact_fields (
    workspace varchar NOT NULL,
    name varchar NOT NULL,
    contacts {bigint} NOT NULL,
    PRIMARY KEY (workspace, name)
);
CREATE INDEX contact_fields_that_are_gone ON contact_fields (workspace) WHERE contacts <= 0;
INSERT INTO contact_fields (workspace, name, contacts)
SELECT contacts.workspace, field.key, count(*)
FROM contacts CROSS JOIN {contact_fields}
WHERE contacts.deleted_at IS NULL AND length(field.key) <= 100
GROUP BY contacts.workspace, field.key;
