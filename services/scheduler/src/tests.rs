//! The whole scheduler, from the desired state to the command that notifies its owner.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::StreamExt;
use holdpoint_bus::{Outgoing, StreamUse};
use holdpoint_clock::Clock;
use holdpoint_contracts::scheduler::{DueBucket, SetTimer, SetTimerReply};
use holdpoint_contracts::subject::{self, Lane};

use crate::buckets::CONSUMER;
use holdpoint_store::Location;
use holdpoint_testkit::until;
use sea_orm::ConnectionTrait as _;

use fixture::{DAY_MS, Fixture, SOON, hold, ms, workspace};

mod fixture;

/// S0-AC8: the first timer is due within the margin, and the server's schedule delivers the second one.
#[tokio::test(flavor = "multi_thread")]
async fn a_timer_fires_once_soon_after_its_instant() {
    let fixture = Fixture::with(Clock::system()).await;
    let running = fixture.start().await;
    let (near, far) = (hold(), hold());
    let now = fixture.clock.now();
    assert_eq!(
        fixture.set_one(&far, 1, now + ms(4_200)).await,
        SetTimerReply::Set
    );
    assert_eq!(
        fixture.set_one(&near, 1, now + ms(300)).await,
        SetTimerReply::Set
    );
    assert_eq!(
        fixture.set_one(&near, 1, now + ms(1)).await,
        SetTimerReply::Stale
    );
    let fired = fixture.wait_for_fired(2).await;
    assert_eq!((fired[0].0.as_str(), fired[1].0.as_str()), (&*near, &*far));
    for (_, rev, due, came) in &fired {
        println!("late by {} ms", (*came - due).num_milliseconds());
        assert_eq!(*rev, 1);
        assert!(
            *came >= *due && *came - due < ms(1_500),
            "{due} came {came}"
        );
    }
    // A second delivery of a timer would precede the delivery of a later timer.
    fixture
        .set_one(&hold(), 1, fixture.clock.now() + ms(50))
        .await;
    assert_eq!(fixture.wait_for_fired(3).await.len(), 3);
    running.end().await;
}

/// The publisher retries until a message is stored, so that a refused schedule would stop it.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_schedule_is_accepted_and_delivers_its_bucket() {
    let fixture = Fixture::with(Clock::system()).await;
    fixture.bus.provide_stream(StreamUse::Timers).await.unwrap();
    let body = DueBucket {
        shard: 0,
        second: 1,
    };
    let message = Outgoing::json(subject::timer_bucket(0, 1), &body).unwrap();
    let message = message
        .header("Nats-Schedule", "@at 1970-01-01T00:00:00.000Z")
        .header("Nats-Schedule-Target", subject::timer_due(0))
        .header("Nats-Schedule-TTL", "60s");
    fixture.bus.publish_all(vec![message]).await.unwrap();
    let pull = fixture
        .bus
        .pull(StreamUse::Timers, "test", subject::TIMERS_DUE_FILTER, SOON);
    let mut messages = pull.await.unwrap();
    let came = tokio::time::timeout(SOON, messages.next()).await.unwrap();
    let came: DueBucket = serde_json::from_slice(&came.unwrap().unwrap().payload).unwrap();
    assert_eq!(came, body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_within_one_second_fires_each_timer_once() {
    let fixture = Fixture::with(Clock::system()).await;
    let running = fixture.start().await;
    let second = fixture.clock.now() + ms(3_000);
    for chunk in 0..5_i64 {
        let timers = (0..1_000_i64).map(|n| SetTimer {
            id: hold(),
            rev: 1,
            due: Some(second + ms(chunk * 200 + n / 5)),
        });
        fixture.set(timers.collect()).await;
    }
    let mut fired = fixture.wait_for_fired(5_000).await;
    let mut late: Vec<_> = fired
        .iter()
        .map(|it| (it.3 - it.2).num_milliseconds())
        .collect();
    late.sort_unstable();
    println!(
        "late by {} ms at the median, {} at 99 %, {} at most",
        late[2_500], late[4_950], late[4_999]
    );
    assert!(late[0] >= 0, "no timer is early");
    fired.sort();
    fired.dedup_by(|one, two| one.0 == two.0);
    assert_eq!(fired.len(), 5_000);
    running.end().await;
}

/// S0-AC8
#[tokio::test(flavor = "multi_thread")]
async fn a_moved_clock_fires_a_timer_of_ninety_days_at_its_millisecond() {
    let fixture = Fixture::with(Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap())).await;
    let running = fixture.start().await;
    let id = hold();
    let due = fixture.clock.now() + TimeDelta::days(90);
    fixture.set_one(&id, 1, due).await;
    let before = fixture.advance(90 * DAY_MS - 1, 5_000).await;
    assert_eq!((before.now, before.unsettled), (due - ms(1), vec![]));
    assert_eq!(fixture.fired(), []);
    let after = fixture.advance(1, 5_000).await;
    assert_eq!((after.now, after.unsettled), (due, vec![]));
    assert_eq!(fixture.fired(), [(id, 1, due, due)]);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_move_fires_every_timer_at_its_own_instant() {
    let fixture = Fixture::with(Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap())).await;
    let running = fixture.start().await;
    let now = fixture.clock.now();
    let timers = [3, 1, 2, 1, 50_000, 900_000].map(|n| SetTimer {
        id: hold(),
        rev: 1,
        due: Some(now + ms(n)),
    });
    fixture.set(timers.to_vec()).await;
    // A timer that is due by the clock fires without a move, as with the real clock.
    fixture.set_one(&hold(), 1, now).await;
    assert_eq!(fixture.wait_for_fired(1).await[0].3, now);
    let answer = fixture.advance(DAY_MS, 5_000).await;
    assert_eq!(answer.unsettled, Vec::<String>::new());
    assert_eq!(answer.now, now + TimeDelta::days(1));
    let fired = fixture.fired();
    assert_eq!(fired.len(), 7);
    assert!(
        fired.iter().all(|(_, _, due, came)| due == came),
        "{fired:?}"
    );
    assert!(fired.is_sorted_by_key(|it| it.2));
    running.end().await;
}

/// A timer may be decided before the clock moves, and stored after the due timers were read.
#[tokio::test(flavor = "multi_thread")]
async fn a_timer_without_a_bucket_fires_during_the_wait_for_quiescence() {
    let fixture = Fixture::with(Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap())).await;
    let running = fixture.start().await;
    let busy = Arc::new(AtomicUsize::new(1));
    running.kernels.watch("a test", Arc::clone(&busy));
    let due = fixture.clock.now() + ms(60_000);
    fixture.set_one("node_n", 1, due).await;
    let passes = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        fixture.clock.move_to(due + ms(1)).unwrap();
        busy.store(0, Ordering::Release);
    };
    let (answer, ()) = tokio::join!(fixture.advance(3_600_000, 3_000), passes);
    assert_eq!(answer.unsettled, Vec::<String>::new());
    assert_eq!(fixture.fired().len(), 1);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_no_worker_takes_does_not_delay_the_clock() {
    let fixture = Fixture::with(Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap())).await;
    let running = fixture.start().await;
    let step = Outgoing::json(subject::steps(&workspace(), "nobody", Lane::Normal), &()).unwrap();
    fixture.bus.publish_all(vec![step]).await.unwrap();
    let now = fixture.clock.now();
    let timers = (1..=20).map(|n| SetTimer {
        id: hold(),
        rev: 1,
        due: Some(now + ms(n)),
    });
    fixture.set(timers.collect()).await;
    let began = tokio::time::Instant::now();
    let answer = fixture.advance(1_000, 1_500).await;
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(answer.settled, "work is unfinished: {:?}", answer.unsettled);
    assert_eq!(answer.now, now + ms(1_000));
    assert_eq!(fixture.fired().len(), 20);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_scheduler_fires_timers_that_came_due_while_it_was_down() {
    let fixture = Fixture::with(Clock::system()).await;
    let running = fixture.start().await;
    let id = hold();
    let due = fixture.clock.now() + ms(400);
    fixture.set_one(&id, 1, due).await;
    running.end().await;
    assert_eq!(fixture.fired(), []);
    fixture.clock.reached(due).await;
    let running = fixture.start().await;
    assert_eq!(fixture.wait_for_fired(1).await[0].0, id);
    running.end().await;

    let fixture = Fixture::with(Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap())).await;
    let running = fixture.start().await;
    let due = fixture.clock.now() + TimeDelta::days(3);
    fixture.set_one(&id, 1, due).await;
    running.end().await;
    fixture.clock.move_to(due).unwrap();
    let running = fixture.start().await;
    assert_eq!(fixture.wait_for_fired(1).await, [(id, 1, due, due)]);
    running.end().await;
}

/// S0-AC8, S0-T5: at 2^31 and 2^32 milliseconds (24.8 and 49.7 days) and at the longest wait.
#[tokio::test(flavor = "multi_thread")]
async fn long_timers_fire_at_their_millisecond() {
    let fixture = Fixture::with(Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap())).await;
    let running = fixture.start().await;
    let began = fixture.clock.now();
    let lengths = [i64::from(i32::MAX), i64::from(u32::MAX), 7_776_000_000];
    let timers: Vec<_> = lengths
        .iter()
        .map(|length| SetTimer {
            id: hold(),
            rev: 1,
            due: Some(began + ms(*length)),
        })
        .collect();
    fixture.set(timers.clone()).await;
    for (count, length) in lengths.iter().enumerate() {
        let left = began + ms(length - 1) - fixture.clock.now();
        fixture
            .advance(left.num_milliseconds().unsigned_abs(), 5_000)
            .await;
        assert_eq!(
            fixture.fired().len(),
            count,
            "one millisecond before {length}"
        );
        fixture.advance(1, 5_000).await;
        let due = timers[count].due.unwrap();
        let fired = (timers[count].id.clone(), 1, due, due);
        assert_eq!(fixture.fired().last(), Some(&fired));
    }
    assert_eq!(fixture.fired().len(), lengths.len());
    running.end().await;
}

/// A change of the machine's clock fires no timer early and loses or doubles none.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_or_forward_neither_loses_nor_doubles_a_timer() {
    let fixture = Fixture::with(Clock::system()).await;
    let running = fixture.start().await;
    let (soon, later) = (hold(), hold());
    let now = fixture.clock.now();
    fixture.set_one(&soon, 1, now + ms(2_500)).await;
    fixture.set_one(&later, 1, now + TimeDelta::hours(20)).await;
    // The bucket is armed for an instant that this clock reaches an hour later.
    fixture.clock.step(-TimeDelta::hours(1));
    let is_delivered = async || {
        let left = fixture
            .bus
            .backlog(StreamUse::Timers, CONSUMER)
            .await
            .ok()?;
        (left.unacked > 0).then_some(())
    };
    until(SOON, "the bucket to be delivered early", is_delivered)
        .await
        .unwrap();
    assert_eq!(fixture.fired(), []);
    fixture.clock.step(TimeDelta::hours(1));
    fixture.wait_for_fired(1).await;
    fixture.clock.step(TimeDelta::days(1));
    let fired = fixture.wait_for_fired(2).await;
    assert_eq!([&fired[0].0, &fired[1].0], [&soon, &later]);
    assert!(
        fired.iter().all(|(_, _, due, came)| came >= due),
        "{fired:?}"
    );
    // A second delivery of a timer would precede the delivery of a later timer.
    fixture
        .set_one(&hold(), 1, fixture.clock.now() + ms(50))
        .await;
    assert_eq!(fixture.wait_for_fired(3).await.len(), 3);
    running.end().await;
}

/// The row is the truth: a timer without its schedule fires late.
#[tokio::test(flavor = "multi_thread")]
async fn a_timer_whose_schedule_is_lost_is_fired_by_the_sweep() {
    let fixture = Fixture::with(Clock::system()).await;
    let running = fixture.start().await;
    let id = hold();
    let due = fixture.clock.now() + ms(2_500);
    fixture.set_one(&id, 1, due).await;
    let context = async_nats::jetstream::new(fixture.bus.client().clone());
    let timers = context.get_stream(subject::TIMERS).await;
    timers.unwrap().purge().await.unwrap();
    let fired = fixture.wait_for_fired(1).await;
    assert_eq!((&fired[0].0, fired[0].2), (&id, due));
    running.end().await;
}

/// Mend B-12: schedules of a wiped stream are armed again, so that only timers that are due at once are late.
#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_stream_is_armed_again() {
    let fixture = Fixture::with(Clock::system()).await;
    let running = fixture.start().await;
    for hours in [1, 2, 3] {
        let due = fixture.clock.now() + TimeDelta::hours(hours);
        fixture.set_one(&hold(), 1, due).await;
    }
    let timers = StreamUse::Timers;
    assert_eq!(fixture.bus.stored(timers).await.unwrap(), 3);
    let context = async_nats::jetstream::new(fixture.bus.client().clone());
    let stream = context.get_stream(subject::TIMERS).await;
    stream.unwrap().purge().await.unwrap();
    let armed = until(SOON, "the schedules to be stored again", async || {
        (fixture.bus.stored(timers).await.ok()? == 3).then_some(())
    });
    armed.await.unwrap();
    running.end().await;
}

/// The service keeps pending timers in memory. It reads a row again that another program changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_another_program_changed_is_read_again() {
    let fixture = Fixture::with(Clock::system()).await;
    let running = fixture.start().await;
    let (id, later) = (hold(), fixture.clock.now() + TimeDelta::hours(1));
    let reply = fixture.set_one(&id, 1, later).await;
    assert_eq!(reply, SetTimerReply::Set);
    let tables = holdpoint_store::open_writer(&fixture.store).await.unwrap();
    let change = "UPDATE timers SET version = version + 5";
    tables.execute_unprepared(change).await.unwrap();
    tables.close().await.unwrap();
    let reply = fixture.set_one(&id, 2, fixture.clock.now()).await;
    assert_eq!(reply, SetTimerReply::Set);
    assert_eq!(fixture.wait_for_fired(1).await[0].1, 2);
    running.end().await;
}

/// Two replicas on one Postgres: each timer fires once, and one replica takes over the timers of the other.
#[tokio::test(flavor = "multi_thread")]
async fn two_schedulers_share_the_timers_and_one_takes_over() {
    let Some(postgres) = holdpoint_testkit::postgres().await.unwrap() else {
        return;
    };
    let mut fixture = Fixture::with(Clock::system()).await;
    fixture.store = Location::Postgres {
        url: postgres.url.clone(),
        schema: "scheduler".to_owned(),
    };
    let (one, other) = (fixture.start().await, fixture.start().await);
    let now = fixture.clock.now();
    let timers: Vec<_> = (0..300)
        .map(|n| SetTimer {
            id: hold(),
            rev: 1,
            due: Some(now + ms(1_500 + n * 20)),
        })
        .collect();
    fixture.set(timers.clone()).await;
    fixture.wait_for_fired(50).await;
    one.end().await;
    let fired = fixture.wait_for_fired(300).await;
    let ids: std::collections::BTreeSet<_> = fired.iter().map(|it| it.0.as_str()).collect();
    assert_eq!((ids.len(), fired.len()), (300, 300), "each once");
    assert!(fired.iter().all(|(_, _, due, came)| came >= due));
    other.end().await;
}
