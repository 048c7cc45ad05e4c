//! Files of tools, and commands as real processes.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdpoint_contracts::asking::GivenAnswer;
use holdpoint_contracts::steps::StepDispatch;
use serde_json::{Value, json};

use super::command::quoted;
use super::{ToolsFile, ToolsFileError};
use crate::redaction::{Redaction, SECRET};
use crate::targets::EgressPolicy;
use crate::tool::{CallCost, Tool, ToolCall, ToolFailure, ToolResult};
use crate::tools::HttpRequest;
use crate::tools::http_request::DEFAULT_TIMEOUT;

fn http() -> HttpRequest {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    HttpRequest::new(EgressPolicy::AllowPrivate, DEFAULT_TIMEOUT).unwrap()
}

fn read(text: &str) -> Result<ToolsFile, ToolsFileError> {
    ToolsFile::read(text, &http(), None)
}

/// A tool that runs `script`, with a time limit.
fn shell(script: &str, timeout: &str) -> Arc<dyn Tool> {
    let file = json!({
        "node": "n",
        "tools": [{ "name": "x", "risk": "low", "timeout": timeout, "command": ["sh", "-c", script] }],
    });
    read(&file.to_string()).unwrap().tools.remove(0)
}

fn asked(args: Value) -> ToolCall {
    ToolCall {
        dispatch: StepDispatch {
            workspace: "default".parse().unwrap(),
            run: "run_01920000000070008000000000000001".parse().unwrap(),
            agent: "outreach".parse().unwrap(),
            step: "step-01".to_owned(),
            dispatch: 7,
            attempt: 2,
            tool: "x".parse().unwrap(),
            args,
            contact: None,
            idempotent: false,
            claim_timeout_ms: 30_000,
            timeout_ms: None,
            token: Some("hps_secret".to_owned()),
            http: None,
            answers: holdpoint_contracts::asking::Answers::new(),
            feedback: None,
            resumed: false,
            user: holdpoint_contracts::Actor("owner".to_owned()),
            traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
            at: "2026-03-01T09:00:00Z".parse().unwrap(),
        },
        bus: None,
        run_changes: crate::run_changes::RunChanges::default(),
        now: "2026-03-01T09:00:00Z".parse().unwrap(),
        stop: tokio_util::sync::CancellationToken::new(),
        suspension: crate::suspension::CallSuspension::default(),
        cost: CallCost::default(),
    }
}

async fn run(script: &str, args: Value) -> ToolResult {
    shell(script, "20s").call(&asked(args)).await
}

async fn until(what: &str, probe: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !probe() {
        assert!(Instant::now() < end, "waited for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The process whose number a script wrote to `file`.
fn is_alive(file: &Path) -> bool {
    let id = std::fs::read_to_string(file).unwrap();
    // A zombie is not alive: the second word after the name in brackets says so.
    std::fs::read_to_string(format!("/proc/{}/stat", id.trim()))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim().starts_with('Z'))
}

/// S2-R10
#[test]
fn a_file_names_commands_and_http_calls() {
    let file = read(
        "node: crm\n\
         tools:\n\
         - {name: crm.find, version: '1.2', risk: low, idempotent: true, command: [cat]}\n\
         - name: payments.refund\n  risk: high\n  http: {url: 'https://pay.example/refunds'}\n",
    )
    .unwrap();
    let names: Vec<_> = file.tools.iter().map(|tool| tool.name()).collect();
    assert_eq!(names, ["crm.find", "payments.refund"]);
    assert!(file.node.as_str().starts_with("crm-"));
    let again =
        read(r#"{"node": "crm", "tools": [{"name": "a", "risk": "low", "command": ["cat"]}]}"#)
            .unwrap();
    assert_ne!(again.node, file.node, "new at every start");
}

/// S2-R2: what the worker registers of a tool beside its risk.
#[test]
fn a_file_states_the_limits_and_names_the_secrets_of_a_tool() {
    let file = read(
        "node: crm\n\
         tools:\n\
         - name: a\n  risk: low\n  command: [cat]\n  timeout: 5s\n  retry: {attempts: 7}\n\
        \x20 env: {K: 'x {{ secret.B }}', L: '{{ secret.A_1 }}{{ secret.B }}'}\n\
         - name: b\n  risk: low\n  timeout: 10ms\n  http: {url: 'http://x', headers: {k: '{{ secret.C }}'}}\n",
    )
    .unwrap();
    let [a, b] = [0, 1].map(|index: usize| file.tools[index].definition());
    assert_eq!(a.timeout, Some(Duration::from_secs(5)));
    assert_eq!(a.retry.unwrap().attempts, 7);
    assert_eq!(Vec::from_iter(a.secrets), ["A_1", "B"]);
    assert_eq!(
        (b.timeout, b.retry),
        (Some(Duration::from_millis(10)), None)
    );
    assert_eq!(Vec::from_iter(b.secrets), ["C"]);
}

#[test]
fn a_wrong_retry_is_refused() {
    for (retry, said) in [
        (
            "attempts: 0",
            "tool `a`: `retry.attempts` is a whole number from 1 to 100",
        ),
        ("tries: 3", "tools[0].retry"),
    ] {
        let tool = format!("{{name: a, risk: low, command: [cat], retry: {{{retry}}}}}");
        let error = read(&format!("node: crm\ntools:\n- {tool}\n")).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn a_wrong_file_is_refused_with_what_is_wrong_and_where() {
    let tool = |entry: &str| format!("node: crm\ntools:\n- {entry}\n");
    let many = format!(
        "node: crm\ntools: [{}]",
        "{name: a, risk: low, command: [cat]},".repeat(201)
    );
    for (text, said) in [
        (tool("{name: a, comand: [cat]}"), "unknown field `comand`"),
        (tool("{name: a, comand: [cat]}"), "tools[0]"),
        (
            tool("{name: a, risk: huge, command: [cat]}"),
            "tools[0].risk",
        ),
        (tool("{name: 'a b', command: [cat]}"), "invalid tool name"),
        (tool("{name: a, risk: low}"), "needs either `command"),
        (tool("{name: a, command: [cat]}"), "needs `risk: low`"),
        (
            tool("{name: a, risk: low, command: []}"),
            "needs either `command",
        ),
        (
            tool("{name: a, risk: low, command: [cat], http: {url: 'http://x'}}"),
            "needs either `command",
        ),
        (
            tool("{name: a, risk: low, http: {uri: 'http://x'}}"),
            "unknown field `uri`",
        ),
        (
            tool("{name: a, risk: low, command: [cat], env: [HOLDPOINT_NATS_SEED]}"),
            "none that begins with HOLDPOINT_",
        ),
        (
            tool("{name: a, risk: low, command: [cat], env: ['A=B']}"),
            "`env` cannot name \"A=B\"",
        ),
        (
            tool("{name: a, risk: low, command: [cat], timeout: soon}"),
            "invalid `timeout`",
        ),
        (
            tool("{name: a, risk: low, command: [cat], env: {K: '{{ secret.k }}'}}"),
            "tool `a`: a `{{` must begin a reference",
        ),
        (
            tool("{name: a, risk: low, http: {url: 'http://x/?k={{ secret.K }}'}}"),
            "tool `a`: `http.url` cannot contain a secret",
        ),
        (
            tool("{name: a, risk: low, command: [cat], args_schema: {$ref: '#'}}"),
            "tool `a`: the schema has `$ref`",
        ),
        (
            tool("{name: a, risk: low, command: [cat]}\n- {name: a, risk: low, command: [cat]}"),
            "two tools have the name `a`",
        ),
        ("node: crm\ntools: []".to_owned(), "the file lists 0 tools"),
        (many, "the file lists 201 tools"),
        ("tools: []".to_owned(), "missing field `node`"),
        ("node: [".to_owned(), "line"),
        ("x".repeat(super::FILE_MAX + 1), "more than"),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains(said), "{said:?} is not in {error:?}");
    }
}

/// S2-R10
#[tokio::test]
async fn a_command_gets_its_arguments_and_answers_on_its_output() {
    let args = json!({ "email": "ada@lindqvist.example" });
    assert_eq!(run("cat", args.clone()).await.unwrap().data, args);
    assert_eq!(run("exit 0", args.clone()).await.unwrap().data, Value::Null);
    let large = json!({ "text": "x".repeat(200_000) });
    assert_eq!(run("cat", large.clone()).await.unwrap().data, large);
    // Not read at all, and more than a pipe holds.
    assert_eq!(run("echo 1", large).await.unwrap().data, json!(1));
}

/// S2-R10
#[tokio::test]
async fn a_command_knows_its_step_and_never_the_token_of_its_worker() {
    let script = r#"printf '["%s","%s","%s","%s","%s"]' "$HOLDPOINT_RUN" "$HOLDPOINT_STEP" \
        "$HOLDPOINT_ATTEMPT" "$HOLDPOINT_TOKEN" "$HOLDPOINT_IDEMPOTENCY_KEY""#;
    let known = run(script, json!({})).await.unwrap().data;
    assert_eq!(
        known,
        json!([
            "run_01920000000070008000000000000001",
            "step-01",
            "2",
            "hps_secret",
            "run_01920000000070008000000000000001/step-01"
        ])
    );
}

/// S0-R5
#[tokio::test]
async fn a_failed_command_quotes_the_end_of_stderr_without_secrets() {
    let script = "for i in $(seq 1 2000); do echo line $i; done >&2; \
                  printf 'token %s\\033[2J\\n' \"$HOLDPOINT_TOKEN\" >&2; exit 3";
    let failure = run(script, json!({})).await.unwrap_err();
    assert_eq!(failure.code, "command_failed");
    let said = &failure.message;
    assert!(
        said.contains("exit status: 3") && said.contains("line 2000"),
        "{said}"
    );
    assert!(
        said.contains("token [token]") && !said.contains("line 1990 "),
        "{said}"
    );
    assert!(
        !said.contains(char::is_control) && said.len() < 1_200,
        "{said}"
    );
}

/// S0-R5: a secret may have several lines, and the quote begins within the output.
#[test]
fn a_quote_has_no_part_of_a_secret() {
    let key = format!("-----BEGIN-----\n{}-----END-----\n", "abcdef\n".repeat(500));
    let mut secrets = Redaction::default();
    secrets.add(&key, SECRET);
    for times in [1, 4] {
        let errors = format!("{}cannot use it", key.repeat(times));
        let end = errors.len().saturating_sub(8 * 1_024);
        let said = quoted(&errors.as_bytes()[end..], &secrets);
        assert!(said.ends_with("[secret] / cannot use it"), "{said}");
        assert!(!said.contains("abcdef") && !said.contains("END"), "{said}");
    }
}

#[tokio::test]
async fn an_output_that_cannot_be_kept_fails_the_step() {
    let failure = run("echo no json: hps_secret", json!({}))
        .await
        .unwrap_err();
    assert_eq!(failure.code, "invalid_result");
    assert!(!failure.message.contains("hps_secret"), "{failure}");
    // Never ending: it is killed and not waited for.
    let failure = run("trap '' PIPE; while :; do echo 1111111111; done", json!({}))
        .await
        .unwrap_err();
    assert_eq!(failure.code, "result_too_large");
    let file = r#"{"node": "n", "tools": [{"name": "x", "risk": "low", "command": ["/no/such/program"]}]}"#;
    let tool = read(file).unwrap().tools.remove(0);
    let failure = tool.call(&asked(json!({}))).await.unwrap_err();
    assert_eq!(failure.code, "command_not_started");
    assert!(!failure.message.contains("/no/such"), "{failure}");
}

/// S4-R3: cancel and a time limit leave no process behind, nor one that it has started.
#[tokio::test]
async fn a_command_is_killed_with_all_it_has_started() {
    let dir = tempfile::tempdir().unwrap();
    let (own, child) = (dir.path().join("own"), dir.path().join("child"));
    let script = format!(
        "sleep 300 & echo $! > {}; echo $$ > {}; wait",
        child.display(),
        own.display()
    );
    let is_written = || std::fs::read_to_string(&own).is_ok_and(|text| text.ends_with('\n'));
    let is_gone = || !is_alive(&own) && !is_alive(&child);

    let tool = shell(&script, "5m");
    let called = tokio::spawn(async move { tool.call(&asked(json!({}))).await });
    until("it runs", is_written).await;
    assert!(is_alive(&own) && is_alive(&child));
    called.abort();
    until("both are gone after a cancel", is_gone).await;

    std::fs::remove_file(&own).unwrap();
    let failure = shell(&script, "700ms")
        .call(&asked(json!({})))
        .await
        .unwrap_err();
    assert_eq!(failure.code, "timeout");
    assert!(failure.message.contains("700 milliseconds"), "{failure}");
    until("both are gone after the time limit", is_gone).await;
}

/// S3-R2: exit code 75 parks; the answers so far are in the environment, by key.
#[tokio::test]
async fn a_command_parks_by_its_exit_code_and_finds_its_answers() {
    let parked = run("echo ignored; exit 75", json!({})).await;
    assert_eq!(parked, Err(ToolFailure::parked()));
    let mut call = asked(json!({}));
    let given = GivenAnswer {
        question_id: "hold_01920000000070008000000000000001-1".parse().unwrap(),
        answer: json!("yes"),
        by: "ada".to_owned(),
        continuation: "User responded: yes".to_owned(),
    };
    call.dispatch.answers.insert("refund".to_owned(), given);
    let tool = shell("printf '%s' \"$HOLDPOINT_ANSWERS\"", "20s");
    let answers = tool.call(&call).await.unwrap().data;
    assert_eq!(answers["refund"]["answer"], "yes", "{answers}");
}

/// Mend A-M6: a command gets the variables of a list, and not the keys of its worker.
#[tokio::test]
async fn a_command_gets_no_variable_of_its_worker_that_is_not_listed() {
    // Cargo sets these for every test; nothing of the tool's own has such a name.
    let kept = std::env::var("CARGO_PKG_NAME").unwrap();
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let script = r#"env | sed 's/=.*//' | sort | sed 's/.*/"&"/' | paste -sd, | sed 's/.*/[&]/'"#;
    let file = json!({
        "node": "n",
        "tools": [
            { "name": "plain", "risk": "low", "command": ["sh", "-c", script] },
            { "name": "named", "risk": "low", "env": ["CARGO_PKG_NAME"], "command": ["sh", "-c", "echo \"\\\"$CARGO_PKG_NAME\\\"\""] },
        ],
    });
    let tools = read(&file.to_string()).unwrap().tools;
    let seen = tools[0].call(&asked(json!({}))).await.unwrap().data;
    let seen: Vec<&str> = seen
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        seen.contains(&"PATH") && seen.contains(&"HOLDPOINT_TOKEN"),
        "{seen:?}"
    );
    assert!(
        !seen.iter().any(|name| name.starts_with("CARGO")),
        "{seen:?}"
    );
    let named = tools[1].call(&asked(json!({}))).await.unwrap().data;
    assert_eq!(named, Value::from(kept));
}

/// S2-R2: a worker with a path that hides nothing does not start.
#[test]
fn a_file_states_hidden_parts() {
    let file = |path: &str| {
        let tool = json!({ "name": "x", "risk": "low", "command": ["cat"],
            "redaction": ["result.token", path] });
        read(&json!({ "node": "n", "tools": [tool] }).to_string())
    };
    let tool = file("args.key").unwrap().tools.remove(0);
    let hidden: Vec<_> = tool.definition().redaction.into_iter().collect();
    assert_eq!(hidden, ["args.key", "result.token"]);
    let error = file("input.key").unwrap_err().to_string();
    assert!(
        error.contains("invalid path `input.key` in `redaction`"),
        "{error}"
    );
}
