//! What is new for one person, in the order in which it changed, from wherever they were.

use holdpoint_contracts::notification::{
    CountUnread, FeedCursor, FeedPage, GetNotificationFeed, ReadNotification, ReadNotifications,
    RequestEventKind,
};
use holdpoint_contracts::subject;
use holdpoint_ids::HoldId;
use holdpoint_testkit::until;

use super::bench::{Bench, PATIENCE, acme, people};
use crate::domain::testing::request_event as fact;

/// That a request was asked of everybody in `ops`, or what became of it.
fn of(
    number: u32,
    rev: u64,
    kind: RequestEventKind,
) -> holdpoint_contracts::notification::RequestEvent {
    let mut fact = fact(rev, kind, &["@role.ops"]);
    fact.id.number = number;
    fact.request.id = fact.id;
    fact
}

impl Bench {
    async fn changes(&self, person: &str, after: Option<FeedCursor>, limit: u64) -> FeedPage {
        let query = GetNotificationFeed {
            person: person.parse().unwrap(),
            after,
            unread: false,
            limit,
        };
        self.bus.query(&acme(), &query).await.unwrap()
    }

    /// All that is new, in pages of two.
    async fn all_changes(
        &self,
        person: &str,
        mut after: Option<FeedCursor>,
    ) -> Vec<(HoldId, bool)> {
        let mut all = Vec::new();
        loop {
            let page = self.changes(person, after, 2).await;
            for item in page.items {
                assert!(Some(item.mark) > after, "in order, and none twice");
                assert!(item.mark.seq <= page.newest);
                assert_eq!(item.mark.id, item.notification.id);
                after = Some(item.mark);
                let is_read = item.notification.read_at.is_some();
                all.push((item.notification.id.hold, is_read));
            }
            if !page.more {
                return all;
            }
        }
    }

    async fn unread(&self, person: &str) -> u64 {
        let person = person.parse().unwrap();
        let query = CountUnread { person };
        self.bus.query(&acme(), &query).await.unwrap().count
    }
}

/// People, Deliver 7: what came, was read and has ended is notified in that order, each as it now is; nobody
/// is notified of another's.
#[tokio::test(flavor = "multi_thread")]
async fn what_changed_is_new_and_only_that() {
    let bench = Bench::start(people(&[("ada", "ops"), ("bob", "ops"), ("zoe", "member")])).await;
    for number in 1..=3 {
        bench
            .note(vec![of(number, 1, RequestEventKind::Opened)])
            .await;
        let count = usize::try_from(number).unwrap();
        bench.until_notified("ada", count).await;
        bench.until_notified("bob", count).await;
    }
    let numbers = |all: Vec<(HoldId, bool)>| -> Vec<_> {
        all.into_iter()
            .map(|(hold, read)| (hold.number, read))
            .collect()
    };
    let first = bench.all_changes("ada", None).await;
    assert_eq!(numbers(first), [(1, false), (2, false), (3, false)]);
    assert!(bench.all_changes("zoe", None).await.is_empty());
    let seen = bench
        .changes("ada", None, 3)
        .await
        .items
        .pop()
        .unwrap()
        .mark;
    assert!(bench.all_changes("ada", Some(seen)).await.is_empty());

    let id = bench.changes("ada", None, 1).await.items[0].notification.id;
    let read = bench.by("ada", ReadNotification { id });
    bench.bus.ask(&acme(), &read).await.unwrap();
    assert_eq!(
        numbers(bench.all_changes("ada", Some(seen)).await),
        [(1, true)]
    );
    assert!(
        bench.all_changes("bob", Some(seen)).await.is_empty(),
        "bob has not"
    );
    bench.bus.ask(&acme(), &read).await.unwrap();
    assert_eq!(bench.all_changes("ada", Some(seen)).await.len(), 1, "once");

    // The end changes entries that were read, too.
    let ends = [1, 2].map(|number| of(number, 2, RequestEventKind::Decided));
    bench.note(ends.to_vec()).await;
    for person in ["ada", "bob"] {
        let changes = bench.all_changes(person, Some(seen)).await;
        assert_eq!(numbers(changes), [(1, true), (2, true)], "{person}");
        assert_eq!(bench.unread(person).await, 1);
    }
    bench.end().await;
}

/// All are read at once, but for what came since somebody looked; a repetition changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn all_are_read_but_what_came_since() {
    let bench = Bench::start(people(&[("ada", "ops"), ("bob", "ops")])).await;
    bench
        .note(vec![
            of(1, 1, RequestEventKind::Opened),
            of(2, 1, RequestEventKind::Opened),
        ])
        .await;
    bench.until_notified("ada", 2).await;
    bench.until_notified("bob", 2).await;
    let newest = bench.changes("ada", None, 1).await.newest;
    bench.note(vec![of(3, 1, RequestEventKind::Opened)]).await;
    bench.until_notified("ada", 3).await;
    let nudged = subject::live(&acme(), "notification");
    let mut nudges = bench.bus.client().subscribe(nudged).await.unwrap();
    let all = |until| ReadNotifications {
        person: "ada".parse().unwrap(),
        until,
    };
    for (until, read, left) in [(Some(newest), 2, 1), (Some(newest), 0, 1), (None, 1, 0)] {
        let answer = bench.bus.ask(&acme(), &bench.by("ada", all(until))).await;
        assert_eq!(answer.unwrap().read, read, "{until:?}");
        assert_eq!(bench.unread("ada").await, left);
    }
    assert_eq!(bench.unread("bob").await, 3);
    assert_eq!(bench.list("ada", false).await.len(), 3, "they stay");
    let nudge = until(PATIENCE, "readers are nudged", async || {
        futures_util::StreamExt::next(&mut nudges).await
    });
    let nudge = nudge.await.unwrap().payload;
    assert_eq!(nudge.as_ref(), br#"{"people":["ada"]}"#);

    let refused = bench.bus.ask(&acme(), &bench.by("bob", all(None))).await;
    assert_eq!(refused.unwrap_err().status, 403, "nobody reads for another");
    bench.end().await;
}
