//! Garbage on the bus does not stop the work of others.

use std::time::Duration;

use async_nats::jetstream;
use holdpoint_bus::{Bus, StreamUse};
use holdpoint_testkit::until;
use serde_json::json;

use crate::world::{PATIENCE, World, dead_letters, log};

const SUBJECTS: usize = 10_000;

/// A small generator, so that each test run has the same garbage.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[usize::try_from(self.next() % of.len() as u64).unwrap()]
    }

    fn subject(&mut self) -> String {
        let number = self.next();
        let kind = self.pick(&["cmd", "cmd", "ask", "get", "steps", "live"]);
        let workspace = self.pick(&["default", "nobody", "timers", "sys", "ä"]);
        let service = self.pick(&["executor", "scheduler", "handoff", "notification", "nobody"]);
        let verb = self.pick(&[
            "start_run",
            "timers_fired",
            "set_timers",
            "put_schedule",
            "start_scheduled",
            "set_child_runs",
            "child_runs_ended",
            "set_holds",
            "heartbeat",
            "",
            "x",
        ]);
        match number % 5 {
            0 => format!("hp.timers.due.{}", number % 3),
            1 => format!("hp.{workspace}.{kind}.{service}"),
            _ => format!(
                "hp.{workspace}.{kind}.{service}.{}.{verb}{}",
                number % 20,
                number % 7
            ),
        }
    }

    fn body(&mut self) -> Vec<u8> {
        let number = self.next();
        match number % 6 {
            0 => Vec::new(),
            1 => number.to_le_bytes().repeat(40),
            2 => b"{\"actor\":\"x\",\"command\":{}}".to_vec(),
            3 => b"{\"actor\":\"x\",\"command\":{\"fired\":[{\"id\":\"\",\"rev\":-1}]}}".to_vec(),
            4 => b"[[[[[[[[[[".repeat(50),
            _ => json!({ "actor": "x", "command": { "run": "run_1", "agent": "\u{0}" } })
                .to_string()
                .into_bytes(),
        }
    }
}

/// Ground, "Must": 10,000 subjects of garbage. Unreadable messages become dead letters, and runs continue.
#[tokio::test]
async fn ten_thousand_garbage_messages_do_no_harm() {
    let world = World::with_real_time().await;
    world
        .agent("works", json!([{ "wait": "1s" }, log("after")]))
        .await;
    let bus = Bus::connect(&world.up.nats_url, "noise").await.unwrap();
    let jetstream = jetstream::new(bus.client().clone());
    let mut noise = Noise(0x5eed);
    let mut runs = Vec::new();
    for round in 0..SUBJECTS {
        let subject = noise.subject();
        let body = noise.body();
        // Some have no stream and some are invalid subjects, on purpose.
        drop(jetstream.publish(subject, body.into()).await);
        if round % 500 == 0 {
            runs.push(world.start_run("works", json!({})).await);
        }
    }
    for id in &runs {
        world.until_status(id, "completed").await;
    }
    for stream in ["executor", "scheduler", "handoff", "notification"] {
        until(PATIENCE, &format!("{stream} has read it all"), async || {
            let left = bus.stored(StreamUse::Commands(stream)).await.unwrap();
            (left == 0).then_some(())
        })
        .await
        .unwrap();
    }
    let kept = dead_letters(&world.up.data_dir()).await.unwrap();
    assert!(kept > 100, "{kept} of them are kept");
}

/// Ground, 8: one poisoned command among 200 that are stored while their service is down.
#[tokio::test]
async fn a_poisoned_command_stops_no_other_of_its_batch() {
    let mut world = World::with_real_time().await;
    world.agent("works", json!([log("x")])).await;
    world.up.kill9().await.unwrap();
    let bus = Bus::connect(&world.up.nats_url, "noise").await.unwrap();
    let jetstream = jetstream::new(bus.client().clone());
    for place in 0..200_u32 {
        let run = format!("run_0192000000007000800000000000{place:04x}");
        let agent = if place == 77 {
            json!(7)
        } else {
            json!("works")
        };
        let command = json!({ "run": run, "agent": agent, "input": null, "contact": null });
        let body = json!({ "actor": "batch", "command": command }).to_string();
        let subject = "hp.default.cmd.executor.0.start_run";
        jetstream
            .publish(subject, body.into())
            .await
            .unwrap()
            .await
            .unwrap();
    }
    world.up.restart().await.unwrap();
    until(
        Duration::from_secs(60),
        "the others are completed",
        async || {
            let (_, page) = world
                .up
                .get("/runs?status=completed&limit=500")
                .await
                .unwrap();
            let done = page["items"].as_array().map_or(0, Vec::len);
            (done == 199).then_some(())
        },
    )
    .await
    .unwrap();
    let (status, all) = world.up.get("/runs?limit=500").await.unwrap();
    assert_eq!(
        (status, all["items"].as_array().map(Vec::len)),
        (200, Some(199))
    );
    // Acks follow the commit.
    until(PATIENCE, "nothing is left on the bus", async || {
        let stored = bus.stored(StreamUse::Commands("executor")).await;
        stored.is_ok_and(|stored| stored == 0).then_some(())
    })
    .await
    .unwrap();
    let kept = dead_letters(&world.up.data_dir()).await.unwrap();
    assert_eq!(kept, 1, "the poisoned one");
}
