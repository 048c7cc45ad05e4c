//! All tables of the notification service at its first release.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, boolean, string, string_null, text, text_null, timestamp_with_time_zone,
    timestamp_with_time_zone_null,
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::kernel::up(manager).await?;
        crate::kernel::ground(manager).await?;
        crate::kernel::suspects(manager).await?;
        crate::people::up(manager).await?;
        for table in [
            events(),
            inbox_entries(),
            changes(),
            deliveries(),
            preferences(),
            webhooks(),
            webhook_secrets(),
            watches(),
        ] {
            manager.create_table(table).await?;
        }
        let db = manager.get_connection();
        for statement in INDEXES {
            db.execute_unprepared(statement).await?;
        }
        Ok(())
    }
}

/// SQLite uses a partial index only for queries that contain its condition.
const INDEXES: [&str; 13] = [
    "CREATE INDEX notification_events_fanning ON notification_events (created_at) WHERE fanning",
    "CREATE INDEX notification_events_ended ON notification_events (updated_at) \
     WHERE kind IN ('decided','expired','withdrawn','run_end','system')",
    "CREATE INDEX inbox_entries_by_at ON inbox_entries (workspace, person, at)",
    "CREATE INDEX inbox_entries_by_seq ON inbox_entries (workspace, person, seq)",
    "CREATE INDEX inbox_entries_of_hold ON inbox_entries (workspace, hold)",
    "CREATE INDEX inbox_entries_unread ON inbox_entries (workspace, person) WHERE read_at IS NULL",
    "CREATE INDEX deliveries_due ON deliveries (channel, next_at) WHERE state = 'pending'",
    "CREATE INDEX deliveries_to_webhooks ON deliveries (workspace, target, created_at) \
     WHERE channel = 'webhook'",
    "CREATE INDEX deliveries_pending_of_webhooks ON deliveries (target) \
     WHERE channel = 'webhook' AND state = 'pending'",
    "CREATE INDEX deliveries_digests ON deliveries (updated_at) WHERE channel = 'digest'",
    "CREATE INDEX preferences_digest ON preferences (digest_at) WHERE digest_at IS NOT NULL",
    "CREATE INDEX watches_of ON watches (workspace, target, person)",
    "CREATE INDEX watches_ended ON watches (updated_at) WHERE since IS NULL",
];

/// `hold` and `rev` identify an event; `notification_rev` is the number in the notification's id, 0 for the
/// first opening of a request. `fanning`: its fan-out is pending.
fn events() -> TableCreateStatement {
    let kind = "kind IN ('opened','assigned','escalated','taken_over','decided','expired','withdrawn',\
                'run_end','system')";
    Table::create()
        .table("notification_events")
        .col(string("workspace"))
        .col(string("hold"))
        .col(big_integer("rev"))
        .col(big_integer("notification_rev"))
        .col(big_integer("version"))
        .col(big_integer("prior_version"))
        .col(string("kind").check(Expr::cust(kind)))
        .col(boolean("fanning"))
        .col(text("state"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .primary_key(Index::create().col("workspace").col("hold").col("rev"))
        .to_owned()
}

/// `rev` is that of the notification's id. `seq` is the number of the commit that changed the entry last.
fn inbox_entries() -> TableCreateStatement {
    Table::create()
        .table("inbox_entries")
        .col(string("workspace"))
        .col(string("person"))
        .col(string("hold"))
        .col(big_integer("rev"))
        .col(timestamp_with_time_zone("at"))
        .col(timestamp_with_time_zone_null("read_at"))
        .col(big_integer("seq"))
        .col(boolean("watching"))
        .primary_key(
            Index::create()
                .col("workspace")
                .col("person")
                .col("hold")
                .col("rev"),
        )
        .to_owned()
}

/// The number of the last commit that changed inbox entries of a workspace.
fn changes() -> TableCreateStatement {
    Table::create()
        .table("changes")
        .col(string("workspace").primary_key())
        .col(big_integer("seq"))
        .to_owned()
}

/// `target` is the name of a person, the id of a webhook, or empty. `after`: the channels that failed before,
/// as a JSON array. `next_at`: when the next attempt begins. `waits`: why it is pending.
fn deliveries() -> TableCreateStatement {
    let channel = "channel IN ('email','callback','webhook','chat','digest')";
    let priority = "priority IN ('low','normal','high','urgent','critical')";
    let waits = "waits IN ('turn','quiet_hours','retry','answer')";
    Table::create()
        .table("deliveries")
        .col(string("workspace"))
        .col(string("hold"))
        .col(big_integer("rev"))
        .col(string("channel").check(Expr::cust(channel)))
        .col(string("target"))
        .col(string("priority").check(Expr::cust(priority)))
        .col(text("after"))
        .col(string("state").check(Expr::cust("state IN ('pending','sent','failed','dropped')")))
        .col(big_integer("attempts"))
        .col(timestamp_with_time_zone_null("next_at"))
        .col(string_null("waits").check(Expr::cust(waits)))
        .col(text_null("last_error"))
        .col(text_null("receipt"))
        .col(big_integer("version"))
        .col(big_integer("prior_version"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .check(Expr::cust("(state = 'pending') = (next_at IS NOT NULL)"))
        .check(Expr::cust("(state = 'pending') = (waits IS NOT NULL)"))
        .primary_key(
            Index::create()
                .col("workspace")
                .col("hold")
                .col("rev")
                .col("channel")
                .col("target"),
        )
        .to_owned()
}

/// `digest_at`: when the next digest is due.
fn preferences() -> TableCreateStatement {
    Table::create()
        .table("preferences")
        .col(string("workspace"))
        .col(string("person"))
        .col(text("said"))
        .col(timestamp_with_time_zone_null("digest_at"))
        .col(big_integer("version"))
        .col(big_integer("prior_version"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("updated_at"))
        .primary_key(Index::create().col("workspace").col("person"))
        .to_owned()
}

/// `events`: names as a JSON array. A removed webhook stays without its secret while deliveries name it.
/// `configured_version`: the version at which a person changed it last.
fn webhooks() -> TableCreateStatement {
    let disabled = "(status = 'disabled') = (disabled_at IS NOT NULL)";
    Table::create()
        .table("webhooks")
        .col(string("workspace"))
        .col(string("id"))
        .col(text("url"))
        .col(text("events"))
        .col(string("format").check(Expr::cust("format IN ('standard','slack')")))
        .col(text("secret"))
        .col(string("status").check(Expr::cust("status IN ('active','disabled','removed')")))
        .col(string("created_by"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone_null("failing_since"))
        .col(timestamp_with_time_zone_null("disabled_at"))
        .col(text_null("last_error"))
        .col(big_integer("configured_version"))
        .col(big_integer("version"))
        .col(big_integer("prior_version"))
        .col(timestamp_with_time_zone("updated_at"))
        .check(Expr::cust(disabled))
        .primary_key(Index::create().col("workspace").col("id"))
        .to_owned()
}

fn webhook_secrets() -> TableCreateStatement {
    Table::create()
        .table("webhook_secrets")
        .col(string("workspace").primary_key())
        .col(text("secret"))
        .col(big_integer("version"))
        .col(big_integer("prior_version"))
        .col(timestamp_with_time_zone("created_at"))
        .to_owned()
}

/// `target`: `hold_…`, `run_…` or `agent_<name>`. Without `since` the person has stopped watching.
fn watches() -> TableCreateStatement {
    Table::create()
        .table("watches")
        .col(string("workspace"))
        .col(string("person"))
        .col(string("target"))
        .col(timestamp_with_time_zone_null("since"))
        .col(big_integer("version"))
        .col(big_integer("prior_version"))
        .col(timestamp_with_time_zone("updated_at"))
        .primary_key(Index::create().col("workspace").col("person").col("target"))
        .to_owned()
}
