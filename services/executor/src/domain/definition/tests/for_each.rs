//! `for_each` and `parallel` as authors write them, and what they are told.

use super::*;

fn refused(fields: &str) -> Vec<String> {
    one_step(&format!("tool: t\n{fields}"))
}

/// S2-R9
#[test]
fn a_step_is_done_for_each_item_of_a_placeholder_or_a_list() {
    for (items, parallel) in [
        ("for_each: $input.orders", 10),
        (
            "for_each: \"{{ input.orders.filter(o, o.total > 5) }}\"\nparallel: 100",
            100,
        ),
        ("for_each: [1, $input.x]\nparallel: 1", 1),
        ("for_each: []", 10),
    ] {
        let step =
            format!("tool: t\n{items}\nargs: {{ id: $item.id, text: \"{{{{ item.id }}}}\" }}");
        let text = format!("agent: a\nsteps:\n  - {}\n", step.replace('\n', "\n    "));
        let plan = Plan::compile(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(plan.steps[0].for_each.as_ref().unwrap().parallel, parallel);
        let stored = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&stored).unwrap(), plan);
    }
}

#[test]
fn wrong_items_are_refused_with_what_is_allowed() {
    let list = "`for_each` is one placeholder, such as `$step-01.orders` or `{{ input.names }}`, or a list.";
    let many = format!("for_each: [{}]", "1,".repeat(10_001));
    for (fields, message) in [
        ("for_each: plain", list),
        ("for_each: 7", list),
        ("for_each: { a: 1 }", list),
        ("for_each: ~", list),
        ("for_each: \"$input.x and more\"", list),
        ("for_each: \"{{ input.x }}{{ input.y }}\"", list),
        ("for_each: $inptu.x", "looks like a placeholder"),
        (
            many.as_str(),
            "`for_each` has at most 10000 items here; this list has 10001.",
        ),
        (
            "for_each: []\nparallel: 0",
            "`parallel` is a whole number from 1 to 100.",
        ),
        (
            "for_each: []\nparallel: 101",
            "`parallel` is a whole number from 1 to 100.",
        ),
        (
            "for_each: []\nparallel: many",
            "`parallel` is a whole number from 1 to 100.",
        ),
        (
            "parallel: 3",
            "`parallel` belongs to a step with `for_each`.",
        ),
        ("args: { x: $item }", "`$item` is the item of `for_each`"),
        (
            "for_each: []\nwhen: item == 1",
            "`$item` is the item of `for_each`",
        ),
        ("for_each: $item", "`$item` is the item of `for_each`"),
        (
            "for_each: [\"{{ item }}\"]",
            "`$item` is the item of `for_each`",
        ),
    ] {
        let said = refused(fields);
        assert!(
            said.iter().any(|one| one.contains(message)),
            "{fields:.60}: {said:?}"
        );
    }
    for (step, kind) in [
        ("wait: 1d", "wait"),
        ("wait_for: go", "wait_for"),
        ("run: helper", "run"),
        ("finish: done", "finish"),
    ] {
        let said = one_step(&format!("{step}\nfor_each: [1]"));
        let message = format!(
            "`for_each` belongs to a `tool`, an `ask` or a `handoff`; a `{kind}` has none."
        );
        assert!(said[0].contains(&message), "{said:?}");
    }
}

/// People may be asked about each item, and each may go to another person.
#[test]
fn people_are_asked_for_each_item() {
    for step in [
        "ask: { to: $item.reviewer, question: \"Is {{ item.title }} fine?\", on_timeout: default, default: $item.default }",
        "handoff: { to: [\"@user.ada\", $item.reviewer], message: \"Call {{ item.title }}\" }",
    ] {
        let text = format!("agent: a\nsteps:\n  - {step}\n    for_each: $input.pages\n");
        let plan = Plan::compile(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert!(
            plan.steps[0]
                .describe()
                .ends_with("for each of $input.pages, 10 at a time")
        );
        let said = one_step(step);
        assert!(
            said[0].contains("`$item` is the item of `for_each`"),
            "{said:?}"
        );
    }
}

#[test]
fn an_agent_has_few_steps_with_for_each() {
    let text = |steps: usize| {
        format!(
            "agent: a\nsteps:\n{}",
            "  - { tool: t, for_each: [] }\n".repeat(steps)
        )
    };
    assert!(Plan::compile(&text(50)).is_ok());
    let said = sent(&text(51));
    assert!(
        said[0].contains("at most 50 steps with `for_each`"),
        "{said:?}"
    );
}

/// The ids of children are theirs alone.
#[test]
fn no_step_has_the_id_of_a_child() {
    let text = |id: &str| {
        format!(
            "agent: a\nsteps:\n  - id: {id}\n    wait: 1d\n  - id: each\n    for_each: []\n    tool: t\n"
        )
    };
    for id in ["each-0", "each-9999", "each-70000"] {
        let said = sent(&text(id));
        assert!(
            said[0].contains("The children of `each` have ids such as `each-0`"),
            "{said:?}"
        );
    }
    for id in ["each-", "each-00", "each-x", "each-1-1", "eachother-1"] {
        assert!(Plan::compile(&text(id)).is_ok(), "{id}");
    }
    let long = "x".repeat(96);
    let said = sent(&format!(
        "agent: a\nsteps:\n  - id: {long}\n    for_each: []\n    tool: t\n"
    ));
    assert!(said[0].contains("has at most 95 characters"), "{said:?}");
}
