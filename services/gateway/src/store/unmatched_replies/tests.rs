//! A reply is listed once, in its workspace, and until it is closed, dropped or forgotten.

use chrono::{DateTime, Utc};
use holdpoint_contracts::IdempotencyKey;
use holdpoint_ids::Workspace;

use super::{
    InboundReply, KEPT_MAX, NewReply, Stored, UnmatchedId, add, close, erase, find, find_by_key,
    forget, list,
};
use crate::app::Tables;

fn at() -> DateTime<Utc> {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

async fn added(tables: &Tables, workspace: &str, key: &IdempotencyKey) -> UnmatchedId {
    let reply = InboundReply {
        from: Some("Ada@x.example".to_owned()).filter(|_| key.key.contains("Ada")),
        subject: None,
        text: key.key.clone(),
        message_id: None,
        in_reply_to: None,
        sentiment: None,
        at: at(),
    };
    let new = NewReply {
        workspace: &workspace.parse().unwrap(),
        hook: &"mail".parse().unwrap(),
        key,
        reply: &reply,
        received_at: at(),
    };
    add(&tables.writer, &new).await.unwrap()
}

fn key(name: &str) -> IdempotencyKey {
    IdempotencyKey {
        key: name.to_owned(),
        digest: "d".to_owned(),
    }
}

/// Words 5
pub(crate) async fn an_unmatched_reply_is_listed_until_it_is_closed(tables: &Tables) {
    let (writer, readers) = (&tables.writer, &tables.readers);
    let (acme, other): (Workspace, Workspace) = ("acme".parse().unwrap(), "other".parse().unwrap());
    let [first, second] = [
        added(tables, "acme", &key("a")).await,
        added(tables, "acme", &key("b")).await,
    ];
    assert_eq!(added(tables, "acme", &key("a")).await, first, "one entry");
    let texts = async |before, limit| {
        let page = list(readers, &acme, before, limit).await.unwrap();
        let texts = page.into_iter().map(|one| one.reply.text);
        texts.collect::<Vec<_>>()
    };
    assert_eq!(texts(None, 9).await, ["b", "a"]);
    assert_eq!(texts(None, 1).await, ["b"]);
    assert_eq!(texts(Some(second), 9).await, ["a"]);
    assert_eq!(list(readers, &other, None, 9).await.unwrap(), []);
    assert_eq!(find(readers, &other, first).await.unwrap(), None);
    assert!(!close(writer, &other, first, None).await.unwrap());

    let ada = "ada".parse().unwrap();
    assert!(close(writer, &acme, first, Some(&ada)).await.unwrap());
    assert!(!close(writer, &acme, first, None).await.unwrap());
    let assigned = Stored::Assigned(ada);
    let found = find_by_key(readers, &key("a")).await.unwrap();
    assert_eq!(found, Some(("d".to_owned(), assigned.clone())));
    assert_eq!(added(tables, "acme", &key("a")).await, first);
    assert_eq!(find(readers, &acme, first).await.unwrap(), Some(assigned));
    assert!(close(writer, &acme, second, None).await.unwrap());
    let removed = Some(Stored::Removed(second));
    assert_eq!(find(readers, &acme, second).await.unwrap(), removed);
    assert_eq!(texts(None, 9).await, [""; 0]);

    // An erasure finds the replies of a sender, in its workspace.
    let named = added(tables, "acme", &key("of Ada")).await;
    let other_named = added(tables, "other", &key("of Ada, too")).await;
    erase(writer, &acme, "da@x.example").await.unwrap();
    let kept = find(readers, &acme, named).await.unwrap();
    assert!(matches!(kept, Some(Stored::Listed(_))), "another sender");
    erase(writer, &acme, "Ada@x.example").await.unwrap();
    assert_eq!(
        find(readers, &acme, named).await.unwrap(),
        Some(Stored::Removed(named))
    );
    let kept = find(readers, &other, other_named).await.unwrap();
    assert!(matches!(kept, Some(Stored::Listed(_))));

    forget(writer, at()).await.unwrap();
    assert_eq!(find(readers, &acme, second).await.unwrap(), removed);
    let later = at() + chrono::TimeDelta::milliseconds(1);
    forget(writer, later).await.unwrap();
    assert_eq!(find(readers, &acme, second).await.unwrap(), None);
}

/// Words 5
pub(crate) async fn unmatched_replies_do_not_pile_up(tables: &Tables) {
    let acme = "acme".parse().unwrap();
    let elsewhere = added(tables, "other", &key("other")).await;
    for number in 0..KEPT_MAX + 2 {
        added(tables, "acme", &key(&number.to_string())).await;
    }
    let kept = list(&tables.readers, &acme, None, 2 * KEPT_MAX)
        .await
        .unwrap();
    assert_eq!(kept.len() as u64, KEPT_MAX);
    assert_eq!(
        kept.last().unwrap().reply.text,
        "2",
        "the oldest are dropped"
    );
    let other = "other".parse().unwrap();
    let left = find(&tables.readers, &other, elsewhere).await.unwrap();
    assert!(matches!(left, Some(Stored::Listed(_))));
}
