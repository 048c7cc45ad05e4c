//! Simulated people answer after three hours, never, twice, late, invalidly, and two at once. One answer counts, and
//! all callers learn the same one.

use std::time::Duration;

use holdpoint_testkit::{Person, Said, play, until};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, log};

const HOUR: Duration = Duration::from_hours(1);

/// A run that asks ada and bob, with a timeout of a day.
async fn question(world: &World) -> (Person, Person, String, String) {
    let ada = Person::join(&world.up, "ada", &["member"]).await.unwrap();
    let bob = Person::join(&world.up, "bob", &["member"]).await.unwrap();
    let ask = json!({
        "to": ["@user.ada", "@user.bob"], "question": "Tell the customer?",
        "options": ["yes", "no"], "timeout": "1d", "on_timeout": "skip",
    });
    world
        .agent(
            "asks",
            json!([{ "ask": ask }, log("{{ $step-01.answer }}")]),
        )
        .await;
    let run = world.start_run("asks", json!({})).await;
    let shown = world.until_status(&run, "awaiting_input").await;
    let request = shown["waiting_on"][0]["id"].as_str().unwrap().to_owned();
    until(PATIENCE, "the question is open", async || {
        let (status, _) = world.up.get(&format!("/requests/{request}")).await.unwrap();
        (status == 200).then_some(())
    })
    .await
    .unwrap();
    (ada, bob, run, request)
}

fn answer(text: &str) -> Value {
    json!({ "answer": text })
}

fn statuses(said: &[Said]) -> Vec<u16> {
    said.iter().map(|one| one.status).collect()
}

/// S3-R3, S3-R9: the run continues with an answer after three hours.
#[tokio::test]
async fn a_late_answer_continues_the_run() {
    let world = World::with_test_clock().await;
    let (ada, _, run, request) = question(&world).await;
    let script = vec![ada.does(3 * HOUR, "respond", answer("yes"))];
    let said = play(&world.up, &request, script).await.unwrap();
    assert_eq!(statuses(&said), [200], "{said:?}");
    let shown = world.until_status(&run, "completed").await;
    assert_eq!(shown["steps"][1]["request"]["message"], "yes", "{shown}");
    assert_eq!(shown["clocks"]["human_ms"], 3 * 3_600_000);
}

/// S3-R5: without an answer the step is skipped at the deadline, as the plan says.
#[tokio::test]
async fn without_an_answer_the_deadline_decides() {
    let world = World::with_test_clock().await;
    let (_, _, run, request) = question(&world).await;
    world.advance("1 day").await;
    until(PATIENCE, "the run has ended", async || {
        let status = world.run(&run).await["status"].clone();
        (status == "completed" || status == "failed").then_some(())
    })
    .await
    .unwrap();
    assert_eq!(world.run(&run).await["steps"][0]["status"], "skipped");
    let (_, shown) = world.up.get(&format!("/requests/{request}")).await.unwrap();
    assert_eq!(shown["status"], "expired", "{shown}");
}

/// "Races": a repeated answer counts once, a different one is refused with the decision, and a late one is kept as
/// late.
#[tokio::test]
async fn only_the_first_answer_counts() {
    let world = World::with_test_clock().await;
    let (ada, bob, run, request) = question(&world).await;
    let script = vec![
        ada.does(HOUR, "respond", answer("no")),
        ada.does(2 * HOUR, "respond", answer("no")),
        ada.does(3 * HOUR, "respond", answer("yes")),
        bob.does(30 * HOUR, "respond", answer("yes")),
    ];
    let said = play(&world.up, &request, script).await.unwrap();
    assert_eq!(statuses(&said), [200, 200, 409, 409], "{said:?}");
    let shown = world.until_status(&run, "completed").await;
    assert_eq!(shown["steps"][1]["request"]["message"], "no");
    for late in said.iter().skip(2) {
        assert_eq!(late.body["code"], "already_decided", "{late:?}");
    }
    let (_, shown) = world.up.get(&format!("/requests/{request}")).await.unwrap();
    assert_eq!(shown["late"].as_array().unwrap().len(), 2, "{shown}");
    assert_eq!(shown["response"], "no");
}

/// S3-R3: an invalid answer is refused with the valid ones, and nothing changes.
#[tokio::test]
async fn an_invalid_answer_is_refused_with_the_valid_ones() {
    let world = World::with_test_clock().await;
    let (ada, _, run, request) = question(&world).await;
    let script = vec![
        ada.does(HOUR, "respond", answer("perhaps")),
        ada.does(2 * HOUR, "respond", json!({ "answer": true })),
        ada.does(3 * HOUR, "approve", json!({})),
        ada.does(
            4 * HOUR,
            "respond",
            json!({ "answer": "y".repeat(1_000_000) }),
        ),
        ada.does(5 * HOUR, "respond", answer("yes")),
    ];
    let said = play(&world.up, &request, script).await.unwrap();
    assert_eq!(statuses(&said), [422, 422, 409, 422, 200], "{said:?}");
    let nearest = |refused: &Value| refused["errors"][0]["nearest"].clone();
    for refused in [&said[0].body, &said[1].body, &said[3].body] {
        assert_eq!(refused["code"], "invalid_answer", "{refused}");
        assert_eq!(nearest(refused), json!(["yes", "no"]), "{refused}");
    }
    assert_eq!(said[2].body["code"], "wrong_kind", "{:?}", said[2]);
    world.until_status(&run, "completed").await;
}

/// "Races": the first of two answers at once wins, and the reply to the second names its author.
#[tokio::test]
async fn the_first_of_two_answers_wins_and_the_second_names_its_author() {
    let world = World::with_test_clock().await;
    let (ada, bob, run, request) = question(&world).await;
    let script = vec![
        ada.does(HOUR, "respond", answer("yes")),
        bob.does(HOUR, "respond", answer("no")),
    ];
    let said = play(&world.up, &request, script).await.unwrap();
    let mut codes = statuses(&said);
    codes.sort_unstable();
    assert_eq!(codes, [200, 409], "{said:?}");
    let winner = said.iter().find(|one| one.status == 200).unwrap();
    let loser = said.iter().find(|one| one.status == 409).unwrap();
    let named_winner = &loser.body["winner"]["by"];
    assert_eq!(*named_winner, json!(winner.act.who.name), "{loser:?}");
    let shown = world.until_status(&run, "completed").await;
    assert_eq!(
        shown["steps"][1]["request"]["message"],
        winner.act.body["answer"]
    );
}
