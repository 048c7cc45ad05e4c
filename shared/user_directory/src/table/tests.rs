use holdpoint_store::{Location, migrate, open_writer};
use sea_orm::DatabaseConnection;

use super::*;

async fn copy() -> (tempfile::TempDir, DatabaseConnection) {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(folder.path().join("copy.db"));
    migrate::<holdpoint_migrations::gateway::Migrator>(&location)
        .await
        .unwrap();
    (folder, open_writer(&location).await.unwrap())
}

fn fact(seq: u64, name: &str, roles: &[&str], active: bool) -> UserChange {
    UserChange {
        seq,
        workspace: "acme".parse().unwrap(),
        user: UserView {
            name: name.parse().unwrap(),
            email: Some(format!("{name}@example.org")),
            roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
            active,
            version: seq,
        },
    }
}

/// M-5: whoever has a role is found by pages, in order; who was disabled or lost it is not.
#[tokio::test]
async fn the_members_of_a_role_are_those_that_are_active_now() {
    let (_folder, db) = copy().await;
    let facts: Vec<_> = (1..=7)
        .map(|n| fact(n, &format!("u{n}"), &["ops", "member"], true))
        .collect();
    apply(&db, &facts).await.unwrap();
    let later = [
        fact(8, "u2", &["ops"], false),
        fact(9, "u4", &["member"], true),
    ];
    apply(&db, &later).await.unwrap();
    // Facts of before come again and change nothing.
    apply(&db, &facts).await.unwrap();
    let (acme, ops) = ("acme".parse().unwrap(), "ops".parse().unwrap());
    let page = async |after: Option<&UserName>| {
        let names = members(&db, &acme, &ops, after, 3).await.unwrap();
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(page(None).await, ["u1", "u3", "u5"]);
    let after = "u5".parse().unwrap();
    assert_eq!(page(Some(&after)).await, ["u6", "u7"]);
    assert_eq!(position(&db).await.unwrap(), 9);
    let gone = find(&db, &acme, &"u2".parse().unwrap()).await.unwrap();
    assert!(!gone.unwrap().active);
}
