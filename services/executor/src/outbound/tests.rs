//! What leaves the executor: hand-outs with their tokens, wishes.

use holdpoint_auth::Secrets;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::tool::HttpCall;
use holdpoint_ids::{HoldId, RunId};
use serde_json::json;

use super::*;

fn acme() -> Workspace {
    "acme".parse().unwrap()
}

fn out() -> HandOut {
    HandOut {
        workspace: acme(),
        run: RunId::fresh(),
        agent: "outreach".parse().unwrap(),
        step: "step-01".to_owned(),
        dispatch: 4,
        attempt: 1,
        tool: "orders.find".parse().unwrap(),
        args: json!({}),
        contact: None,
        idempotent: true,
        claim_timeout_ms: 30_000,
        token: None,
        http: None,
        answers: holdpoint_contracts::asking::Answers::new(),
        user: Actor("ada".to_owned()),
        traceparent: String::new(),
        at: DateTime::UNIX_EPOCH,
    }
}

/// DESIGN, "A delivery reserves, a grant starts": each dispatch carries a step token.
#[test]
fn every_hand_out_carries_a_token_that_speaks_for_it_alone() {
    let key = Secrets::fresh().unwrap().keys().unwrap().steps;
    let out = out();
    let messages = messages(&[Effect::HandOut(Box::new(out.clone()))], &key);
    assert_eq!(messages[0].subject, "hp.acme.steps.orders~find");
    let sent: HandOut = serde_json::from_str(&messages[0].body).unwrap();
    let token = sent.token.unwrap();
    let claims = key.check(&token, out.at).unwrap();
    assert_eq!(
        (
            claims.workspace,
            claims.run,
            claims.step.as_str(),
            claims.dispatch
        ),
        (acme(), out.run, "step-01", 4)
    );
    let week = out.at + TimeDelta::days(7);
    assert_eq!(claims.expires_at, week);
    assert!(key.check(&token, week).is_err());
}

/// API "Tools": a registered HTTP call goes to the built-in node.
#[test]
fn an_http_tool_goes_to_its_own_queue() {
    let key = Secrets::fresh().unwrap().keys().unwrap().steps;
    let out = HandOut {
        http: Some(HttpCall {
            method: "POST".to_owned(),
            url: "https://x.example".to_owned(),
            headers: BTreeMap::new(),
        }),
        ..out()
    };
    let message = hand_out(&out, &key, out.at).unwrap();
    assert_eq!(message.subject, "hp.acme.steps.http-tool");
}

/// DESIGN, "Four messages": alarms are wishes, and one command carries many.
#[test]
fn alarms_are_wishes_of_the_scheduler() {
    let hold = HoldId {
        run: RunId::fresh(),
        number: 2,
    };
    let wishes = wishes(&[
        Effect::Timer {
            workspace: acme(),
            hold,
            rev: 3,
            due: Some(DateTime::UNIX_EPOCH),
        },
        Effect::NodeAlarm {
            node: "node-a".parse().unwrap(),
            rev: 9,
            due: None,
        },
    ]);
    let named: Vec<_> = wishes
        .iter()
        .map(|wish| {
            (
                wish.kind,
                wish.workspace.as_str(),
                wish.id.as_str(),
                wish.rev,
            )
        })
        .collect();
    let id = hold.to_string();
    assert_eq!(
        named,
        [
            ("timer", "acme", id.as_str(), 3),
            ("timer", "sys", "node_node-a", 9)
        ]
    );
    let bodies: Vec<_> = wishes.iter().map(|wish| wish.body.as_str()).collect();
    let message = wish_message("timer", &acme(), &bodies).unwrap();
    assert!(
        message.subject.ends_with(".set_timers"),
        "{}",
        message.subject
    );
    let sent: Envelope<SetTimers> = serde_json::from_str(&message.body).unwrap();
    assert_eq!(sent.command.owner, "executor");
    assert_eq!(sent.command.timers.len(), 2);
    assert_eq!(sent.command.timers[0].due, Some(DateTime::UNIX_EPOCH));
    assert!(wish_message("nonsense", &acme(), &[]).is_err());
}
