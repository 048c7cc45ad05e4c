//! The played handoff service: users with numbered facts, and one request.

use serde_json::{Value, json};

use super::edge::{Played, at, problem};

pub(super) const REQUEST: &str = "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1";

pub(super) fn answer(verb: &str, workspace: &str, body: &Value, played: &mut Played) -> Value {
    let command = &body["command"];
    let reply = match verb {
        "users" | "requests" | "policies" => json!({"ok": {"items": [], "next_cursor": null}}),
        "user" => match newest(workspace, &body["name"], played) {
            Some(user) => json!({ "ok": user }),
            None => problem(404, "not_found"),
        },
        "user_changes" => {
            let after = usize::try_from(body["after"].as_u64().unwrap()).unwrap();
            json!({"ok": played.users.get(after..).unwrap_or_default()})
        }
        "put_user" => put(workspace, command, true, played),
        "disable_user" => put(workspace, command, false, played),
        "request" => {
            played.queries += 1;
            let mut shown = request(&played.request_status);
            if played.request_status == "decided" {
                shown["effect"] = effect(played).into();
            }
            json!({ "ok": shown })
        }
        "open_hold" => {
            let mut opened = request("open");
            opened["id"] = command["id"].clone();
            opened["kind"] = command["spec"]["kind"].clone();
            json!({ "ok": opened })
        }
        "ask_again" => {
            let mut opened = request("open");
            opened["id"] = command["id"].clone();
            opened["asks_again"] = command["again"].clone();
            json!({ "ok": opened })
        }
        "delete_policy" => json!({"ok": {
            "name": command["name"], "kind": "approval", "need": 1, "not_requester": false,
            "version": 2, "built_in": false,
        }}),
        "withdraw_hold" => json!({"ok": request("withdrawn")}),
        "decide_request" if played.refusal.is_some() => json!({"problem": played.refusal}),
        "act_on_request" => json!({"ok": request("accepted")}),
        "decide_request" => {
            let effect = effect(played);
            json!({"ok": {"recorded": true, "effect": effect, "request": request("decided")}})
        }
        "standing_approvals"
        | "standing_approval"
        | "create_standing_approval"
        | "revoke_standing_approval" => super::standing_approvals::answer(verb, body),
        other => panic!("not played: {other}"),
    };
    if body.get("command").is_some() {
        played.asked.push((verb.to_owned(), body.clone()));
    }
    reply
}

/// Adds a fact about a user, as another program could have caused it.
pub(super) fn put(workspace: &str, command: &Value, active: bool, played: &mut Played) -> Value {
    let before = newest(workspace, &command["name"], played);
    let roles = match (&command["roles"], before) {
        (Value::Null, Some(user)) => user["roles"].clone(),
        (roles, _) => roles.clone(),
    };
    let seq = played.users.len() + 1;
    let user = json!({
        "name": command["name"], "email": null, "roles": roles, "active": active, "version": seq,
    });
    let fact = json!({"seq": seq, "workspace": workspace, "user": user});
    played.users.push(fact);
    json!({ "ok": user })
}

fn newest(workspace: &str, name: &Value, played: &Played) -> Option<Value> {
    let is_it = |fact: &&Value| fact["workspace"] == workspace && fact["user"]["name"] == *name;
    let found = played.users.iter().rev().find(is_it);
    found.map(|fact| fact["user"].clone())
}

/// The effect of the decision, which is known after some replies.
fn effect(played: &mut Played) -> &'static str {
    let is_pending = played.pending > 0;
    played.pending = played.pending.saturating_sub(1);
    if is_pending { "pending" } else { "applied" }
}

fn request(status: &str) -> Value {
    json!({
        "id": REQUEST, "kind": "input", "run": null, "step": null, "agent": null,
        "status": if status.is_empty() { "open" } else { status },
        "version": 1, "to": [], "question": "?", "options": [], "reason": null, "context": null,
        "deadline": at(), "remaining_ms": null, "on_timeout": "fail", "actions": [],
        "outcome": null, "response": null, "decided_by": null, "decided_at": null, "late": [],
        "created_at": at(),
    })
}
