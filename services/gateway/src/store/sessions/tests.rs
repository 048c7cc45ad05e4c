//! Sessions and one-time links, the same on SQLite and on Postgres.

use holdpoint_auth::Role;

use super::*;
use crate::app::Tables;
use crate::store::tokens::{Minted, NewToken, mint, revoke};

fn at() -> DateTime<Utc> {
    "2026-01-01T00:00:00.123Z".parse().unwrap()
}

fn of(workspace: &str, user: &str) -> Holder {
    Holder {
        workspace: workspace.parse().unwrap(),
        user: user.parse().unwrap(),
        role: None,
    }
}

async fn found(tables: &Tables, secret: &str, now: DateTime<Utc>) -> Option<Session> {
    find((&tables.readers, &tables.writer), secret, now)
        .await
        .unwrap()
}

pub(in crate::store) async fn a_session_ends_by_time_by_word_and_with_its_token(tables: &Tables) {
    let writer = &tables.writer;
    let holder = Holder {
        role: Some(Role::Viewer),
        ..of("acme", "sue")
    };
    let secret = open(writer, &holder, None, None, at()).await.unwrap();
    let session = found(tables, &secret, at()).await.unwrap();
    assert_eq!((session.holder, session.others), (holder.clone(), vec![]));
    for unknown in ["", "x", &secret[1..], &"x".repeat(10_000)] {
        assert_eq!(found(tables, unknown, at()).await, None, "{unknown}");
    }

    // Idle for seven days, or thirty days old.
    let just = TimeDelta::milliseconds(1);
    assert!(found(tables, &secret, at() + IDLE - just).await.is_some());
    assert!(
        found(tables, &secret, at() + IDLE + IDLE - just * 2)
            .await
            .is_some()
    );
    assert_eq!(found(tables, &secret, at() + IDLE * 3).await, None);
    let used = open(writer, &holder, None, None, at()).await.unwrap();
    for days in 1..30 {
        let session = found(tables, &used, at() + TimeDelta::days(days)).await;
        assert!(session.is_some(), "day {days}");
    }
    assert_eq!(found(tables, &used, at() + LASTS).await, None);

    let over = open(writer, &holder, None, None, at()).await.unwrap();
    end(writer, &over).await.unwrap();
    assert_eq!(found(tables, &over, at()).await, None);

    let new = NewToken {
        holder: of("acme", "sue"),
        expires_at: None,
        printed: false,
        made_by: None,
        asked: None,
    };
    let Minted::Token(id, _) = mint(writer, &new, at()).await.unwrap() else {
        panic!("key reused")
    };
    let of_token = open(writer, &holder, Some(id), None, at()).await.unwrap();
    assert!(found(tables, &of_token, at()).await.is_some());
    revoke(writer, &holder.workspace, id).await.unwrap();
    assert_eq!(found(tables, &of_token, at()).await, None);
}

pub(in crate::store) async fn a_browser_has_a_workspace_that_it_shows(tables: &Tables) {
    let writer = &tables.writer;
    let (acme, other) = (of("acme", "tim"), of("other", "owner"));
    let first = open(writer, &acme, None, None, at()).await.unwrap();
    let both = open(writer, &other, None, Some(&first), at())
        .await
        .unwrap();
    assert_eq!(
        found(tables, &first, at()).await,
        None,
        "the old one is over"
    );
    let shown = async || {
        let session = found(tables, &both, at()).await.unwrap();
        (session.holder.workspace.to_string(), session.others.len())
    };
    assert_eq!(shown().await, ("other".to_owned(), 1));
    show(writer, &both, &acme.workspace).await.unwrap();
    assert_eq!(shown().await, ("acme".to_owned(), 1));
    show(writer, &both, &"foreign".parse().unwrap())
        .await
        .unwrap();
    assert_eq!(shown().await, ("acme".to_owned(), 1));
    let again = open(writer, &acme, None, Some(&both), at()).await.unwrap();
    let session = found(tables, &again, at()).await.unwrap();
    assert_eq!(session.others, [other.workspace]);
}

/// Mend A-L7: a session that a log-in link opened has no token, and is ended by itself.
pub(in crate::store) async fn ones_sessions_are_listed_and_ended(tables: &Tables) {
    let (readers, writer) = (&tables.readers, &tables.writer);
    let zoe = of("acme", "zoe");
    let viewer = Holder {
        role: Some(Role::Viewer),
        ..zoe.clone()
    };
    let of_link = open(writer, &zoe, None, None, at()).await.unwrap();
    let new = NewToken {
        holder: viewer.clone(),
        expires_at: None,
        printed: false,
        made_by: None,
        asked: None,
    };
    let Minted::Token(token, _) = mint(writer, &new, at()).await.unwrap() else {
        panic!("key reused")
    };
    let later = at() + TimeDelta::days(1);
    let narrowed = open(writer, &viewer, Some(token), None, later).await;
    let narrowed = narrowed.unwrap();
    // The same user's browser in another workspace, and another user's here.
    let elsewhere = of("other", "zoe");
    let both = open(writer, &elsewhere, None, Some(&of_link), later).await;
    let both = both.unwrap();
    let bob = open(writer, &of("acme", "bob"), None, None, at()).await;
    let bob = bob.unwrap();

    let whose = (&zoe.workspace, &zoe.user);
    let listed = async |now| list(readers, whose, Some(&both), now).await.unwrap();
    let all = listed(later).await;
    let shown: Vec<_> = all
        .iter()
        .map(|one| {
            (
                one.role.as_deref(),
                one.token,
                one.created_at,
                one.is_this_one,
            )
        })
        .collect();
    let expected = [
        (Some("viewer"), Some(token), later, false),
        (None, None, at(), true),
    ];
    assert_eq!(shown, expected);
    assert_eq!(
        listed(at() + IDLE).await.len(),
        1,
        "what is over is not shown"
    );

    let bobs = list(
        readers,
        (&zoe.workspace, &of("acme", "bob").user),
        None,
        later,
    )
    .await;
    let bobs = bobs.unwrap()[0].id;
    assert_eq!(end_own(writer, whose, Some(bobs)).await.unwrap(), 0);
    assert!(found(tables, &bob, later).await.is_some(), "nobody else's");
    assert_eq!(end_own(writer, whose, Some(all[1].id)).await.unwrap(), 1);
    let left = found(tables, &both, later).await.unwrap();
    assert_eq!(left.holder, elsewhere, "the other workspace stays");
    assert!(found(tables, &narrowed, later).await.is_some());
    assert_eq!(end_own(writer, whose, None).await.unwrap(), 1);
    assert_eq!(found(tables, &narrowed, later).await, None);
    assert_eq!(listed(later).await, []);
}

pub(in crate::store) async fn a_link_opens_once(tables: &Tables) {
    let (readers, writer) = (&tables.readers, &tables.writer);
    let owner = of("acme", "owner");
    let make = async || {
        make_login(writer, &owner.workspace, &owner.user, at())
            .await
            .unwrap()
    };
    let (old, code) = (make().await, make().await);
    assert_eq!(login(readers, &old, at()).await.unwrap(), None);
    for _twice in 0..2 {
        let shown = login(readers, &code, at()).await.unwrap();
        assert_eq!(shown, Some(owner.clone()), "looking uses nothing up");
    }
    let (one, two) = tokio::join!(
        take_login(writer, &code, at()),
        take_login(writer, &code, at())
    );
    let taken = [one.unwrap(), two.unwrap()];
    assert_eq!(taken.iter().flatten().count(), 1);
    let late = make().await;
    let after = at() + LOGIN_LASTS;
    assert_eq!(take_login(writer, &late, after).await.unwrap(), None);
}

pub(in crate::store) async fn sessions_do_not_pile_up(tables: &Tables) {
    let many = of("acme", "many");
    let opened = async || open(&tables.writer, &many, None, None, at()).await.unwrap();
    let first = opened().await;
    for _ in 1..PER_USER_MAX {
        opened().await;
    }
    assert!(found(tables, &first, at()).await.is_some());
    opened().await;
    assert_eq!(found(tables, &first, at()).await, None);
}
