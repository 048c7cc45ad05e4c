//! Who may give which command, and what becomes of timers and dead letters.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it expects; anything else fails it"
)]
#![expect(
    clippy::unwrap_in_result,
    reason = "what a test builds itself is well formed"
)]

use chrono::TimeDelta;
use holdpoint_auth::{Claims, Secrets, StepClaims};
use holdpoint_contracts::asking::ToolQuestion;
use holdpoint_contracts::executor::{
    ChildRunState, DesiredChildRun, PauseWaiting, StartRun, TimerFired,
};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::ResumeMode;
use holdpoint_contracts::suspension::{ContinueStep, StepOnResume};
use serde_json::json;

use super::*;

fn acme() -> Workspace {
    "acme".parse().unwrap()
}

fn now() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH
}

fn fresh() -> Secrets {
    Secrets::fresh().unwrap()
}

/// Reads a command of an unsigned actor, or of `ada`, vouched for with somebody's secrets and a role.
fn give<C: Command>(
    secrets: &Secrets,
    command: C,
    actor: &str,
    require_active_user: Option<(&Secrets, &str)>,
) -> Result<DecodedCommand<Input>, Problem> {
    let parts = Parts {
        workspace: acme(),
        service: "executor".to_owned(),
        verb: C::VERB.to_owned(),
    };
    let mut envelope = Envelope {
        actor: Actor(actor.to_owned()),
        assertion: None,
        key: None,
        command,
    };
    if let Some((by, role)) = require_active_user {
        let claims = Claims {
            workspace: acme(),
            user: "ada".parse().unwrap(),
            roles: vec![role.parse().unwrap()],
            expires_at: now() + TimeDelta::minutes(5),
        };
        envelope = by.signer().unwrap().vouch(&claims, envelope).unwrap();
    }
    let body = serde_json::to_vec(&envelope).unwrap();
    decode(&parts, &body, &secrets.keys().unwrap(), now())
}

fn pause() -> PauseRun {
    PauseRun {
        run: RunId::fresh(),
        waiting: PauseWaiting::Hold,
    }
}

fn start() -> StartRun {
    StartRun {
        run: RunId::fresh(),
        agent: "outreach".parse().unwrap(),
        input: Value::Null,
        contact: None,
        labels: std::collections::BTreeMap::new(),
    }
}

fn actor(request: &DecodedCommand<Input>) -> String {
    let input = match &request.inputs[0] {
        Input::OnBehalfOf { user, input, .. } => {
            assert_eq!(user.as_str(), "ada", "it counts while she is active");
            input
        }
        other => other,
    };
    match input {
        Input::Run {
            input: RunInput::Pause { by, .. } | RunInput::Start { by, .. },
            ..
        } => by.0.clone(),
        other => panic!("{other:?}"),
    }
}

/// Ground, "Identity": the actor of a signed command is who was vouched for, whatever it says.
#[test]
fn the_actor_is_who_was_vouched_for() {
    let secrets = fresh();
    let by = |it: Result<DecodedCommand<Input>, Problem>| actor(&it.unwrap());
    let require_active_user = give(&secrets, pause(), "eve", Some((&secrets, "operator")));
    assert_eq!(by(require_active_user), "ada");
    assert_eq!(by(give(&secrets, pause(), "eve", None)), "unsigned:eve");
}

/// Mend A-M4: a program may pause a run, so no name makes it a service.
#[test]
fn a_program_is_never_taken_for_a_service() {
    let service = give(&fresh(), pause(), "service:scheduler", None);
    assert_eq!(actor(&service.unwrap()), "unsigned:service:scheduler");
}

/// A program resumes a run. What becomes of a step that may have had its effect is a person's decision.
#[test]
fn a_program_does_not_decide_about_steps() {
    let resume = |step| ResumeRun {
        run: RunId::fresh(),
        mode: ResumeMode::Continue,
        step,
    };
    let redo = || resume(Some(StepOnResume::Redo));
    assert!(give(&fresh(), resume(None), "shop", None).is_ok());
    assert_eq!(
        give(&fresh(), redo(), "shop", None).unwrap_err().status,
        403
    );
    let secrets = fresh();
    for (role, is_allowed) in [("operator", true), ("member", false)] {
        let given = give(&secrets, redo(), "ada", Some((&secrets, role)));
        assert_eq!(given.is_ok(), is_allowed, "{role}");
    }
}

/// Mend A-C1: what was signed for another command is refused.
#[test]
fn an_assertion_of_another_command_is_refused() {
    let secrets = fresh();
    let claims = Claims {
        workspace: acme(),
        user: "ada".parse().unwrap(),
        roles: vec!["owner".parse().unwrap()],
        expires_at: now() + TimeDelta::minutes(5),
    };
    let envelope = Envelope {
        actor: Actor("ada".to_owned()),
        assertion: None,
        key: None,
        command: pause(),
    };
    let signer = secrets.signer().unwrap();
    let mut envelope = signer.vouch(&claims, envelope).unwrap();
    envelope.command = pause();
    let parts = Parts {
        workspace: acme(),
        service: "executor".to_owned(),
        verb: PauseRun::VERB.to_owned(),
    };
    let body = serde_json::to_vec(&envelope).unwrap();
    let problem = decode(&parts, &body, &secrets.keys().unwrap(), now()).unwrap_err();
    assert_eq!(
        (problem.status, problem.code.as_str()),
        (401, "invalid_assertion")
    );
}

/// Ground, "Must": a forged assertion is refused, never taken as none.
#[test]
fn a_forged_assertion_is_refused() {
    let problem = give(&fresh(), pause(), "ada", Some((&fresh(), "owner"))).unwrap_err();
    assert_eq!(
        (problem.status, problem.code.as_str()),
        (401, "invalid_assertion")
    );
}

/// DESIGN, Identity: roles grant rights, in every command handler.
#[test]
fn a_member_starts_runs_and_does_not_pause_them() {
    let secrets = fresh();
    let member = Some((&secrets, "member"));
    assert!(give(&secrets, start(), "ada", member).is_ok());
    let problem = give(&secrets, pause(), "ada", member).unwrap_err();
    assert_eq!(problem.code, "forbidden");
    let viewer = Some((&secrets, "viewer"));
    let problem = give(&secrets, start(), "ada", viewer).unwrap_err();
    assert_eq!(problem.code, "forbidden");
}

/// A timer of an unknown form is refused by itself; its neighbours count.
#[test]
fn every_timer_of_a_message_is_taken_by_itself() {
    let hold = HoldId {
        run: RunId::fresh(),
        number: 1,
    };
    let fired = |id: String| TimerFired {
        id,
        rev: 3,
        due: now(),
    };
    let system: Workspace = subject::SYSTEM_WORKSPACE.parse().unwrap();
    let inputs = [
        timer_input(&acme(), fired(hold.to_string())),
        timer_input(&system, fired("node_node-a".to_owned())),
        timer_input(&acme(), fired("node_node-a".to_owned())),
        timer_input(&system, fired("nonsense".to_owned())),
    ];
    assert!(matches!(
        inputs,
        [
            Input::Run { .. },
            Input::Node {
                input: NodeInput::HeartbeatMissed { rev: 3 },
                ..
            },
            Input::UnknownTimer { .. },
            Input::UnknownTimer { .. },
        ]
    ));
}

/// DESIGN, "The tables are enough": a dead letter puts an incident on the runs that it names.
#[test]
fn a_buried_message_is_told_to_the_runs_it_names() {
    let (one, two) = (RunId::fresh(), RunId::fresh());
    let body = json!({ "actor": "x", "command": {
        "run": one,
        "results": [{ "run": two, "step": 7 }, { "run": two }],
        "fired": [{ "id": HoldId { run: one, number: 2 } }],
    } });
    let body = serde_json::to_vec(&body).unwrap();
    let subject = "hp.acme.cmd.executor.3.step_results";
    let found: Vec<_> = incident(subject, &body, "unreadable")
        .into_iter()
        .map(|input| match input {
            Input::Run {
                run,
                input: RunInput::Incident { .. },
                ..
            } => run,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, [one, two]);
    assert!(incident(subject, b"no json", "unreadable").is_empty());
    // A desired state that no message can carry is about a run, too.
    let hold = HoldId {
        run: one,
        number: 2,
    };
    for subject in [
        format!("desired_state.acme.hold.{hold}"),
        format!("desired_state.acme.ended.{one}"),
        format!("desired_state.acme.child_run_cancel.{hold}.0"),
        format!("desired_state.acme.child_run_end.{hold}.{two}"),
    ] {
        let inputs = incident(&subject, b"{}", "too large");
        assert!(
            matches!(inputs.as_slice(), [Input::Run { run, .. }] if *run == one),
            "{subject}: {inputs:?}"
        );
    }
    assert!(incident("desired_state.sys.timer.node_a", b"{}", "too large").is_empty());
}

/// A cancel that its child cannot handle shows there, because the child runs on.
#[test]
fn a_buried_desired_state_of_a_child_run_is_told_to_the_child() {
    let child = RunId::fresh();
    let hold = HoldId {
        run: RunId::fresh(),
        number: 2,
    };
    let reason = "its parent failed".to_owned();
    let desired = DesiredChildRun {
        run: child,
        rev: 4,
        hold,
        step: "ask".to_owned(),
        agent: "helper".parse().unwrap(),
        state: ChildRunState::Cancelled { reason },
    };
    let input = run_input(&acme(), child, RunInput::SetChildRun(Box::new(desired)));
    let incident = incident_of(&input, "unreadable");
    assert!(
        matches!(&incident, Some(Input::Run { run, input: RunInput::Incident { .. }, .. }) if *run == child),
        "{incident:?}"
    );
}

/// The token of the third dispatch of `step-01`.
fn step_token(secrets: &Secrets, run: RunId) -> String {
    let claims = StepClaims {
        workspace: acme(),
        run,
        step: "step-01".to_owned(),
        dispatch: 3,
        expires_at: now() + TimeDelta::minutes(5),
    };
    secrets.keys().unwrap().steps.sign(&claims).unwrap()
}

/// S3-R2: a step token alone says which dispatch asks; to it another run does not exist. Whoever has
/// none takes the right to ask.
#[test]
fn a_step_token_says_which_hand_out_asks() {
    let secrets = fresh();
    let run = RunId::fresh();
    let token = step_token(&secrets, run);
    let asks = |run, token: Option<&str>| RequestInput {
        run,
        step: Some("another".to_owned()),
        dispatch: Some(9),
        token: token.map(str::to_owned),
        question: ToolQuestion::new("Go on?"),
    };
    let taken = give(&secrets, asks(run, Some(&token)), "service:worker", None).unwrap();
    match &taken.inputs[0] {
        Input::Run {
            input: RunInput::AskPeople { step, dispatch, .. },
            ..
        } => assert_eq!((step.as_deref(), *dispatch), (Some("step-01"), Some(3))),
        other => panic!("{other:?}"),
    }
    let elsewhere = give(&secrets, asks(RunId::fresh(), Some(&token)), "x", None);
    assert_eq!(elsewhere.unwrap_err().status, 404);
    let forged = format!("{}AAAA", &token[..token.len() - 4]);
    let forged = give(&secrets, asks(run, Some(&forged)), "x", None);
    assert_eq!(forged.unwrap_err().status, 401);
    let looks = give(&secrets, asks(run, None), "ada", Some((&secrets, "viewer")));
    assert_eq!(looks.unwrap_err().code, "forbidden");
    assert!(give(&secrets, asks(run, None), "program", None).is_ok());
}

/// S1-R8: only the token of a dispatch gives access to what an earlier call of its step saved.
#[test]
fn a_step_is_continued_with_its_token() {
    let secrets = fresh();
    let run = RunId::fresh();
    let token = step_token(&secrets, run);
    let continues = |run, token: &str| ContinueStep {
        run,
        token: token.to_owned(),
        node: "node-a".parse().unwrap(),
        sandbox: None,
    };
    let taken = give(&secrets, continues(run, &token), "service:worker", None).unwrap();
    match &taken.inputs[0] {
        Input::Run {
            input: RunInput::ContinueStep(call),
            ..
        } => assert_eq!((call.step.as_str(), call.dispatch), ("step-01", 3)),
        other => panic!("{other:?}"),
    }
    let refused = |run, token: &str| {
        let taken = give(&secrets, continues(run, token), "service:worker", None);
        taken.unwrap_err().status
    };
    assert_eq!(refused(RunId::fresh(), &token), 404);
    assert_eq!(refused(run, ""), 401);
}
