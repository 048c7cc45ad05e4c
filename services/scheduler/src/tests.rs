//! The whole scheduler, from the desired state to the command that tells its owner.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::StreamExt;
use holdpoint_bus::{Outgoing, StreamUse};
use holdpoint_clock::Clock;
use holdpoint_contracts::scheduler::{DueBucket, SetTimer, SetTimerReply};
use holdpoint_contracts::subject;

use crate::buckets::CONSUMER;
use holdpoint_store::Location;
use holdpoint_testkit::until;

use fixture::{DAY_MS, Fixture, SOON, hold, ms, workspace};

mod fixture;

/// S0-AC8: one within the margin, one that the server's schedule brings.
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
    let told = fixture.told_of(2).await;
    assert_eq!((told[0].0.as_str(), told[1].0.as_str()), (&*near, &*far));
    for (_, rev, due, came) in &told {
        println!("late by {} ms", (*came - due).num_milliseconds());
        assert_eq!(*rev, 1);
        assert!(
            *came >= *due && *came - due < ms(1_500),
            "{due} came {came}"
        );
    }
    // Were one to come twice, it would come before a later one.
    fixture
        .set_one(&hold(), 1, fixture.clock.now() + ms(50))
        .await;
    assert_eq!(fixture.told_of(3).await.len(), 3);
    running.end().await;
}

/// The publisher tries until a message is stored: a refused schedule would stop it for good.
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_is_late_is_taken_and_brings_its_bucket() {
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
    let mut told = fixture.told_of(5_000).await;
    let mut late: Vec<_> = told
        .iter()
        .map(|it| (it.3 - it.2).num_milliseconds())
        .collect();
    late.sort_unstable();
    println!(
        "late by {} ms at the median, {} at 99 %, {} at most",
        late[2_500], late[4_950], late[4_999]
    );
    assert!(late[0] >= 0, "none is early");
    told.sort();
    told.dedup_by(|one, two| one.0 == two.0);
    assert_eq!(told.len(), 5_000);
    running.end().await;
}

/// S0-AC8
#[tokio::test(flavor = "multi_thread")]
async fn ninety_days_pass_when_the_clock_is_moved_and_not_a_millisecond_before() {
    let fixture = Fixture::with(Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap())).await;
    let running = fixture.start().await;
    let id = hold();
    let due = fixture.clock.now() + TimeDelta::days(90);
    fixture.set_one(&id, 1, due).await;
    let before = fixture.advance(90 * DAY_MS - 1, 5_000).await;
    assert_eq!((before.now, before.unsettled), (due - ms(1), vec![]));
    assert_eq!(fixture.told(), []);
    let after = fixture.advance(1, 5_000).await;
    assert_eq!((after.now, after.unsettled), (due, vec![]));
    assert_eq!(fixture.told(), [(id, 1, due, due)]);
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
    // What is due by the clock fires without a move, as with the real clock.
    fixture.set_one(&hold(), 1, now).await;
    assert_eq!(fixture.told_of(1).await[0].3, now);
    let answer = fixture.advance(DAY_MS, 5_000).await;
    assert_eq!(answer.unsettled, Vec::<String>::new());
    assert_eq!(answer.now, now + TimeDelta::days(1));
    let told = fixture.told();
    assert_eq!(told.len(), 7);
    assert!(told.iter().all(|(_, _, due, came)| due == came), "{told:?}");
    assert!(told.is_sorted_by_key(|it| it.2));
    running.end().await;
}

/// A node's timer may be decided on before the clock moves, and stored after what is due was looked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_no_bucket_brings_fires_while_the_clock_settles() {
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
    assert_eq!(fixture.told().len(), 1);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_no_worker_takes_does_not_hold_time_up() {
    let fixture = Fixture::with(Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap())).await;
    let running = fixture.start().await;
    let step = Outgoing::json(subject::steps(&workspace(), "nobody"), &()).unwrap();
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
    assert!(answer.settled, "nothing moves: {:?}", answer.unsettled);
    assert_eq!(answer.now, now + ms(1_000));
    assert_eq!(fixture.told().len(), 20);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_scheduler_fires_what_came_due_while_it_was_down() {
    let fixture = Fixture::with(Clock::system()).await;
    let running = fixture.start().await;
    let id = hold();
    let due = fixture.clock.now() + ms(400);
    fixture.set_one(&id, 1, due).await;
    running.end().await;
    assert_eq!(fixture.told(), []);
    fixture.clock.reached(due).await;
    let running = fixture.start().await;
    assert_eq!(fixture.told_of(1).await[0].0, id);
    running.end().await;

    let fixture = Fixture::with(Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap())).await;
    let running = fixture.start().await;
    let due = fixture.clock.now() + TimeDelta::days(3);
    fixture.set_one(&id, 1, due).await;
    running.end().await;
    fixture.clock.move_to(due).unwrap();
    let running = fixture.start().await;
    assert_eq!(fixture.told_of(1).await, [(id, 1, due, due)]);
    running.end().await;
}

/// S0-AC8, S0-T5: where 31 bits of milliseconds end (24.8 days, 49.7 days) and at the longest wait.
#[tokio::test(flavor = "multi_thread")]
async fn long_waits_fire_at_their_millisecond_and_not_before() {
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
    for (fired, length) in lengths.iter().enumerate() {
        let left = began + ms(length - 1) - fixture.clock.now();
        fixture
            .advance(left.num_milliseconds().unsigned_abs(), 5_000)
            .await;
        assert_eq!(
            fixture.told().len(),
            fired,
            "one millisecond before {length}"
        );
        fixture.advance(1, 5_000).await;
        let due = timers[fired].due.unwrap();
        let told = (timers[fired].id.clone(), 1, due, due);
        assert_eq!(fixture.told().last(), Some(&told));
    }
    assert_eq!(fixture.told().len(), lengths.len());
    running.end().await;
}

/// The machine's clock is set while timers wait: none comes early by it, none is lost or doubled.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_or_forward_neither_loses_nor_doubles_a_timer() {
    let fixture = Fixture::with(Clock::system()).await;
    let running = fixture.start().await;
    let (soon, later) = (hold(), hold());
    let now = fixture.clock.now();
    fixture.set_one(&soon, 1, now + ms(2_500)).await;
    fixture.set_one(&later, 1, now + TimeDelta::hours(20)).await;
    // Its bucket is armed for a time that this clock shows an hour later.
    fixture.clock.step(-TimeDelta::hours(1));
    let come = async || {
        let left = fixture
            .bus
            .backlog(StreamUse::Timers, CONSUMER)
            .await
            .ok()?;
        (left.unacked > 0).then_some(())
    };
    until(SOON, "the bucket to come, early", come)
        .await
        .unwrap();
    assert_eq!(fixture.told(), []);
    fixture.clock.step(TimeDelta::hours(1));
    fixture.told_of(1).await;
    fixture.clock.step(TimeDelta::days(1));
    let told = fixture.told_of(2).await;
    assert_eq!([&told[0].0, &told[1].0], [&soon, &later]);
    assert!(told.iter().all(|(_, _, due, came)| came >= due), "{told:?}");
    // Were one to come twice, it would come before a later one.
    fixture
        .set_one(&hold(), 1, fixture.clock.now() + ms(50))
        .await;
    assert_eq!(fixture.told_of(3).await.len(), 3);
    running.end().await;
}

/// The row is the truth: without its schedule a timer comes late, and comes.
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
    let told = fixture.told_of(1).await;
    assert_eq!((&told[0].0, told[0].2), (&id, due));
    running.end().await;
}

/// Mend B-12: what a wiped stream has lost is armed again, so that only what is due at once is late.
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
    let armed = until(SOON, "the schedules are there again", async || {
        (fixture.bus.stored(timers).await.ok()? == 3).then_some(())
    });
    armed.await.unwrap();
    running.end().await;
}

/// Two replicas on one Postgres: each timer fires once, and what one leaves behind the other takes.
#[tokio::test(flavor = "multi_thread")]
async fn two_schedulers_share_the_timers_and_one_takes_over_for_the_other() {
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
    fixture.told_of(50).await;
    one.end().await;
    let told = fixture.told_of(300).await;
    let ids: std::collections::BTreeSet<_> = told.iter().map(|it| it.0.as_str()).collect();
    assert_eq!((ids.len(), told.len()), (300, 300), "each once");
    assert!(told.iter().all(|(_, _, due, came)| came >= due));
    other.end().await;
}
