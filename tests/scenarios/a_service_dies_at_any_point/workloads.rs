//! Workloads with runs that ask, standalone holds and a node.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{Trial, id_of};
use crate::fleet::Served;
use crate::world::log;

impl Trial<'_> {
    pub(super) async fn ask_in_runs(&self) -> anyhow::Result<()> {
        let ask = json!({ "ask": { "to": "@user.owner", "question": "Ship?", "timeout": "1h" } });
        let agent = json!({ "agent": "asks", "steps": [ask, log("after")] });
        self.post("agent", "/agents", &agent).await?;
        self.post("follow", "/watches", &json!({ "agent": "asks" }))
            .await?;
        let (answered, dropped) = ("answered", "dropped");
        let mut asked = Vec::new();
        for one in [answered, dropped] {
            let run = id_of(&self.post(one, "/agents/asks/runs", &json!({})).await?)?;
            let path = format!("/runs/{run}");
            let waits = |run: &Value| run["status"] == "awaiting_input";
            let shown = self.until_seen("it asks", &path, waits).await?;
            let request = id_of(&shown["waiting_on"][0])?;
            let request = format!("/requests/{request}");
            self.until_seen("a request", &request, |one| one["status"] == "open")
                .await?;
            asked.push((path, request));
        }
        let [(run, request), (other, others)] = &asked[..] else {
            anyhow::bail!("two runs ask")
        };
        let none = json!({});
        self.post("pause", &format!("{run}/pause"), &none).await?;
        let answer = json!({ "answer": "yes" });
        self.post("answer", &format!("{request}/respond"), &answer)
            .await?;
        self.post("cancel", &format!("{other}/cancel"), &none)
            .await?;
        self.post("resume", &format!("{run}/resume"), &none).await?;

        self.until_seen("the end", run, |run| run["status"] == "completed")
            .await?;
        let ended = self
            .until_seen("its end", request, |one| one["effect"] != "pending")
            .await?;
        ensure!(ended["outcome"] == "answered", "{ended}");
        self.until_seen("it is gone", others, |one| one["status"] == "withdrawn")
            .await?;
        let stopped = self.until_seen("the other run", other, |_| true).await?;
        ensure!(stopped["status"] == "cancelled", "{stopped}");
        // One by the user who resumed it, and one by the answer.
        let all = [
            ("run.paused", 1),
            ("run.resumed", 2),
            ("input.answered", 1),
            ("step.succeeded", 1),
            ("run.completed", 1),
        ];
        self.check_history(run, &all).await?;
        let all = [("run.cancelled", 1), ("step.succeeded", 0)];
        self.check_history(other, &all).await?;
        self.check_notifications(request, &["input_requested"])
            .await?;
        // The owner is not notified of their own cancellation (C-6).
        self.check_notifications(others, &["input_requested"])
            .await?;
        self.check_end_notification(run).await
    }

    /// A run does a step for each of three items. It fails because its contact lacks a field. The field is added, and an operator retries the run.
    pub(super) async fn retry_run(&self) -> anyhow::Result<()> {
        let contact = format!("/contacts/{}", self.unique_name("r"));
        self.put(&contact, &json!({ "company": "Acme" })).await?;
        let step =
            json!({ "tool": "log", "args": { "message": "x" }, "when": "contact.stage == 'won'" });
        let before =
            json!({ "for_each": ["a", "b", "c"], "tool": "log", "args": { "message": "$item" } });
        let agent = json!({ "agent": "checks", "steps": [before, step, log("after")] });
        self.post("agent", "/agents", &agent).await?;
        let of = json!({ "contact": { "id": self.unique_name("r") } });
        let run = id_of(&self.post("run", "/agents/checks/runs", &of).await?)?;
        let run = format!("/runs/{run}");
        let ended = self.until_seen("the failure", &run, |run| run["status"] == "failed");
        let ended = ended.await?;
        ensure!(
            ended["failure"]["code"] == "condition_undetermined",
            "{ended}"
        );
        self.patch(&contact, &json!({ "stage": "won" })).await?;
        self.post("retry", &format!("{run}/retry"), &json!({}))
            .await?;
        self.until_seen("the end", &run, |run| run["status"] == "completed")
            .await?;
        let all = [
            ("run.failed", 1),
            ("run.retried", 1),
            ("step.failed", 1),
            // Three items, and three steps.
            ("step.succeeded", 6),
            ("run.completed", 1),
        ];
        self.check_history(&run, &all).await
    }

    /// A run takes a change of its context and an early signal, and waits for the next one. Each call has a key, so the run takes a repeated call
    /// once.
    pub(super) async fn signal_run(&self) -> anyhow::Result<()> {
        let wait = json!({ "wait_for": "go" });
        let after = json!({ "tool": "log", "args": { "message": "$input.note" } });
        let agent = json!({ "agent": "awaits", "steps": [wait, wait, after] });
        self.post("agent", "/agents", &agent).await?;
        let run = id_of(&self.post("run", "/agents/awaits/runs", &json!({})).await?)?;
        let run = format!("/runs/{run}");
        let note = json!({ "note": "after" });
        self.patch(&format!("{run}/context"), &note).await?;
        for key in ["one", "two", "two"] {
            let signal = json!({ "name": "go", "data": key, "key": key });
            self.post(key, &format!("{run}/signal"), &signal).await?;
        }
        let ended = self
            .until_seen("the end", &run, |run| run["status"] == "completed")
            .await?;
        let data = |index: usize| ended["steps"][index]["response"]["data"].clone();
        ensure!(
            (data(0), data(1)) == (json!("one"), json!("two")),
            "{ended}"
        );
        let all = [
            ("run.context_changed", 1),
            ("signal.received", 2),
            ("run.resumed", 2),
            ("step.succeeded", 1),
            ("run.completed", 1),
        ];
        self.check_history(&run, &all).await
    }

    /// The reply ends the wait once, although a sweep looks at it again.
    pub(super) async fn await_reply(&self) -> anyhow::Result<()> {
        let contact = format!("/contacts/{}", self.unique_name("p"));
        self.put(&contact, &json!({ "company": "Acme" })).await?;
        let wait = json!({ "wait_for": { "signal": "contact.reply", "timeout": "5 days" } });
        let agent = json!({ "agent": "awaits-reply", "steps": [wait, log("after")] });
        self.post("agent", "/agents", &agent).await?;
        let of = json!({ "contact": self.unique_name("p") });
        let run = id_of(&self.post("run", "/agents/awaits-reply/runs", &of).await?)?;
        let run = format!("/runs/{run}");
        self.until_seen("it waits", &run, |run| run["status"] == "waiting")
            .await?;
        self.patch(&contact, &json!({ "replied": true })).await?;
        self.until_seen("the end", &run, |run| run["status"] == "completed")
            .await?;
        let all = [
            ("run.resumed", 1),
            ("step.succeeded", 1),
            ("run.completed", 1),
        ];
        self.check_history(&run, &all).await
    }

    /// The open request of a user who leaves is reassigned once.
    pub(super) async fn disable_recipient(&self) -> anyhow::Result<()> {
        let user = self.unique_name("l");
        let body = json!({ "name": user, "roles": ["member"] });
        self.post("user", "/users", &body).await?;
        let to = json!([format!("@user.{user}")]);
        let ask = json!({ "kind": "approval", "question": "Ship?", "to": to, "timeout": "1h" });
        let request = id_of(&self.post("hold", "/holds", &ask).await?)?;
        let request = format!("/requests/{request}");
        self.until_seen("the request", &request, |one| one["to"] == to)
            .await?;
        self.delete(&format!("/users/{user}")).await?;
        let moved = self
            .until_seen("it is reassigned", &request, |one| one["to"] != to)
            .await?;
        self.check_action(&moved, "reassigned")
    }

    /// The first child run that completes is the result, and the two that wait are cancelled. Each starts and ends once.
    pub(super) async fn start_child_runs(&self) -> anyhow::Result<()> {
        let steps = json!([log("hi"), { "finish": { "summary": "Done.", "output": 7 } }]);
        let quick = json!({ "agent": "quick-child", "steps": steps });
        let slow = json!({ "agent": "slow-child", "steps": [{ "wait": "1 day" }] });
        let first = json!(["slow-child", "quick-child", "slow-child"]);
        let steps = json!([{ "id": "ask", "run": { "first": first } }, log("after")]);
        let parent = json!({ "agent": "parent", "steps": steps });
        for agent in [quick, slow, parent] {
            let name = agent["agent"].as_str().context("a name")?.to_owned();
            self.post(&name, "/agents", &agent).await?;
        }
        let run = id_of(&self.post("run", "/agents/parent/runs", &json!({})).await?)?;
        let run = format!("/runs/{run}");
        let ended = self
            .until_seen("the end", &run, |run| run["status"] == "completed")
            .await?;
        let step = &ended["steps"][0];
        ensure!(step["response"]["data"]["output"] == 7, "{ended}");
        let statuses = ["cancelled", "completed", "cancelled"];
        let children = step["child_runs"].as_array().context("child runs")?;
        ensure!(children.len() == statuses.len(), "{ended}");
        for (child, status) in children.iter().zip(statuses) {
            let path = format!("/runs/{}", child["run"].as_str().context("a run")?);
            self.until_seen("the end of a child", &path, |run| run["status"] == status)
                .await?;
            let end = format!("run.{status}");
            let all = [("run.started", 1), (end.as_str(), 1)];
            self.check_history(&path, &all).await?;
        }
        let all = [
            ("run.resumed", 1),
            ("step.succeeded", 1),
            ("run.completed", 1),
        ];
        self.check_history(&run, &all).await
    }

    /// A run that waits is suspended and resumed. Status, snapshot and event come together (S1-R7, S1-R10).
    pub(super) async fn suspend_run(&self) -> anyhow::Result<()> {
        let steps = json!([log("before"), { "wait": "1 day" }]);
        let agent = json!({ "agent": "waits", "steps": steps });
        self.post("agent", "/agents", &agent).await?;
        let run = id_of(&self.post("run", "/agents/waits/runs", &json!({})).await?)?;
        let run = format!("/runs/{run}");
        self.until_seen("the wait", &run, |run| run["status"] == "waiting")
            .await?;
        let odd = json!({ "reason": "odd" });
        self.post("suspend", &format!("{run}/suspend"), &odd)
            .await?;
        let is_suspended = |run: &Value| run["status"] == "paused_for_intervention";
        let shown = self.until_seen("the suspension", &run, is_suspended);
        let shown = shown.await?;
        let path = format!("{run}/snapshot");
        let kept = self.until_seen("a snapshot", &path, |_| true).await?;
        ensure!(kept["suspended_at"] == shown["paused_at"], "{kept}");
        ensure!(kept["snapshot_json"]["reason"] == "odd", "{kept}");
        let now = json!({ "mode": "now" });
        self.post("resume", &format!("{run}/resume"), &now).await?;
        self.until_seen("the end", &run, |run| run["status"] == "completed")
            .await?;
        let all = [
            ("run.suspended", 1),
            ("run.resumed", 1),
            ("step.succeeded", 1),
            ("run.completed", 1),
        ];
        self.check_history(&run, &all).await
    }

    /// Three runs that wait move to a newer version of their agent, and get one signal by an operation. A repeated call begins no second one.
    pub(super) async fn act_on_many_runs(&self) -> anyhow::Result<()> {
        let agent = self.unique_name("m");
        let wait = json!({ "wait_for": "go" });
        let steps = json!({ "agent": agent, "steps": [wait, wait] });
        self.post("agent", "/agents", &steps).await?;
        let mut runs = Vec::new();
        for one in ["one", "two", "three"] {
            let path = format!("/agents/{agent}/runs");
            runs.push(id_of(&self.post(one, &path, &json!({})).await?)?);
        }
        let longer = json!({ "agent": agent, "steps": [wait, wait, wait] });
        self.post("edit", "/agents", &longer).await?;
        for run in &runs {
            self.post(run, &format!("/runs/{run}/migrate"), &json!({}))
                .await?;
        }
        let body = json!({ "action": "signal", "filter": { "agent": agent }, "name": "go" });
        let begun = id_of(&self.post("begin", "/runs:bulk", &body).await?)?;
        let again = id_of(&self.post("begin", "/runs:bulk", &body).await?)?;
        ensure!(begun == again, "{begun} {again}");
        let path = format!("/operations/{begun}");
        let has_ended = |one: &Value| one["state"] == "completed";
        let ended = self.until_seen("its end", &path, has_ended).await?;
        ensure!(ended["counts"]["changed"] == 3, "{ended}");
        for run in &runs {
            let all = [
                ("run.migrated", 1),
                ("signal.received", 1),
                ("run.resumed", 1),
            ];
            self.check_history(&format!("/runs/{run}"), &all).await?;
        }
        let body = json!({ "action": "pause", "filter": { "agent": agent } });
        let second = id_of(&self.post("second", "/runs:bulk", &body).await?)?;
        let path = format!("/operations/{second}");
        self.delete(&path).await?;
        let has_ended = |one: &Value| one["state"] == "cancelled" || one["state"] == "completed";
        self.until_seen("its end", &path, has_ended).await?;
        Ok(())
    }

    /// Checks that the watcher is notified of the end of a run once (S0-T4).
    async fn check_end_notification(&self, run: &str) -> anyhow::Result<()> {
        let id = run.rsplit('/').next().context("an id")?;
        let ends = |page: &Value| {
            let items = page["items"].as_array().into_iter().flatten();
            let is_it = |one: &&Value| one["type"] == "workflow_complete" && one["run"] == id;
            items.filter(is_it).count()
        };
        let path = "/notifications?limit=500";
        let page = self
            .until_seen("the notification of the end", path, |page| ends(page) > 0)
            .await?;
        ensure!(ends(&page) == 1, "{page}");
        Ok(())
    }

    /// Checks how often each event is in the history, and that numbers have no gaps.
    pub(super) async fn check_history(
        &self,
        run: &str,
        all: &[(&str, usize)],
    ) -> anyhow::Result<()> {
        let path = format!("{run}/events?limit=500");
        let page = self.until_seen("a history", &path, |_| true).await?;
        let items = page["items"].as_array().context("items")?;
        for (kind, times) in all {
            let count = items.iter().filter(|item| item["type"] == *kind).count();
            ensure!(count == *times, "{count} {kind}: {items:?}");
        }
        let numbers = items.iter().map(|item| item["seq"].as_u64().unwrap_or(0));
        ensure!(numbers.eq(1..=items.len() as u64), "gaps: {items:?}");
        Ok(())
    }

    /// Checks that the owner has these notifications of a request once each, and that each shows the end.
    async fn check_notifications(&self, request: &str, kinds: &[&str]) -> anyhow::Result<()> {
        let id = request.rsplit('/').next().context("an id")?;
        let notifications = |page: &Value| -> Vec<Value> {
            let items = page["items"].as_array().into_iter().flatten();
            items.filter(|one| one["request"] == id).cloned().collect()
        };
        let is_marked = |page: &Value| {
            let notifications = notifications(page);
            notifications.len() >= kinds.len()
                && notifications.iter().all(|one| one["decided"].is_object())
        };
        let path = "/notifications?limit=500";
        let page = self
            .until_seen("the owner is notified", path, is_marked)
            .await?;
        let notifications = notifications(&page);
        let mut types: Vec<_> = notifications
            .iter()
            .filter_map(|one| one["type"].as_str())
            .collect();
        types.sort_unstable();
        ensure!(types == kinds, "{notifications:?}");
        Ok(())
    }

    pub(super) async fn open_standalone_holds(&self, is_caller_killed: bool) -> anyhow::Result<()> {
        let before = self.shop.calls().len();
        let callback = self.shop.url("/called");
        let timer = json!({ "kind": "timer", "wait": "1s", "callback": callback });
        let timer = id_of(&self.post("timer", "/holds", &timer).await?)?;
        let body = json!({ "kind": "approval", "question": "Ship?", "callback": callback });
        let hold = id_of(&self.post("hold", "/holds", &body).await?)?;
        let request = format!("/requests/{hold}");
        let comment = json!({ "comment": "yes" });
        self.post("approve", &format!("{request}/approve"), &comment)
            .await?;
        let ended = self
            .until_seen("its end", &request, |one| one["outcome"] == "approved")
            .await?;
        let says = |action| {
            ended["history"]
                .as_array()
                .map(|all| all.iter().filter(|one| one["action"] == action).count())
        };
        ensure!(says("approved") == Some(1), "{ended}");
        let fired = format!("/requests/{timer}");
        self.until_seen("its time", &fired, |one| one["outcome"] == "fired")
            .await?;
        self.check_notifications(&request, &["approval_requested"])
            .await?;
        for (id, outcome) in [(&hold, "approved"), (&timer, "fired")] {
            self.check_callback(before, id, outcome, is_caller_killed)
                .await?;
        }
        Ok(())
    }

    /// Checks for one callback, or two under one id if its caller was killed during the call. On a machine under load
    /// the receiver may also be too slow for the caller: then the delivery says so, and has as many attempts as calls.
    async fn check_callback(
        &self,
        before: usize,
        hold: &str,
        outcome: &str,
        is_caller_killed: bool,
    ) -> anyhow::Result<()> {
        let callback = |page: &Value| {
            let mut items = page["items"].as_array().into_iter().flatten();
            items.find(|one| one["channel"] == "callback").cloned()
        };
        let is_sent = |page: &Value| callback(page).is_some_and(|one| one["state"] == "sent");
        let path = format!("/requests/{hold}/deliveries");
        let page = self
            .until_seen("the callback is through", &path, is_sent)
            .await?;
        let delivery = callback(&page).context("a callback")?;
        let mut ids = Vec::new();
        for call in self.shop.calls().iter().skip(before) {
            let body: Value = serde_json::from_str(&call.body)?;
            if body["id"] == hold {
                ensure!(body["outcome"] == outcome, "{body}");
                ids.push(call.header("webhook-id").to_owned());
            }
        }
        let calls = ids.len();
        ids.dedup();
        let error = delivery["last_error"].as_str().unwrap_or_default();
        let most = match error {
            "The callback did not answer in time." => delivery["attempts"].as_u64().unwrap_or(1),
            _ if is_caller_killed => 2,
            _ => 1,
        };
        ensure!(
            ids.len() == 1 && u64::try_from(calls)? <= most,
            "{calls} calls under {ids:?} of {delivery}"
        );
        Ok(())
    }

    pub(super) async fn run_node_steps(&self, worker: &mut Option<Served>) -> anyhow::Result<()> {
        let call = json!({ "method": "POST", "url": self.shop.url("/orders") });
        let steps = json!([{ "tool": "http_request", "args": call, "claim_timeout": "10s" }]);
        let agent = json!({ "agent": "works", "steps": steps });
        self.post("agent", "/agents", &agent).await?;
        for _ in 0..2 {
            let before = self.shop.calls().len();
            if worker.is_none() {
                *worker = Some(self.ground.worker().await);
            }
            let run = format!("/runs/{}", self.start_run("works").await?);
            let ended = self
                .until_seen("its end", &run, |run| run["status"] == "completed")
                .await?;
            let effects = self.shop.calls().len() - before;
            ensure!(effects == 1, "{effects} effects at the tool: {ended}");
            ensure!(ended["steps"][0]["inline"] != true, "by the node: {ended}");
            let all = [("step.succeeded", 1), ("run.completed", 1)];
            self.check_history(&run, &all).await?;
            if let Some(worker) = worker.take() {
                worker.terminate().await;
            }
        }
        Ok(())
    }
}
