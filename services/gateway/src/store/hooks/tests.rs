//! A hook has a unique name in its workspace, and is stored with the answer to keep.

use chrono::{DateTime, Utc};
use holdpoint_auth::WebhookSecret;

use holdpoint_contracts::IdempotencyKey;
use holdpoint_ids::UserName;
use serde_json::json;

use super::{Added, Hook, add, find, list, remove};
use crate::app::Tables;
use crate::store::commands::{GivenAnswer, KeyUse, find_answer};

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
    let keys = ["crm", "b"].map(|name| IdempotencyKey {
        key: format!("hook {name}"),
        digest: String::new(),
    });
    let (user, made): (UserName, _) = ("ada".parse().unwrap(), json!("made"));
    let answers = keys.each_ref().map(|key| GivenAnswer {
        workspace: &acme,
        caller: &user,
        key,
        answer: &made,
        at,
    });
    let (writer, readers) = (&tables.writer, &tables.readers);
    assert_eq!(
        add(writer, &acme, &crm, None, 2).await.unwrap(),
        Added::Done
    );
    let again = add(writer, &acme, &hook("crm"), Some(&answers[0]), 2)
        .await
        .unwrap();
    assert_eq!(again, Added::NameTaken);
    assert_eq!(
        add(writer, &acme, &hook("b"), Some(&answers[1]), 2)
            .await
            .unwrap(),
        Added::Done
    );
    assert_eq!(
        add(writer, &acme, &hook("c"), None, 2).await.unwrap(),
        Added::Full
    );
    // Hook and answer are stored together or not at all.
    for (key, expected) in keys
        .iter()
        .zip([KeyUse::New, KeyUse::Answered(made.clone())])
    {
        assert_eq!(find_answer(writer, key).await.unwrap(), expected);
    }
    let found = find(readers, &acme, &crm.name).await.unwrap();
    assert_eq!(found.as_ref(), Some(&crm), "the first one stays");
    assert_eq!(find(readers, &other, &crm.name).await.unwrap(), None);
    assert_eq!(list(readers, &acme).await.unwrap().len(), 2);
    assert!(remove(writer, &acme, &crm.name).await.unwrap());
    assert!(!remove(writer, &acme, &crm.name).await.unwrap());
}
