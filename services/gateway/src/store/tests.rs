//! The gateway's tables, the same on SQLite and on Postgres; migrations against entities.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::handoff::{UserChange, UserView};
use holdpoint_contracts::{IdempotencyKey, Problem, Reply};
use holdpoint_ids::CommandId;
use holdpoint_migrations::gateway::Migrator;
use holdpoint_store::{Location, is_sqlite, migrate, open_readers, open_writer};
use holdpoint_user_directory::table as users;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, Iterable, Statement};
use serde_json::{Value, json};

use super::commands::{self, Accepted, Stored};
use super::workspaces::Reserved;
use super::{hooks, rehearsals, sessions, tokens, unmatched_replies, workspaces};
use crate::app::Tables;

fn at() -> DateTime<Utc> {
    "2026-01-01T00:00:00.123Z".parse().unwrap()
}

fn fact(seq: u64, name: &str, role: &str, version: u64) -> UserChange {
    UserChange {
        seq,
        workspace: "acme".parse().unwrap(),
        user: UserView {
            name: name.parse().unwrap(),
            email: None,
            roles: vec![role.parse().unwrap()],
            active: role != "gone",
            version,
        },
    }
}

/// A copy keeps the highest version, in whatever order facts come.
async fn the_copy_of_users_only_goes_forward(tables: &Tables) {
    let (readers, writer) = (&tables.readers, &tables.writer);
    let acme = "acme".parse().unwrap();
    let ada = "ada".parse().unwrap();
    let role = async || {
        let user = users::find(readers, &acme, &ada).await.unwrap().unwrap();
        user.roles[0].to_string()
    };
    assert_eq!(users::position(readers).await.unwrap(), 0);
    assert!(!users::any_in(readers, &acme).await.unwrap());
    let both = [fact(1, "ada", "member", 1), fact(2, "ada", "admin", 2)];
    users::apply(writer, &both).await.unwrap();
    assert_eq!(
        (users::position(readers).await.unwrap(), role().await),
        (2, "admin".to_owned())
    );
    users::apply(writer, &both[..1]).await.unwrap();
    assert_eq!(
        (users::position(readers).await.unwrap(), role().await),
        (2, "admin".to_owned())
    );
    // What the owner has just said of one user comes ahead of its number.
    let newer = fact(0, "ada", "gone", 3);
    users::apply(writer, &[newer]).await.unwrap();
    let gone = users::find(readers, &acme, &ada).await.unwrap().unwrap();
    assert!(!gone.active);
    assert_eq!(
        users::position(readers).await.unwrap(),
        2,
        "only a fact moves it"
    );
    let nobody = "nobody".parse().unwrap();
    assert_eq!(users::find(readers, &acme, &nobody).await.unwrap(), None);
    assert!(users::any_in(readers, &acme).await.unwrap());
}

async fn one_maker_of_a_workspace_wins(tables: &Tables) {
    let name = "new".parse().unwrap();
    let bound = (1, at());
    for (maker, first) in [("a", "a"), ("b", "a"), ("a", "a")] {
        let made_by = workspaces::reserve_name(&tables.writer, &name, maker, bound).await;
        assert_eq!(made_by.unwrap(), Reserved::By(first.to_owned()));
    }
    // Mend A-L4: one that is there is found all the same.
    let more = "more".parse().unwrap();
    for (max, reserved) in [(1, Reserved::Full), (2, Reserved::By("a".to_owned()))] {
        let made_by = workspaces::reserve_name(&tables.writer, &more, "a", (max, at())).await;
        assert_eq!(made_by.unwrap(), reserved);
    }
}

fn stored(key: &str, digest: &str) -> Stored {
    Stored {
        id: CommandId::fresh(),
        workspace: "acme".parse().unwrap(),
        caller: "ada".parse().unwrap(),
        roles: vec!["member".parse().unwrap()],
        service: "executor".to_owned(),
        subject: "stream".to_owned(),
        ask_subject: "ask".to_owned(),
        envelope: json!({"command": {}}),
        key: IdempotencyKey {
            key: key.to_owned(),
            digest: digest.to_owned(),
        },
        after: None,
        created_at: at(),
    }
}

async fn a_command_is_kept_until_it_has_its_first_answer(tables: &Tables) {
    let (readers, writer) = (&tables.readers, &tables.writer);
    let (first, second) = (stored("a", "1"), stored("b", "1"));
    let accept = async |command: &Stored| commands::accept(writer, command, 2).await.unwrap();
    assert_eq!(accept(&first).await, Accepted::Under(first.id));
    assert_eq!(accept(&stored("a", "1")).await, Accepted::Under(first.id));
    assert_eq!(accept(&stored("a", "2")).await, Accepted::KeyReused);
    assert_eq!(accept(&second).await, Accepted::Under(second.id));
    assert_eq!(accept(&stored("c", "1")).await, Accepted::Full);
    // Mend B-12: the limit is of one workspace and one service.
    let elsewhere = Stored {
        workspace: "other".parse().unwrap(),
        ..stored("d", "1")
    };
    assert_eq!(accept(&elsewhere).await, Accepted::Under(elsewhere.id));
    commands::done(writer, elsewhere.id, &Reply::Ok(json!(1)), at())
        .await
        .unwrap();

    commands::tried(writer, &[first.id]).await.unwrap();
    let open = commands::open(readers, 9).await.unwrap();
    assert_eq!(
        open,
        [second.clone(), first.clone()],
        "who was tried least comes first"
    );

    let answer = Reply::Ok(json!(1));
    let late = Reply::Problem(Problem::not_found("gone"));
    for reply in [&answer, &late] {
        commands::done(writer, first.id, reply, at()).await.unwrap();
    }
    let progress = commands::progress(readers, first.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (progress.workspace.as_str(), progress.answer),
        ("acme", Some(answer))
    );
    assert_eq!(commands::open(readers, 9).await.unwrap().len(), 1);
    commands::forget(writer, at()).await.unwrap();
    assert!(
        commands::progress(readers, first.id)
            .await
            .unwrap()
            .is_some()
    );
    let later = at() + TimeDelta::milliseconds(1);
    commands::forget(writer, later).await.unwrap();
    assert_eq!(commands::progress(readers, first.id).await.unwrap(), None);
    let waits = commands::progress(readers, second.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(waits.answer, None::<Reply<Value>>);
}

/// Migrated columns are those of the entity, and as nullable.
async fn same_columns<E: EntityTrait>(tables: &Tables, entity: E) {
    let db = &tables.readers;
    let table = entity.table_name().to_owned();
    let sql = if is_sqlite(db) {
        format!("SELECT name, \"notnull\" = 0 AS nullable FROM pragma_table_info('{table}')")
    } else {
        format!(
            "SELECT column_name::text AS name, is_nullable = 'YES' AS nullable FROM information_schema.columns \
             WHERE table_schema = current_schema() AND table_name = '{table}'"
        )
    };
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let rows = db.query_all_raw(statement).await.unwrap();
    let migrated: BTreeSet<(String, bool)> = rows
        .iter()
        .map(|row| {
            let nullable = row.try_get("", "nullable").unwrap();
            (row.try_get("", "name").unwrap(), nullable)
        })
        .collect();
    let named = E::Column::iter().map(|column| {
        use sea_orm::IdenStatic as _;
        (column.as_str().to_owned(), column.def().is_null())
    });
    assert_eq!(migrated, named.collect(), "table {table}");
}

async fn all(location: &Location) {
    migrate::<Migrator>(location).await.unwrap();
    migrate::<Migrator>(location).await.unwrap();
    let tables = Tables {
        writer: open_writer(location).await.unwrap(),
        readers: open_readers(location, 2).await.unwrap(),
    };
    same_columns(&tables, tokens::row::Entity).await;
    same_columns(&tables, sessions::row::session::Entity).await;
    same_columns(&tables, sessions::row::login::Entity).await;
    same_columns(&tables, users::row::user::Entity).await;
    same_columns(&tables, users::row::role::Entity).await;
    same_columns(&tables, users::row::position::Entity).await;
    same_columns(&tables, workspaces::row::Entity).await;
    same_columns(&tables, hooks::row::Entity).await;
    same_columns(&tables, commands::row::Entity).await;
    same_columns(&tables, unmatched_replies::row::Entity).await;
    same_columns(&tables, rehearsals::row::rehearsal::Entity).await;
    same_columns(&tables, rehearsals::row::run::Entity).await;
    same_columns(&tables, rehearsals::row::erasures::Entity).await;
    tokens::tests::tokens_open_their_workspace_until_they_expire(&tables).await;
    tokens::tests::a_key_makes_one_token_and_revoking_ends_it(&tables).await;
    tokens::tests::printed_tokens_do_not_pile_up(&tables).await;
    tokens::tests::lookups_that_wait_together_find_their_own(&tables).await;
    sessions::tests::a_session_ends_by_time_by_word_and_with_its_token(&tables).await;
    sessions::tests::a_browser_has_a_workspace_that_it_shows(&tables).await;
    sessions::tests::a_link_opens_once(&tables).await;
    sessions::tests::ones_sessions_are_listed_and_ended(&tables).await;
    sessions::tests::sessions_do_not_pile_up(&tables).await;
    hooks::tests::a_hook_is_one_of_its_name_and_goes_when_it_is_removed(&tables).await;
    unmatched_replies::tests::an_unmatched_reply_is_listed_until_it_is_closed(&tables).await;
    unmatched_replies::tests::unmatched_replies_do_not_pile_up(&tables).await;
    rehearsals::tests::a_rehearsal_runs_until_it_is_ended(&tables).await;
    rehearsals::tests::a_silent_rehearsal_is_interrupted(&tables).await;
    rehearsals::tests::rehearsals_do_not_pile_up(&tables).await;
    the_copy_of_users_only_goes_forward(&tables).await;
    one_maker_of_a_workspace_wins(&tables).await;
    a_command_is_kept_until_it_has_its_first_answer(&tables).await;
}

#[tokio::test]
async fn on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    all(&Location::Sqlite(dir.path().join("gateway.db"))).await;
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
    all(&location).await;
}
