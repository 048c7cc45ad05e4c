//! Child runs are rehearsed with the plans of their agents (S2-R9, Words 6).

use std::fmt::Write as _;

use super::*;

const PARENT: &str = "
agent: sales
steps:
  - id: check
    run: { agent: checker, input: { topic: leads } }
  - { tool: log, args: { message: $check.output } }
";

const CHECKER: &str = "
agent: checker
steps:
  - { wait: 2 days }
  - { id: look, tool: crm.find, args: { topic: $input.topic } }
  - { id: ask, ask: { question: Is it fine?, to: '@user.nina', timeout: 1 day } }
  - finish: { summary: Checked., output: { grade: $look.grade } }
";

fn setup_with(agent: &str, children: &[(&str, Option<&str>)], script: &str) -> RehearsalSetup {
    let plans = children.iter().map(|(name, text)| {
        let plan = text.map(plan);
        (name.parse().unwrap(), plan)
    });
    let facts = WorkspaceFacts {
        child_plans: plans.collect(),
        ..facts()
    };
    setup_in(facts, agent, script)
}

fn run_with(agent: &str, children: &[(&str, Option<&str>)], script: &str) -> RehearsedRun {
    let setup = setup_with(agent, children, script);
    let run = rehearse(&setup, &contact("ada"), &|| true);
    run.unwrap_or_else(|error| panic!("{error}")).unwrap()
}

/// The steps of the timeline with what they send, in order.
fn sent(run: &RehearsedRun) -> Vec<String> {
    let events = run.timeline.iter();
    let sent = events.filter_map(|event| {
        let step = event.step.clone().unwrap_or_default();
        Some(match event.outgoing.as_ref()? {
            Outgoing::Call { tool, args } => format!("{step} {tool} {args}"),
            Outgoing::Request { to, .. } => format!("{step} asks {}", to.join(" ")),
            Outgoing::ChildRun { agent } => format!("{step} runs {agent}"),
            Outgoing::ApprovedInAdvance { .. } => format!("{step} approved"),
            Outgoing::Escalation { .. } => format!("{step} escalates"),
        })
    });
    sent.collect()
}

#[test]
fn a_child_run_is_rehearsed_in_the_timeline_of_its_parent() {
    let script = "tools: [{ step: check/look, result: { grade: A } }]";
    let run = run_with(PARENT, &[("checker", Some(CHECKER))], script);
    assert_eq!(run.status, RunStatus::Completed, "{}", run.message);
    assert_eq!(
        sent(&run),
        [
            "check runs checker",
            "check/look crm.find {\"topic\":\"leads\"}",
            "check/ask asks @user.nina",
            "step-02 log {\"message\":{\"grade\":\"A\"}}",
        ]
    );
    assert_eq!(
        run.ended_at.unwrap().to_rfc3339(),
        "2026-03-04T10:00:00+00:00"
    );
    assert_eq!(run.calls.len(), 2);
    assert_eq!(run.requests["@user.nina"], 1);
    assert!(!run.ended_unseen(), "nina had a request of the child run");
    assert_eq!(run.steps_reached, ["check", "step-02"]);
}

/// A person of the child run may refuse, and the step of the parent fails with it.
#[test]
fn a_failed_child_fails_the_step_of_its_parent() {
    let script = "people: [{ step: check/ask, do: nothing }]";
    let run = run_with(PARENT, &[("checker", Some(CHECKER))], script);
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.code.as_deref(), Some("child_failed"), "{}", run.message);
    assert_eq!(
        run.ended_at.unwrap().to_rfc3339(),
        "2026-03-05T09:00:00+00:00"
    );
}

/// A rule of the script still ends a child run at once. A rule for all calls does not.
#[test]
fn a_rule_with_the_agent_ends_its_runs_at_once() {
    for script in [
        "tools: [{ agent: checker, result: { grade: B } }]",
        "tools: [{ step: check, result: { grade: B } }]",
    ] {
        let run = run_with(PARENT, &[("checker", Some(CHECKER))], script);
        let log = "step-02 log {\"message\":{\"grade\":\"B\"}}";
        assert_eq!(sent(&run), ["check runs checker", log], "{script}");
    }
    let run = run_with(
        PARENT,
        &[("checker", Some(CHECKER))],
        "tools: [{ result: { grade: C } }]",
    );
    assert_eq!(sent(&run).len(), 4, "{:?}", sent(&run));
}

/// Real runs of an unknown agent do not start.
#[test]
fn a_run_of_an_unknown_agent_is_refused() {
    let run = run_with(PARENT, &[("checker", None)], "");
    assert_eq!(run.status, RunStatus::Failed);
    assert!(run.message.contains("refused"), "{}", run.message);
}

/// The runs of one step have numbers, share the contact, and those that are no longer needed are cancelled.
#[test]
fn the_first_of_several_runs_cancels_the_others() {
    let parent = "
agent: sales
steps:
  - id: race
    run: { first: [fast, slow] }
  - { tool: log, args: { message: $race.agent } }
";
    let fast = "agent: fast\nsteps: [{ wait: 1 day }, { tool: add_tag, args: { tag: fast } }]";
    let slow = "agent: slow\nsteps: [{ wait: 3 days }, { tool: add_tag, args: { tag: slow } }]";
    let run = run_with(parent, &[("fast", Some(fast)), ("slow", Some(slow))], "");
    assert_eq!(
        sent(&run),
        [
            "race runs fast",
            "race runs slow",
            "race.1/step-02 add_tag {\"tag\":\"fast\"}",
            "step-02 log {\"message\":\"fast\"}",
        ]
    );
    assert_eq!(run.status, RunStatus::Completed, "{}", run.message);
}

/// A reply reaches a child run that waits for it, and a signal does too.
#[test]
fn replies_and_signals_reach_child_runs() {
    let child = "
agent: checker
steps:
  - wait_for: { signal: paid, timeout: 30 days }
  - { tool: log, args: { message: '{{ contact.replied }}' } }
";
    let script = "
contacts: [{ after: 1d, set: { replied: true } }]
signals: [{ signal: paid, after: 2d }]
";
    let run = run_with(PARENT, &[("checker", Some(child))], script);
    assert_eq!(sent(&run)[1], "check/step-02 log {\"message\":true}");
    assert_eq!(
        run.ended_at.unwrap().to_rfc3339(),
        "2026-03-04T09:00:00+00:00"
    );
}

/// The rule of real runs: 8 levels below the first one, and no agent below itself.
#[test]
fn the_depth_of_child_runs_is_that_of_real_runs() {
    let names: Vec<_> = (0..10).map(|level| format!("level{level}")).collect();
    let text = |level: usize| match names.get(level + 1) {
        Some(next) => format!("agent: level{level}\nsteps: [{{ id: s, run: {next} }}]"),
        None => format!("agent: level{level}\nsteps: [{{ tool: log, args: {{ message: x }} }}]"),
    };
    let texts: Vec<_> = (0..10).map(text).collect();
    let children = names.iter().zip(&texts).skip(1);
    let children: Vec<_> = children
        .map(|(name, text)| (name.as_str(), Some(text.as_str())))
        .collect();
    let run = run_with(&texts[0], &children, "");
    assert_eq!(run.status, RunStatus::Failed);
    let mut deepest = String::new();
    for level in 0..8 {
        let slash = if level == 0 { "" } else { "/" };
        write!(deepest, "{slash}s").unwrap();
        let started = format!("{deepest} runs level{}", level + 1);
        assert!(sent(&run).contains(&started), "{started}: {:?}", sent(&run));
    }
    assert_eq!(sent(&run).len(), 8, "{:?}", sent(&run));
    let cycle = "agent: checker\nsteps: [{ id: again, run: sales }]";
    let run = run_with(PARENT, &[("checker", Some(cycle))], "");
    assert_eq!(run.code.as_deref(), Some("child_failed"), "{}", run.message);
    assert_eq!(sent(&run), ["check runs checker"]);
}

/// Child runs share the rounds and the memory of the contact.
#[test]
fn child_runs_are_within_the_limits_of_the_first_run() {
    let items: Vec<u32> = (0..1_000).collect();
    let child = json!({ "agent": "checker", "steps": [
        { "tool": "log", "for_each": items, "parallel": 100, "args": { "message": "$item" } },
    ] });
    let mut steps = Vec::new();
    for number in 0..40 {
        steps.push(json!({ "id": format!("s{number}"), "run": "checker" }));
    }
    let parent = json!({ "agent": "sales", "steps": steps }).to_string();
    let run = run_with(&parent, &[("checker", Some(&child.to_string()))], "");
    assert!(
        matches!(
            run.stopped_by,
            Some(RehearsalLimit::Rounds | RehearsalLimit::Memory)
        ),
        "{:?}",
        run.stopped_by
    );
    assert_eq!(run.ended_at, None);
}

#[test]
fn a_script_names_the_steps_and_tools_of_child_runs() {
    let plan = plan(PARENT);
    let children: ChildPlans = [("checker".parse().unwrap(), Some(super::plan(CHECKER)))].into();
    for script in [
        "people: [{ step: check/ask }]",
        "tools: [{ step: check.2/look }, { tool: crm.find }]",
    ] {
        Script::parse(script, &plan, &children).unwrap();
    }
    for (script, unknown) in [
        ("people: [{ step: check/nope }]", "check/nope"),
        ("people: [{ step: step-02/ask }]", "step-02/ask"),
        ("people: [{ step: ask }]", "ask"),
        ("tools: [{ tool: crm.nope }]", "crm.nope"),
    ] {
        let error = Script::parse(script, &plan, &children).unwrap_err();
        assert!(error.contains(unknown), "{script}: {error}");
    }
}
