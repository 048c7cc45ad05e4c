//! Handoffs on the pages, in Chromium: taken over, completed both ways, two people at once.

use holdpoint_testkit::{Person, until};
use serde_json::{Value, json};

use crate::browser::{Browser, Browsers, DESK, PHONE};
use crate::world::{PATIENCE, World, log};

/// A warm lead for sales, with two steps after it; returns the run and its request.
async fn lead(world: &World) -> (String, String) {
    let mail = json!({ "to": "{{ contact.email }}", "subject": "Introduction", "body": "Hello" });
    let steps = json!([
        { "tool": "log", "args": { "message": "Uses two tools that we could replace" } },
        { "tool": "send_email", "args": mail },
        { "handoff": { "to": "@role.sales", "message": "personal outreach", "timeout": "3 days" } },
        log("thanked"),
        log("filed"),
    ]);
    world.agent("outreach", steps).await;
    let contact = json!({
        "id": "c-zoe", "name": "Zoe Zimmer", "email": "zoe@zoe.example", "company": "Zimmer & Co",
        "replied": true, "sentiment": "positive",
        "deals": [{ "name": "Pilot", "value": 12000, "stage": "proposal", "probability": 0.4 }],
    });
    let body = json!({ "contact": contact });
    let run = world.start_run("outreach", body).await;
    let shown = world.until_status(&run, "waiting").await;
    let id = shown["waiting_on"][0]["id"].as_str().unwrap().to_owned();
    until(PATIENCE, "the request is there", async || {
        let (status, _) = world.up.get(&format!("/requests/{id}")).await.unwrap();
        (status == 200).then_some(())
    })
    .await
    .unwrap();
    (run, id)
}

async fn nina(world: &World) -> Person {
    let roles = ["member", "sales"];
    Person::join(&world.up, "nina", &roles).await.unwrap()
}

/// Waits until the forms of a page have the current version. The executor's reply to a take-over raises the version,
/// and the page is updated live.
async fn is_current(world: &World, browser: &Browser, id: &str) {
    let mut seen = Value::Null;
    let found = until(PATIENCE, "the page to be current", async || {
        let path = format!("/requests/{id}");
        let (_, request) = world.up.get(&path).await.ok()?;
        let form = "return Number(document.querySelector('[name=version]').value)";
        let is_confirmed = request["effect"] == "applied" && request["timer_unconfirmed"].is_null();
        let shown = browser.asks(form).await;
        let is_same = shown == request["version"];
        seen = json!({ "page": shown, "request": request });
        (is_confirmed && is_same).then_some(())
    });
    if let Err(error) = found.await {
        panic!("{error}: {seen}");
    }
}

async fn fits(browser: &Browser) -> Value {
    let fits = "return document.documentElement.scrollWidth <= innerWidth";
    browser.asks(fits).await
}

/// S0-AC7, S0-T2, S0-T3, S0-R3: a person takes a lead over and lets the agent continue. Another user
/// watches it live on an open page.
#[tokio::test]
async fn a_person_takes_a_lead_over_and_lets_the_agent_continue() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let nina = nina(&world).await;
    let (run, id) = lead(&world).await;
    let browser = browsers.signed_in(&world, nina.token(), DESK).await;
    browser.reads("[Warm Lead] Agent handoff: Zoe Zimmer").await;
    browser.reads("Zimmer & Co").await;
    let text = browser.text().await;
    assert_eq!(
        text.matches("Pilot").count(),
        1,
        "a deal is shown once: {text}"
    );
    browser.picture("handoff").await;
    let watching = browsers.signed_in(&world, &world.up.token, DESK).await;
    watching.go(&format!("/requests/{id}")).await;
    watching.reads("Live").await;

    browser.click("Take over").await;
    browser.reads("Taken over").await;
    browser.reads("Assigned to nina").await;
    watching.reads("Assigned to nina").await;
    browser.picture("handoff-taken-over").await;
    is_current(&world, &browser, &id).await;
    browser
        .fill("notes", "Called her; she wants a pilot in May.")
        .await;
    browser.click("Let the agent continue – 2 steps left").await;
    browser.reads("Completed by nina").await;
    watching.reads("Completed by nina").await;
    watching.reads("she wants a pilot in May").await;
    watching.picture("handoff-completed").await;
    let shown = world.until_status(&run, "completed").await;
    assert_eq!(shown["steps"][4]["status"], "completed", "{shown}");
    watching.go(&format!("/runs/{run}")).await;
    watching.reads("Completed").await;
    watching.picture("handoff-run").await;
    browser.close().await;
    watching.close().await;
}

/// S0-R3: the reply to a form may arrive after newer parts of the live connection. The page still ends
/// with the current state.
#[tokio::test]
async fn a_slow_reply_does_not_restore_an_old_state() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let nina = nina(&world).await;
    let (_, id) = lead(&world).await;
    let browser = browsers.signed_in(&world, nina.token(), DESK).await;
    browser.reads("Live").await;
    let slow = "const send = window.fetch;
        window.fetch = async (...all) => {
            const answer = await send(...all);
            const text = await answer.text();
            await new Promise((wake) => setTimeout(wake, 2000));
            setTimeout(() => { window.answered = true; }, 100);
            return new Response(text, answer);
        }";
    browser.asks(slow).await;
    browser.click("Take over").await;
    browser.reads("Assigned to nina").await;
    let answered = until(PATIENCE, "the answer to come", async || {
        let answered = browser.asks("return window.answered === true").await;
        (answered == true).then_some(())
    });
    answered.await.unwrap();
    is_current(&world, &browser, &id).await;
    browser.close().await;
}

/// S0-T3: the other way ends the run; on a phone.
#[tokio::test]
async fn a_person_ends_the_run_on_a_phone() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let nina = nina(&world).await;
    let (run, _) = lead(&world).await;
    let phone = browsers.signed_in(&world, nina.token(), PHONE).await;
    phone.reads("[Warm Lead] Agent handoff: Zoe Zimmer").await;
    assert_eq!(fits(&phone).await, true);
    phone.picture("handoff-phone").await;
    phone.click("Complete…").await;
    phone.fill("notes", "Not a fit.").await;
    assert_eq!(fits(&phone).await, true);
    phone.picture("handoff-phone-completing").await;
    phone.click("End the run").await;
    phone.reads("Completed by nina").await;
    let shown = world.until_status(&run, "completed").await;
    assert_eq!(shown["steps"][4]["status"], "skipped", "{shown}");
    phone.close().await;
}

/// When two people take over, the second reads who was first. One of them has no script, and so an older
/// page.
#[tokio::test]
async fn the_second_person_to_take_over_reads_who_was_first() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let nina = nina(&world).await;
    let paul = Person::join(&world.up, "paul", &["member", "sales"])
        .await
        .unwrap();
    let (_, id) = lead(&world).await;
    let plain = browsers.open(&world, DESK, false).await;
    plain.sign_in(nina.token()).await;
    plain.go(&format!("/requests/{id}")).await;
    plain.reads("Take over").await;
    let first = browsers.signed_in(&world, paul.token(), DESK).await;
    first.click("Take over").await;
    first.reads("Assigned to paul").await;

    plain.click("Take over").await;
    plain
        .reads("This request was already taken over by paul")
        .await;
    plain.reads("Assigned to paul").await;
    plain.picture("handoff-second").await;
    let (_, request) = world.up.get(&format!("/requests/{id}")).await.unwrap();
    assert_eq!(request["assignee"], "paul", "{request}");
    plain.close().await;
    first.close().await;
}

/// A snoozed request leaves the inbox, which links to it.
#[tokio::test]
async fn a_snoozed_request_leaves_the_inbox_and_is_found_again() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let nina = nina(&world).await;
    lead(&world).await;
    let browser = browsers.signed_in(&world, nina.token(), DESK).await;
    browser.reads("[Warm Lead] Agent handoff: Zoe Zimmer").await;
    browser.click("More").await;
    let snooze = browser.find("form:has([value=snooze]) button").await;
    snooze.click().await.unwrap();
    browser.reads("1 snoozed").await;
    browser.go("/inbox").await;
    browser.reads("No open requests").await;
    browser.picture("inbox-snoozed").await;
    browser.click("1 snoozed").await;
    browser.reads("[Warm Lead] Agent handoff: Zoe Zimmer").await;
    browser.reads("Snoozed until").await;
    browser.close().await;
}

/// An operator takes a live run over from its page, and hands it back or ends it. The clocks of the open
/// page move.
#[tokio::test]
async fn an_operator_takes_a_live_run_over_from_its_page() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    let logged = log("{{ run.intervention.notes }}");
    world
        .agent("waits", json!([{ "wait": "1 day" }, logged]))
        .await;
    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    let clock = "return document.querySelector('.clocks div:last-child dd').textContent";
    for button in ["Let the agent continue – 2 steps left", "End the run"] {
        let continues = button != "End the run";
        let run = world.start_run("waits", json!({})).await;
        browser.go(&format!("/runs/{run}")).await;
        browser.click("Take the run over").await;
        browser.reads("owner owns this run").await;
        browser.reads("An operator has taken this run over").await;
        let before = browser.asks(clock).await;
        until(PATIENCE, "the clock moves", async || {
            (browser.asks(clock).await != before).then_some(())
        })
        .await
        .unwrap();
        browser.reads("End the run").await;
        browser.reads("Let the agent continue").await;
        browser
            .picture(&format!("run-taken-over-{continues}"))
            .await;
        browser.fill("notes", "Done by hand.").await;
        browser.click(button).await;
        browser.reads("Completed by owner").await;
        if continues {
            // End the wait of one day.
            world.act(&run, "pause", json!({})).await;
            world.act(&run, "resume", json!({ "mode": "now" })).await;
        }
        let shown = world.until_status(&run, "completed").await;
        let logged = &shown["steps"][1];
        if continues {
            assert_eq!(logged["request"]["message"], "Done by hand.", "{shown}");
        } else {
            assert_eq!(logged["status"], "skipped", "{shown}");
        }
    }
    browser.close().await;
}

/// An expired request is asked again from its page, with and without the script.
#[tokio::test]
async fn an_expired_request_is_asked_again_from_its_page() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_real_time().await;
    nina(&world).await;
    for script in [true, false] {
        let ask = json!({ "kind": "approval", "question": "Deploy 4.2?", "timeout": "1s",
            "on_timeout": "fail" });
        let (_, hold) = world.up.post("/holds", &ask).await.unwrap();
        let old = hold["id"].as_str().unwrap().to_owned();
        let browser = browsers.open(&world, DESK, script).await;
        browser.sign_in(&world.up.token).await;
        until(PATIENCE, "the request expires", async || {
            let (_, shown) = world.up.get(&format!("/requests/{old}")).await.ok()?;
            (shown["status"] == "expired").then_some(())
        })
        .await
        .unwrap();
        browser.go(&format!("/requests/{old}")).await;
        browser.click("Ask again…").await;
        browser.fill("to", "nina").await;
        browser.fill("timeout", "2h").await;
        browser.picture("ask-again").await;
        let button = browser.find("form:has([value=ask_again]) button").await;
        button.click().await.unwrap();
        browser.reads("Repeats an earlier request").await;
        browser.reads("Assigned to nina").await;
        browser.close().await;
    }
}
