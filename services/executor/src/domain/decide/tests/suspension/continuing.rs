//! A node continues a step with what the last call saved (S1-R8).

use holdpoint_contracts::suspension::{ContinuedStep, SandboxState};

use super::*;
use crate::domain::ContinuedCall;

fn sandbox(hash: &str) -> Sandbox {
    Sandbox {
        node: "node-a".parse().unwrap(),
        path: "/sandboxes/send".to_owned(),
        files: vec![SandboxFile {
            path: "calls".to_owned(),
            size: 2,
            sha256: hash.to_owned(),
        }],
        omitted: 0,
        found: None,
    }
}

fn continued_call(world: &World, node: &str, sandbox: Option<Sandbox>) -> ContinuedCall {
    ContinuedCall {
        node: node.parse().unwrap(),
        step: "send".to_owned(),
        dispatch: world.dispatch("send"),
        sandbox,
    }
}

fn continued(
    world: &mut World,
    node: &str,
    sandbox: Option<Sandbox>,
) -> Result<ContinuedStep, u16> {
    let call = continued_call(world, node, sandbox);
    match world.give(RunInput::ContinueStep(Box::new(call))) {
        Heard::Decided(Reply::Continued(step)) | Heard::Unchanged(Reply::Continued(step)) => {
            Ok(*step)
        }
        Heard::Refused(refusal) => Err(refusal.problem().status),
        other => panic!("{other:?}"),
    }
}

/// Suspended with a sandbox, resumed, and granted to a node.
fn resumed(node: &str) -> World {
    let mut world = suspended(SEND, "send");
    let part = Supplement {
        sandbox: Some(sandbox("aa")),
        ..supplement(json!({ "page": 7 }))
    };
    let report = SuspensionReport {
        supplement: Some(part),
        ..report(&world, "send")
    };
    assert_eq!(deliver(&mut world, report), Ok(ResultReply::Applied));
    resume(&mut world, StepOnResume::Redo);
    assert!(world.handed.last().unwrap().resumed);
    assert_eq!(world.ask(node, "send"), Grant::Go);
    world
}

/// S1-R8: the node gets what was saved. Snapshot and history tell whether the sandbox still matches.
#[test]
fn a_node_gets_what_the_last_call_saved() {
    for (node, found, state) in [
        ("node-a", Some(sandbox("aa")), SandboxState::Unchanged),
        ("node-a", Some(sandbox("bb")), SandboxState::Changed),
        ("node-b", None, SandboxState::Absent),
    ] {
        let mut world = resumed(node);
        let step = continued(&mut world, node, found.clone()).unwrap();
        assert_eq!(step.checkpoint, json!({ "page": 7 }));
        let reported = step.sandbox.clone().unwrap();
        assert_eq!((reported.state, reported.node.as_str()), (state, node));
        let kept = world.snapshot.clone().unwrap().snapshot_json;
        assert_eq!(kept.sandbox.unwrap().found, step.sandbox);
        let event = world.event(EventType::StepContinued);
        assert_eq!(event.data["sandbox"]["state"], json!(state));
        assert_eq!(event.data["node"], node);
        // Its reply was lost.
        let version = world.run().version;
        assert_eq!(continued(&mut world, node, found).unwrap(), step);
        assert_eq!(world.run().version, version);
    }
}

/// A step without a saved part has nothing to continue with, and only the node with the grant may ask.
#[test]
fn only_the_node_with_the_grant_continues_a_step() {
    let mut world = resumed("node-b");
    assert_eq!(continued(&mut world, "node-a", None), Err(401));
    world.report("send", done(json!({ "id": "m" })));
    assert_eq!(continued(&mut world, "node-b", None), Err(401));
    let mut fresh = World::started(SEND);
    assert!(!fresh.handed.last().unwrap().resumed);
    assert_eq!(continued(&mut fresh, "node-a", None), Err(401));
    assert_eq!(fresh.ask("node-a", "send"), Grant::Go);
    let nothing = Ok(ContinuedStep::default());
    assert_eq!(continued(&mut fresh, "node-a", None), nothing);
}
