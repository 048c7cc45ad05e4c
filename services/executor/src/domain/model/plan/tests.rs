//! What a compiled agent is, and that it stays the same.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::expression::Scope;

const OUTREACH: &str = include_str!("../../../../../../examples/outreach.yaml");

fn outreach() -> Plan {
    Plan::compile(OUTREACH).unwrap()
}

/// S0-AC1, S0-AC5: the example of the repository.
#[test]
fn the_outreach_example_compiles() {
    let plan = outreach();
    let ids: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(
        (plan.agent.as_str(), plan.on_pause),
        ("outreach", OnPause::Hold)
    );
    assert_eq!(ids, ["step-01", "step-02", "step-03", "step-04"]);
    assert_eq!(
        plan.steps
            .iter()
            .map(|step| step.needs.clone())
            .collect::<Vec<_>>(),
        [vec![], vec![0], vec![1], vec![2]]
    );
    assert_eq!(
        plan.steps[1].action,
        Action::Wait {
            duration_ms: 432_000_000
        }
    );
    assert_eq!(
        plan.steps[2].when.as_deref(),
        Some("contact.replied == false")
    );
    assert_eq!(
        plan.references(StepPart::Step(2)),
        BTreeSet::from([Reference::Contact])
    );
    assert_eq!(plan.references(StepPart::Step(1)), BTreeSet::new());
    assert_eq!(plan.references(StepPart::Step(99)), BTreeSet::new());
}

/// S0-AC5
#[test]
fn the_follow_up_is_sent_to_who_did_not_reply() {
    let plan = outreach();
    for (replied, sends) in [(false, true), (true, false)] {
        let contact =
            json!({"name": "Ada", "email": "ada@x.example", "company": "L", "replied": replied});
        let scope = Scope {
            input: &Value::Null,
            contact: Some(&contact),
            run: &Value::Null,
            item: None,
            steps: BTreeMap::new(),
            ids: plan.ids_of(plan.references(StepPart::Step(2))),
        };
        let condition =
            expression::evaluate(plan.steps[2].when.as_deref().unwrap(), &scope).unwrap();
        assert_eq!(condition.holds, sends);
        assert_eq!(
            condition.values,
            BTreeMap::from([("contact.replied".to_owned(), json!(replied))])
        );
        let Action::Tool { args, .. } = &plan.steps[2].action else {
            panic!("a tool")
        };
        let args = expression::resolve(args, &scope).unwrap();
        assert_eq!(
            (&args["to"], &args["subject"]),
            (&json!("ada@x.example"), &json!("Follow-up"))
        );
    }
}

/// S2-R8: a step that was skipped has no result; its placeholder is still one, and reads as null.
#[test]
fn a_placeholder_of_a_step_without_result_is_null() {
    let plan =
        Plan::compile("agent: a\nsteps: [{id: find, tool: t}, {tool: t, args: {x: $find.y}}]")
            .unwrap();
    assert_eq!(
        plan.references(StepPart::Step(1)),
        BTreeSet::from([Reference::Step(0)])
    );
    let scope = Scope {
        input: &Value::Null,
        contact: None,
        run: &Value::Null,
        item: None,
        steps: BTreeMap::new(),
        ids: plan.ids_of(plan.references(StepPart::Step(1))),
    };
    let Action::Tool { args, .. } = &plan.steps[1].action else {
        panic!("a tool")
    };
    let args = expression::resolve(args, &scope).unwrap();
    assert_eq!(args, json!({ "x": null }));
}

/// The stored form: what is written today must be read by every later release.
#[test]
fn the_stored_form_is_stable() {
    let text = "{\"agent\": \"a\",\t\"on_pause\": \"cancel\", \"steps\": [
        {\"tool\": \"orders.find\", \"args\": {\"b\": 1, \"a\": \"$input.x\"}, \"claim_timeout\": \"30s\"},
        {\"id\": \"later\", \"wait\": \"1h\", \"when\": \"$step-01.n > 0\", \"needs\": [\"step-01\"]},
        {\"wait\": \"1h\", \"needs\": []}]}";
    let plan = Plan::compile(text).unwrap();
    let stored = json!({"agent": "a", "on_pause": "cancel", "steps": [
        {"id": "step-01", "needs": [], "claim_timeout_ms": 30_000,
            "action": {"kind": "tool", "tool": "orders.find", "args": {"a": "$input.x", "b": 1}}},
        {"id": "later", "needs": [0], "when": "$step-01.n > 0", "action": {"kind": "wait", "duration_ms": 3_600_000}},
        {"id": "step-03", "needs": [], "action": {"kind": "wait", "duration_ms": 3_600_000}},
    ]});
    assert_eq!(serde_json::to_value(&plan).unwrap(), stored);
    assert_eq!(serde_json::from_value::<Plan>(stored).unwrap(), plan);
    assert_eq!(
        plan.digest(),
        "ce6cf0f6dc3f9d7b57ca6634aa5d6758ad500ea2bdf977dcc47c91bb63665db0"
    );
}

/// S2-R1: the same agent, written another way, is the same plan.
#[test]
fn an_unchanged_agent_is_recognised() {
    let yaml = "agent: a\nsteps:\n  - tool: t\n    args: {x: 1, y: 2}\n  - wait: 24 hours\n";
    let json = r#"{"steps": [{"args": {"y": 2, "x": 1}, "tool": "t"}, {"wait": "1d", "id": "step-02"}], "agent": "a"}"#;
    let (yaml, json) = (Plan::compile(yaml).unwrap(), Plan::compile(json).unwrap());
    assert_eq!(yaml.digest(), json.digest());
    assert_ne!(yaml.digest(), outreach().digest());
}

/// Mend D-11: the fields of a form are in the author's order in the stored plan and in what is asked, and
/// another order is another version; the order of arguments says nothing.
#[test]
fn forms_are_in_the_order_of_their_author() {
    let agent = |fields: &str| {
        let form =
            format!("{{type: object, required: [approved, company], properties: {{{fields}}}}}");
        let text =
            format!("agent: a\ninputs: {form}\nsteps:\n  - ask: {{question: q, schema: {form}}}\n");
        Plan::compile(&text).unwrap()
    };
    let fields = "company: {type: string}, budget: {type: number}, approved: {type: boolean}";
    let stored = serde_json::to_string(&agent(fields)).unwrap();
    let plan: Plan = serde_json::from_str(&stored).unwrap();
    let names = |form: &Value| -> Vec<String> {
        let fields = form["properties"].as_object().unwrap();
        fields.keys().cloned().collect()
    };
    for form in plan.forms() {
        assert_eq!(names(form), ["company", "budget", "approved"]);
    }
    assert_eq!(plan.forms().count(), 2);
    let inputs = plan.inputs.as_ref().unwrap();
    let missing = inputs.missing(&json!({}));
    assert_eq!(missing, ["company", "approved"]);
    assert_eq!(names(&inputs.form(&missing)), missing);
    let sorted = "approved: {type: boolean}, budget: {type: number}, company: {type: string}";
    assert_ne!(plan.digest(), agent(sorted).digest());
    assert_eq!(plan.digest(), agent(fields).digest());
}

proptest! {
    /// A plan survives its stored form, and everything it needs is another step of it.
    #[test]
    fn a_plan_survives_storage(needs in prop::collection::vec(prop::collection::vec(0_usize..12, 0..4), 1..12)) {
        let steps: Vec<Value> = needs
            .iter()
            .enumerate()
            .map(|(at, needs)| json!({"id": format!("s{at}"), "wait": "1d", "needs": needs.iter().map(|n| format!("s{n}")).collect::<Vec<_>>()}))
            .collect();
        let Ok(plan) = Plan::compile(&json!({"agent": "a", "steps": steps}).to_string()) else { return Ok(()) };
        let stored = serde_json::to_string(&plan).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Plan>(&stored).unwrap(), &plan);
        for (at, step) in plan.steps.iter().enumerate() {
            prop_assert!(step.needs.iter().all(|&need| need != at && need < plan.steps.len()));
        }
    }
}
