use holdpoint_store::{Location, migrate, open_writer};
use sea_orm::DatabaseConnection;

use super::*;

async fn directory() -> (tempfile::TempDir, DatabaseConnection) {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(folder.path().join("directory.db"));
    migrate::<holdpoint_migrations::gateway::Migrator>(&location)
        .await
        .unwrap();
    (folder, open_writer(&location).await.unwrap())
}

fn change(seq: u64, name: &str, roles: &[&str], active: bool) -> UserChange {
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

/// M-5: the active users with a role are found page by page, in the order of names.
#[tokio::test]
async fn only_active_users_are_members_of_a_role() {
    let (_folder, db) = directory().await;
    let changes: Vec<_> = (1..=7)
        .map(|n| change(n, &format!("u{n}"), &["ops", "member"], true))
        .collect();
    apply(&db, &changes).await.unwrap();
    let later = [
        change(8, "u2", &["ops"], false),
        change(9, "u4", &["member"], true),
    ];
    apply(&db, &later).await.unwrap();
    // A repetition of earlier changes changes nothing.
    apply(&db, &changes).await.unwrap();
    let (acme, ops) = ("acme".parse().unwrap(), "ops".parse().unwrap());
    let page = async |after: Option<&UserName>| {
        let names = members(&db, &acme, &ops, after, 3).await.unwrap();
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(page(None).await, ["u1", "u3", "u5"]);
    let after = "u5".parse().unwrap();
    assert_eq!(page(Some(&after)).await, ["u6", "u7"]);
    let (sales, member) = ("sales".parse().unwrap(), "member".parse().unwrap());
    let staffed = staffed_roles(&db, &acme, &[&ops, &sales, &member]).await;
    assert_eq!(staffed.unwrap(), [member, ops].into());
    let known = active(&db, &acme, 5).await.unwrap();
    let known: Vec<_> = known.iter().map(|user| user.name.as_str()).collect();
    assert_eq!(known, ["u1", "u3", "u4", "u5", "u6"], "the first ones");
    assert_eq!(position(&db).await.unwrap(), 9);
    let disabled = find(&db, &acme, &"u2".parse().unwrap()).await.unwrap();
    assert!(!disabled.unwrap().active);
}
