//! Fixtures: a request with answers and contact data.

use holdpoint_contracts::handoff::RequestView;
use serde_json::json;

pub(crate) fn request() -> RequestView {
    let view = json!({
        "id": "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1", "kind": "handoff",
        "run": "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee", "step": "step-02", "agent": "outreach",
        "status": "completed", "version": 3, "to": ["@role.sales"], "also": ["@user.bob"],
        "assignee": "nina", "asked_by": ["cleo"], "question": "Agent requires attention",
        "options": [], "reason": null, "deadline": null, "remaining_ms": null,
        "on_timeout": "continue", "actions": [], "outcome": "completed",
        "context": {
            "contact": { "email": "zoe@zoe.example" }, "deals": [{ "value": 12000 }],
            "activities": [{ "text": "said yes" }], "emails": [{ "to": "zoe@zoe.example" }],
            "findings": [{ "finding": "said yes" }], "recommended_action": "Call",
            "conditions": [{ "values": { "contact.email": "zoe@zoe.example" } }],
            "searches": [{ "result": "zoe@zoe.example" }], "actions": [{ "step": "step-01" }],
        },
        "response": { "notes": "said yes" }, "decided_by": "nina", "decided_at": null,
        "late": [{ "by": "bob", "at": "2026-01-01T00:00:00Z", "data": "said yes" }],
        "history": [{ "action": "completed", "by": "nina", "at": "2026-01-01T00:00:00Z", "note": "said yes" }],
        "created_at": "2025-12-31T12:00:00Z", "callback": "https://ci.example/done?key=s3cret",
    });
    serde_json::from_value(view).unwrap()
}
