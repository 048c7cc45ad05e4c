//! Tokens, the same on SQLite and on Postgres.

use chrono::TimeDelta;

use holdpoint_clock::Clock;

use super::*;
use crate::app::Tables;
use crate::auth::token_lookups::TokenLookups;

fn at() -> DateTime<Utc> {
    "2026-01-01T00:00:00.123Z".parse().unwrap()
}

fn of(user: &str, role: Option<Role>) -> Holder {
    Holder {
        workspace: "acme".parse().unwrap(),
        user: user.parse().unwrap(),
        role,
    }
}

fn new(holder: Holder) -> NewToken {
    NewToken {
        holder,
        expires_at: None,
        printed: false,
        asked: None,
        made_by: None,
    }
}

async fn made(tables: &Tables, new: &NewToken) -> (TokenId, String) {
    match mint(&tables.writer, new, at()).await.unwrap() {
        Minted::Token(id, token) => (id, token),
        other @ (Minted::KeyReused | Minted::KeySpent) => panic!("{other:?}"),
    }
}

pub(in crate::store) async fn tokens_open_their_workspace_until_they_expire(tables: &Tables) {
    let (_, first) = made(tables, &new(of("owner", None))).await;
    let (_, second) = made(tables, &new(of("owner", Some(Role::Agent)))).await;
    assert_ne!(first, second);
    let readers = &tables.readers;
    let found = holder(readers, &first, at()).await.unwrap();
    assert_eq!(found.unwrap().1, of("owner", None));
    let found = holder(readers, &second, at()).await.unwrap();
    assert_eq!(found.unwrap().1, of("owner", Some(Role::Agent)));
    for unknown in [
        "",
        "hp_",
        "hp_x",
        &first[3..],
        &format!("{first}x"),
        &first.to_uppercase(),
    ] {
        let found = holder(readers, unknown, at()).await.unwrap();
        assert_eq!(found, None, "{unknown}");
    }

    let end = at() + TimeDelta::days(1);
    let short = NewToken {
        expires_at: Some(end),
        ..new(of("ada", None))
    };
    let (_, short) = made(tables, &short).await;
    let just_before = end - TimeDelta::milliseconds(1);
    assert!(
        holder(readers, &short, just_before)
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(holder(readers, &short, end).await.unwrap(), None);
    let acme: Workspace = "acme".parse().unwrap();
    assert_eq!(
        list(readers, &acme, (None, 9), at()).await.unwrap().len(),
        3
    );
    assert_eq!(list(readers, &acme, (None, 9), end).await.unwrap().len(), 2);
}

pub(in crate::store) async fn a_key_makes_one_token_and_revoking_ends_it(tables: &Tables) {
    let asked = |digest: &str| IdempotencyKey {
        key: "k".to_owned(),
        digest: digest.to_owned(),
    };
    let keyed = |digest: &str| NewToken {
        asked: Some(asked(digest)),
        ..new(of("keyed", None))
    };
    let (id, lost) = made(tables, &keyed("1")).await;
    let (again, token) = made(tables, &keyed("1")).await;
    assert_eq!(id, again);
    let readers = &tables.readers;
    assert_eq!(holder(readers, &lost, at()).await.unwrap(), None);
    assert!(holder(readers, &token, at()).await.unwrap().is_some());
    let other = mint(&tables.writer, &keyed("2"), at()).await.unwrap();
    assert_eq!(other, Minted::KeyReused);
    // A-H4: as long as any reply is repeated, and no longer.
    let late = at() + chrono::TimeDelta::hours(24);
    let late = mint(&tables.writer, &keyed("1"), late).await.unwrap();
    assert_eq!(late, Minted::KeySpent);

    let (acme, stranger) = ("acme".parse().unwrap(), "other".parse().unwrap());
    assert!(!revoke(&tables.writer, &stranger, id).await.unwrap());
    assert!(revoke(&tables.writer, &acme, id).await.unwrap());
    assert!(!revoke(&tables.writer, &acme, id).await.unwrap());
    assert_eq!(holder(readers, &token, at()).await.unwrap(), None);
}

pub(in crate::store) async fn printed_tokens_do_not_pile_up(tables: &Tables) {
    let printed = NewToken {
        printed: true,
        ..new(of("printed", None))
    };
    let acme: Workspace = "acme".parse().unwrap();
    let (_, first) = made(tables, &printed).await;
    for _ in 1..PRINTED_MAX {
        made(tables, &printed).await;
    }
    tidy(&tables.writer, &acme, at()).await.unwrap();
    let readers = &tables.readers;
    assert!(holder(readers, &first, at()).await.unwrap().is_some());
    made(tables, &printed).await;
    let kept = new(of("asked", None));
    let (_, kept) = made(tables, &kept).await;
    tidy(&tables.writer, &acme, at()).await.unwrap();
    assert_eq!(holder(readers, &first, at()).await.unwrap(), None);
    assert!(holder(readers, &kept, at()).await.unwrap().is_some());
}

/// Lookups that wait together are answered together, each with its own token. A cancelled one costs the others nothing,
/// and a revoked token is not found any more.
pub(in crate::store) async fn lookups_that_wait_together_find_their_own(tables: &Tables) {
    let (lookups, clock) = (TokenLookups::default(), Clock::system());
    let find = |token: &'static str| lookups.find(&tables.readers, token, &clock);
    let mut tokens: Vec<(TokenId, &'static str, Option<Holder>)> = Vec::new();
    for user in ["ada", "bob", "eva", "ada"] {
        let (id, token) = made(tables, &new(of(user, None))).await;
        tokens.push((id, token.leak(), Some(of(user, None))));
    }
    tokens.push((TokenId(0), "hp_unknown", None));
    tokens.push((TokenId(0), "no token", None));
    let all = tokens.iter().map(|(_, token, _)| find(token));
    let found = futures_util::future::join_all(all).await;
    for (found, (_, token, expected)) in found.into_iter().zip(&tokens) {
        let holder = found.unwrap().map(|(holder, _user)| holder);
        assert_eq!(holder, *expected, "{token}");
    }
    let (id, ada, _) = tokens[0].clone();
    let (_, bob, _) = tokens[1];
    let mut reads = Box::pin(find(ada));
    let mut waits = Box::pin(find(bob));
    assert!(futures_util::poll!(&mut reads).is_pending());
    assert!(futures_util::poll!(&mut waits).is_pending());
    drop(reads);
    let (holder, _) = waits.await.unwrap().unwrap();
    assert_eq!(holder.user.as_str(), "bob");
    let workspace: Workspace = "acme".parse().unwrap();
    assert!(revoke(&tables.writer, &workspace, id).await.unwrap());
    assert_eq!(find(ada).await.unwrap(), None);
}
