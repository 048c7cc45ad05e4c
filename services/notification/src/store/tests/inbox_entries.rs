//! Inbox entries change in the order of their commits, on both databases.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::notification::{FeedCursor, RequestEventKind};
use holdpoint_ids::{HoldId, NotificationId, UserName, Workspace};
use holdpoint_store::begin_write;
use sea_orm::DatabaseConnection;

use super::super::change_row;
use super::super::inbox_entry_row::{self, ChangedAt, EntryFilter, PageStart};
use super::save_events;
use crate::domain::testing::request_event as fact;
use crate::domain::{FanOutProgress, NewInboxEntries, NotificationEvent, Subject};

/// Who is notified of what, on which tables.
struct Desk<'d> {
    db: &'d DatabaseConnection,
    workspace: Workspace,
    now: DateTime<Utc>,
}

fn note(number: u32) -> NotificationId {
    let mut hold: HoldId = "hold_01920000000070008000000000000001-1".parse().unwrap();
    hold.number = number;
    NotificationId { hold, rev: None }
}

fn person(name: &str) -> UserName {
    name.parse().unwrap()
}

impl Desk<'_> {
    /// One commit of what changes entries, under its number.
    async fn commit(
        &self,
        workspace: &Workspace,
        change: impl AsyncFnOnce(&holdpoint_store::Transaction, i64),
    ) -> i64 {
        let tx = begin_write(self.db).await.unwrap();
        let wanted = BTreeSet::from([workspace]);
        let seq = change_row::next(&tx, &wanted).await.unwrap()[workspace];
        change(&tx, seq).await;
        tx.commit().await.unwrap();
        seq
    }

    async fn notify(&self, workspace: &Workspace, number: u32, people: &[&str]) -> i64 {
        let people: Vec<_> = people.iter().map(|name| person(name)).collect();
        self.commit(workspace, async |tx, seq| {
            let entries = NewInboxEntries {
                workspace: workspace.clone(),
                id: note(number),
                at: self.now + TimeDelta::minutes(i64::from(number)),
                read_at: None,
                watching: false,
                renews: false,
                people,
            };
            inbox_entry_row::insert(tx, &[(&entries, seq)])
                .await
                .unwrap();
        })
        .await
    }

    /// `number of the request, number of the commit, whether it is read`, page by page of one.
    async fn changes(
        &self,
        name: &str,
        mut after: Option<FeedCursor>,
        unread: bool,
    ) -> Vec<(u32, u64, bool)> {
        let (person, mut all) = (person(name), Vec::new());
        loop {
            let filter = EntryFilter {
                workspace: &self.workspace,
                person: &person,
                unread,
                of_requests: false,
                last: after,
                limit: 1,
            };
            let page = inbox_entry_row::changes(self.db, &filter).await.unwrap();
            let Some(row) = page.first() else {
                return all;
            };
            all.push((row.hold.number, row.seq, row.read_at.is_some()));
            let (seq, hold) = (row.seq, row.hold);
            after = Some(FeedCursor {
                seq,
                id: NotificationId { hold, rev: None },
            });
        }
    }

    /// Numbers of the requests, newest first, page by page of one.
    async fn listed(&self, name: &str, unread: bool) -> Vec<u32> {
        let (person, mut all) = (person(name), Vec::new());
        let mut start = None;
        loop {
            let filter = EntryFilter {
                workspace: &self.workspace,
                person: &person,
                unread,
                of_requests: false,
                last: start,
                limit: 1,
            };
            let page = inbox_entry_row::list(self.db, &filter).await.unwrap();
            let Some(row) = page.first() else {
                return all;
            };
            let number = row.hold.number;
            all.push(number);
            start = Some(PageStart {
                at: self.now + TimeDelta::minutes(i64::from(number)),
                id: note(number),
            });
        }
    }

    async fn unread(&self, name: &str, until: Option<u64>) -> u64 {
        let person = person(name);
        inbox_entry_row::unread(self.db, &self.workspace, &person, until)
            .await
            .unwrap()
    }
}

/// People, Deliver 7: numbers rise by one a commit and workspace; what is read or has ended changes last;
/// who has a copy keeps it, and nobody is touched by what happens to another, or in another workspace.
pub(super) async fn change_in_order(db: &DatabaseConnection) {
    let desk = Desk {
        db,
        workspace: "acme".parse().unwrap(),
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    let (acme, other): (_, Workspace) = (&desk.workspace, "other".parse().unwrap());
    assert_eq!(change_row::newest(db, acme).await.unwrap(), 0);
    assert_eq!(desk.notify(acme, 1, &["ada", "bob"]).await, 1);
    assert_eq!(desk.notify(&other, 1, &["ada"]).await, 1);
    assert_eq!(desk.notify(acme, 2, &["ada"]).await, 2);
    assert_eq!(desk.notify(acme, 2, &["ada", "bob"]).await, 3);
    assert_eq!(desk.notify(acme, 3, &["ada"]).await, 4);
    assert_eq!(change_row::newest(db, acme).await.unwrap(), 4);
    let all = [(1, 1, false), (2, 2, false), (3, 4, false)];
    assert_eq!(desk.changes("ada", None, false).await, all);
    assert_eq!(
        desk.changes("bob", None, false).await,
        [(1, 1, false), (2, 3, false)]
    );
    assert_eq!(desk.listed("ada", false).await, [3, 2, 1]);
    assert_eq!(desk.unread("ada", None).await, 3);
    assert_eq!(desk.unread("ada", Some(2)).await, 2);

    let ada = person("ada");
    let later = desk.now + TimeDelta::hours(1);
    desk.commit(acme, async |tx, seq| {
        let changed = ChangedAt { at: later, seq };
        inbox_entry_row::read(tx, acme, &ada, note(1), changed)
            .await
            .unwrap();
    })
    .await;
    let all = [(2, 2, false), (3, 4, false), (1, 5, true)];
    assert_eq!(desk.changes("ada", None, false).await, all);
    assert_eq!(desk.changes("ada", None, true).await, all[..2]);
    desk.commit(acme, async |tx, seq| {
        let changed = ChangedAt { at: later, seq };
        inbox_entry_row::read_all(tx, acme, &ada, Some(2), changed)
            .await
            .unwrap();
    })
    .await;
    let all = [(3, 4, false), (1, 5, true), (2, 6, true)];
    assert_eq!(desk.changes("ada", None, false).await, all);
    assert_eq!(desk.listed("ada", true).await, [3]);
    let first = desk.now + TimeDelta::hours(2);
    desk.commit(acme, async |tx, seq| {
        let ended = [note(1).hold, note(3).hold];
        let changed = ChangedAt { at: first, seq };
        inbox_entry_row::read_holds(tx, acme, &ended, changed)
            .await
            .unwrap();
    })
    .await;
    let all = [(2, 6, true), (1, 7, true), (3, 7, true)];
    assert_eq!(desk.changes("ada", None, false).await, all);
    let rows = inbox_entry_row::load(db, acme, &[(&ada, note(1))])
        .await
        .unwrap();
    assert_eq!(rows[0].read_at, Some(later), "it was read before it ended");
    assert_eq!(desk.unread("bob", None).await, 1, "the other request");
    let some = inbox_entry_row::some_unread(db, &other, &ada, 9)
        .await
        .unwrap();
    assert_eq!(some, 1, "in the other workspace nothing has happened");
}

/// Mend D-9: reminders of one request are one notification for a person, whatever their order. Other
/// notifications of the request stay, and so do reminders of other people.
pub(super) async fn reminders_are_renewed(db: &DatabaseConnection) {
    let workspace: Workspace = "reminded".parse().unwrap();
    let now: DateTime<Utc> = "2026-01-01T00:00:00Z".parse().unwrap();
    let desk = Desk {
        db,
        workspace: workspace.clone(),
        now,
    };
    let events = [
        (1, RequestEventKind::Opened, &["ada", "bob"][..]),
        (2, RequestEventKind::Assigned, &["ada"]),
        (3, RequestEventKind::Escalated, &["ada", "bob"]),
        (7, RequestEventKind::Escalated, &["ada"]),
        (5, RequestEventKind::Escalated, &["ada", "eve"]),
    ];
    for (rev, kind, people) in events {
        let subject = Subject::Request {
            event: Box::new(fact(rev, kind, &[])),
            reopened: false,
        };
        let event = NotificationEvent::new(&workspace, subject, FanOutProgress::Done);
        let people: Vec<_> = people.iter().map(|name| person(name)).collect();
        desk.commit(&workspace, async |tx, seq| {
            assert_eq!(save_events(tx, &[(&event, 0)], now).await, []);
            let entries = NewInboxEntries {
                workspace: workspace.clone(),
                id: event.id(),
                at: now,
                read_at: None,
                watching: false,
                renews: kind == RequestEventKind::Escalated,
                people,
            };
            inbox_entry_row::insert(tx, &[(&entries, seq)])
                .await
                .unwrap();
        })
        .await;
    }
    for (name, expected) in [("ada", &[7, 2, 0][..]), ("bob", &[3, 0]), ("eve", &[5])] {
        let person = person(name);
        let filter = EntryFilter {
            workspace: &workspace,
            person: &person,
            unread: true,
            of_requests: false,
            last: None,
            limit: 10,
        };
        let rows = inbox_entry_row::list(db, &filter).await.unwrap();
        let revs: Vec<_> = rows.iter().map(|row| row.rev).collect();
        assert_eq!(revs, expected, "{name}");
    }
}
