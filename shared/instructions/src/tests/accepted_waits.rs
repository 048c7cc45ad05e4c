use serde_json::json;

use super::{assert_step, step};

#[test]
fn waits_for_a_time() {
    assert_step(
        &json!({ "wait": "5 days" }),
        &[
            "Wait 5 days",
            "wait 5 days.",
            "WAIT 5 DAYS",
            "Wait for 5 days",
            "Wait 5d",
            "Wait for 5d",
            "Wait five days",
            "wait for five days",
            "Pause 5 days",
            "Pause for 5 days",
            "Pause the run for 5 days",
            "Sleep 5 days",
            "Sleep for 5 days",
            "Then wait 5 days",
            "Then, wait 5 days",
            "Please wait 5 days",
            "Wait another 5 days",
            "Wait for another 5 days",
            "- Wait 5 days",
            "3. Wait 5 days",
            "Next, wait five days.",
            "Finally wait 5 day",
        ],
    );
    for (line, words) in [
        ("Wait 1 day 12 hours", "1 day 12 hours"),
        ("Wait 1d12h", "1 day 12 hours"),
        ("Wait 1 day and 12 hours", "1 day 12 hours"),
        ("Wait a day and 12h", "1 day 12 hours"),
        ("Sleep 90 minutes", "90 minutes"),
        ("wait for 2 hours", "2 hours"),
        ("Wait an hour", "1 hour"),
        ("Wait a week", "1 week"),
        ("Wait 1.5h", "1.5 hours"),
        ("Wait twelve mins", "12 minutes"),
        ("Wait 30 sec", "30 seconds"),
        ("Wait 1500 ms", "1500 milliseconds"),
        ("Wait 90 days", "90 days"),
        ("Wait 1 second", "1 second"),
        (
            "Wait 1w2d3h4m5s6ms",
            "1 week 2 days 3 hours 4 minutes 5 seconds 6 milliseconds",
        ),
    ] {
        assert_eq!(step(line), json!({ "wait": words }), "{line}");
    }
    assert_step(
        &json!({ "wait": "$input.delay" }),
        &["Wait $input.delay", "wait for $input.delay"],
    );
}

#[test]
fn waits_until_a_date() {
    let until = |text: &str| json!({ "wait": { "until": text } });
    assert_step(
        &until("2026-12-24"),
        &[
            "Wait until 2026-12-24",
            "Pause until 2026-12-24.",
            "sleep till 2026-12-24",
        ],
    );
    assert_step(
        &until("2026-12-24T09:00"),
        &[
            "Wait until 2026-12-24T09:00",
            "Wait until 2026-12-24 09:00",
            "Wait until 2026-12-24 9:00",
            "Wait until 2026-12-24 at 9 am",
            "Wait until 2026-12-24 9am",
        ],
    );
    assert_step(
        &until("2026-12-24T09:00:00Z"),
        &["Wait until 2026-12-24T09:00:00Z"],
    );
    assert_step(
        &until("2028-02-29T09:00:00+02:00"),
        &["Wait until 2028-02-29T09:00:00+02:00"],
    );
    assert_step(&until("$input.when"), &["Wait until $input.when"]);
    assert_step(&until("{{ input.when }}"), &["Wait until {{ input.when }}"]);
    assert_step(
        &json!({ "wait": { "until": "2026-12-24T09:00", "time_zone": "Europe/Berlin" } }),
        &[
            "Wait until 2026-12-24 09:00 in Europe/Berlin",
            "Wait until 2026-12-24T09:00 in Europe/Berlin.",
        ],
    );
    assert_step(
        &json!({ "wait": { "until": "2026-12-24", "time_zone": "America/Argentina/Buenos_Aires" } }),
        &["Wait until 2026-12-24 in America/Argentina/Buenos_Aires"],
    );
}

#[test]
fn waits_until_a_weekday() {
    let monday = |at: &str| json!({ "wait": { "weekday": "monday", "at": at } });
    assert_step(
        &json!({ "wait": { "weekday": "monday" } }),
        &["Wait until Monday", "pause until monday."],
    );
    assert_step(
        &monday("09:00"),
        &[
            "Wait until Monday at 9:00",
            "Wait until Monday at 09:00",
            "Wait until monday 9:00",
            "Wait until Monday at 9 am",
            "Wait until Monday at 9am",
            "Wait until Monday at 9:00 AM",
        ],
    );
    assert_step(
        &monday("14:30"),
        &["Wait until Monday at 2:30 pm", "Wait until Monday at 14:30"],
    );
    assert_step(
        &monday("12:00"),
        &["Wait until Monday at noon", "Wait until Monday at 12 pm"],
    );
    assert_step(
        &monday("00:00"),
        &["Wait until Monday at 12 am", "Wait until Monday at 0:00"],
    );
    assert_step(
        &json!({ "wait": { "weekday": "friday", "at": "09:00", "time_zone": "Europe/Berlin" } }),
        &[
            "Wait until Friday at 9:00 in Europe/Berlin",
            "Wait until friday 9 am in Europe/Berlin",
        ],
    );
    assert_step(
        &json!({ "wait": { "weekday": "sunday", "time_zone": "UTC" } }),
        &["Wait until Sunday in UTC"],
    );
}

#[test]
fn waits_for_business_days() {
    assert_step(
        &json!({ "wait": { "business_days": 2 } }),
        &[
            "Wait 2 business days",
            "Wait two business days",
            "Wait for 2 business days",
            "Wait 2 working days",
            "Wait 2 workdays",
            "Pause 2 business days",
            "wait for two workdays",
        ],
    );
    assert_step(
        &json!({ "wait": { "business_days": 1 } }),
        &["Wait a business day", "Wait one workday"],
    );
}

/// Words 1: "until contact replies, at most 5 days".
#[test]
fn waits_for_a_reply() {
    assert_step(
        &json!({ "wait_for": { "signal": "contact.reply", "timeout": "5 days", "on_timeout": "skip" } }),
        &[
            "Wait until contact replies, at most 5 days",
            "Wait until the contact replies, at most 5 days",
            "Wait until contact replies, timeout 5 days",
            "Wait until contact replies within 5 days",
            "Wait until contact replies for at most 5 days",
            "Wait until contact has replied, at most five days",
            "Wait until the contact responds, at most 5 days, then skip",
            "Wait till contact replies, at most 5d",
            "Wait until there is a reply, at most 5 days",
            "Wait until a reply comes, at most 5 days",
            "Wait for a reply, at most 5 days",
            "Wait for a reply of the contact, at most 5 days",
            "Wait for a reply from contact, at most 5 days",
            "Wait for contact to reply, at most 5 days",
            "Wait for the contact to respond, at most 5 days",
            "Wait up to 5 days for a reply",
            "Wait at most 5 days for a reply",
            "Wait for up to 5 days for the contact to reply",
            "Wait 5 days for a reply",
            "Wait 5 days or until contact replies",
            "Wait for 5 days unless the contact replies",
            "Await a reply, at most 5 days",
        ],
    );
    assert_step(
        &json!({ "wait_for": { "signal": "contact.reply", "timeout": "5 days", "on_timeout": "fail" } }),
        &["Wait until contact replies, at most 5 days, then fail"],
    );
    assert_step(
        &json!({ "wait_for": { "signal": "contact.reply", "on_timeout": "skip" } }),
        &["Wait for a reply", "Wait until contact replies"],
    );
}

#[test]
fn waits_for_a_signal() {
    assert_step(
        &json!({ "wait_for": { "signal": "payment" } }),
        &[
            "Wait for signal payment",
            "Wait for the signal payment",
            "Wait for a signal payment",
            "wait for signal \"payment\"",
            "Wait until signal payment arrives",
            "Wait until the signal payment comes",
            "Wait for the payment signal",
            "Await signal payment",
            "Await the payment signal",
        ],
    );
    assert_step(
        &json!({ "wait_for": { "signal": "payment", "timeout": "3 days", "on_timeout": "skip" } }),
        &[
            "Wait for signal payment, at most 3 days, then skip",
            "Wait for signal payment at most 3 days then skip",
            "Wait for signal payment for at most 3 days, then skip",
            "Wait for signal payment, timeout 3d, then skip",
            "Wait for signal payment within 3 days, then skip",
            "Wait for signal payment, then skip, timeout 3 days",
            "Wait for signal payment, timeout of three days, on timeout skip",
        ],
    );
    assert_step(
        &json!({ "id": "paid", "wait_for": { "signal": "payment" }, "on_error": "continue" }),
        &[
            "Wait for signal payment as paid, if it fails continue",
            "Wait for signal payment named paid, on failure continue",
        ],
    );
}
