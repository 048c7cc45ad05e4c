use serde_json::json;

use super::{assert_step, step};

#[test]
fn mails() {
    assert_step(
        &json!({ "tool": "send_email", "args": { "to": "{{ contact.email }}", "template": "Introduction" } }),
        &[
            "Send email \"Introduction\" to contact",
            "Send the email \"Introduction\" to contact",
            "Send an email \"Introduction\" to the contact",
            "Send e-mail \"Introduction\" to contact",
            "Send mail \"Introduction\" to contact",
            "Send a mail \"Introduction\" to the contact",
            "Send the \"Introduction\" email to contact",
            "Send \"Introduction\" mail to contact",
            "Send contact the email \"Introduction\"",
            "Send the contact the email \"Introduction\"",
            "Send the contact the \"Introduction\" email",
            "Send contact an e-mail \"Introduction\"",
            "Email contact \"Introduction\"",
            "Email the contact \"Introduction\"",
            "Mail contact \"Introduction\"",
            "E-mail the contact \"Introduction\"",
            "Email \"Introduction\" to contact",
            "Mail \"Introduction\" to the contact",
            "Send email to contact with template \"Introduction\"",
            "Send an email to the contact using template \"Introduction\"",
            "Email contact with the template \"Introduction\"",
            "send email “Introduction” to contact.",
            "Then send email \"Introduction\" to contact",
        ],
    );
    assert_step(
        &json!({ "tool": "send_email", "args": { "to": "{{ contact.email }}", "subject": "Hi", "body": "Hello\n\"you\"" } }),
        &[
            "Send email to contact with subject \"Hi\" and body \"Hello\\n\\\"you\\\"\"",
            "Send email to contact with subject \"Hi\", body \"Hello\\n\\\"you\\\"\"",
            "Send an email to the contact with subject \"Hi\" saying “Hello\\n\"you\"”",
            "Email contact with subject \"Hi\" and text \"Hello\\n\\\"you\\\"\"",
            "Send the contact an email with subject \"Hi\" and body \"Hello\\n\\\"you\\\"\"",
        ],
    );
    for (to, expected) in [
        ("ada@x.example", "ada@x.example"),
        ("\"ada@x.example\"", "ada@x.example"),
        ("a+b@x.example", "a+b@x.example"),
        ("$input.email", "$input.email"),
        ("{{ input.email }}", "{{ input.email }}"),
    ] {
        let expected = json!({ "tool": "send_email", "args": { "to": expected, "template": "T" } });
        assert_step(
            &expected,
            &[
                &format!("Send email \"T\" to {to}"),
                &format!("Email {to} \"T\"."),
            ],
        );
    }
}

#[test]
fn calls() {
    let find = json!({ "id": "find", "tool": "orders.find", "args": { "customer": "$input.customer", "limit": 5 } });
    assert_step(
        &find,
        &[
            "Call orders.find with customer $input.customer and limit 5 as find",
            "Use orders.find with customer $input.customer and limit 5 as find",
            "Call tool orders.find with customer $input.customer, limit 5 as find",
            "Run tool orders.find with customer: $input.customer, limit: 5, as find",
            "Call the tool orders.find with customer = $input.customer and limit = 5, named find",
            "Invoke orders.find with customer $input.customer, and limit 5 named find",
            "Execute orders.find with {\"customer\": \"$input.customer\", \"limit\": 5} as find",
            "use the tool orders.find with \"customer\" $input.customer and \"limit\" 5 as find",
        ],
    );
    assert_step(
        &json!({ "tool": "echo" }),
        &["Call echo", "Use echo", "Run tool echo", "Then call echo."],
    );
    assert_step(
        &json!({ "tool": "echo", "args": {} }),
        &["Call echo with {}"],
    );
    assert_step(
        &json!({ "tool": "echo", "args": { "a": "x", "b": 1.5, "c": true, "d": null, "e": [1, { "f": "$input.x" }], "timeout": -3 } }),
        &[
            "Call echo with a \"x\", b 1.5, c true, d null, e [1, {\"f\": \"$input.x\"}] and timeout: -3",
        ],
    );
    assert_step(
        &json!({ "tool": "echo", "args": { "x": 1 }, "timeout": "30 seconds", "retry": { "attempts": 3 }, "on_error": "skip_rest" }),
        &[
            "Call echo with x 1, timeout 30 seconds, at most 3 attempts, if it fails skip the rest",
            "Call echo with x 1, at most three attempts, on error skip the rest, within 30s",
        ],
    );
    assert_step(
        &json!({ "tool": "echo", "on_error": "handoff" }),
        &[
            "Call echo, if it fails hand off",
            "Call echo, if it fails, hand off",
        ],
    );
    assert_step(
        &json!({ "tool": "payments.refund", "args": { "order": "$find.id" }, "approval": { "from": "@role.manager", "decide_within": "2 days" } }),
        &[
            "Call payments.refund with order $find.id, after approval by @role.manager within 2 days",
            "After approval by @role.manager within 2 days, call payments.refund with order $find.id",
            "Call payments.refund with order $find.id after approval of @role.manager within two days",
        ],
    );
    assert_step(
        &json!({ "tool": "echo", "approval": {} }),
        &["Call echo, after approval", "After approval, call echo"],
    );
}

#[test]
fn steps_for_each_item() {
    assert_step(
        &json!({ "for_each": "$find.orders", "parallel": 5, "tool": "payments.refund", "args": { "order": "$item.id" } }),
        &[
            "For each $find.orders, call payments.refund with order $item.id, at most 5 at a time",
            "For every $find.orders, use payments.refund with order $item.id, at most five in parallel",
            "For each item of $find.orders, call payments.refund with order $item.id, at most 5 at once",
        ],
    );
    assert_step(
        &json!({ "for_each": "$input.reviewers", "parallel": 2, "ask": { "to": "$item", "question": "Is it fine?" }, "on_error": "handoff" }),
        &[
            "For each $input.reviewers, ask $item \"Is it fine?\", at most 2 at a time, if it fails hand off",
            "For every $input.reviewers, ask $item \"Is it fine?\", at most two in parallel, if it fails, hand off",
        ],
    );
    assert_step(
        &json!({ "for_each": "$find.orders", "handoff": { "to": "@role.sales", "message": "Call {{ item.name }}" } }),
        &["For each $find.orders, hand off to @role.sales with message \"Call {{ item.name }}\""],
    );
}

#[test]
fn runs_of_agents() {
    assert_step(
        &json!({ "run": { "agent": "summary" } }),
        &[
            "Run agent summary",
            "Run the agent summary",
            "Start agent summary",
            "Start the agent summary.",
        ],
    );
    assert_step(
        &json!({ "run": { "agent": "summary", "input": { "topic": "$input.topic" }, "timeout": "2 days", "on_timeout": "skip" } }),
        &[
            "Run agent summary with topic $input.topic, timeout 2 days, then skip",
            "Run agent summary with input topic: $input.topic, at most 2 days, then skip",
        ],
    );
}

#[test]
fn changes_of_the_contact() {
    let won = json!({ "tool": "update_contact", "args": { "set": { "stage": "won" } } });
    assert_step(
        &won,
        &[
            "Set contact.stage to \"won\"",
            "Set the contact's stage to \"won\"",
            "Set contact's stage to \"won\"",
            "Set the contact’s stage to “won”",
            "Change contact.stage to \"won\"",
            "Update contact: stage \"won\"",
            "Update the contact: stage \"won\"",
            "Update contact with stage \"won\"",
            "Update contact with stage: \"won\"",
            "Update the contact and set stage = \"won\"",
            "Then set contact.stage to \"won\".",
        ],
    );
    assert_step(
        &json!({ "tool": "update_contact", "args": { "set": { "stage": "won", "score": 5 } } }),
        &[
            "Update contact: stage \"won\", score 5",
            "Update contact with stage \"won\" and score 5",
        ],
    );
    assert_step(
        &json!({ "tool": "update_contact", "args": { "set": { "stage": null } } }),
        &["Set contact.stage to null"],
    );
}

#[test]
fn added_tags() {
    assert_step(
        &json!({ "tool": "add_tag", "args": { "tag": "vip" } }),
        &[
            "Add tag \"vip\"",
            "Add the tag \"vip\"",
            "Add tag \"vip\" to contact",
            "Add the tag \"vip\" to the contact",
            "Tag contact as \"vip\"",
            "Tag the contact as \"vip\"",
            "Tag contact with \"vip\"",
            "Tag contact \"vip\"",
            "Tag the contact \"vip\"",
            "Tag the contact with \"vip\"",
            "Tag the contact as: “vip”",
            "add tag: \"vip\"",
            "Add tags \"vip\"",
            "Add the tags \"vip\" to contact",
            "ADD TAG \"vip\" TO THE CONTACT.",
            "- Add tag \"vip\"",
            "1. Then add tag \"vip\"",
            "Please tag the contact as \"vip\"",
        ],
    );
    assert_step(
        &json!({ "tool": "add_tag", "args": { "tags": ["vip", "eu"] } }),
        &[
            "Add the tags \"vip\" and \"eu\"",
            "Add tags \"vip\" and \"eu\"",
            "Add the tags \"vip\", \"eu\"",
            "Add the tags \"vip\", and \"eu\" to the contact",
            "Add tags: \"vip\", \"eu\" to contact",
            "Add tag \"vip\" and \"eu\"",
            "Tag the contact as \"vip\" and \"eu\"",
            "Tag contact with \"vip\", \"eu\"",
        ],
    );
    assert_step(
        &json!({ "tool": "add_tag", "args": { "tags": ["vip", "$input.region", "{{ input.x }}"] } }),
        &["Add the tags \"vip\", $input.region and {{ input.x }}"],
    );
    assert_step(
        &json!({ "tool": "add_tag", "args": { "tag": "$input.tag" } }),
        &["Add tag $input.tag", "Tag the contact as $input.tag"],
    );
    assert_eq!(
        step("If contact replied, add tag \"warm\" and \"eu\" named mark"),
        json!({ "id": "mark", "when": step("If contact replied, finish")["when"], "tool": "add_tag", "args": { "tags": ["warm", "eu"] } })
    );
}

#[test]
fn removed_tags() {
    assert_step(
        &json!({ "tool": "remove_tag", "args": { "tag": "vip" } }),
        &[
            "Remove tag \"vip\"",
            "Remove the tag \"vip\" from the contact",
            "Delete tag \"vip\"",
            "Untag contact \"vip\"",
            "Untag the contact \"vip\"",
            "Remove tag: \"vip\" from contact",
            "Remove the tags \"vip\"",
            "Delete the tag \"vip\" from the contact",
            "Delete tags “vip”.",
        ],
    );
    assert_step(
        &json!({ "tool": "remove_tag", "args": { "tags": ["vip", "eu"] } }),
        &[
            "Remove the tags \"vip\" and \"eu\"",
            "Remove tags \"vip\", \"eu\" from the contact",
            "Delete the tags \"vip\", and \"eu\"",
            "Untag the contact \"vip\" and \"eu\"",
        ],
    );
}

#[test]
fn tasks_and_logs() {
    assert_step(
        &json!({ "tool": "create_task", "args": { "title": "Call back", "assignee": "@user.nina", "due": "2 days" } }),
        &[
            "Create task \"Call back\" for @user.nina due in 2 days",
            "Create a task \"Call back\" for @user.nina, due in 2 days",
            "Add a task \"Call back\" assigned to @user.nina due within two days",
            "Open task: \"Call back\" for @user.nina due in 2d",
        ],
    );
    assert_eq!(
        step("Create task \"Call back\", due on 2026-12-24, priority high"),
        json!({ "tool": "create_task", "args": { "title": "Call back", "due": "2026-12-24", "priority": "high" } })
    );
    assert_step(
        &json!({ "tool": "log", "args": { "message": "Done." } }),
        &[
            "Log \"Done.\"",
            "Log: \"Done.\"",
            "Log message \"Done.\"",
            "Log the message \"Done.\"",
            "Write \"Done.\" to the log",
        ],
    );
}

#[test]
fn ends_of_the_run() {
    assert_step(
        &json!({ "finish": "Finished." }),
        &[
            "Finish",
            "Finish.",
            "Finish the run",
            "Stop",
            "Stop here",
            "Stop the run.",
            "End the run",
            "End",
            "Complete the run",
        ],
    );
    assert_step(
        &json!({ "finish": "All done" }),
        &[
            "Finish with \"All done\"",
            "Stop with \"All done\"",
            "Finish: \"All done\"",
            "Finish with summary \"All done\"",
            "End the run with \"All done\"",
            "Finish \"All done\"",
        ],
    );
    assert_step(
        &json!({ "finish": { "summary": "Missing", "status": "failed" } }),
        &[
            "Fail with \"Missing\"",
            "Fail the run with \"Missing\"",
            "Fail: \"Missing\"",
            "Fail because \"Missing\"",
        ],
    );
}
