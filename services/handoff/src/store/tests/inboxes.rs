//! The requests in each user's inbox: addressed, delegated and snoozed ones.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::DatabaseConnection;

use super::{acme, boxed, filter, now, open, request, save_all, user};
use crate::domain::{Request, User};
use crate::store::{Filter, Snoozed, list_requests};

/// People 8, the inbox: a user finds delegated requests, and the owners find requests without recipients. Snoozed
/// requests are found only by a list that asks for them.
pub(super) async fn inboxes(db: &DatabaseConnection) {
    let put = |number: u32, to: &[&str], change: &dyn Fn(&mut Request)| {
        let mut one = request("acme", number, open());
        one.spec.as_mut().unwrap().to = to.iter().map(|to| (*to).to_owned()).collect();
        change(&mut one);
        (boxed(one), 0)
    };
    let delegated =
        |one: &mut Request| one.progress.additional_deciders = vec!["@user.bob".to_owned()];
    let states = [
        put(1, &["@user.alice"], &|one| {
            one.progress.assignee = Some("alice".parse().unwrap());
            delegated(one);
        }),
        put(2, &[], &delegated),
        put(3, &["@role.ops"], &|one| {
            one.progress
                .snooze(&"bob".parse().unwrap(), now(), now() + TimeDelta::hours(1));
        }),
    ];
    assert_eq!(save_all(db, &states).await, []);
    let acme = acme();
    let of = async |user: &User, at: Option<(bool, DateTime<Utc>)>| {
        let snoozed = at.map(|(is_wanted, now)| Snoozed {
            is_wanted,
            by: Some(&user.name),
            now,
        });
        let wanted = Filter {
            assignee: Some(user),
            snoozed,
            ..filter(&acme)
        };
        let found = list_requests(db, &wanted).await.unwrap();
        found.iter().map(|one| one.id.number).collect::<Vec<_>>()
    };
    let (alice, bob) = (user("alice", &[]), user("bob", &["ops"]));
    let olga = user("olga", &["owner"]);
    assert_eq!(of(&alice, None).await, [1]);
    assert_eq!(of(&bob, None).await, [3, 2, 1]);
    assert_eq!(of(&olga, None).await, [2], "the owners keep it");
    let later = now() + TimeDelta::hours(1);
    assert_eq!(of(&bob, Some((true, now()))).await, [3]);
    assert_eq!(of(&bob, Some((false, now()))).await, [2, 1]);
    assert_eq!(of(&bob, Some((true, later))).await, [0; 0]);
    assert_eq!(of(&bob, Some((false, later))).await, [3, 2, 1]);
    let omar = user("omar", &["ops"]);
    assert_eq!(
        of(&omar, Some((true, now()))).await,
        [0; 0],
        "only bob snoozed it"
    );
    assert_eq!(of(&omar, Some((false, now()))).await, [3]);
}
