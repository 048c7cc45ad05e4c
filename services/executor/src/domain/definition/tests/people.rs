//! `ask`, `handoff` and `inputs` as they are written, and everything that can be wrong with them.

use holdpoint_contracts::hold::{Assign, OnTimeout, Priority};

use crate::domain::plan::{Action, Plan};

fn plan(steps: &str) -> Result<Plan, String> {
    let text = format!("agent: a\nsteps:\n{steps}");
    Plan::compile(&text).map_err(|errors| {
        let said: Vec<_> = errors.into_iter().map(|error| error.message).collect();
        said.join(" ")
    })
}

fn refused(step: &str) -> String {
    plan(&format!("  - {step}\n")).expect_err(step)
}

/// S3-R1, S0-T1: the defaults.
#[test]
fn what_is_not_said_has_its_default() {
    let plan = plan("  - ask: { question: Go on? }\n  - handoff: {}\n").unwrap();
    let Action::Ask(ask) = &plan.steps[0].action else {
        panic!("no ask")
    };
    assert_eq!((ask.timeout_ms, ask.on_timeout), (300_000, OnTimeout::Fail));
    let Action::Handoff(handoff) = &plan.steps[1].action else {
        panic!("no handoff")
    };
    assert_eq!(handoff.timeout_ms, 7 * 86_400_000);
    assert_eq!(handoff.on_timeout, OnTimeout::Continue);
    assert_eq!(handoff.priority, Priority::Normal);
    let said = (ask.priority, ask.assign, handoff.assign);
    assert_eq!(said, (Priority::Normal, Assign::Anyone, Assign::Anyone));
}

/// S0-R2, issue 4: questions and handoffs say how urgent they are, and who of a role gets them.
#[test]
fn a_step_says_how_urgent_it_is_and_who_of_a_role_gets_it() {
    let how = "to: \"@role.ops\", priority: urgent, assign: least_loaded";
    let steps = format!("  - ask: {{ question: Go on?, {how} }}\n  - handoff: {{ {how} }}\n");
    let plan = plan(&steps).unwrap();
    let (Action::Ask(ask), Action::Handoff(handoff)) =
        (&plan.steps[0].action, &plan.steps[1].action)
    else {
        panic!("{plan:?}")
    };
    let said = (Priority::Urgent, Assign::LeastLoaded);
    assert_eq!((ask.priority, ask.assign), said);
    assert_eq!((handoff.priority, handoff.assign), said);
}

/// Issue 4: `options: [yes, no]`. This reader takes the words as words; what another program has
/// read as booleans already is refused with what to write.
#[test]
fn yes_and_no_are_words_and_booleans_are_refused() {
    let plan = plan("  - ask: { question: Go on?, options: [yes, no] }\n").unwrap();
    let Action::Ask(ask) = &plan.steps[0].action else {
        panic!("no ask")
    };
    assert_eq!(ask.options, ["yes", "no"]);
    let said = refused("ask: { question: Go on?, options: [true, false] }");
    assert!(said.contains("quotes: `\"yes\"`, `\"no\"`"), "{said}");
}

/// S3-R7
#[test]
fn times_are_from_one_second_to_ninety_days() {
    for (time, said) in [
        ("0", "1 second to 90 days"),
        ("0 s", "1 second to 90 days"),
        ("10 ms", "1 second to 90 days"),
        ("91 days", "1 second to 90 days"),
    ] {
        let message = refused(&format!("ask: {{ question: Go on?, timeout: {time} }}"));
        assert!(message.contains(said), "{time}: {message}");
    }
    assert!(
        plan("  - handoff: { timeout: 0 }\n").is_ok(),
        "no automatic resume"
    );
    assert!(plan("  - ask: { question: Go on?, timeout: 90 days }\n").is_ok());
}

#[test]
fn what_is_wrong_is_said_with_what_to_write() {
    let later =
        "ask: { question: Go on?, options: [a, b], on_timeout: default, default: $input.d }";
    assert!(plan(&format!("  - {later}\n")).is_ok(), "not known yet");
    for (step, said) in [
        ("ask: { to: owner, question: Go on? }", "@user.<name>"),
        ("ask: {}", "`question"),
        (
            "ask: { question: Go on?, optoins: [a, b] }",
            "no field `optoins`",
        ),
        (
            "ask: { question: Go on?, on_timeout: continue }",
            "`on_timeout` is one of",
        ),
        (
            "ask: { question: Go on?, on_timeout: default }",
            "`default` is required with",
        ),
        (
            "ask: { question: Go on?, options: [a, b], on_timeout: default, default: c }",
            "one of: a, b",
        ),
        (
            "ask: { question: Go on?, options: [\"1\", \"2\"], on_timeout: default, default: 1 }",
            "one of: 1, 2",
        ),
        (
            "ask: { question: Go on?, schema: { type: object, properties: { a: { type: string } }, \
             required: [a] }, on_timeout: default, default: \"no\" }",
            "an object with the form's fields",
        ),
        (
            "ask: { question: Go on?, schema: { type: array } }",
            "not a flat form schema",
        ),
        (
            "ask: { question: Go on?, schema: { type: object, properties: { a: { type: array } } } }",
            "`schema/properties/a`",
        ),
        ("handoff: { priority: critical }", "`priority` is one of"),
        (
            "ask: { question: Go on?, assign: last }",
            "`assign` is one of",
        ),
        ("handoff: { on_timeout: default }", "`on_timeout` is one of"),
        ("handoff: { message: $step-07.x }", "This agent has no step"),
        ("ask: { question: \"{{ contct.name }}?\" }", "not known"),
    ] {
        let message = refused(step);
        assert!(message.contains(said), "{step}: {message}");
    }
}

/// S2-R12, S2-R16
#[test]
fn inputs_are_a_flat_form() {
    let compile = |top: &str| Plan::compile(&format!("agent: a\n{top}\nsteps:\n  - wait: 1 day\n"));
    let form = "inputs: { type: object, properties: { a: { type: string } }, required: [a] }";
    let inputs = compile(form).unwrap().inputs.unwrap();
    assert!(inputs.ask);
    let off = format!("{form}\nask_missing_inputs: false");
    assert!(!compile(&off).unwrap().inputs.unwrap().ask);
    for wrong in [
        "inputs: { type: object, properties: { a: { type: object } } }",
        "inputs: { type: object, properties: { a: { type: string } }, required: [b] }",
        "inputs: text",
        "ask_missing_inputs: false",
    ] {
        compile(wrong).expect_err(wrong);
    }
}

/// People, deliverable 3: secrets by link, and by nothing else.
#[test]
fn a_secret_is_asked_for_by_link() {
    let link = "link: { url: \"https://vault.example/new\", label: Open the vault }";
    let plan = plan(&format!("  - ask: {{ question: The key?, {link} }}\n")).unwrap();
    let Action::Ask(ask) = &plan.steps[0].action else {
        panic!("no ask")
    };
    let host = ask.link.as_ref().and_then(|link| link.host());
    assert_eq!(host.as_deref(), Some("vault.example"));
    let form = |field: &str| {
        format!("schema: {{ type: object, properties: {{ key: {{ type: string, {field} }} }} }}")
    };
    for (asked, said) in [
        (form("format: password"), "`link: { url, label }`"),
        (form("writeOnly: true"), "`link: { url, label }`"),
        (format!("{link}, options: [a, b]"), "a `link`, or `options`"),
        (format!("{link}, {}", form("maxLength: 9")), "or a `schema`"),
        (
            format!("{link}, on_timeout: default, default: done"),
            "only `declined`",
        ),
        ("link: https://vault.example".to_owned(), "is written"),
        (
            "link: { url: \"http://vault.example\" }".to_owned(),
            "https",
        ),
        (
            "link: { url: \"https://a:b@vault.example\" }".to_owned(),
            "password",
        ),
        (
            "link: { url: \"https://{{ input.host }}/\" }".to_owned(),
            "is literal",
        ),
    ] {
        let message = refused(&format!("ask: {{ question: The key?, {asked} }}"));
        assert!(message.contains(said), "{asked}: {message}");
    }
}

/// An agent is refused where the other doors refuse its question.
#[test]
fn every_door_refuses_the_same_drafts_with_the_same_words() {
    for draft in holdpoint_holds::fixtures::drafts() {
        let step = serde_json::json!({ "ask": draft.with_text_timeout() });
        let text = format!("agent: a\nsteps:\n  - {step}\n");
        let diagnostics = Plan::compile(&text).err().unwrap_or_default();
        let said: Vec<_> = diagnostics.iter().map(|one| &one.message).collect();
        assert_eq!(said.len(), draft.messages.len(), "{said:?} {text:.300}");
        for (said, message) in said.iter().zip(&draft.messages) {
            assert!(said.ends_with(&format!(": {message}.")), "{said}");
        }
    }
}
