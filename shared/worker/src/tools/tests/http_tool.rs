//! Tools that are registered as an HTTP call, against a server on loopback.

use std::collections::BTreeMap;

use holdpoint_contracts::steps::HTTP_QUEUE;
use holdpoint_contracts::tool::HttpCall;
use serde_json::{Value, json};

use super::call;
use super::http::{answer, server, tool};
use crate::targets::EgressPolicy;
use crate::tool::{Tool as _, ToolDefinition, ToolFailure, ToolResult};
use crate::tools::HttpTool;

fn registered(policy: EgressPolicy) -> HttpTool {
    HttpTool {
        definition: ToolDefinition::default(),
        name: HTTP_QUEUE.to_owned(),
        risk: crate::tool::Risk::Medium,
        is_idempotent: false,
        http: tool(policy),
        target: None,
    }
}

async fn called(policy: EgressPolicy, url: String, args: Value) -> ToolResult {
    let mut call = call(args);
    call.dispatch.http = Some(HttpCall {
        method: "POST".to_owned(),
        url,
        headers: BTreeMap::from([("X-Shop".to_owned(), "main".to_owned())]),
    });
    registered(policy).call(&call).await
}

/// S2-R10
#[tokio::test]
async fn the_arguments_are_the_body_and_the_answer_is_the_result() {
    let json_type = "content-type: application/json\r\n";
    let (at, mut requests) = server(vec![answer("201 Created", json_type, r#"{"id":7}"#)]).await;
    let url = format!("http://{at}/refunds");
    let done = called(EgressPolicy::AllowPrivate, url, json!({ "amount": 5 }))
        .await
        .unwrap();
    assert_eq!(done.data, json!({ "id": 7 }));
    let request = requests.recv().await.unwrap();
    for line in [
        "POST /refunds HTTP/1.1\r\n",
        "content-type: application/json\r\n",
        "holdpoint-run: run_01920000000070008000000000000001\r\n",
        "holdpoint-step: step-01\r\n",
        "holdpoint-attempt: 2\r\n",
        "holdpoint-token: st_secret\r\n",
        "idempotency-key: run_01920000000070008000000000000001/step-01\r\n",
        "x-shop: main\r\n",
        "\r\n\r\n{\"amount\":5}",
    ] {
        assert!(request.contains(line), "{line:?} is not in {request}");
    }
}

/// S2-R10
#[tokio::test]
async fn an_empty_answer_is_null_and_another_than_json_is_text() {
    for (status, body, data) in [
        ("204 No Content", "", Value::Null),
        ("200 OK", "done", json!("done")),
    ] {
        let (at, _requests) = server(vec![answer(status, "", body)]).await;
        let url = format!("http://{at}/");
        let done = called(EgressPolicy::AllowPrivate, url, json!({})).await;
        assert_eq!(done.unwrap().data, data);
    }
}

/// S0-R5
#[tokio::test]
async fn any_other_status_fails_without_quoting_the_body() {
    for status in ["304 Not Modified", "404 Not Found", "500 Oh No"] {
        let (at, _requests) = server(vec![answer(status, "", "")]).await;
        let url = format!("http://{at}/?key=secret");
        let failure = called(EgressPolicy::AllowPrivate, url, json!({}))
            .await
            .unwrap_err();
        assert_eq!(failure.code, "http_status", "{status}");
        assert!(failure.message.contains(&status[..3]), "{failure}");
        assert!(!failure.message.contains("secret"), "{failure}");
    }
}

/// Gate 3: the response of a failed call is kept, bounded, and without the token that the server sends back.
#[tokio::test]
async fn the_response_of_a_failed_call_is_kept_without_secrets() {
    let json_type = "content-type: application/json\r\n";
    let body = r#"{"error":"sold out","sent":"st_secret"}"#;
    for (status, code) in [("409 Conflict", 409), ("304 Not Modified", 304)] {
        let shown = if code == 304 { "" } else { body };
        let (at, _requests) = server(vec![answer(status, json_type, shown)]).await;
        let url = format!("http://{at}/");
        let failure = called(EgressPolicy::AllowPrivate, url, json!({})).await;
        let data = failure.unwrap_err().data;
        let body = shown.replace("st_secret", "[token]");
        let kept = json!({ "status": code, "content_type": "application/json", "body": body });
        assert_eq!(data, kept);
    }
}

/// S2-R10. Mend A-L8: the arguments stay with the origin that was registered, too.
#[tokio::test]
async fn neither_token_nor_arguments_follow_a_redirect_to_another_origin() {
    let (second, mut requests) = server(vec![answer("200 OK", "", "")]).await;
    let moved = format!("location: http://{second}/there\r\n");
    let (first, _requests) = server(vec![
        answer("307 Temporary Redirect", &moved, ""),
        answer("303 See Other", &moved, ""),
    ])
    .await;
    let call = async || {
        let url = format!("http://{first}/");
        called(EgressPolicy::AllowPrivate, url, json!({ "amount": 5 })).await
    };
    assert_eq!(call().await.unwrap_err().code, "redirect_refused");
    assert!(requests.try_recv().is_err());
    call().await.unwrap();
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("GET /there "), "{request}");
    for secret in ["st_secret", "x-shop", "amount"] {
        assert!(!request.contains(secret), "{request}");
    }
}

#[tokio::test]
async fn private_addresses_are_refused_where_only_public_ones_are_allowed() {
    let failure = called(
        EgressPolicy::PublicOnly,
        "http://127.0.0.1:1/".to_owned(),
        json!({}),
    )
    .await
    .unwrap_err();
    assert_eq!(failure.code, "target_refused");
}

#[tokio::test]
async fn an_invalid_registered_address_is_an_error_of_the_tool() {
    let failure = called(EgressPolicy::AllowPrivate, "nowhere".to_owned(), json!({}))
        .await
        .unwrap_err();
    assert!(failure.message.contains("payments.refund"), "{failure}");
    let none = registered(EgressPolicy::AllowPrivate);
    assert_eq!(
        none.call(&call(json!({}))).await.unwrap_err().code,
        "no_target"
    );
}

/// S3-R2: a tool that has asked people says so, and is called again with their answer.
#[tokio::test]
async fn a_tool_parks_by_a_header() {
    let parked = answer("202 Accepted", "Holdpoint-Outcome: parked\r\n", "");
    let (at, _requests) = server(vec![parked]).await;
    let url = format!("http://{at}/");
    let ended = called(EgressPolicy::AllowPrivate, url, json!({})).await;
    assert_eq!(ended, Err(ToolFailure::parked()));
}

/// Gate: a call costs what its reply says, whatever its status. Anything but a positive number is nothing.
#[tokio::test]
async fn a_failed_call_costs_too() {
    for (status, header, cost) in [
        ("200 OK", "0.5", Some(0.5)),
        ("503 Service Unavailable", "0.5", Some(0.5)),
        ("200 OK", "-1", None),
        ("200 OK", "inf", None),
        ("200 OK", "cheap", None),
    ] {
        let headers = format!("Holdpoint-Cost: {header}\r\n");
        let (at, _requests) = server(vec![answer(status, &headers, "")]).await;
        let mut call = call(json!({}));
        call.dispatch.http = Some(HttpCall {
            method: "POST".to_owned(),
            url: format!("http://{at}/"),
            headers: BTreeMap::new(),
        });
        let result = registered(EgressPolicy::AllowPrivate).call(&call).await;
        assert_eq!(result.is_ok(), status.starts_with("200"), "{status}");
        assert_eq!(call.cost.total(), cost, "{status} {header}");
    }
}
