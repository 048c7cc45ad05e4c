use serde_json::json;

use super::{assert_step, step};

#[test]
fn handoffs() {
    assert_step(
        &json!({ "handoff": { "to": "@user.nina" } }),
        &[
            "Hand off to @user.nina",
            "hand-off to @user.nina",
            "Handoff to @user.nina",
            "Hand over to @user.nina",
            "Hand it to @user.nina",
            "Hand it off to @user.nina",
            "Hand it over to @user.nina",
            "Hand this to @user.nina",
            "Hand this off to @user.nina",
            "Hand this over to @user.nina",
            "Hand the run over to @user.nina",
            "Hand the contact to @user.nina",
            "Pass to @user.nina",
            "Hand the contact over to @user.nina",
            "Pass it to @user.nina",
            "Pass it on to @user.nina",
            "Then hand off to @user.nina.",
            "Please hand off to @user.nina",
            "- hand off to @user.nina",
            "Pass the contact to @user.nina",
            "HAND OFF TO @user.nina",
        ],
    );
    assert_step(
        &json!({ "handoff": { "to": ["@user.a", "@role.b"] } }),
        &[
            "Hand off to @user.a and @role.b",
            "Hand off to @user.a, @role.b",
            "Hand off to @user.a or @role.b",
        ],
    );
    assert_step(
        &json!({ "handoff": { "to": "$input.rep" } }),
        &["Hand off to $input.rep"],
    );
}

#[test]
fn what_follows_a_handoff() {
    assert_step(
        &json!({ "handoff": { "to": "@role.sales", "timeout": "3 days", "on_timeout": "skip", "warm_lead": true } }),
        &[
            "Hand off to @role.sales as warm lead, timeout 3 days, then skip",
            "Hand off to @role.sales as a warm lead, for at most 3 days, then skip",
            "Hand off to @role.sales, as warm lead, within 3 days, then skip",
            "Hand off to @role.sales, timeout 3 days, then skip, as warm lead",
        ],
    );
    assert_step(
        &json!({ "handoff": { "to": "@role.sales", "message": "personal outreach", "priority": "high" } }),
        &[
            "Hand off to @role.sales for \"personal outreach\", priority high",
            "Hand off to @role.sales with message \"personal outreach\", with high priority",
            "Hand off to @role.sales saying \"personal outreach\", high priority",
            "Hand off to @role.sales with priority high, with the message \"personal outreach\"",
            "Hand off to @role.sales, message “personal outreach”, priority high",
        ],
    );
    assert_step(
        &json!({ "handoff": { "to": "@role.sales", "timeout": 0 } }),
        &[
            "Hand off to @role.sales, no timeout",
            "Hand off to @role.sales without a timeout",
            "Hand off to @role.sales with no timeout",
        ],
    );
    for word in ["continue", "skip", "fail", "escalate"] {
        let line = format!("Hand off to @user.a, then {word}");
        assert_eq!(
            step(&line),
            json!({ "handoff": { "to": "@user.a", "on_timeout": word } })
        );
    }
    assert_step(
        &json!({ "id": "out", "handoff": { "to": "@user.a" } }),
        &[
            "Hand off to @user.a named out",
            "Hand off to @user.a, named out",
        ],
    );
}

#[test]
fn questions() {
    assert_step(
        &json!({ "ask": { "question": "Go on?" } }),
        &[
            "Ask \"Go on?\"",
            "Ask: “Go on?”",
            "Ask the question \"Go on?\"",
        ],
    );
    assert_step(
        &json!({ "ask": { "to": "@user.owner", "question": "Tell the customer?" } }),
        &[
            "Ask @user.owner \"Tell the customer?\"",
            "Ask @user.owner: \"Tell the customer?\"",
            "Ask @user.owner, \"Tell the customer?\"",
            "ask @user.owner the question \"Tell the customer?\"",
            "Then ask @user.owner \"Tell the customer?\".",
        ],
    );
    assert_step(
        &json!({ "ask": { "to": "@user.owner", "question": "Tell?", "options": ["yes", "no"] } }),
        &[
            "Ask @user.owner \"Tell?\" with options \"yes\", \"no\"",
            "Ask @user.owner \"Tell?\" with options yes or no",
            "Ask @user.owner \"Tell?\", options yes or no",
            "Ask @user.owner \"Tell?\" with the options \"yes\" and \"no\"",
            "Ask @user.owner \"Tell?\", options: \"yes\", or \"no\"",
            "Ask @user.owner \"Tell?\" with the choices yes or no",
        ],
    );
    assert_step(
        &json!({ "ask": { "to": ["@role.risk", "@user.a"], "question": "Tell?", "options": ["a", "b", "c d"], "timeout": "1 hour", "on_timeout": "skip" } }),
        &[
            "Ask @role.risk and @user.a \"Tell?\" with options \"a\", \"b\" or \"c d\", timeout 1 hour, then skip",
        ],
    );
    assert_step(
        &json!({ "ask": { "question": "Tell?", "options": ["yes", "no"], "timeout": "1 hour", "on_timeout": "default", "default": "no" } }),
        &[
            "Ask \"Tell?\" with options \"yes\", \"no\", timeout 1 hour, default \"no\"",
            "Ask \"Tell?\" with options yes or no, timeout 1h, default no",
        ],
    );
    assert_step(
        &json!({ "id": "tell", "ask": { "question": "Tell?", "priority": "urgent", "on_timeout": "escalate" } }),
        &[
            "Ask \"Tell?\" as tell, priority urgent, then escalate",
            "Ask \"Tell?\", urgent priority, then escalate, named tell",
        ],
    );
}
