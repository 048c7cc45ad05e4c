//! The live history of a run has no gaps.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::world::{World, log};

/// Reads a stream until it ends; returns id, event and data of each.
async fn read(world: &World, id: &str, last: Option<&str>) -> Vec<(u64, String, Value)> {
    let url = format!(
        "{}/v1/workspaces/{}/runs/{id}/events",
        world.up.url, world.up.workspace
    );
    let mut request = reqwest::Client::new()
        .get(url)
        .bearer_auth(&world.up.token)
        .header("Accept", "text/event-stream");
    if let Some(last) = last {
        request = request.header("Last-Event-ID", last);
    }
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut text = String::new();
    let mut chunks = answer.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        text.push_str(&String::from_utf8_lossy(&chunk.unwrap()));
    }
    text.split("\n\n").filter_map(frame).collect()
}

fn frame(text: &str) -> Option<(u64, String, Value)> {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|value| value.trim().to_owned())
    };
    let data = serde_json::from_str(&field("data:")?).unwrap();
    Some((field("id:")?.parse().unwrap(), field("event:")?, data))
}

/// S2-R11
#[tokio::test]
async fn a_stream_has_every_event_once_and_in_order() {
    let world = World::with_test_clock().await;
    world
        .agent(
            "patient",
            json!([log("one"), { "wait": "5 days" }, log("two")]),
        )
        .await;
    let id = world.start_run("patient", json!({})).await;
    let watching =
        async { tokio::time::timeout(Duration::from_secs(30), read(&world, &id, None)).await };
    let moving = async {
        world.settle().await;
        world.advance("5 days").await;
    };
    let (seen, ()) = tokio::join!(watching, moving);
    let seen = seen.expect("the stream ends with the run");
    let numbers: Vec<_> = seen.iter().map(|(number, ..)| *number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(seen.first().unwrap().1, "run.started");
    assert_eq!(seen.last().unwrap().1, "run.completed");
    for (number, event, data) in &seen {
        assert_eq!(
            (&data["seq"], &data["type"]),
            (&json!(number), &json!(event))
        );
    }
    let rest = read(&world, &id, Some("3")).await;
    assert_eq!(
        rest,
        seen[3..],
        "a stream continues after the last seen item"
    );
}
