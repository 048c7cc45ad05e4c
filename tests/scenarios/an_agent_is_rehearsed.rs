//! An agent is rehearsed before it runs: nothing is sent, and a real run does the same.

use std::time::{Duration, Instant};

use holdpoint_testkit::{Person, postgres};
use serde_json::{Value, json};

use crate::browser::{Browser, Browsers, DESK};
use crate::world::World;

/// The example of the README.
const OUTREACH: &str = include_str!("../../examples/outreach-in-words.yaml");

/// Most contacts that the page of an agent rehearses.
const CONTACTS: usize = 50;

/// 50 contacts over eight days take a part of a second. A build without optimisation on a busy machine is slower.
const REHEARSED_WITHIN: Duration = Duration::from_secs(10);

/// These contacts reply after two days, and no person acts.
fn script(replying: &[String]) -> String {
    let rule = |name: &String| {
        format!(
            "  - {{ contact: {name}, after: 2d, set: {{ replied: true, sentiment: positive }} }}\n"
        )
    };
    let rules: String = replying.iter().map(rule).collect();
    format!("contacts:\n{rules}people: [{{ do: nothing }}]")
}

fn contact(name: &str) -> Value {
    json!({ "name": name, "email": format!("{name}@x.example"), "company": "X" })
}

fn rehearsal(text: &str, contacts: &[String], script: &str) -> Value {
    let contacts = contacts
        .iter()
        .map(|name| json!({ "id": name, "fields": contact(name) }));
    json!({ "text": text, "contacts": contacts.collect::<Vec<_>>(), "script": script })
}

fn subjects(run: &Value) -> Vec<&str> {
    let events = run["timeline"].as_array().unwrap().iter();
    let calls = events.filter(|event| event["outgoing"]["kind"] == "call");
    calls
        .map(|event| event["outgoing"]["args"]["subject"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_run_does_what_its_rehearsal_shows() {
    runs_do_what_their_rehearsal_shows(&[]).await;
}

#[tokio::test]
async fn a_run_does_what_its_rehearsal_shows_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    runs_do_what_their_rehearsal_shows(&["--database-url", &postgres.url]).await;
}

/// Words 6, S0-AC5, S0-AC6: the four lines of the README are rehearsed on 50 contacts, and then run. The real runs over the
/// same answers take the same steps.
async fn runs_do_what_their_rehearsal_shows(args: &[&str]) {
    let world = World::with_test_clock_and(args).await;
    let nina = Person::join(&world.up, "nina", &["member", "sales"])
        .await
        .unwrap();
    let names: Vec<String> = (0..CONTACTS).map(|at| format!("c{at:02}")).collect();
    let (replying, silent): (Vec<_>, Vec<_>) =
        (names.iter().cloned()).partition(|name| name.ends_with('7'));
    let body = rehearsal(OUTREACH, &names, &script(&replying));
    let since = Instant::now();
    let (status, rehearsed) = nina
        .post(&world.up, "/agents/rehearse", &body)
        .await
        .unwrap();
    assert_eq!(status, 200, "{rehearsed}");
    let took = since.elapsed();
    assert!(took < REHEARSED_WITHIN, "{took:?}");
    let runs = rehearsed["runs"].as_array().unwrap();
    assert_eq!(subjects(&runs[0]), ["Introduction", "Follow-up"]);
    assert_eq!(subjects(&runs[7]), ["Introduction"]);
    let summary = &rehearsed["summary"];
    let (all, some) = (names.len(), replying.len());
    assert_eq!(summary["calls"], json!({ "send_email": 2 * all - some }));
    // The second rung of the handoff notifies the owners.
    let requests = json!({ "@owners": some, "@user.nina": some });
    assert_eq!(summary["requests"], requests);
    assert_eq!(summary["users"], json!({ "nina": some, "owner": some }));
    assert_eq!(summary["ended_unseen"], json!(silent));

    // Nothing is sent, and nothing is stored.
    assert!(world.mails_to("c00@x.example").await.is_empty());
    for path in ["/runs", "/contacts", "/agents", "/requests"] {
        let (_, page) = world.up.get(path).await.unwrap();
        assert_eq!(page["items"], json!([]), "{path}: {page}");
    }

    let (status, applied) = world.up.post_yaml("/agents", OUTREACH).await.unwrap();
    assert_eq!(status, 201, "{applied}");
    let mut real = Vec::new();
    for name in &names {
        let mut about = contact(name);
        about["id"] = json!(name);
        real.push(
            world
                .start_run("outreach-in-words", json!({ "contact": about }))
                .await,
        );
    }
    world.advance("2 days").await;
    let reply = json!({ "replied": true, "sentiment": "positive" });
    for name in &replying {
        let path = format!("/contacts/{name}");
        let (status, _) = world.up.patch(&path, &reply).await.unwrap();
        assert_eq!(status, 200);
    }
    // The handoffs expire three days after the wait.
    world.advance("3 days").await;
    world.advance("3 days").await;
    for (real, rehearsed) in real.iter().zip(runs) {
        assert_eq!(world.run(real).await["status"], rehearsed["status"]);
        let events = rehearsed["timeline"].as_array().unwrap().iter();
        // The history of a run has no rungs: the request has them.
        let events: Vec<_> = events
            .filter(|event| event["outgoing"]["kind"] != "escalation")
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert_eq!(world.history(real).await, events);
    }
    for (run, name) in runs.iter().zip(&names) {
        let mails = world.mails_to(&format!("{name}@x.example")).await;
        assert_eq!(mails, subjects(run), "{name}");
    }
}

/// A request for a rehearsal, the status and code that it gets, and words of the error.
type Case = (Value, u16, &'static str, &'static str);

async fn assert_refused(cases: impl IntoIterator<Item = Case>) {
    let world = World::with_test_clock().await;
    for (body, status, code, words) in cases {
        let (found, problem) = world.up.post("/agents/rehearse", &body).await.unwrap();
        assert_eq!(found, status, "{problem}");
        assert_eq!(problem["code"], code, "{problem}");
        assert!(problem.to_string().contains(words), "{words}: {problem}");
    }
}

const WAITS: &str = "agent: a\nsteps: [{ id: rest, wait: 5 days }]";

/// Words 6: the contacts of a rehearsal are bounded, and each is one.
#[tokio::test]
async fn wrong_contacts_of_a_rehearsal_get_a_clear_error() {
    let many: Vec<_> = (0..101).map(|n| json!({ "id": format!("c{n}") })).collect();
    let large = json!([{ "id": "c", "fields": { "big": "x".repeat(70_000) } }]);
    let twice = json!([{ "id": "ann" }, { "id": "ann" }]);
    let cases = [
        (many.into(), "expected 1 to 100"),
        (json!([]), "expected 1 to 100"),
        (large, "more than 65536 bytes"),
        (twice, "given twice"),
    ];
    let cases = cases.map(|(contacts, words)| {
        let body = json!({ "text": WAITS, "contacts": contacts });
        (body, 422, "invalid_body", words)
    });
    assert_refused(cases).await;
}

/// Words 6: a stored agent is rehearsed by its name, in its own workspace only.
#[tokio::test]
async fn a_wrong_rehearsal_gets_a_clear_error() {
    let one = json!([{ "id": "ann" }]);
    let with = |more: Value| {
        let mut body = json!({ "contacts": one });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    let invalid = |more, words| (with(more), 422, "invalid_body", words);
    let unknown_step = json!({ "text": WAITS, "script": "people: [{ step: rst }]" });
    let broken = json!({ "text": "agent: a\nsteps: [{ wait: soon }]" });
    let missing = json!({ "agent": "missing" });
    assert_refused([
        invalid(json!({}), "either `text` or `agent`"),
        invalid(
            json!({ "text": WAITS, "agent": "a" }),
            "either `text` or `agent`",
        ),
        invalid(
            json!({ "text": WAITS, "version": 1 }),
            "`version` needs `agent`",
        ),
        invalid(json!({ "text": WAITS, "seconds": 11 }), "from 1 to 10"),
        invalid(json!({ "text": WAITS, "start": 1 }), "start"),
        (with(missing), 404, "not_found", "missing"),
        (with(broken), 422, "invalid_agent", ""),
        (
            with(unknown_step),
            422,
            "invalid_script",
            "did you mean `rest`?",
        ),
    ])
    .await;
}

/// A rehearsal of one version of the agent `a` with 150 contacts, once it has ended; its path.
async fn rehearsed(world: &World, person: &Person, version: u32) -> String {
    let mut contacts: Vec<_> = (0..149).map(|n| json!({ "id": format!("c{n}") })).collect();
    contacts.push(json!({ "id": "ann", "fields": { "city": "Lisbon" } }));
    let body = json!({ "agent": "a", "version": version, "contacts": contacts });
    let (status, started) = person.post(&world.up, "/rehearsals", &body).await.unwrap();
    assert_eq!(status, 201, "{started}");
    assert_eq!(started["contacts"], 150, "{started}");
    let path = format!("/rehearsals/{}", started["id"].as_str().unwrap());
    let ended = person.get(&world.up, &format!("{path}?wait=30s")).await;
    let (_, ended) = ended.unwrap();
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["version"], version);
    assert_eq!(ended["rehearsed"], 150);
    path
}

async fn two_versions(world: &World) {
    let versions = [
        "agent: a\ninstructions: Wait 5 days",
        "agent: a\ninstructions: |\n  Wait 5 days\n  If contact.city is \"Lisbon\", hand off to @user.nina",
    ];
    for text in versions {
        let (status, applied) = world.up.post_yaml("/agents", text).await.unwrap();
        assert!(status < 300, "{applied}");
    }
}

/// Words 6: the runs of many contacts are read in pages and compared with those of another version.
#[tokio::test]
async fn a_rehearsal_is_read_in_pages_and_compared() {
    let world = World::with_test_clock().await;
    let nina = Person::join(&world.up, "nina", &["viewer"]).await.unwrap();
    two_versions(&world).await;
    let old = rehearsed(&world, &nina, 1).await;
    let new = rehearsed(&world, &nina, 2).await;
    let get = async |path: String| nina.get(&world.up, &path).await.unwrap().1;
    let requests = json!({ "@user.nina": 1 });
    assert_eq!(get(new.clone()).await["summary"]["requests"], requests);
    let first = get(format!("{new}/runs?limit=2")).await;
    assert_eq!(first["items"][1]["contact"], "c1");
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = get(format!("{new}/runs?limit=500&cursor={cursor}")).await;
    assert_eq!(second["items"][0]["contact"], "c2", "{second}");
    let count = second["items"].as_array().unwrap().len();
    assert_eq!(count, 25, "a page is bounded");

    let old = old.strip_prefix("/rehearsals/").unwrap();
    let changes = get(format!("{new}/changes?from={old}")).await;
    assert_eq!(changes["contacts"], 150, "{changes}");
    assert_eq!(changes["changes"].as_array().unwrap().len(), 1, "{changes}");
    let change = &changes["changes"][0];
    assert_eq!(change["contact"], "ann");
    let end = json!({ "after": "5d", "end": "completed" });
    assert_eq!(change["before"], end);
    let to = &change["after"]["outgoing"]["to"];
    assert_eq!(to, &json!(["@user.nina"]));
}

/// Words 6: a rehearsal is kept for 7 days. Its creator and operators end it, and an erasure finds its contacts.
#[tokio::test]
async fn a_rehearsal_is_kept_until_it_is_deleted() {
    let world = World::with_test_clock().await;
    let up = &world.up;
    let nina = Person::join(up, "nina", &["viewer"]).await.unwrap();
    let oscar = Person::join(up, "oscar", &["viewer"]).await.unwrap();
    two_versions(&world).await;
    let deleted = rehearsed(&world, &nina, 1).await;
    let kept = rehearsed(&world, &nina, 2).await;
    assert_eq!(oscar.get(up, &deleted).await.unwrap().0, 200);
    let cancel = format!("{deleted}/cancel");
    let refused = oscar.post(up, &cancel, &json!({})).await.unwrap();
    assert_eq!(refused.0, 403);
    let (status, ended) = nina.post(up, &cancel, &json!({})).await.unwrap();
    assert_eq!(status, 200);
    assert_eq!(ended["status"], "completed", "it has ended");
    let (status, _) = up.delete(&deleted).await.unwrap();
    assert_eq!(status, 204, "an operator");
    assert_eq!(nina.get(up, &deleted).await.unwrap().0, 404);

    let erased = up.post("/contacts/ann/erase", &json!({})).await.unwrap();
    assert_eq!(erased.0, 404, "only the rehearsal knows the contact");
    let (_, read) = nina.get(up, &kept).await.unwrap();
    assert_eq!(read["summary"]["requests"], json!({}), "{read}");
    world.advance("7 days").await;
    let (_, listed) = nina.get(up, "/rehearsals?agent=a").await.unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    world.advance("1s").await;
    let (_, listed) = nina.get(up, "/rehearsals").await.unwrap();
    assert_eq!(listed["items"], json!([]), "{listed}");
}

/// Words 6: the contacts before one that a script refuses are kept. The detail has its place and not its id.
#[tokio::test]
async fn a_refused_contact_ends_a_rehearsal_with_the_runs_before_it() {
    let world = World::with_test_clock().await;
    let agent =
        "agent: a\nsteps: [{ id: which, ask: { question: Which?, options: [x, y], timeout: 1d } }]";
    let script = "people: [{ step: which, contact: sue, answer: z }, { step: which, answer: x }]";
    let contacts = ["ann", "bob", "sue", "zoe"].map(|id| json!({ "id": id }));
    let body = json!({ "text": agent, "script": script, "contacts": contacts });
    let (status, started) = world.up.post("/rehearsals", &body).await.unwrap();
    assert_eq!(status, 201, "{started}");
    let path = format!("/rehearsals/{}", started["id"].as_str().unwrap());
    let (_, ended) = world.up.get(&format!("{path}?wait=30s")).await.unwrap();
    assert_eq!(
        (&ended["status"], &ended["rehearsed"]),
        (&json!("failed"), &json!(2)),
        "{ended}"
    );
    let detail = ended["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("contact number 3: ") && !detail.contains("sue"),
        "{detail}"
    );
    for cursor in ["9223372036854775808", "-1", "x"] {
        let (status, _) = world
            .up
            .get(&format!("{path}/runs?cursor={cursor}"))
            .await
            .unwrap();
        assert_eq!(status, 400, "{cursor}");
    }
    let first = &contacts[..1];
    let body = json!({ "text": agent, "script": script, "contacts": [contacts[2]] });
    let (status, refused) = world.up.post("/rehearsals", &body).await.unwrap();
    assert_eq!(
        (status, &refused["code"]),
        (422, &json!("invalid_script")),
        "{refused}"
    );
    let (status, _) = world.up.post_yaml("/agents", agent).await.unwrap();
    assert_eq!(status, 201);
    let body = json!({ "agent": "a", "version": u32::MAX, "contacts": first });
    let (status, refused) = world.up.post("/rehearsals", &body).await.unwrap();
    assert_eq!(
        (status, &refused["code"]),
        (404, &json!("not_found")),
        "{refused}"
    );
}

/// Words 6: a rehearsal that runs is cancelled, and one that a kill has ended is marked.
#[tokio::test]
async fn a_rehearsal_is_cancelled_and_interrupted() {
    let mut world = World::with_test_clock().await;
    let items: Vec<_> = (0..200).collect();
    let slow = json!({ "agent": "slow", "steps": [
        { "id": "each", "for_each": items, "tool": "log", "args": { "message": "{{ item }}" } }
    ] });
    let contacts: Vec<_> = (0..1_000)
        .map(|n| json!({ "id": format!("c{n}") }))
        .collect();
    let body = json!({ "text": slow.to_string(), "contacts": contacts });
    let start = async |world: &World| {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let (status, started) = world.up.post("/rehearsals", &body).await.unwrap();
            if status != 429 || Instant::now() > deadline {
                assert_eq!(
                    (status, &started["status"]),
                    (201, &json!("running")),
                    "{started}"
                );
                return format!("/rehearsals/{}", started["id"].as_str().unwrap());
            }
            // The page of runs that was in progress at the cancellation takes some seconds.
            assert_eq!(started["code"], "too_many_rehearsals");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let cancelled = start(&world).await;
    let path = format!("{cancelled}/cancel");
    let (status, ended) = world.up.post(&path, &json!({})).await.unwrap();
    assert_eq!(
        (status, &ended["status"]),
        (200, &json!("cancelled")),
        "{ended}"
    );
    let stopped = start(&world).await;
    world.up.terminate().await.unwrap();
    world.up.restart().await.unwrap();
    let (_, read) = world.up.get(&stopped).await.unwrap();
    assert_eq!(read["status"], "interrupted", "{read}");
    let detail = read["detail"].as_str().unwrap();
    assert!(detail.contains("start it again"), "{read}");
    let erased = start(&world).await;
    let (status, _) = world
        .up
        .post("/contacts/zoe/erase", &json!({}))
        .await
        .unwrap();
    assert_eq!(status, 404);
    let (_, read) = world.up.get(&erased).await.unwrap();
    assert_eq!(read["status"], "cancelled", "{read}");
    let killed = start(&world).await;
    world.up.kill9().await.unwrap();
    world.up.restart().await.unwrap();
    let (_, read) = world.up.get(&killed).await.unwrap();
    assert_eq!(
        read["status"], "running",
        "its gateway may only be slow: {read}"
    );
    world.advance("46s").await;
    let (_, read) = world.up.get(&killed).await.unwrap();
    assert_eq!(read["status"], "interrupted", "{read}");
    assert!(read["rehearsed"].as_u64().unwrap() < 1_000, "{read}");
    let (_, read) = world.up.get(&cancelled).await.unwrap();
    assert_eq!(read["status"], "cancelled", "{read}");
}

async fn press(browser: &Browser, button: &str) {
    browser.find(button).await.click().await.unwrap();
}

/// Words 6: the picture of a rehearsal, and a form that keeps a refused script.
#[tokio::test]
async fn a_rehearsal_is_read_in_the_browser() {
    let Some(browsers) = Browsers::new().await else {
        return;
    };
    let world = World::with_test_clock().await;
    // The handoff of the agent is for her.
    Person::join(&world.up, "nina", &["sales"]).await.unwrap();
    let (status, applied) = world.up.post_yaml("/agents", OUTREACH).await.unwrap();
    assert_eq!(status, 201, "{applied}");
    let browser = browsers.signed_in(&world, &world.up.token, DESK).await;
    browser.go("/agents/outreach-in-words").await;
    browser.click("Rehearse this agent").await;
    browser.click("Rehearse").await;
    browser.reads("The workspace has no contacts.").await;
    for name in ["ann", "bob", "cleo"] {
        let path = format!("/contacts/{name}");
        let (status, _) = world.up.put(&path, &contact(name)).await.unwrap();
        assert!(status < 300, "{status}");
    }
    browser.fill("script", "people: [{ stp: 1 }]").await;
    press(&browser, "form.panel button").await;
    browser.reads("`people[0].stp`: unknown field").await;
    browser.go("/agents/outreach-in-words/rehearsal").await;
    browser.fill("script", &script(&["bob".to_owned()])).await;
    press(&browser, "form.panel button").await;
    browser.reads("Nothing was sent").await;
    browser.reads("To ann@x.example: Follow-up").await;
    browser.reads("Requests to @user.nina").await;
    // Small headings are in capitals.
    browser.reads("REQUESTS FOR EACH USER").await;
    browser.picture("rehearsal").await;
    let second = OUTREACH.replace("Wait 5 days", "Wait 4 days");
    assert_ne!(second, OUTREACH);
    let (status, applied) = world.up.post_yaml("/agents", &second).await.unwrap();
    assert_eq!(status, 201, "{applied}");
    browser.go("/agents/outreach-in-words/rehearsal").await;
    browser.reads("Earlier rehearsals").await;
    browser.fill("script", &script(&["bob".to_owned()])).await;
    press(&browser, "form.panel button").await;
    browser.reads("Version 2, 3 of 3 contacts").await;
    press(&browser, "form[method=get] button").await;
    browser.reads("The runs of 3 of 3 contacts differ").await;
    browser.picture("rehearsal-comparison").await;
    let (_, runs) = world.up.get("/runs").await.unwrap();
    assert_eq!(runs["items"], json!([]), "{runs}");
    browser.close().await;
}
