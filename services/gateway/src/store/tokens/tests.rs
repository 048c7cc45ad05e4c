//! The same on SQLite and on Postgres.

use chrono::TimeDelta;
use holdpoint_migrations::gateway::Migrator;
use holdpoint_store::{Location, migrate, open_readers, open_writer};

use super::*;

fn at() -> DateTime<Utc> {
    "2026-01-01T00:00:00.123Z".parse().unwrap()
}

fn row_of(token: &str, expires_at: DateTime<Utc>) -> row::ActiveModel {
    row::ActiveModel {
        workspace: Set("acme".to_owned()),
        user_name: Set("owner".to_owned()),
        token_sha256: Set(digest(token)),
        created_at: Set(at()),
        expires_at: Set(Some(expires_at)),
        ..Default::default()
    }
}

async fn tokens_open_their_workspace_until_they_expire(location: &Location) {
    migrate::<Migrator>(location).await.unwrap();
    migrate::<Migrator>(location).await.unwrap();
    let writer = open_writer(location).await.unwrap();
    let readers = open_readers(location, 2).await.unwrap();
    let acme: Workspace = "acme".parse().unwrap();

    let first = mint(&writer, &acme, "owner", at()).await.unwrap();
    let second = mint(&writer, &acme, "owner", at()).await.unwrap();
    assert_ne!(first, second);
    let owner = Holder {
        workspace: "acme".to_owned(),
        user: "owner".to_owned(),
    };
    for token in [&first, &second] {
        assert_eq!(
            holder(&readers, token, at()).await.unwrap(),
            Some(owner.clone())
        );
    }
    for unknown in [
        "",
        "hp_",
        "hp_x",
        &first[3..],
        &format!("{first}x"),
        &first.to_uppercase(),
    ] {
        assert_eq!(
            holder(&readers, unknown, at()).await.unwrap(),
            None,
            "{unknown}"
        );
    }

    let end = at() + TimeDelta::days(1);
    row::Entity::insert(row_of("hp_short", end))
        .exec_without_returning(&writer)
        .await
        .unwrap();
    let just_before = end - TimeDelta::milliseconds(1);
    assert_eq!(
        holder(&readers, "hp_short", just_before).await.unwrap(),
        Some(owner)
    );
    assert_eq!(holder(&readers, "hp_short", end).await.unwrap(), None);

    let twice = row_of("hp_short", end);
    row::Entity::insert(twice)
        .exec_without_returning(&writer)
        .await
        .unwrap_err();
    let mut clear = row_of("hp_clear", end);
    clear.token_sha256 = Set("hp_clear".to_owned());
    row::Entity::insert(clear)
        .exec_without_returning(&writer)
        .await
        .unwrap_err();
}

#[tokio::test]
async fn on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(dir.path().join("gateway.db"));
    tokens_open_their_workspace_until_they_expire(&location).await;
}

#[tokio::test]
async fn on_postgres() {
    let Some(postgres) = holdpoint_testkit::postgres().await.unwrap() else {
        return;
    };
    let url = postgres.url.clone();
    let location = Location::Postgres {
        url,
        schema: "gateway".to_owned(),
    };
    tokens_open_their_workspace_until_they_expire(&location).await;
}
