//! What a person is step, and what is left out of it.

use serde_json::{Value, json};

use super::{CONTEXT_BYTES_MAX, HandoffFacts, StepSummary, build, called};
use crate::domain::views::warm_lead::is_warm_lead;

fn mail(step: &str, subject: &str) -> StepSummary {
    StepSummary {
        step: step.to_owned(),
        kind: "tool",
        status: "completed",
        tool: Some("send_email".to_owned()),
        request: json!({ "to": "ada@x.example", "subject": subject, "body": "Hello" }).into(),
        ..StepSummary::default()
    }
}

fn condition(held: bool, replied: bool) -> StepSummary {
    StepSummary {
        step: "step-02".to_owned(),
        kind: "tool",
        status: "completed",
        condition: json!({
            "expression": "contact.replied == true",
            "values": { "contact.replied": replied },
            "outcome": held,
        })
        .into(),
        ..StepSummary::default()
    }
}

/// S0-T2
#[test]
fn the_context_tells_what_was_sent_searched_decided_and_found() {
    let search = StepSummary {
        step: "lookup".to_owned(),
        tool: Some("crm.search".to_owned()),
        request: json!({ "q": "ada" }).into(),
        result: json!({ "hits": 2, "findings": ["likes tea"] }).into(),
        ..mail("lookup", "")
    };
    let log = StepSummary {
        tool: Some("log".to_owned()),
        request: json!({ "message": "budget is approved" }).into(),
        ..mail("log", "")
    };
    let context = build(&HandoffFacts {
        contact: json!({ "id": "ada", "deals": [{ "value": 5000, "stage": "demo", "probability": 0.4 }] }),
        activities: vec![json!({ "kind": "email_in", "text": "Tell me more" })],
        steps: vec![
            mail("step-01", "Introduction"),
            condition(true, true),
            search,
            log,
        ],
        older_activities: 0,
        older_steps: Vec::new(),
        recommended: "Call today".to_owned(),
    });
    assert_eq!(context["emails"][0]["subject"], "Introduction");
    assert_eq!(context["conditions"][0]["outcome"], true);
    assert_eq!(context["searches"][0]["args"], json!({ "q": "ada" }));
    assert_eq!(context["deals"][0]["stage"], "demo");
    assert_eq!(context["activities"][0]["text"], "Tell me more");
    assert_eq!(context["findings"][0]["finding"], "likes tea");
    assert_eq!(context["findings"][1]["finding"], "budget is approved");
    assert_eq!(context["actions"].as_array().unwrap().len(), 4);
    assert_eq!(context["recommended_action"], "Call today");
    assert_eq!(context["omitted"], json!({}));
}

/// S0-T2: bounded, says what it left out.
#[test]
fn what_does_not_fit_is_left_out_and_counted() {
    let steps = (0..400).map(|n| mail(&format!("step-{n}"), &"long ".repeat(4_000)));
    let activities = (0..90).map(|n| json!({ "n": n, "text": "x".repeat(5_000) }));
    let older = (0..30).map(|n| mail(&format!("older-{n}"), ""));
    let context = build(&HandoffFacts {
        contact: json!({ "id": "ada", "notes": "n".repeat(60_000) }),
        activities: activities.collect(),
        older_activities: 10,
        steps: steps.collect(),
        older_steps: older.collect(),
        recommended: "r".repeat(100_000),
    });
    let bytes = serde_json::to_string(&context).unwrap().len();
    assert!(bytes <= CONTEXT_BYTES_MAX, "{bytes}");
    let kept = |name: &str| context[name].as_array().unwrap().len();
    let left = |name: &str| context["omitted"][name].as_u64().unwrap_or(0);
    assert_eq!(left("emails") + kept("emails") as u64, 430);
    assert_eq!(left("actions") + kept("actions") as u64, 430);
    assert_eq!(left("steps"), 30, "what they found nobody has looked up");
    assert_eq!(left("activities") + kept("activities") as u64, 100);
    let newest = context["activities"].as_array().unwrap().last().unwrap();
    assert_eq!(newest["n"], 89, "the newest are kept");
}

#[test]
fn a_contact_that_alone_is_too_large_is_named() {
    let fields: serde_json::Map<String, Value> = (0..400)
        .map(|n| (format!("f{n}"), Value::from("x".repeat(1_000))))
        .chain([("id".to_owned(), Value::from("ada"))])
        .collect();
    let context = build(&HandoffFacts {
        contact: Value::Object(fields),
        ..HandoffFacts::default()
    });
    assert_eq!(context["contact"], json!({ "id": "ada", "omitted": true }));
    assert_eq!(context["omitted"]["contact"], 1);
}

/// S0-T2: warm leads.
#[test]
fn warm_leads_are_found_by_word_reply_sentiment_and_flag() {
    let nobody = json!({});
    for warm in [
        "hand off as warm lead",
        "She is interested",
        "Not a demo: interested in the contract",
        "INTERESTED!",
        "Not now but she is interested",
        "No answer by phone. By mail he is interested",
        "never late with payments, a warm lead",
    ] {
        assert!(is_warm_lead(None, warm, &nobody, &[]), "{warm}");
    }
    for cold in [
        "personal outreach",
        "not interested",
        "she is not very interested",
        "isn’t interested",
        "a warmer tone, uninterested",
        "no warm lead",
        "She didn't seem interested",
        "he hasn’t been interested",
        "they won't be interested",
        "They weren't interested",
        "She wasnt interested",
        "cannot be interested in this",
        "not at all very interested",
        "neither warm nor interested",
        "hardly interested",
        "Nobody there is interested",
        "not yet a warm lead",
    ] {
        assert!(!is_warm_lead(None, cold, &nobody, &[]), "{cold}");
    }
    assert!(is_warm_lead(
        None,
        "",
        &json!({ "sentiment": "positive" }),
        &[]
    ));
    assert!(!is_warm_lead(
        None,
        "",
        &json!({ "sentiment": "negative" }),
        &[]
    ));
    assert!(is_warm_lead(None, "", &nobody, &[condition(true, true)]));
    // A condition on a negative reply holds because of a reply, too.
    let negative = json!({ "sentiment": "negative" });
    assert!(!is_warm_lead(None, "", &negative, &[condition(true, true)]));
    assert!(is_warm_lead(None, "a warm lead", &negative, &[]));
    assert!(!is_warm_lead(None, "", &nobody, &[condition(true, false)]));
    assert!(!is_warm_lead(None, "", &nobody, &[condition(false, true)]));
    assert!(is_warm_lead(Some(true), "not interested", &nobody, &[]));
    assert!(!is_warm_lead(Some(false), "interested", &nobody, &[]));
}

/// Texts for people carry no control characters.
#[test]
fn a_contact_is_called_by_name_then_address_then_id() {
    let ada = json!({ "name": "Ada\nLovelace", "email": "ada@x.example" });
    assert_eq!(called(&ada, Some("c-7")), "AdaLovelace");
    assert_eq!(
        called(&json!({ "email": "a@x.example" }), Some("c-7")),
        "a@x.example"
    );
    assert_eq!(called(&json!({}), Some("c-7")), "c-7");
    assert_eq!(called(&Value::Null, None), "an unknown contact");
}
