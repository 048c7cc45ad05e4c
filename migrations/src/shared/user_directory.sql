-- The read copy of users and roles, the same in every service that keeps one.

CREATE TABLE users (
    workspace varchar NOT NULL,
    name varchar NOT NULL,
    roles text NOT NULL,
    active boolean NOT NULL,
    version {bigint} NOT NULL,
    email varchar,
    PRIMARY KEY (workspace, name)
);

CREATE TABLE sync_cursors (
    source varchar NOT NULL PRIMARY KEY,
    seq {bigint} NOT NULL
);

CREATE TABLE user_roles (
    workspace varchar NOT NULL,
    role varchar NOT NULL,
    name varchar NOT NULL,
    PRIMARY KEY (workspace, role, name)
);
CREATE INDEX user_roles_by_name ON user_roles (workspace, name);
