-- The templates and calendars of each workspace, in one row.

CREATE TABLE libraries (
    workspace varchar NOT NULL PRIMARY KEY,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    state text NOT NULL
);
