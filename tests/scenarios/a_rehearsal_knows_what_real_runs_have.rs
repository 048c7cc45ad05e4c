//! A rehearsal knows the standing approvals of the workspace and the agents that a step runs, and real runs do the same
//! (Words 6).

use holdpoint_testkit::{postgres, until};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World};

#[tokio::test]
async fn standing_approvals_and_child_runs_are_rehearsed() {
    are_rehearsed(&[]).await;
}

/// The same on Postgres.
#[tokio::test]
async fn standing_approvals_and_child_runs_are_rehearsed_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    are_rehearsed(&["--database-url", &postgres.url]).await;
}

async fn post(world: &World, path: &str, body: &Value) -> Value {
    let (status, reply) = world.up.post(path, body).await.unwrap();
    assert_eq!(status, 201, "{path}: {reply}");
    reply
}

/// The steps of a rehearsed run that send something, with its kind.
fn sent(run: &Value) -> Vec<(&str, &str)> {
    let events = run["timeline"].as_array().unwrap().iter();
    let sent = events.filter_map(|event| {
        let kind = event["outgoing"]["kind"].as_str()?;
        Some((event["step"].as_str()?, kind))
    });
    sent.collect()
}

async fn are_rehearsed(args: &[&str]) {
    let world = World::with_test_clock_and(args).await;
    world
        .agent(
            "checker",
            json!([
                { "wait": "1 day" },
                { "id": "note", "tool": "log", "args": { "message": "checked" } },
                { "finish": { "summary": "Checked.", "output": { "grade": "A" } } },
            ]),
        )
        .await;
    world
        .agent(
            "sales",
            json!([
                { "id": "check", "run": "checker" },
                { "id": "pay", "tool": "log", "args": { "message": "$check.output.grade" },
                  "approval": {} },
            ]),
        )
        .await;
    let terms = json!({ "agent": "sales", "tool": "log", "args_schema": { "type": "object" },
        "max_uses": 2, "expires_in": "30d" });
    let approval = post(&world, "/standing-approvals", &terms).await;
    let approval = approval["id"].as_str().unwrap();

    // Three contacts have two uses. The first contact comes with the start, and the others with the next page.
    let contacts: Vec<_> = (0..3).map(|n| json!({ "id": format!("c{n}") })).collect();
    let body = json!({ "agent": "sales", "contacts": contacts });
    let started = post(&world, "/rehearsals", &body).await;
    let path = format!("/rehearsals/{}", started["id"].as_str().unwrap());
    let (_, ended) = world.up.get(&format!("{path}?wait=30s")).await.unwrap();
    assert_eq!(ended["status"], "completed", "{ended}");
    let summary = &ended["summary"];
    assert_eq!(
        summary["standing_approvals"],
        json!({ approval: 2 }),
        "{summary}"
    );
    assert_eq!(summary["requests"], json!({ "@owners": 1 }), "{summary}");
    assert_eq!(summary["calls"], json!({ "log": 6 }), "{summary}");
    assert_eq!(summary["unreached_steps"], json!([]), "{summary}");
    let (_, runs) = world.up.get(&format!("{path}/runs")).await.unwrap();
    let runs = runs["items"].as_array().unwrap();
    let shared = [("check", "child_run"), ("check/note", "call")];
    let in_advance = [("pay", "approved_in_advance"), ("pay", "call")];
    assert_eq!(sent(&runs[0]), [shared, in_advance].concat());
    let asked = [("pay", "request"), ("pay", "call")];
    assert_eq!(sent(&runs[2]), [shared, asked].concat());

    // The rehearsal has used nothing, and the real run does the same.
    let path = format!("/standing-approvals/{approval}");
    assert_eq!(world.up.get(&path).await.unwrap().1["used"], 0);
    let run = world
        .start_run("sales", json!({ "contact": { "id": "c0" } }))
        .await;
    world.settle().await;
    world.advance("1d").await;
    world.until_status(&run, "completed").await;
    let used = until(PATIENCE, "the use is counted", async || {
        let (_, shown) = world.up.get(&path).await.ok()?;
        (shown["used"] == 1).then_some(())
    });
    used.await.unwrap();
}
