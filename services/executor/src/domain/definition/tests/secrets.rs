//! Secrets appear in definitions of tools only.

use super::*;
use crate::domain::Refusal;

/// Gate 1: an agent that names a secret is refused with 422, wherever it does.
#[test]
fn a_secret_is_refused_wherever_an_agent_names_it() {
    for step in [
        "tool: log\nwhen: secret.KEY == \"x\"",
        "tool: log\nwhen: $secret.key == \"x\"",
        "tool: log\nwhen: size(secret.KEY) > 3",
        "tool: log\nargs: { message: \"{{ secret.KEY }}\" }",
        "tool: log\nargs: { message: $secret.key }",
        "tool: log\nargs: { a: [{ b: \"Bearer {{ secret.KEY }}\" }] }",
        "tool: log\nfor_each: $secret.keys",
        "tool: log\nfor_each: [1]\nargs: { a: \"{{ secret.KEY }}\" }",
        "tool: send_email\nargs: { to: a@b.org, template: Intro }",
        "ask: { question: \"Is {{ secret.KEY }} right?\" }",
        "ask: { question: \"Now?\", to: $secret.owner }",
        "handoff: { to: \"@user.ada\", message: \"{{ secret.KEY }}\" }",
        "run: { agent: helper, input: { key: \"{{ secret.KEY }}\" } }",
        "wait: $secret.until",
        "finish: { summary: Done., output: { key: $secret.key } }",
    ] {
        let step = step.replace('\n', "\n    ");
        let text = format!(
            "agent: a\ntemplates: {{ Intro: \"The key is {{{{ secret.KEY }}}}\" }}\nsteps:\n  - {step}\n"
        );
        let refused = Plan::compile(&text).expect_err(&text);
        let shown = refused
            .iter()
            .map(|error| format!("{} {}", error.text, error.message));
        let shown: Vec<_> = shown.collect();
        assert!(
            shown.iter().any(|text| text.contains("secret")),
            "{step}: {shown:?}"
        );
        let problem = Refusal::InvalidAgent(refused).problem();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (422, "invalid_agent")
        );
    }
    let limited = "agent: a\nlimits: { concurrency: { runs: 1, key: \"{{ secret.KEY }}\" } }\nsteps:\n  - wait: 1 day\n";
    assert!(!errors(limited).is_empty());
    let worded = "agent: a\ninstructions: |\n  Log \"{{ secret.KEY }}\"\n";
    assert!(!errors(worded).is_empty());
}
