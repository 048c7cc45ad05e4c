//! Failures of tools by code: which are repeated, and which only a person may repeat.

use holdpoint_contracts::run::StepStatus;

use super::world::{World, broken};
use crate::domain::RunInput;
use crate::domain::StepReport;

/// What a reported failure does to its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// The tool is called again after a backoff.
    CalledAgain,
    /// People are asked whether it happened.
    Uncertain,
    /// The step fails. A retry of the run calls the tool without a question.
    Failed,
    /// The step fails. A retry of the run asks people before the call.
    FailedAndAsked,
}

/// A run whose only call has failed with this code.
fn failed_with(step: &str, code: &str) -> World {
    let mut world = World::started(step);
    world.ask("node-a", "call");
    world.give(RunInput::StepResult(StepReport {
        cost: None,
        node: "node-a".parse().unwrap(),
        step: "call".to_owned(),
        dispatch: 1,
        result: broken(),
        error_code: Some(code.to_owned()),
    }));
    world
}

fn after(step: &str, code: &str) -> After {
    let mut world = failed_with(step, code);
    match world.phase("call").status() {
        StepStatus::Waiting => return After::CalledAgain,
        StepStatus::Uncertain => return After::Uncertain,
        status => assert_eq!(status, StepStatus::Failed, "{code}"),
    }
    world.retry(None);
    match world.phase("call").status() {
        StepStatus::Uncertain => After::FailedAndAsked,
        status => {
            assert_eq!(status, StepStatus::Queued, "{code}");
            After::Failed
        }
    }
}

/// Gate 3 (S2-R15): only a reported failure of a tool that is not idempotent is retried, and only if its author wrote
/// `retry`. A failure after which the effect is unknown asks people, and a tool that has worked is not called again.
#[test]
fn each_code_says_whether_the_effect_is_unknown_has_come_or_has_not_come() {
    use After::{CalledAgain, Failed, FailedAndAsked, Uncertain};
    let harmful = "  - id: call\n    tool: send_email\n    args: { to: x@x.example }\n";
    let with_retry = format!("{harmful}    retry: {{ attempts: 3 }}\n");
    let harmless = "  - id: call\n    tool: log\n    args: { message: hi }\n";
    for (code, alone, retried, idempotent) in [
        ("timeout", Uncertain, Uncertain, CalledAgain),
        ("http_failed", Uncertain, Uncertain, CalledAgain),
        ("mail_unconfirmed", Uncertain, Uncertain, CalledAgain),
        // An earlier worker reports every mail that it has not sent, or may have sent, by this code.
        ("mail_not_sent", Uncertain, Uncertain, CalledAgain),
        ("http_status", Failed, CalledAgain, CalledAgain),
        ("connect_failed", Failed, CalledAgain, CalledAgain),
        ("mail_busy", Failed, CalledAgain, CalledAgain),
        ("mail_unreachable", Failed, CalledAgain, CalledAgain),
        ("mail_not_stored", Failed, CalledAgain, CalledAgain),
        ("mail_refused", Failed, CalledAgain, CalledAgain),
        ("command_failed", Failed, CalledAgain, CalledAgain),
        ("code_of_a_worker", Failed, CalledAgain, CalledAgain),
        ("invalid_args", Failed, Failed, Failed),
        ("mail_not_composed", Failed, Failed, Failed),
        ("request_too_large", Failed, Failed, Failed),
        ("redirect_refused", Failed, Failed, Failed),
        ("target_refused", Failed, Failed, Failed),
        ("invalid_result", FailedAndAsked, FailedAndAsked, Failed),
        ("response_too_large", FailedAndAsked, FailedAndAsked, Failed),
        ("result_not_allowed", FailedAndAsked, FailedAndAsked, Failed),
        ("result_too_large", FailedAndAsked, FailedAndAsked, Failed),
        ("sandbox_too_large", FailedAndAsked, FailedAndAsked, Failed),
        ("too_many_redirects", FailedAndAsked, FailedAndAsked, Failed),
    ] {
        let outcomes = [harmful, &with_retry, harmless].map(|step| after(step, code));
        assert_eq!(outcomes, [alone, retried, idempotent], "{code}");
    }
}

/// Gate 3: the question says why it is asked, and an author cannot name such a code to have it retried.
#[test]
fn a_broken_connection_of_a_harmful_call_is_a_question_with_its_reason() {
    let step = "  - id: call\n    tool: send_email\n    args: { to: x@x.example }\n    retry: { attempts: 3, on: http_failed }\n";
    assert_eq!(after(step, "http_failed"), After::Uncertain);
    let world = failed_with(step, "http_failed");
    assert_eq!(
        world.view().message,
        "call may have happened: its tool failed and cannot tell whether it had an effect."
    );
    assert_eq!(world.handed.len(), 1);
    assert_eq!(world.rows["call"].failed_attempts.len(), 1);
}
