//! Workloads that send each command of people and programs once while a service dies. Each call is repeated until it is
//! answered, as a client does.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use holdpoint_testkit::until;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Row, Trial, Workload, id_of};
use crate::a_process_dies_at_any_point::MESSAGES;
use crate::a_schedule_starts_runs as schedules;
use crate::world::{PATIENCE, log};

/// Commands of people and programs. In CI the service dies after the commit and after publishing. `cargo xtask test
/// --exhaustive` plays all points.
pub(super) const COMMANDS: [Row; 45] = [
    Row("executor", "apply_agent", false, Workload::Definitions),
    Row("executor", "put_tool", false, Workload::Definitions),
    Row("executor", "delete_tool", false, Workload::Definitions),
    Row(
        "executor",
        "put_library_entry",
        false,
        Workload::Definitions,
    ),
    Row(
        "executor",
        "delete_library_entry",
        false,
        Workload::Definitions,
    ),
    Row("executor", "put_contact", false, Workload::Definitions),
    Row("executor", "patch_contact", false, Workload::Definitions),
    Row("executor", "add_activity", false, Workload::Definitions),
    Row("executor", "delete_contact", false, Workload::Definitions),
    Row("executor", "erase_contact", false, Workload::Erasure),
    Row("handoff", "put_user", false, Workload::Administration),
    Row("handoff", "disable_user", false, Workload::Administration),
    Row("scheduler", "put_schedule", false, Workload::Definitions),
    Row("scheduler", "delete_schedule", false, Workload::Definitions),
    Row("handoff", "put_policy", false, Workload::Administration),
    Row("handoff", "delete_policy", false, Workload::Administration),
    Row(
        "handoff",
        "create_standing_approval",
        false,
        Workload::Administration,
    ),
    Row(
        "handoff",
        "revoke_standing_approval",
        false,
        Workload::Administration,
    ),
    Row(
        "notification",
        "put_preferences",
        false,
        Workload::Subscriptions,
    ),
    Row(
        "notification",
        "add_webhook",
        false,
        Workload::Subscriptions,
    ),
    Row(
        "notification",
        "change_webhook",
        false,
        Workload::Subscriptions,
    ),
    Row(
        "notification",
        "remove_webhook",
        false,
        Workload::Subscriptions,
    ),
    Row("notification", "watch", false, Workload::Subscriptions),
    Row("notification", "unwatch", false, Workload::Subscriptions),
    Row(
        "notification",
        "read_notification",
        false,
        Workload::Subscriptions,
    ),
    Row(
        "notification",
        "read_notifications",
        false,
        Workload::Subscriptions,
    ),
    Row("executor", "resume_run", false, Workload::RunRequests),
    Row("executor", "retry_run", false, Workload::Retries),
    Row("executor", "signal_run", false, Workload::Signals),
    Row("executor", "set_child_runs", true, Workload::ChildRuns),
    Row("executor", "child_runs_ended", true, Workload::ChildRuns),
    Row("executor", "suspend_run", false, Workload::Suspensions),
    Row("executor", "migrate_run", false, Workload::ManyRuns),
    Row("executor", "start_operation", false, Workload::ManyRuns),
    Row("executor", "cancel_operation", false, Workload::ManyRuns),
    Row("executor", "pause_scope", false, Workload::Operations),
    Row("executor", "resume_scope", false, Workload::Operations),
    Row("executor", "delete_agent", false, Workload::Operations),
    Row("executor", "take_over_run", false, Workload::Operations),
    Row("executor", "handoffs_updated", true, Workload::Operations),
    Row("handoff", "act_on_request", false, Workload::Decisions),
    Row("handoff", "decide_requests", false, Workload::Decisions),
    Row("handoff", "withdraw_hold", false, Workload::Decisions),
    Row("handoff", "ask_again", false, Workload::Decisions),
    Row("scheduler", "set_timers", true, Workload::StandaloneHolds),
];

const REPEATED: &str = "a worker repeats it until it is answered, and a repetition changes nothing";
/// Commands that no table plays, with the reason.
const NOT_PLAYED: [(&str, &str); 6] = [
    ("executor.register_tools", REPEATED),
    ("executor.continue_step", REPEATED),
    ("executor.put_blob", REPEATED),
    (
        "executor.suspend_steps",
        "a stopping worker sends it and may not wait; without it the leases end, as after `deregister`",
    ),
    (
        "executor.request_input",
        "only a tool asks so, with the token of its step",
    ),
    (
        "notification.show_webhook_secret",
        "it changes something at its first call only, which makes the secret of the workspace",
    ),
];

/// Mend C-17: every command is played by a table, or has a reason why not.
#[test]
fn every_command_is_in_a_table_of_crash_points() {
    let catalogue = include_str!("../../../docs/messages.md");
    let (_, commands) = catalogue.split_once("\n## Commands\n").unwrap();
    let (commands, _) = commands.split_once("\n## ").unwrap();
    let headings = commands
        .lines()
        .filter_map(|line| line.strip_prefix("### "));
    let commands: BTreeSet<String> = headings.map(str::to_owned).collect();
    let of_services = super::ROWS.iter().chain(&COMMANDS);
    let of_services = of_services.map(|row| format!("{}.{}", row.0, row.1));
    let of_processes = MESSAGES
        .iter()
        .chain(&schedules::MESSAGES)
        .map(|(service, verb, _)| format!("{service}.{verb}"));
    let not_played = NOT_PLAYED.iter().map(|(name, _)| (*name).to_owned());
    let known: BTreeSet<String> = of_services.chain(of_processes).chain(not_played).collect();
    let missing: Vec<_> = commands.difference(&known).collect();
    assert!(commands.len() > 40 && missing.is_empty(), "{missing:?}");
}

impl Trial<'_> {
    /// Sends a call until it succeeds. `also` is the status of a repetition whose first reply was lost.
    async fn call(
        &self,
        method: Method,
        path: &str,
        (body, also): (&Value, u16),
    ) -> anyhow::Result<Value> {
        let mut last = None;
        let mut sent = 0;
        let done = until(PATIENCE, path, async || {
            let (status, answer) = self.api.call(method.clone(), path, body).await;
            sent += 1;
            last = Some(format!("{status} {answer}"));
            match status {
                200..=204 => Some(Ok(answer)),
                status if sent > 1 && status == also => Some(Ok(answer)),
                400..=499 => Some(Err(anyhow::anyhow!("{method} {path}: {status} {answer}"))),
                _ => None,
            }
        });
        done.await.with_context(|| format!("{last:?}"))?
    }

    /// A name that is unique to this case.
    pub(super) fn unique_name(&self, what: &str) -> String {
        let case = self.case.replace([':', '_'], "-");
        format!("{what}-{case}")
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.call(Method::PUT, path, (body, 200)).await
    }

    pub(super) async fn patch(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.call(Method::PATCH, path, (body, 200)).await
    }

    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.call(Method::DELETE, path, (&Value::Null, 404)).await
    }

    /// Checks how many items of a list satisfy a condition.
    async fn check_count(
        &self,
        path: &str,
        expected: usize,
        is_so: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<()> {
        let page = self.until_seen("a list", path, |_| true).await?;
        let items = page["items"].as_array().context("items")?;
        let found = items.iter().filter(|one| is_so(one)).count();
        ensure!(found == expected, "{path}: {found} of {expected}: {page}");
        Ok(())
    }

    /// A contact with a run that waits and a question that is open.
    pub(super) async fn erase_contact(&self) -> anyhow::Result<()> {
        let contact = format!("/contacts/{}", self.unique_name("e"));
        self.put(&contact, &json!({ "company": "Acme" })).await?;
        let ask =
            json!({ "ask": { "to": "@user.owner", "question": "Call {{ contact.company }}?" } });
        let agent = json!({ "agent": "asks-once", "steps": [ask] });
        self.post("agent", "/agents", &agent).await?;
        let of = json!({ "contact": self.unique_name("e") });
        let run = id_of(&self.post("run", "/agents/asks-once/runs", &of).await?)?;
        let run = format!("/runs/{run}");
        let asking = self
            .until_seen("the question", &run, |run| {
                run["waiting_on"][0]["id"].is_string()
            })
            .await?;
        let request = asking["waiting_on"][0]["id"]
            .as_str()
            .context("a request")?;
        let request = format!("/requests/{request}");
        self.until_seen("the request", &request, |one| one["status"] == "open")
            .await?;
        let path = format!("{contact}/erase");
        self.call(Method::POST, &path, (&json!({}), 202)).await?;
        let is_over =
            |erasure: &Value| erasure["state"] == "completed" && erasure["requests_left"] == 0;
        self.until_seen("the end", &format!("{contact}/erasure"), is_over)
            .await?;
        let is_gone = until(PATIENCE, "the run is gone", async || {
            let (status, _) = self.api.call(Method::GET, &run, &Value::Null).await;
            (status == 404).then_some(())
        });
        is_gone.await?;
        let erased = self
            .until_seen("the record", &request, |one| one["erased_at"].is_string())
            .await?;
        ensure!(erased["question"] == "erased", "{erased}");
        Ok(())
    }

    /// Agents, schedules, tools, templates and contacts.
    pub(super) async fn change_definitions(&self) -> anyhow::Result<()> {
        let (agent, tool, contact) = (
            self.unique_name("a"),
            self.unique_name("t"),
            self.unique_name("c"),
        );
        let of = |text: &str| json!({ "agent": agent, "steps": [log(text)] });
        self.post("first", "/agents", &of("first")).await?;
        self.post("second", "/agents", &of("second")).await?;
        let path = format!("/agents/{agent}");
        let shown = self.until_seen("the agent", &path, |_| true).await?;
        ensure!(shown["version"] == 2, "each version once: {shown}");

        let schedule = json!({ "name": agent, "agent": agent, "cron": "@yearly" });
        self.post("schedule", "/schedules", &schedule).await?;
        let is_it = |one: &Value| one["name"] == agent.as_str();
        self.check_count("/schedules?limit=500", 1, is_it).await?;
        self.delete(&format!("/schedules/{agent}")).await?;
        self.check_count("/schedules?limit=500", 0, is_it).await?;

        let http =
            json!({ "name": tool, "risk": "low", "http": { "url": self.shop.url("/orders") } });
        self.post("tool", "/tools", &http).await?;
        let is_it = |one: &Value| one["name"] == tool.as_str();
        self.check_count("/tools?limit=500", 1, is_it).await?;
        self.delete(&format!("/tools/{tool}")).await?;
        self.check_count("/tools?limit=500", 0, is_it).await?;

        let template = json!({ "name": tool, "body": "Hello" });
        self.post("template", "/templates", &template).await?;
        self.check_count("/templates", 1, is_it).await?;
        self.delete(&format!("/templates/{tool}")).await?;
        self.check_count("/templates", 0, is_it).await?;

        let path = format!("/contacts/{contact}");
        self.put(&path, &json!({ "company": "Acme" })).await?;
        let patch = json!({ "stage": "won", "deal": { "stage": "won" } });
        self.patch(&path, &patch).await?;
        let said = json!({ "kind": "note", "text": "called" });
        let activities = format!("{path}/activities");
        self.post("said", &activities, &said).await?;
        self.check_count(&activities, 1, |_| true).await?;
        // A patch that was accepted with 202 has its effect later.
        let has_all = |known: &Value| known["company"] == "Acme" && known["stage"] == "won";
        self.until_seen("the contact", &path, has_all).await?;
        let notified = |page: &Value, kind: &str| {
            let items = page["items"].as_array().into_iter().flatten();
            let is_it = |one: &&Value| one["type"] == kind && one["contact"] == contact.as_str();
            items.filter(is_it).count()
        };
        let has_both =
            |page: &Value| ["new_lead", "deal_won"].map(|kind| notified(page, kind)) == [1, 1];
        let all = "/notifications?limit=500";
        self.until_seen("both", all, has_both).await?;
        self.delete(&path).await?;
        // The service may be down after the reply to its last command.
        let is_gone = until(PATIENCE, "it is gone", async || {
            let (status, _) = self.api.call(Method::GET, &path, &Value::Null).await;
            (status == 404).then_some(())
        });
        is_gone.await
    }

    /// Users and policies.
    pub(super) async fn administer_users(&self) -> anyhow::Result<()> {
        let (user, policy) = (self.unique_name("u"), self.unique_name("p"));
        let body = json!({ "name": user, "roles": ["member"] });
        self.post("user", "/users", &body).await?;
        let path = format!("/users/{user}");
        let shown = self.until_seen("the user", &path, |_| true).await?;
        ensure!(shown["roles"] == json!(["member"]), "{shown}");
        self.delete(&path).await?;
        let shown = self.until_seen("the user", &path, |_| true).await?;
        ensure!(shown["active"] == false, "{shown}");

        let rules = json!({ "name": policy, "kind": "approval", "need": 2 });
        self.post("policy", "/policies", &rules).await?;
        let is_it = |one: &Value| one["name"] == policy.as_str();
        self.check_count("/policies", 1, is_it).await?;
        self.delete(&format!("/policies/{policy}")).await?;
        self.check_count("/policies", 0, is_it).await?;

        let terms = json!({ "agent": self.unique_name("a"), "tool": "pay", "args_schema": {},
            "max_uses": 5, "expires_in": "1h" });
        let list = "/standing-approvals";
        let made = id_of(&self.post("standing", list, &terms).await?)?;
        let is_it = |one: &Value| one["agent"] == terms["agent"];
        self.check_count(list, 1, is_it).await?;
        let path = format!("{list}/{made}");
        self.delete(&path).await?;
        let shown = self.until_seen("the revocation", &path, |_| true).await?;
        ensure!(shown["status"] == "revoked", "{shown}");
        Ok(())
    }

    /// Preferences, webhooks, watches and notifications.
    pub(super) async fn subscribe(&self) -> anyhow::Result<()> {
        let preferences = json!({ "time_zone": "UTC" });
        self.put("/preferences", &preferences).await?;
        let url = self.shop.url(&format!("/{}", self.unique_name("hook")));
        let hook = json!({ "url": url, "events": ["approval.*"] });
        let made = self.post("hook", "/webhooks", &hook).await?;
        let path = format!("/webhooks/{}", id_of(&made)?);
        let changed = json!({ "url": url, "events": ["handoff.*"] });
        self.put(&path, &changed).await?;
        let is_it = |one: &Value| one["url"] == url.as_str();
        self.check_count("/webhooks", 1, is_it).await?;
        let shown = self.until_seen("the webhook", &path, |_| true).await?;
        ensure!(shown["events"] == json!(["handoff.*"]), "{shown}");
        self.until_seen("the secret", "/webhooks/secret", |_| true)
            .await?;
        self.delete(&path).await?;
        self.check_count("/webhooks", 0, is_it).await?;

        let agent = self.unique_name("w");
        let steps = json!({ "agent": agent, "steps": [log("x")] });
        self.post("agent", "/agents", &steps).await?;
        let of = json!({ "agent": agent });
        let watch = self.post("watch", "/watches", &of).await?;
        let is_it = |one: &Value| one["agent"] == agent.as_str();
        self.check_count("/watches", 1, is_it).await?;
        self.delete(&format!("/watches/{}", id_of(&watch)?)).await?;
        self.check_count("/watches", 0, is_it).await?;
        let ask = json!({ "kind": "approval", "question": "Ship?", "timeout": "1h" });
        let hold = id_of(&self.post("hold", "/holds", &ask).await?)?;
        let entry = |page: &Value| {
            let items = page["items"].as_array().into_iter().flatten();
            let mut of_it = items.filter(|one| one["request"] == hold.as_str());
            of_it.next().cloned()
        };
        let list = "/notifications?limit=500";
        let page = self.until_seen("the notification", list, |page| entry(page).is_some());
        let entry = entry(&page.await?).context("a notification")?;
        let path = format!("/notifications/{}", id_of(&entry)?);
        self.call(Method::POST, &format!("{path}/read"), (&json!({}), 200))
            .await?;
        let shown = self.until_seen("the notification", &path, |_| true).await?;
        ensure!(shown["read_at"].is_string(), "{shown}");
        self.call(Method::POST, "/notifications/read", (&json!({}), 200))
            .await
            .map(drop)
    }

    /// A run that is handed over, paused with its agent, taken over and ended with it.
    pub(super) async fn operate_run(&self) -> anyhow::Result<()> {
        let agent = self.unique_name("o");
        let handoff =
            json!({ "handoff": { "to": "@user.owner", "message": "call", "timeout": "1 day" } });
        let steps = json!({ "agent": agent, "steps": [handoff, { "wait": "1 day" }] });
        self.post("agent", "/agents", &steps).await?;
        let (path, none) = (format!("/agents/{agent}/runs"), json!({}));
        let run = id_of(&self.post("run", &path, &none).await?)?;
        let run = format!("/runs/{run}");
        let waits = |run: &Value| run["waiting_on"][0]["kind"] == "handoff";
        let shown = self.until_seen("the handoff", &run, waits).await?;
        let request = format!("/requests/{}", id_of(&shown["waiting_on"][0])?);
        self.until_seen("a request", &request, |_| true).await?;
        self.post("accept", &format!("{request}/accept"), &none)
            .await?;
        let done = json!({ "disposition": "return_to_agent", "notes": "called" });
        self.post("done", &format!("{request}/complete"), &done)
            .await?;
        let timer =
            |run: &Value| run["waiting_on"][0]["kind"] == "timer" && run["resume_at"].is_string();
        self.until_seen("the wait", &run, timer).await?;

        let of_agent = format!("/agents/{agent}");
        self.post("hold", &format!("{of_agent}/pause"), &none)
            .await?;
        self.until_seen("it is held", &run, |run| run["resume_at"].is_null())
            .await?;
        self.post("resume", &format!("{of_agent}/resume"), &none)
            .await?;
        self.until_seen("it waits again", &run, timer).await?;
        self.post("take", &format!("{run}/take-over"), &none)
            .await?;
        self.until_seen("it is taken", &run, |run| run["taken_over_by"] == "owner")
            .await?;
        self.delete(&of_agent).await?;
        let ended = self.until_seen("it has failed", &run, |run| run["status"] == "failed");
        ended.await?;
        // The view shows the end at once, and a sweep updates the row later.
        let events = format!("{run}/events?limit=500");
        let has_failed = |page: &Value| {
            let items = page["items"].as_array().into_iter().flatten();
            items.into_iter().any(|one| one["type"] == "run.failed")
        };
        self.until_seen("its end is in its history", &events, has_failed)
            .await?;
        let all = [
            ("handoff.accepted", 1),
            ("handoff.completed", 1),
            ("run.paused", 1),
            ("run.failed", 1),
        ];
        self.check_history(&run, &all).await
    }

    /// Standalone requests that end in different ways.
    pub(super) async fn decide_requests(&self) -> anyhow::Result<()> {
        let ask = json!({ "kind": "approval", "question": "Ship?", "timeout": "1h" });
        let mut holds = Vec::new();
        for name in ["seen", "one", "other", "dropped"] {
            holds.push(id_of(&self.post(name, "/holds", &ask).await?)?);
        }
        let path = |place: usize| format!("/requests/{}", holds[place]);
        let none = json!({});
        self.post("saw", &format!("{}/acknowledge", path(0)), &none)
            .await?;
        let together = json!({
            "ids": [holds[1], holds[2]], "atomic": true, "decision": { "approve": { "comment": "go" } },
        });
        self.post("both", "/requests:batch", &together).await?;
        for place in [1, 2] {
            let is_so = |one: &Value| one["outcome"] == "approved";
            let ended = self
                .until_seen("both are decided", &path(place), is_so)
                .await?;
            self.check_action(&ended, "approved")?;
        }
        self.post("drop", &format!("{}/withdraw", path(3)), &none)
            .await?;
        let gone = |one: &Value| one["status"] == "withdrawn";
        self.until_seen("it is withdrawn", &path(3), gone).await?;
        let again = json!({ "to": "@user.owner", "timeout": "1h" });
        let way = format!("{}/ask-again", path(3));
        let again = id_of(&self.post("again", &way, &again).await?)?;
        let again = format!("/requests/{again}");
        self.until_seen("it is asked again", &again, |one| one["status"] == "open")
            .await?;
        let seen = self.until_seen("it was seen", &path(0), |_| true).await?;
        self.check_action(&seen, "acknowledged")
    }

    /// Checks that the history of a request has an action once.
    pub(super) fn check_action(&self, request: &Value, action: &str) -> anyhow::Result<()> {
        let history = request["history"].as_array().context("a history")?;
        let times = history.iter().filter(|one| one["action"] == action).count();
        ensure!(
            times == 1,
            "{times} times {action} in {}: {request}",
            self.case
        );
        Ok(())
    }
}
