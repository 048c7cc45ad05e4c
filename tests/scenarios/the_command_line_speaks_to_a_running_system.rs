//! Two terminals: `up --test-clock` in one, the other commands in the other.

use std::process::Output;

use holdpoint_testkit::{Person, holdpoint_binary};
use serde_json::{Value, json};

use crate::mail_provider::Provider;
use crate::world::{World, log};

async fn holdpoint(world: &World, args: &[&str]) -> Output {
    tokio::process::Command::new(holdpoint_binary().unwrap())
        .args(args)
        .arg("--data")
        .arg(world.up.data_dir())
        .env_remove("HOLDPOINT_URL")
        .env_remove("HOLDPOINT_TOKEN")
        .output()
        .await
        .unwrap()
}

fn stdout_of(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn start_show_pause_resume_advance_watch() {
    let world = World::with_test_clock().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.json");
    let agent = json!({ "agent": "patient", "steps": [{ "wait": "5 days" }, log("after")] });
    std::fs::write(&file, agent.to_string()).unwrap();
    stdout_of(&holdpoint(&world, &["agent", "apply", file.to_str().unwrap()]).await);

    let started = stdout_of(&holdpoint(&world, &["run", "start", "patient", "--json"]).await);
    let started: Value = serde_json::from_str(&started).unwrap();
    let id = started["id"].as_str().unwrap();
    stdout_of(&holdpoint(&world, &["clock", "advance", "2d"]).await);
    stdout_of(&holdpoint(&world, &["run", "pause", id]).await);
    let shown = stdout_of(&holdpoint(&world, &["run", "show", id]).await);
    assert!(
        shown.contains("Paused by owner; timer hold has 3 days left."),
        "{shown}"
    );
    stdout_of(&holdpoint(&world, &["run", "resume", id]).await);
    stdout_of(&holdpoint(&world, &["clock", "advance", "3d"]).await);
    let watched = stdout_of(&holdpoint(&world, &["run", "watch", id]).await);
    assert!(watched.contains("run.completed"), "{watched}");
    let listed = stdout_of(&holdpoint(&world, &["run", "list", "--status", "completed"]).await);
    assert!(listed.contains(id), "{listed}");

    let absent = ["run", "show", "run_00000000000000000000000000000000"];
    assert_eq!(holdpoint(&world, &absent).await.status.code(), Some(3));
    assert_eq!(
        holdpoint(&world, &["run", "cancel", id])
            .await
            .status
            .code(),
        Some(6)
    );
    assert_eq!(
        holdpoint(&world, &["run", "colour"]).await.status.code(),
        Some(2)
    );
}

#[tokio::test]
async fn an_unreachable_system_is_an_error() {
    let nowhere = tempfile::tempdir().unwrap();
    let output = tokio::process::Command::new(holdpoint_binary().unwrap())
        .args([
            "run",
            "list",
            "--url",
            "http://127.0.0.1:9",
            "--token",
            "t",
            "--data",
        ])
        .arg(nowhere.path())
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("holdpoint up"), "{said}");
}

/// Preferences, webhooks and policies are shown and changed in a terminal.
#[tokio::test]
async fn preferences_webhooks_and_policies_are_kept() {
    let world = World::with_test_clock().await;
    let set = [
        "preferences",
        "set",
        "--order",
        "chat,email",
        "--chat-url",
        "http://127.0.0.1:9/services/hidden",
        "--email-from",
        "high",
        "--quiet-hours",
        "22:00-07:00",
        "--time-zone",
        "Europe/Berlin",
    ];
    let said = stdout_of(&holdpoint(&world, &set).await);
    assert!(said.contains("(shown once)"), "{said}");
    stdout_of(&holdpoint(&world, &["preferences", "set", "--chat-from", "normal"]).await);
    let shown = stdout_of(&holdpoint(&world, &["preferences", "show"]).await);
    for words in [
        "order        chat, then email",
        "email        from high",
        "chat         from normal, slack (http://127.0.0.1:9/…)",
        "time zone    Europe/Berlin",
        "quiet hours  22:00 to 07:00",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let wrong = ["preferences", "set", "--time-zone", "Berlin"];
    let refused = holdpoint(&world, &wrong).await;
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");

    let add = [
        "webhooks",
        "add",
        "http://127.0.0.1:9/",
        "--event",
        "approval.*",
        "--json",
    ];
    let added: Value = serde_json::from_str(&stdout_of(&holdpoint(&world, &add).await)).unwrap();
    let id = added["id"].as_str().unwrap();
    let disabled = stdout_of(&holdpoint(&world, &["webhooks", "disable", id]).await);
    assert!(disabled.contains("disabled"), "{disabled}");
    stdout_of(&holdpoint(&world, &["webhooks", "enable", id]).await);
    let listed = stdout_of(&holdpoint(&world, &["webhooks", "list"]).await);
    assert!(
        listed.contains("active") && listed.contains("approval.*"),
        "{listed}"
    );
    stdout_of(&holdpoint(&world, &["webhooks", "deliveries", id]).await);
    stdout_of(&holdpoint(&world, &["webhooks", "remove", id]).await);
    let gone = holdpoint(&world, &["webhooks", "enable", id]).await;
    assert_eq!(gone.status.code(), Some(3), "{gone:?}");

    let policy = r#"{"name": "two-of-ops", "kind": "approval", "from": ["@role.ops"], "need": 2}"#;
    stdout_of(&holdpoint(&world, &["policies", "put", policy]).await);
    let listed = stdout_of(&holdpoint(&world, &["policies", "list"]).await);
    assert!(
        listed.contains("two-of-ops") && listed.contains("built in"),
        "{listed}"
    );
    let shown = stdout_of(&holdpoint(&world, &["policies", "show", "two-of-ops"]).await);
    assert!(shown.contains("\"need\": 2"), "{shown}");
    stdout_of(&holdpoint(&world, &["policies", "remove", "two-of-ops"]).await);
    let gone = holdpoint(&world, &["policies", "show", "two-of-ops"]).await;
    assert_eq!(gone.status.code(), Some(3), "{gone:?}");
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Mend D-4: a unique prefix of an id is enough.
#[tokio::test]
async fn ids_may_be_shortened() {
    let world = World::with_test_clock().await;
    let ask = json!({ "ask": { "question": "Go on?", "options": ["yes", "no"], "timeout": "1d" } });
    world.agent("asks", json!([ask])).await;
    let first = world.start_run("asks", json!({})).await;
    let second = world.start_run("asks", json!({})).await;
    world.until_status(&first, "awaiting_input").await;
    world.until_status(&second, "awaiting_input").await;

    // The common prefix, and one character more.
    let common = first.bytes().zip(second.bytes());
    let common = common.take_while(|(one, other)| one == other).count();
    let short = &first[..=common];
    for args in [
        ["run", "show", short],
        ["run", "pause", short],
        ["run", "resume", short],
    ] {
        let shown = stdout_of(&holdpoint(&world, &args).await);
        assert!(
            shown.contains(&first) && !shown.contains(&second),
            "{shown}"
        );
    }
    let many = holdpoint(&world, &["run", "cancel", &first[..common]]).await;
    assert_eq!(many.status.code(), Some(2));
    let why = stderr_of(&many);
    assert!(
        why.contains("2 ids begin with") && why.contains(&second),
        "{why}"
    );
    let none = holdpoint(&world, &["run", "show", "run_ffff"]).await;
    assert_eq!(none.status.code(), Some(3), "{}", stderr_of(&none));
    let little = holdpoint(&world, &["run", "cancel", "run_0"]).await;
    assert_eq!(little.status.code(), Some(2), "{}", stderr_of(&little));
    assert_eq!(world.run(&second).await["status"], "awaiting_input");

    let hold = first.replace("run_", "hold_");
    let said = stdout_of(&holdpoint(&world, &["respond", &hold[..common + 2], "yes"]).await);
    assert!(said.contains(&hold), "{said}");
    world.until_status(&first, "completed").await;
    let taken = ["take-over", &second[..=common]];
    let said = stdout_of(&holdpoint(&world, &taken).await);
    assert!(said.contains("taken over by owner"), "{said}");
}

/// Mend D-13: a second start from the same file warns first, and `--once` skips contacts with a run.
#[tokio::test]
async fn a_file_is_started_once() {
    let world = World::with_test_clock().await;
    world.agent("greets", json!([log("hello")])).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("contacts.csv");
    std::fs::write(&file, "id,name\nc-1,Ada\nc-2,Bob\n").unwrap();
    let file = file.to_str().unwrap().to_owned();
    let start = ["run", "start", "greets", "--csv", &file];
    let runs = async || {
        let (_, page) = world.up.get("/runs").await.unwrap();
        page["items"].as_array().unwrap().len()
    };
    let first = holdpoint(&world, &start).await;
    stdout_of(&first);
    assert_eq!(
        (runs().await, stderr_of(&first).contains("--once")),
        (2, false)
    );

    let again = holdpoint(&world, &start).await;
    stdout_of(&again);
    let said = stderr_of(&again);
    let (warned, started) = (
        said.find("2 of 2 contacts have a run of greets"),
        said.find("started"),
    );
    assert!(
        warned.is_some() && (started.is_none() || warned < started),
        "{said}"
    );
    assert_eq!(runs().await, 4);

    std::fs::write(&file, "id,name\nc-1,Ada\nc-2,Bob\nc-3,Cem\n").unwrap();
    let once = [&start[..], &["--once", "--json"]].concat();
    let started = stdout_of(&holdpoint(&world, &once).await);
    let started: Value = serde_json::from_str(&started).unwrap();
    assert_eq!(started["items"].as_array().unwrap().len(), 1, "{started}");
    assert_eq!(started["items"][0]["contact"], "c-3");
    let one = ["run", "start", "greets", "--contact", "c-3", "--once"];
    assert!(stderr_of(&holdpoint(&world, &one).await).contains("none is started"));
    assert_eq!(runs().await, 5);
}

/// Words 6: a rehearsal as people read it, and the contacts whose runs differ between two versions.
#[tokio::test]
async fn an_agent_is_rehearsed_and_compared() {
    let world = World::with_test_clock().await;
    Person::join(&world.up, "nina", &["member"]).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let old = file("old.yaml", "agent: a\ninstructions: Wait 5 days\n");
    let new = "agent: a\ninstructions: |\n  Wait 5 days\n  If contact.city is \"Lisbon\", hand off to @user.nina\n";
    let new = file("new.yaml", new);
    // More than one request has room for.
    let rows: String = (0..150).map(|n| format!("c{n},Porto\n")).collect();
    let contacts = file("c.csv", &format!("id,city\nann,Lisbon\n{rows}"));
    let rehearse = ["agent", "rehearse", &new, "--contacts", &contacts];
    let text = stdout_of(&holdpoint(&world, &rehearse).await);
    for words in [
        "a, rehearsed: nothing was sent",
        "contacts   151",
        "150 contacts: c0, c1, c2, c3, c4 and 145 more",
        "1 contact: ann",
        "handoff to @user.nina",
        "requests   @user.nina 1",
        "users      nina 1",
        "roles      none",
        "unseen     150 (c0",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let compare = [&rehearse[..], &["--compare", &old]].concat();
    let text = stdout_of(&holdpoint(&world, &compare).await);
    assert!(
        text.contains("The runs of 1 of 151 contacts differ."),
        "{text}"
    );
    assert!(
        text.contains("ann      5d completed  5d handoff to @user.nina"),
        "{text}"
    );
}

/// Words 5: the replies of unknown senders, without control characters, assigned and removed.
#[tokio::test]
async fn unmatched_replies_are_listed_assigned_and_removed() {
    let world = World::with_test_clock().await;
    let contact = ["contact", "put", "{\"id\": \"zoe\"}"];
    stdout_of(&holdpoint(&world, &contact).await);
    let provider = Provider::joins(&world, "mail").await;
    let at = world.now().await;
    for id in ["m1", "m2"] {
        let reply = json!({ "from": format!("{id}@x.example"), "text": "Yes\nplease\u{1b}[2J" });
        assert_eq!(provider.posts(id, at, &reply).await.0, 202);
    }
    let list = ["contact", "unmatched", "list"];
    let listed = stdout_of(&holdpoint(&world, &list).await);
    let lines: Vec<_> = listed.lines().collect();
    assert!(lines[0].starts_with("ID     RECEIVED"), "{listed}");
    assert!(lines[1].starts_with("unm_2  2"), "{listed}");
    assert!(
        lines[2].ends_with("m1@x.example  Yes please[2J"),
        "{listed}"
    );
    assert!(
        lines.iter().all(|line| line.chars().count() <= 80),
        "{listed}"
    );
    let assigned = holdpoint(&world, &["contact", "unmatched", "assign", "unm_1", "zoe"]).await;
    assert_eq!(stdout_of(&assigned), "unm_1  recorded for zoe\n");
    let removed = holdpoint(&world, &["contact", "unmatched", "remove", "unm_2"]).await;
    assert_eq!(stdout_of(&removed), "unm_2  removed\n");
    let absent = holdpoint(&world, &["contact", "unmatched", "remove", "unm_9"]).await;
    assert_eq!(absent.status.code(), Some(3));
    let listed = stdout_of(&holdpoint(&world, &list).await);
    assert_eq!(listed, "", "nothing is left");
}

/// Templates and calendars of a workspace are stored, shown and deleted.
#[tokio::test]
async fn templates_and_calendars_are_stored() {
    let world = World::with_test_clock().await;
    let say = async |args: &[&str]| stdout_of(&holdpoint(&world, args).await);
    let file = world.up.data_dir().join("hello.txt");
    std::fs::write(&file, "Good day, {{ contact.name }}.\n").unwrap();
    let file = file.to_str().unwrap();
    let put = ["template", "put", "Hello", file, "--subject", "A greeting"];
    let stored = "Hello  stored; agents take it when they are applied again\n";
    assert_eq!(say(&put).await, stored);
    assert_eq!(say(&put).await, "Hello  unchanged\n");
    let mail = "Subject: A greeting\n\nGood day, {{ contact.name }}.\n";
    assert_eq!(
        say(&["template", "show", "Hello"]).await.trim(),
        mail.trim()
    );
    let days = ["--days", "mon,tue", "--holidays", "2026-12-25"];
    say(&[&["calendar", "put", "berlin"][..], &days].concat()).await;
    let shown = say(&["calendar", "show", "berlin", "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let berlin = json!({ "time_zone": "UTC", "days": ["mon", "tue"], "holidays": ["2026-12-25"] });
    assert_eq!(shown["value"], berlin);
    for (list, name) in [("template", "Hello"), ("calendar", "berlin")] {
        let listed = say(&[list, "list"]).await;
        assert!(
            listed.contains(name) && listed.contains("owner"),
            "{listed}"
        );
        assert_eq!(
            say(&[list, "delete", name]).await,
            format!("{name}  deleted\n")
        );
        let gone = holdpoint(&world, &[list, "show", name]).await;
        assert_eq!(gone.status.code(), Some(3), "{gone:?}");
    }
    let twice = ["template", "put", "Hello", "-", "--html", "-"];
    let refused = holdpoint(&world, &twice).await;
    assert!(
        stderr_of(&refused).contains("standard input"),
        "{refused:?}"
    );
}

/// A second `user add` changes only what it gives.
#[tokio::test]
async fn a_user_keeps_what_is_not_given() {
    let world = World::with_test_clock().await;
    let say = async |args: &[&str]| stdout_of(&holdpoint(&world, args).await);
    let add = [
        "user",
        "add",
        "nina",
        "--role",
        "member",
        "--email",
        "nina@x.example",
    ];
    assert_eq!(
        say(&add).await,
        "@user.nina  member  nina@x.example  added\n"
    );
    let roles = ["user", "add", "nina", "--role", "viewer"];
    assert_eq!(
        say(&roles).await,
        "@user.nina  viewer  nina@x.example  changed\n"
    );
    let email = ["user", "add", "nina", "--email", ""];
    assert_eq!(
        say(&email).await,
        "@user.nina  viewer  no email address  changed\n"
    );
}

/// Gate 1, Words 1: `--strict` refuses an agent with warnings. `plan` shows each line beside its step, and `--words` the
/// steps in words.
#[tokio::test]
async fn a_strict_apply_refuses_each_kind_of_warning() {
    let world = World::with_test_clock().await;
    Person::join(&world.up, "nina", &["member", "sales"])
        .await
        .unwrap();
    let file = world.up.data_dir().join("agent.yaml");
    let path = file.to_str().unwrap().to_owned();
    let write = |instructions: &str| {
        let text = format!("agent: strict\ninstructions: |\n  {instructions}\n");
        std::fs::write(&file, text).unwrap();
    };
    for (line, warning) in [
        (
            r#"Hand off to @user.nona"#,
            "No active user has the name `nona`. Did you mean `@user.nina`?",
        ),
        (
            r#"Ask @role.sale "Go on?""#,
            "No active user has the role `sale`",
        ),
        (
            r#"Call tool send_email with to "a@x.example" and subjct "Hi""#,
            "do not fit `args_schema` of `send_email`",
        ),
        (r#"Call payments.refnd"#, "payments.refnd"),
    ] {
        write(line);
        let refused = holdpoint(&world, &["agent", "apply", "--strict", &path]).await;
        assert_eq!(refused.status.code(), Some(4), "{refused:?}");
        let said = stderr_of(&refused);
        assert!(said.contains(warning), "{line}: {said}");
        assert!(said.contains("--strict refuses warnings"), "{said}");
        let absent = holdpoint(&world, &["agent", "show", "strict"]).await;
        assert_eq!(absent.status.code(), Some(3), "{absent:?}");
    }
    for (step, consequence) in [
        (
            "ask: { question: Go on?, policy: default-inptu }",
            "The request is opened without it.",
        ),
        (
            "{ tool: log, args: { message: hi }, approval: { policy: default-inptu } }",
            "No approval is asked, and the step fails.",
        ),
    ] {
        std::fs::write(&file, format!("agent: strict\nsteps:\n  - {step}\n")).unwrap();
        let refused = holdpoint(&world, &["agent", "apply", "--strict", &path]).await;
        assert_eq!(refused.status.code(), Some(4), "{refused:?}");
        let said = stderr_of(&refused);
        let warning = format!(
            "No policy has the name `default-inptu`. {consequence} Did you mean `default-input`?"
        );
        assert!(said.contains(&warning), "{said}");
    }
    write("Wait 5 days\n  If no reply, hand off to @user.nina for personal outreach");
    let planned = stdout_of(&holdpoint(&world, &["agent", "plan", &path]).await);
    let lines: Vec<&str> = planned
        .lines()
        .filter(|line| line.contains("Wait 5 days"))
        .collect();
    assert!(!lines.is_empty(), "{planned}");
    assert!(planned.contains("for personal outreach"), "{planned}");
    let stored = holdpoint(&world, &["agent", "apply", "--strict", &path]).await;
    assert_eq!(stored.status.code(), Some(0), "{stored:?}");
    let words = stdout_of(&holdpoint(&world, &["agent", "show", "strict", "--words"]).await);
    assert!(
        words.contains("If no reply, hand off to @user.nina for personal outreach"),
        "{words}"
    );
}
