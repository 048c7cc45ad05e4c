-- Notifications, deliveries, preferences, webhooks and watches.

CREATE TABLE notification_events (
    workspace varchar NOT NULL,
    hold varchar NOT NULL,
    rev {bigint} NOT NULL,
    notification_rev {bigint} NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    kind varchar NOT NULL CHECK (kind IN ('opened','assigned','escalated','taken_over','decided','expired','withdrawn','run_end','system')),
    fanning boolean NOT NULL,
    state text NOT NULL,
    created_at {instant} NOT NULL,
    updated_at {instant} NOT NULL,
    PRIMARY KEY (workspace, hold, rev)
);
CREATE INDEX notification_events_fanning ON notification_events (created_at) WHERE fanning;
CREATE INDEX notification_events_ended ON notification_events (updated_at) WHERE kind IN ('decided','expired','withdrawn','run_end','system');

CREATE TABLE inbox_entries (
    workspace varchar NOT NULL,
    person varchar NOT NULL,
    hold varchar NOT NULL,
    rev {bigint} NOT NULL,
    at {instant} NOT NULL,
    read_at {instant},
    seq {bigint} NOT NULL,
    watching boolean NOT NULL,
    PRIMARY KEY (workspace, person, hold, rev)
);
CREATE INDEX inbox_entries_by_at ON inbox_entries (workspace, person, at);
CREATE INDEX inbox_entries_by_seq ON inbox_entries (workspace, person, seq);
CREATE INDEX inbox_entries_of_hold ON inbox_entries (workspace, hold);
CREATE INDEX inbox_entries_unread ON inbox_entries (workspace, person) WHERE read_at IS NULL;

CREATE TABLE changes (
    workspace varchar NOT NULL PRIMARY KEY,
    seq {bigint} NOT NULL
);

CREATE TABLE deliveries (
    workspace varchar NOT NULL,
    hold varchar NOT NULL,
    rev {bigint} NOT NULL,
    channel varchar NOT NULL CHECK (channel IN ('email','callback','webhook','chat','digest')),
    target varchar NOT NULL,
    priority varchar NOT NULL CHECK (priority IN ('low','normal','high','urgent','critical')),
    after text NOT NULL,
    state varchar NOT NULL CHECK (state IN ('pending','sent','failed','dropped')),
    attempts {bigint} NOT NULL,
    next_at {instant},
    waits varchar CHECK (waits IN ('queued','quiet_hours','retry','answer')),
    last_error text,
    receipt text,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    created_at {instant} NOT NULL,
    updated_at {instant} NOT NULL,
    PRIMARY KEY (workspace, hold, rev, channel, target),
    CHECK ((state = 'pending') = (next_at IS NOT NULL)),
    CHECK ((state = 'pending') = (waits IS NOT NULL))
);
CREATE INDEX deliveries_due ON deliveries (channel, next_at) WHERE state = 'pending';
CREATE INDEX deliveries_to_webhooks ON deliveries (workspace, target, created_at) WHERE channel = 'webhook';
CREATE INDEX deliveries_pending_of_webhooks ON deliveries (target) WHERE channel = 'webhook' AND state = 'pending';
CREATE INDEX deliveries_digests ON deliveries (updated_at) WHERE channel = 'digest';

CREATE TABLE preferences (
    workspace varchar NOT NULL,
    person varchar NOT NULL,
    said text NOT NULL,
    digest_at {instant},
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    created_at {instant} NOT NULL,
    updated_at {instant} NOT NULL,
    PRIMARY KEY (workspace, person)
);
CREATE INDEX preferences_digest ON preferences (digest_at) WHERE digest_at IS NOT NULL;

CREATE TABLE webhooks (
    workspace varchar NOT NULL,
    id varchar NOT NULL,
    url text NOT NULL,
    events text NOT NULL,
    format varchar NOT NULL CHECK (format IN ('standard','slack')),
    secret text NOT NULL,
    status varchar NOT NULL CHECK (status IN ('active','disabled','removed')),
    created_by varchar NOT NULL,
    created_at {instant} NOT NULL,
    failing_since {instant},
    disabled_at {instant},
    last_error text,
    configured_version {bigint} NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    updated_at {instant} NOT NULL,
    PRIMARY KEY (workspace, id),
    CHECK ((status = 'disabled') = (disabled_at IS NOT NULL))
);

CREATE TABLE webhook_secrets (
    workspace varchar NOT NULL PRIMARY KEY,
    secret text NOT NULL,
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    created_at {instant} NOT NULL
);

CREATE TABLE watches (
    workspace varchar NOT NULL,
    person varchar NOT NULL,
    target varchar NOT NULL,
    since {instant},
    version {bigint} NOT NULL,
    prior_version {bigint} NOT NULL,
    updated_at {instant} NOT NULL,
    PRIMARY KEY (workspace, person, target)
);
CREATE INDEX watches_of ON watches (workspace, target, person);
CREATE INDEX watches_ended ON watches (updated_at) WHERE since IS NULL;
