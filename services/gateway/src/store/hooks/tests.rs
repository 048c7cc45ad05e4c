//! One hook of a name, in its workspace alone.

use chrono::{DateTime, Utc};
use holdpoint_auth::WebhookSecret;

use super::{Added, Hook, add, find, list, remove};
use crate::app::Tables;

pub(crate) async fn a_hook_is_one_of_its_name_and_goes_when_it_is_removed(tables: &Tables) {
    let at: DateTime<Utc> = "2026-01-01T00:00:00Z".parse().unwrap();
    let (acme, other) = ("acme".parse().unwrap(), "other".parse().unwrap());
    let hook = |name: &str| Hook {
        name: name.parse().unwrap(),
        secret: WebhookSecret::fresh(),
        made_by: "ada".parse().unwrap(),
        created_at: at,
    };
    let crm = hook("crm");
    let (writer, readers) = (&tables.writer, &tables.readers);
    assert_eq!(
        add(writer, &acme, &crm, None, 2).await.unwrap(),
        Added::Done
    );
    let again = add(writer, &acme, &hook("crm"), None, 2).await.unwrap();
    assert_eq!(again, Added::NameTaken);
    assert_eq!(
        add(writer, &acme, &hook("b"), None, 2).await.unwrap(),
        Added::Done
    );
    assert_eq!(
        add(writer, &acme, &hook("c"), None, 2).await.unwrap(),
        Added::Full
    );
    let found = find(readers, &acme, &crm.name).await.unwrap();
    assert_eq!(found.as_ref(), Some(&crm), "the first one stays");
    assert_eq!(find(readers, &other, &crm.name).await.unwrap(), None);
    assert_eq!(list(readers, &acme).await.unwrap().len(), 2);
    assert!(remove(writer, &acme, &crm.name).await.unwrap());
    assert!(!remove(writer, &acme, &crm.name).await.unwrap());
}
