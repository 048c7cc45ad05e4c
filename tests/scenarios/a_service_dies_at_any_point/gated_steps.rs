//! A run whose calls need an approval, while a service dies: each call is made once, as it was approved.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{Row, Trial, Workload, id_of};
use crate::fleet::Served;

/// The way of a gated call: it is asked or approved in advance, decided, started and reported.
pub(super) const GATED_STEPS: [Row; 5] = [
    Row("handoff", "set_holds", true, Workload::GatedSteps),
    Row("handoff", "decide_request", false, Workload::GatedSteps),
    Row("executor", "holds_closed", true, Workload::GatedSteps),
    Row("executor", "start_steps", false, Workload::GatedSteps),
    Row("executor", "step_results", false, Workload::GatedSteps),
];

/// The calls of the run and the amounts that are approved. `rejected` is never made.
const MADE: [(&str, u64); 4] = [
    ("plain", 1),
    ("edited", 20),
    ("revised", 200),
    ("advance", 5),
];
const NOT_MADE: &str = "rejected";

fn pay(id: &str, amount: &Value, needs: &[&str]) -> Value {
    json!({ "id": id, "needs": needs, "tool": "payments.refund", "args": { "amount": amount } })
}

impl Trial<'_> {
    /// One call is approved, one is edited, one is rejected, one is sent back and asked again, and one is approved in
    /// advance.
    pub(super) async fn decide_gated_steps(
        &self,
        worker: &mut Option<Served>,
    ) -> anyhow::Result<()> {
        if worker.is_none() {
            *worker = Some(self.ground.worker().await);
        }
        for (name, risk, path) in [
            ("refunds.draft", "low", "/draft-amounts"),
            ("payments.refund", "high", "/refunds"),
        ] {
            let tool = json!({ "name": name, "risk": risk, "idempotent": true,
                "http": { "method": "POST", "url": self.shop.url(path) } });
            self.post(name, "/tools", &tool).await?;
        }
        let agent = self.unique_name("g");
        let draft = json!({ "id": "draft", "needs": [], "tool": "refunds.draft",
            "args": { "amount": 250 } });
        let steps = json!([
            pay("plain", &json!(1), &[]),
            pay("edited", &json!(2), &[]),
            pay(NOT_MADE, &json!(3), &[]),
            draft,
            pay("revised", &json!("$draft.amount"), &["draft"]),
            pay("advance", &json!(5), &["plain"]),
        ]);
        let body = json!({ "agent": agent, "steps": steps });
        self.post("agent", "/agents", &body).await?;
        let path = format!("/agents/{agent}/runs");
        let id = id_of(&self.post("run", &path, &json!({})).await?)?;
        let run = format!("/runs/{id}");
        let standing = self.decide_all(&agent, &run).await?;
        self.until_seen("the end", &run, |run| run["status"] == "completed")
            .await?;
        let is_used = |approval: &Value| approval["used"] == 1;
        self.until_seen("its use", &standing, is_used).await?;
        self.check_gated_calls(&id)?;
        let all = [
            // Four at first, and one after the revision. The last one was asked of no person.
            ("run.awaiting_approval", 6),
            ("step.revised", 1),
            // Four payments and two drafts.
            ("step.succeeded", 6),
            ("run.completed", 1),
        ];
        self.check_history(&run, &all).await
    }

    /// Decides what the run asks. Returns the path of the standing approval.
    async fn decide_all(&self, agent: &str, run: &str) -> anyhow::Result<String> {
        let asked = self.asked(run, 4).await?;
        let first = asked.get("plain").context("a request")?;
        let request = self.until_seen("a request", first, |_| true).await?;
        let terms = json!({ "agent": agent, "tool": "payments.refund",
            "version": request["items"][0]["version"], "max_uses": 1, "expires_in": "1d",
            "args_schema": { "properties": { "amount": { "const": 5 } } } });
        let standing = self.post("standing", "/standing-approvals", &terms).await?;
        let decisions = [
            ("revised", "revise", json!({ "instructions": "Less." })),
            (
                "edited",
                "approve",
                json!({ "edited_args": { "amount": 20 } }),
            ),
            (NOT_MADE, "reject", json!({ "reason": "No." })),
            ("plain", "approve", json!({})),
        ];
        for (step, verb, body) in &decisions {
            let request = asked.get(*step).context("a request")?;
            self.until_seen("a request", request, |_| true).await?;
            self.post(step, &format!("{request}/{verb}"), body).await?;
        }
        let before = asked.get("revised").context("a request")?;
        let is_asked_again = |view: &Value| {
            let asked = requests(view);
            asked.get("revised").is_some_and(|again| again != before)
        };
        let view = self
            .until_seen("the next draft", run, is_asked_again)
            .await?;
        let asked = requests(&view);
        let again = asked.get("revised").context("a request")?;
        let request = self.until_seen("a request", again, |_| true).await?;
        ensure!(request["items"][0]["args"]["amount"] == 200, "{request}");
        let approve = format!("{again}/approve");
        self.post("again", &approve, &json!({})).await?;
        Ok(format!("/standing-approvals/{}", id_of(&standing)?))
    }

    /// The requests of the run by step, as soon as there are so many.
    async fn asked(&self, run: &str, count: usize) -> anyhow::Result<BTreeMap<String, String>> {
        let are_there = |view: &Value| requests(view).len() == count;
        let view = self.until_seen("it asks", run, are_there).await?;
        Ok(requests(&view))
    }

    /// Each approved call was made with the approved amount, under one key.
    fn check_gated_calls(&self, run: &str) -> anyhow::Result<()> {
        for (step, amount) in MADE {
            let amounts = self.amounts(&format!("{run}/{step}"))?;
            ensure!(amounts == [amount], "{step} was called with {amounts:?}");
        }
        let amounts = self.amounts(&format!("{run}/{NOT_MADE}"))?;
        ensure!(amounts.is_empty(), "{NOT_MADE} was called with {amounts:?}");
        Ok(())
    }

    /// The amounts of the calls under a key.
    fn amounts(&self, key: &str) -> anyhow::Result<Vec<u64>> {
        let calls = self.shop.calls();
        let calls = calls.iter();
        let calls = calls.filter(|call| call.header("idempotency-key") == key);
        let amounts = calls.map(|call| {
            let body: Value = serde_json::from_str(&call.body)?;
            body["amount"].as_u64().context("an amount")
        });
        amounts.collect()
    }
}

/// The requests that a run waits for, by step.
fn requests(view: &Value) -> BTreeMap<String, String> {
    let waiting = view["waiting_on"].as_array().into_iter().flatten();
    let asked = waiting.filter(|hold| hold["kind"] == "approval");
    let asked = asked.filter_map(|hold| {
        let request = format!("/requests/{}", hold["id"].as_str()?);
        Some((hold["step"].as_str()?.to_owned(), request))
    });
    asked.collect()
}
