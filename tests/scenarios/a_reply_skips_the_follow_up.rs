//! A condition is evaluated with the data at the instant of the wake.

use serde_json::json;

use crate::world::World;

async fn outreach(world: &World) {
    world
        .agent(
            "outreach",
            json!([
                { "wait": "5 days" },
                {
                    "tool": "send_email",
                    "when": "contact.replied == false",
                    "args": { "to": "{{ contact.email }}", "subject": "Follow-up", "body": "…" },
                },
            ]),
        )
        .await;
}

/// S0-AC5
#[tokio::test]
async fn a_contact_who_replied_gets_no_follow_up() {
    let world = World::with_test_clock().await;
    outreach(&world).await;
    let mut runs = Vec::new();
    for name in ["ann", "bob"] {
        let contact = json!({ "id": name, "email": format!("{name}@x.example"), "replied": false });
        runs.push(
            world
                .start_run("outreach", json!({ "contact": contact }))
                .await,
        );
    }
    world.advance("2 days").await;
    let (status, _) = world
        .up
        .patch("/contacts/bob", &json!({ "replied": true }))
        .await
        .unwrap();
    assert_eq!(status, 200);
    world.advance("3 days").await;

    assert_eq!(world.mails_to("ann@x.example").await, ["Follow-up"]);
    assert!(world.mails_to("bob@x.example").await.is_empty());
    for run in &runs {
        assert_eq!(world.run(run).await["status"], "completed");
    }
    let items = world.items(&runs[1]).await;
    let skipped = items
        .iter()
        .find(|item| item["type"] == "step.skipped")
        .unwrap();
    assert_eq!(
        skipped["data"]["values"]["contact.replied"], true,
        "the log keeps the values"
    );
}

/// S0-AC5: an unknown value does not count as false.
#[tokio::test]
async fn an_unknown_value_fails_the_step_and_names_it() {
    let world = World::with_test_clock().await;
    outreach(&world).await;
    let contact = json!({ "id": "carl", "email": "carl@x.example" });
    let id = world
        .start_run("outreach", json!({ "contact": contact }))
        .await;
    world.advance("5 days").await;
    let failed = world.run(&id).await;
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["failure"]["class"], "agent");
    assert_eq!(failed["failure"]["code"], "condition_undetermined");
    let message = failed["failure"]["message"].as_str().unwrap();
    assert!(message.contains("contact.replied"), "{message}");
    assert!(world.mails_to("carl@x.example").await.is_empty());
}
