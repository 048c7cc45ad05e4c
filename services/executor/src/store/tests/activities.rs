//! What was said to and by a contact: each thing once, the oldest go, and nothing of who is forgotten.

use holdpoint_contracts::contact::{Activity, ActivityKind};
use holdpoint_contracts::executor::ListContacts;
use holdpoint_ids::{ContactId, Workspace};
use sea_orm::DatabaseConnection;
use serde_json::Map;

use super::{now, record_all, save_all, sqlite};
use crate::domain::contact::{ACTIVITIES_KEPT, Contact};
use crate::domain::{Aggregate, Effect, Fact};
use crate::store::{activity_row, contact_list};

fn place() -> (Workspace, ContactId) {
    ("acme".parse().unwrap(), "ada".parse().unwrap())
}

fn said(id: &str) -> Effect {
    let (workspace, contact) = place();
    let activity = Activity {
        kind: ActivityKind::Note,
        subject: None,
        text: id.to_owned(),
        at: now(),
        message_id: None,
    };
    let id = id.to_owned();
    Effect::Activity {
        workspace,
        contact,
        id,
        activity,
    }
}

async fn texts(db: &DatabaseConnection) -> Vec<String> {
    let (workspace, contact) = place();
    let found = activity_row::newest(db, &workspace, &contact, 1_000).await;
    let found = found.unwrap().into_iter();
    found.map(|activity| activity.text).collect()
}

#[tokio::test]
async fn the_oldest_activities_go_one_by_one() {
    let (_folder, db) = sqlite().await;
    trimmed(&db).await;
}

#[tokio::test]
async fn a_forgotten_contact_keeps_no_activity() {
    let (_folder, db) = sqlite().await;
    forgotten(&db).await;
}

#[tokio::test]
async fn a_sent_mail_names_its_contact() {
    let (_folder, db) = sqlite().await;
    threads(&db).await;
}

/// Words 5: a mail of another workspace names nothing, and neither does a received mail, because its sender chose the
/// id.
pub(super) async fn threads(db: &DatabaseConnection) {
    let (workspace, contact) = place();
    let known = Contact {
        workspace: workspace.clone(),
        id: contact,
        version: 1,
        fields: Map::new(),
        deleted: false,
        erasure: None,
    };
    save_all(db, &[(Aggregate::Contact(known), 0)]).await;
    let mut mails = Vec::new();
    for (id, kind) in [
        ("sent", ActivityKind::EmailOut),
        ("received", ActivityKind::EmailIn),
    ] {
        let mut effect = said(id);
        if let Effect::Activity { activity, .. } = &mut effect {
            activity.kind = kind;
            activity.message_id = Some(id.to_owned());
        }
        mails.push(effect);
    }
    record_all(db, &mails).await;
    let mails = activity_row::mails_of(db, &workspace, &place().1).await;
    let mails = mails.unwrap().into_iter().map(|(_, id)| id);
    assert_eq!(mails.collect::<Vec<_>>(), ["sent", "received"]);
    let other: Workspace = "other".parse().unwrap();
    for (workspace, ids, expected) in [
        (&workspace, &["sent"][..], 1),
        (&workspace, &["unknown", "sent"], 1),
        (&workspace, &["received"], 0),
        (&workspace, &["sen_"], 0),
        (&other, &["sent"], 0),
    ] {
        let wanted = ListContacts {
            limit: 2,
            cursor: None,
            email: None,
            message_ids: ids.iter().map(|&id| id.to_owned()).collect(),
        };
        let found = contact_list::list(db, workspace, &wanted).await.unwrap();
        assert_eq!(found.len(), expected, "{ids:?}");
    }
}

/// An import gives many the same instant: those beyond the limit go, and no more.
pub(super) async fn trimmed(db: &DatabaseConnection) {
    let imported: Vec<_> = (0..300)
        .map(|number| said(&format!("{number:03}")))
        .collect();
    record_all(db, &imported).await;
    let left = texts(db).await;
    assert_eq!(left.len() as u64, ACTIVITIES_KEPT);
    assert_eq!((&*left[0], &*left[199]), ("299", "100"));
    let (workspace, contact) = place();
    let found = activity_row::find(db, &[(&workspace, &contact)]).await;
    let (_, sent) = found.unwrap().pop().unwrap();
    let Fact::Value(sent) = sent else {
        panic!("{sent:?}")
    };
    assert_eq!(sent["newest"][49]["text"], "299");
    assert_eq!(
        sent["older"],
        ACTIVITIES_KEPT - 50,
        "S0-T2: told of, and not shown"
    );
}

/// Neither what was said in the same batch nor a late result brings a forgotten contact back.
pub(super) async fn forgotten(db: &DatabaseConnection) {
    let (workspace, contact) = place();
    let forget = Effect::ForgetActivities {
        workspace: workspace.clone(),
        contact: contact.clone(),
    };
    record_all(db, &[said("before")]).await;
    record_all(db, &[said("beside"), forget.clone(), said("again")]).await;
    assert_eq!(texts(db).await, ["again"], "said of one that was put anew");
    let gone = Contact {
        workspace,
        id: contact,
        version: 1,
        fields: Map::new(),
        deleted: true,
        erasure: None,
    };
    save_all(db, &[(Aggregate::Contact(gone), 0)]).await;
    record_all(db, &[forget]).await;
    record_all(db, &[said("late")]).await;
    assert_eq!(texts(db).await, [""; 0]);
}
