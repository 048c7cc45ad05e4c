//! Workers register what they offer, so its risk and its schemas count before a worker receives a step (S2-R2, issue
//! Gate, part 1).

use holdpoint_testkit::until;
use serde_json::{Value, json};

use crate::shop::Shop;
use crate::toolbox::Toolbox;
use crate::world::{PATIENCE, World};

const TOOL: &str = "crm.merge";

fn entry(risk: &str, schema: &Value) -> Value {
    json!({
        "name": TOOL, "version": "1", "risk": risk, "idempotent": true, "args_schema": schema,
        "command": ["sh", "-c", "cat"],
    })
}

/// Waits until the registry has the tool as `is_it` says.
async fn until_known(world: &World, is_it: impl Fn(&Value) -> bool) -> Value {
    until(PATIENCE, "the tool is registered", async || {
        let (status, tool) = world.up.get(&format!("/tools/{TOOL}")).await.ok()?;
        (status == 200 && is_it(&tool)).then_some(tool)
    })
    .await
    .unwrap()
}

async fn apply(world: &World, name: &str, args: Value) -> Value {
    let step = json!({ "id": "merge", "tool": TOOL, "args": args });
    world.agent(name, json!([step])).await;
    let (status, agent) = world.up.get(&format!("/agents/{name}")).await.unwrap();
    assert_eq!(status, 200, "{agent}");
    agent["warnings"].clone()
}

/// S2-R2, S2-R3: a node that lowers the risk or goes away changes nothing, and an operator does.
#[tokio::test]
async fn a_registered_risk_counts_until_an_operator_lowers_it() {
    register_and_lower_a_risk(&World::with_real_time().await).await;
}

/// The same on any system, such as one on Postgres.
pub(crate) async fn register_and_lower_a_risk(world: &World) {
    let schema = json!({ "type": "object", "required": ["id"] });
    let risky = Toolbox::of_entry(&world.up, entry("high", &schema)).await;
    let tool = until_known(world, |tool| !tool["nodes"].is_null()).await;
    assert_eq!(
        (&tool["risk"], &tool["source"]),
        (&json!("high"), &json!("worker")),
        "{tool}"
    );
    risky.kill().await;

    // The gate asks although no worker could receive the step.
    apply(world, "merges", json!({ "id": 7 })).await;
    let run = world.start_run("merges", json!({})).await;
    world.until_status(&run, "awaiting_approval").await;

    let harmless = Toolbox::of_entry(&world.up, entry("low", &json!({ "required": ["x"] }))).await;
    let tool = until_known(world, |tool| tool["offers"].as_array().unwrap().len() == 2).await;
    assert_eq!(
        (&tool["risk"], &tool["args_schema"]),
        (&json!("high"), &schema),
        "{tool}"
    );
    // Wrong arguments are told before a run, and that node and registry do not agree.
    let warnings = apply(world, "wrong", json!({ "name": "{{ input.name }}" })).await;
    let warnings = warnings.to_string();
    for expected in [
        "do not agree about the risk (`high` counts), `args_schema`",
        "\\\"id\\\" is a required property",
    ] {
        assert!(warnings.contains(expected), "{expected}: {warnings}");
    }
    let wrong = world
        .start_run("wrong", json!({ "input": { "name": "a" } }))
        .await;
    let failed = world.until_status(&wrong, "failed").await;
    assert_eq!(failed["failure"]["code"], "invalid_args", "{failed}");

    // The operator lowers what it has looked at.
    let mut word = json!({ "name": TOOL, "risk": "low", "idempotent": true });
    let (status, refused) = world.up.post("/tools", &word).await.unwrap();
    assert_eq!((status, &refused["code"]), (409, &json!("tool_changed")));
    word["seen"] = tool["seen"].clone();
    let (status, put) = world.up.post("/tools", &word).await.unwrap();
    assert_eq!(status, 201, "{put}");
    let tool = until_known(world, |tool| tool["risk"] == "low").await;
    assert_eq!(tool["args_schema"], schema, "that of the nodes");
    assert_eq!(tool["changes"][0]["by"], "owner", "{tool}");
    assert_eq!(
        tool["changes"][0]["change"],
        "registered with risk low, idempotent true"
    );
    let run = world.start_run("merges", json!({})).await;
    let done = world.until_status(&run, "completed").await;
    assert_eq!(
        done["steps"][0]["response"]["data"],
        json!({ "id": 7 }),
        "{done}"
    );
    harmless.terminate().await;
}

/// Lists have built-in tools, those of operators and those of workers, in pages.
#[tokio::test]
async fn a_list_has_the_tools_of_all_sources() {
    let world = World::with_real_time().await;
    let http = json!({ "name": "orders.find", "risk": "low", "http": { "url": "https://x.example", "headers": { "a": "{{ secret.X }}" } } });
    assert_eq!(world.up.post("/tools", &http).await.unwrap().0, 201);
    let worker = Toolbox::of_entry(&world.up, entry("medium", &json!({}))).await;
    until_known(&world, |tool| tool["nodes"].is_array()).await;
    let (mut sources, mut cursor) = (Vec::new(), String::new());
    loop {
        let (_, page) = world
            .up
            .get(&format!("/tools?limit=2{cursor}"))
            .await
            .unwrap();
        for tool in page["items"].as_array().unwrap() {
            let text = |field: &str| tool[field].as_str().unwrap().to_owned();
            sources.push((text("name"), text("source")));
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let sources = sources.iter();
    let sources = sources.map(|(name, source)| (name.as_str(), source.as_str()));
    assert_eq!(
        sources.collect::<Vec<_>>(),
        [
            ("add_tag", "built_in"),
            ("create_task", "built_in"),
            ("crm.merge", "worker"),
            ("http_request", "built_in"),
            ("log", "built_in"),
            ("orders.find", "http"),
            ("remove_tag", "built_in"),
            ("search_contacts", "built_in"),
            ("send_email", "built_in"),
            ("set", "built_in"),
            ("update_contact", "built_in"),
        ]
    );
    assert_eq!(world.up.get("/tools/crm.nothing").await.unwrap().0, 404);
    worker.terminate().await;
}

/// Gate: only the reference is stored and shown, and the node that makes the call resolves it.
#[tokio::test]
async fn a_secret_is_known_to_the_node_only() {
    let shop = Shop::open().await;
    let workspace = "default";
    let variable = format!("HOLDPOINT_SECRET_SHOP_KEY__{workspace}");
    let world = World::with_real_env(&[(&variable, "k-998877")]).await;
    assert_eq!(world.up.workspace, workspace);
    let tool = |name: &str, secret: &str| {
        let headers = json!({ "Authorization": format!("Bearer {{{{ secret.{secret} }}}}") });
        json!({ "name": name, "risk": "low", "idempotent": false, "http": { "url": shop.url("/headers"), "headers": headers } })
    };
    for (name, secret) in [("orders.make", "SHOP_KEY"), ("orders.lose", "OTHER_KEY")] {
        assert_eq!(
            world
                .up
                .post("/tools", &tool(name, secret))
                .await
                .unwrap()
                .0,
            201
        );
        let step = json!({ "id": "make", "tool": name, "args": {} });
        world.agent(&name.replace('.', "-"), json!([step])).await;
    }
    let run = world.start_run("orders-make", json!({})).await;
    let done = world.until_status(&run, "completed").await;
    assert_eq!(shop.calls()[0].header("authorization"), "Bearer k-998877");
    let echo = &done["steps"][0]["response"]["data"];
    assert_eq!(echo["authorization"], "Bearer [secret]", "{done}");
    let (_, shown) = world.up.get("/tools/orders.make").await.unwrap();
    assert_eq!(
        shown["http"]["headers"]["Authorization"],
        "Bearer {{ secret.SHOP_KEY }}"
    );
    let run = world.start_run("orders-lose", json!({})).await;
    let failed = world.until_status(&run, "failed").await;
    let failure = &failed["failure"];
    assert_eq!(failure["code"], "unknown_secret", "{failed}");
    assert!(
        failure["message"].as_str().unwrap().contains("OTHER_KEY"),
        "{failed}"
    );

    let step =
        json!({ "id": "leak", "tool": "log", "args": { "message": "{{ secret.SHOP_KEY }}" } });
    let agent = json!({ "agent": "leaks", "steps": [step] });
    let (status, refused) = world.up.post("/agents", &agent).await.unwrap();
    assert_eq!(status, 422, "{refused}");
    let refused = refused.to_string();
    assert!(
        refused.contains("A secret cannot be used in an agent"),
        "{refused}"
    );
}

/// Gate: neither the output nor the error of a command shows its secret.
#[tokio::test]
async fn a_command_shows_no_secret() {
    let world = World::with_real_time().await;
    let script = r#"printf '{"key": "%s", "code": %s}' "$KEY" "$CODE"
        if grep -q fails; then echo "no access with $KEY" >&2; exit 1; fi"#;
    let tool = json!({
        "name": TOOL, "risk": "low", "command": ["sh", "-c", script],
        "env": { "KEY": "{{ secret.CRM_KEY }}", "CODE": "{{ secret.CODE }}" },
    });
    let env = [
        ("HOLDPOINT_SECRET_CRM_KEY", "k-998877"),
        ("HOLDPOINT_SECRET_CODE", "482915"),
    ];
    let _node = Toolbox::with_env(&world.up, tool, &env).await;
    for (name, end) in [("works", "completed"), ("fails", "failed")] {
        let step = json!({ "id": "merge", "tool": TOOL, "args": { "it": name } });
        world.agent(name, json!([step])).await;
        let run = world.start_run(name, json!({})).await;
        let shown = world.until_status(&run, end).await;
        let text = shown.to_string();
        assert!(text.contains("[secret]"), "{shown}");
        assert!(
            !text.contains("k-998877") && !text.contains("482915"),
            "{shown}"
        );
    }
}

/// S2-R2, S2-R15: a tool gets the hidden parts of its call, and no view shows them. The row of the step keeps what counted
/// at the call.
#[tokio::test]
async fn hidden_parts_of_a_call_are_shown_nowhere() {
    const KEY: &str = "k-471147114711";
    let world = World::with_real_time().await;
    let mut hiding = entry("high", &json!({}));
    hiding["redaction"] = json!(["args.key", "result.token"]);
    hiding["env"] = json!({ "CRM": "{{ secret.CRM_KEY }}" });
    let script = "cat > /dev/null; echo '{\"token\":\"t-08150815\",\"said\":\"k-471147114711\"}'";
    hiding["command"] = json!(["sh", "-c", script]);
    let worker = Toolbox::with_env(&world.up, hiding, &[("HOLDPOINT_SECRET_CRM_KEY", "c-1")]).await;
    let tool = until_known(&world, |tool| !tool["nodes"].is_null()).await;
    assert_eq!(tool["redaction"], json!(["args.key", "result.token"]));
    let steps = json!([
        { "id": "merge", "tool": TOOL, "args": { "key": KEY, "n": 1 } },
        { "id": "note", "tool": "log", "when": "$merge.token == \"t-08150815\"", "args": { "message": "done" } },
    ]);
    world.agent("merges", steps).await;
    let run = world.start_run("merges", json!({})).await;
    let asked = world.until_status(&run, "awaiting_approval").await;
    let (_, open) = world.up.get("/requests?limit=100").await.unwrap();
    assert_eq!(
        open["items"][0]["items"][0]["args"]["key"], "[redacted]",
        "{open}"
    );
    let approve = json!({ "approved_steps": ["merge"], "edited_args": { "merge": { "key": "[redacted]", "n": 2 } } });
    let (status, approved) = world
        .up
        .post(&format!("/runs/{run}/approve"), &approve)
        .await
        .unwrap();
    assert_eq!(status, 200, "{approved}");
    let done = world.until_status(&run, "completed").await;
    let step = &done["steps"][0];
    assert_eq!(step["request"], json!({ "key": "[redacted]", "n": 2 }));
    assert_eq!(
        step["response"]["data"],
        json!({ "token": "[redacted]", "said": "[redacted]" })
    );
    assert_eq!(
        done["steps"][1]["status"], "completed",
        "the condition sees the token"
    );
    assert_eq!(
        (
            &step["risk"],
            &step["waiting_confirm"],
            &step["app"],
            &step["credential_id"]
        ),
        (
            &json!("high"),
            &json!(true),
            &json!("crm"),
            &json!("CRM_KEY")
        )
    );
    let (_, history) = world
        .up
        .get(&format!("/runs/{run}/history?limit=500"))
        .await
        .unwrap();
    let path = format!("/requests/{}", open["items"][0]["id"].as_str().unwrap());
    let (_, request) = world.up.get(&path).await.unwrap();
    let (_, mails) = world.up.get("/mails").await.unwrap();
    for shown in [&asked, &open, &done, &history, &request, &mails] {
        let text = shown.to_string();
        let is_shown = text.contains(KEY) || text.contains("t-08150815");
        assert!(!is_shown, "{text}");
    }
    show_again(&world, &run, &tool).await;
    worker.terminate().await;
}

/// An operator lowers the risk and hides nothing from now on. What has counted at the call stays.
async fn show_again(world: &World, run: &str, tool: &Value) {
    let word = json!({ "name": TOOL, "risk": "low", "seen": tool["seen"], "redaction": [] });
    assert_eq!(world.up.post("/tools", &word).await.unwrap().0, 201);
    let after = world.until_status(run, "completed").await;
    assert_eq!(after["steps"][0]["risk"], "high");
    assert_eq!(after["steps"][0]["request"]["key"], "[redacted]");
}
