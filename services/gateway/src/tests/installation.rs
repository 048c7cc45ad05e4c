//! An installation is closed to strangers and to other workspaces (Mend A-L4).

use reqwest::Method;
use serde_json::{Value, json};

use super::edge::{Edge, refusal};

/// Mend A-L4: a sender without a valid signature does not learn which hooks and workspaces exist.
#[tokio::test]
async fn strangers_do_not_learn_the_names_of_hooks() {
    let edge = Edge::new().await;
    let made = edge.post("/hooks/inbound", json!({ "name": "crm" })).await;
    assert_eq!(made.status(), 201);
    let long = "x".repeat(200);
    let forged = [
        ("webhook-id", "m"),
        ("webhook-timestamp", "1767225600"),
        ("webhook-signature", "v1,x"),
    ];
    for (headers, body) in [
        (&forged[..0], "{}"),
        (&forged[..2], "{}"),
        (&forged[..], "{}"),
        (&forged[..], "no JSON"),
    ] {
        let mut answers = Vec::new();
        for (workspace, name) in [
            ("default", "crm"),
            ("default", "other"),
            ("default", "no%20name"),
            ("default", long.as_str()),
            ("other", "crm"),
            ("nowhere", "crm"),
            ("no.name", "crm"),
        ] {
            let path = format!("/v1/workspaces/{workspace}/hooks/inbound/{name}");
            let request = edge.bare(Method::POST, &path).body(body);
            let request = headers
                .iter()
                .fold(request, |it, (name, value)| it.header(*name, *value));
            let refused = request.send().await.unwrap();
            assert_eq!(refused.status(), 401, "{workspace} {name}");
            answers.push(refused.json::<Value>().await.unwrap());
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
    }
}

/// Mend A-L4: the installation is run by the owners of its first workspace. They alone make workspaces, and
/// so learn which names are taken; time is moved by owners and admins there.
#[tokio::test]
async fn an_owner_of_another_workspace_does_not_run_the_installation() {
    let edge = Edge::new().await;
    let ask = async |token: &str, path: &str, body: Value| {
        let request = edge.bare(Method::POST, path).bearer_auth(token);
        refusal(request.json(&body).send().await.unwrap()).await
    };
    let forbidden = (403, "forbidden".to_owned());
    for name in ["default", "other", "free"] {
        let body = json!({ "workspace": name });
        let refused = ask(&edge.other_token, "/v1/workspaces", body).await;
        assert_eq!(refused, forbidden, "{name}");
    }
    let clock = "/v1/clock/advance";
    let refused = ask(&edge.other_token, clock, json!({ "by": "5d" })).await;
    assert_eq!(refused, forbidden);
    let member = edge.token_of("owner", Some("operator")).await;
    assert_eq!(ask(&member, clock, json!({ "by": "5d" })).await, forbidden);
    let admin = edge.token_of("owner", Some("admin")).await;
    assert_eq!(ask(&admin, clock, json!({ "by": "0s" })).await.0, 422);
}
