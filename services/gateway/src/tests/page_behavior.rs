//! What a newcomer met on the pages: controls of a run, times, and addresses that do not exist.

use holdpoint_contracts::run::RunStatus;
use reqwest::Method;
use serde_json::json;

use super::edge::Edge;
use super::pages::{Browser, location};

/// S1-R1: an operator suspends a run from its page, and says at the resume what happens with its steps.
#[tokio::test]
async fn a_run_is_suspended_from_its_page() {
    let edge = Edge::new().await;
    let run = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
    let path = format!("/runs/{run}");
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let page = browser.get(&path).await.text().await.unwrap();
    assert!(page.contains("Suspend this run"), "{page}");
    let csrf = browser.csrf().await;
    let act = format!("{path}/act");
    let by_hand = json!({ "complete_with": { "result": { "n": 1 } } });
    for (fields, verb, command) in [
        (
            vec![("do", "suspend"), ("reason", "odd")],
            "suspend_run",
            json!({ "run": run, "reason": "odd" }),
        ),
        (
            vec![
                ("do", "resume"),
                ("step", "complete_with"),
                ("result", "{\"n\": 1}"),
            ],
            "resume_run",
            json!({ "run": run, "mode": "continue", "step": by_hand }),
        ),
        (
            vec![("do", "resume"), ("step", ""), ("result", "")],
            "resume_run",
            json!({ "run": run, "mode": "continue" }),
        ),
    ] {
        let fields = [vec![("csrf", csrf.as_str())], fields].concat();
        let done = browser.post(&act, &fields).await;
        assert_eq!(location(&done), path, "{verb}");
        let (asked, envelope) = edge.played.lock().unwrap().asked.pop().unwrap();
        assert_eq!((asked.as_str(), &envelope["command"]), (verb, &command));
    }
    for odd in [
        vec![("step", "later")],
        vec![("step", "complete_with"), ("result", "{")],
    ] {
        let fields = [vec![("csrf", csrf.as_str()), ("do", "resume")], odd].concat();
        assert_eq!(browser.post(&act, &fields).await.status(), 422);
    }
}

/// D-14: an operator pauses, resumes and cancels a run from its page, which shows the run's input.
#[tokio::test]
async fn a_run_is_controlled_from_its_page() {
    let edge = Edge::new().await;
    let run = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
    let path = format!("/runs/{run}");
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let page = browser.get(&path).await.text().await.unwrap();
    for shown in ["Pause", "Cancel this run", "Input", "A-17"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let csrf = browser.csrf().await;
    let act = format!("{path}/act");
    for (fields, verb, command) in [
        (vec![("do", "pause")], "pause_run", json!({ "run": run })),
        (
            vec![("do", "resume"), ("mode", "restart")],
            "resume_run",
            json!({ "run": run, "mode": "restart" }),
        ),
        (
            vec![("do", "cancel"), ("reason", "no longer needed")],
            "cancel_run",
            json!({ "run": run, "reason": "no longer needed" }),
        ),
    ] {
        let fields = [vec![("csrf", csrf.as_str())], fields].concat();
        let done = browser.post(&act, &fields).await;
        assert_eq!(location(&done), path, "{verb}");
        let (asked, envelope) = edge.played.lock().unwrap().asked.pop().unwrap();
        assert_eq!((asked.as_str(), &envelope["command"]), (verb, &command));
    }
    let odd = [("csrf", csrf.as_str()), ("do", "resume"), ("mode", "later")];
    assert_eq!(browser.post(&act, &odd).await.status(), 422);

    // A failed run has one button, and the failed step is its default.
    edge.played.lock().unwrap().run_status = Some(RunStatus::Failed);
    let page = browser.get(&path).await.text().await.unwrap();
    assert!(
        page.contains("Retry") && page.contains(r#"value="step-01""#),
        "{page}"
    );
    assert!(!page.contains("Cancel this run"), "{page}");
    for (step, from_step) in [("", json!(null)), ("step-01", json!("step-01"))] {
        let fields = [
            ("csrf", csrf.as_str()),
            ("do", "retry"),
            ("from_step", step),
        ];
        assert_eq!(location(&browser.post(&act, &fields).await), path);
        let (asked, envelope) = edge.played.lock().unwrap().asked.pop().unwrap();
        let command = json!({ "run": run, "from_step": from_step });
        assert_eq!(
            (asked.as_str(), &envelope["command"]),
            ("retry_run", &command)
        );
    }

    let token = edge.token_of("owner", Some("viewer")).await;
    let viewer = Browser::signed_in(&edge, &token).await;
    let page = viewer.get(&path).await.text().await.unwrap();
    assert!(!page.contains("Retry"), "{page}");
    edge.played.lock().unwrap().run_status = None;
    let page = viewer.get(&path).await.text().await.unwrap();
    assert!(!page.contains("Cancel this run"), "{page}");
    let csrf = viewer.csrf().await;
    let fields = [("csrf", csrf.as_str()), ("do", "cancel")];
    assert_eq!(viewer.post(&act, &fields).await.status(), 403);
    assert_eq!(edge.verbs(), [""; 0], "no service was asked");
}

/// D-10: times of a page are in the zone of the person's preferences.
#[tokio::test]
async fn times_are_shown_in_the_zone_of_the_person() {
    let edge = Edge::new().await;
    edge.play("notification").await;
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let path = "/runs/run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
    let page = browser.get(path).await.text().await.unwrap();
    assert!(page.contains(" JST") && !page.contains(" UTC"), "{page}");
}

/// D-12: a browser that comes to an unknown address gets a page with the way back; a program gets JSON.
#[tokio::test]
async fn an_unknown_address_is_answered_with_a_page() {
    let edge = Edge::new().await;
    let browser = Browser::new(&edge);
    let asks = |method: Method, path: &str, accept: &'static str| {
        browser
            .request(method, path)
            .header("accept", accept)
            .send()
    };
    for (method, path, status) in [(Method::GET, "/inbx", 404), (Method::GET, "/logout", 405)] {
        let page = asks(method.clone(), path, "text/html,*/*").await.unwrap();
        assert_eq!(page.status(), status, "{path}");
        assert!(page.headers().contains_key("content-security-policy"));
        let text = page.text().await.unwrap();
        assert!(text.contains("Go to the inbox"), "{text}");
        let answer = asks(method, path, "application/json").await.unwrap();
        let kind = answer.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        assert_eq!(kind, "application/problem+json", "{path}");
    }
    let api = asks(Method::GET, "/v1/nothing", "text/html").await.unwrap();
    assert_eq!(api.headers()["content-type"], "application/problem+json");
}
