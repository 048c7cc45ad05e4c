//! The names of the fields of contacts are counted, so that a warning reads no contact.

use holdpoint_ids::Workspace;
use sea_orm::ConnectionTrait;

use super::*;

#[tokio::test]
async fn names_of_fields_are_counted() {
    let (_dir, db) = sqlite().await;
    are_counted(&db).await;
}

#[tokio::test]
async fn names_of_older_contacts_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    of_older_contacts(&Location::Sqlite(dir.path().join("executor.db"))).await;
}

fn change(workspace: &str, added: &[&str], removed: &[&str]) -> Effect {
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Effect::ContactFields {
        workspace: workspace.parse().unwrap(),
        added: texts(added),
        removed: texts(removed),
    }
}

async fn names(db: &DatabaseConnection, workspace: &str, limit: u64) -> Vec<String> {
    let workspace: Workspace = workspace.parse().unwrap();
    contact_field_names(db, &workspace, limit).await.unwrap()
}

pub(super) async fn are_counted(db: &DatabaseConnection) {
    let many: Vec<_> = (0..2_000).map(|number| format!("n{number:04}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    record_all(
        db,
        &[
            change("acme", &["email", "city"], &[]),
            change("acme", &["email", "ländle"], &[]),
            change("acme", &["gone"], &[]),
            change("acme", &[], &["gone"]),
            change("other", &many, &[]),
        ],
    )
    .await;
    assert_eq!(names(db, "acme", 9).await, ["city", "email", "ländle"]);
    assert_eq!(names(db, "other", 9_000).await, many);
    record_all(db, &[change("acme", &[], &["email", "city"])]).await;
    assert_eq!(
        names(db, "acme", 9).await,
        ["email", "ländle"],
        "one has an email"
    );
    record_all(db, &[change("acme", &[], &["email", "ländle"])]).await;
    assert!(names(db, "acme", 9).await.is_empty());
    assert_eq!(names(db, "other", 3).await, many[..3]);
}

/// A database of an earlier release has contacts before it counts.
pub(super) async fn of_older_contacts(location: &Location) {
    let db = &prepared(location).await;
    let with = |id: &str, fields: serde_json::Value| {
        let contact = Contact {
            id: id.parse().unwrap(),
            fields: fields.as_object().unwrap().clone(),
            ..contact(id)
        };
        (Aggregate::Contact(contact), 0)
    };
    let deleted = Contact {
        deleted: true,
        ..contact("eve")
    };
    let states = [
        with("ada", json!({ "email": "a@x.example", "x".repeat(200): 1 })),
        with("bob", json!({ "email": "b@x.example", "city": "Lisbon" })),
        (Aggregate::Contact(deleted), 0),
    ];
    assert!(save_all(db, &states).await.is_empty());
    db.execute_unprepared("DROP TABLE contact_fields")
        .await
        .unwrap();
    let last = "DELETE FROM executor_migrations WHERE version LIKE '%contact_fields'";
    db.execute_unprepared(last).await.unwrap();
    let db = &prepared(location).await;
    assert_eq!(names(db, "acme", 9).await, ["city", "email"]);
    record_all(db, &[change("acme", &[], &["email", "city"])]).await;
    assert_eq!(names(db, "acme", 9).await, ["email"]);
}
