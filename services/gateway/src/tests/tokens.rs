//! A token opens its own workspace and shows no other.

use reqwest::Method;

use super::edge::{Edge, ok, refusal};

#[tokio::test]
async fn without_a_good_token_nothing_opens() {
    let edge = Edge::new().await;
    let path = "/v1/workspaces/default/runs";
    let unknown = format!("hp_{}", "A".repeat(43));
    for header in [
        None,
        Some("Bearer x".to_owned()),
        Some(format!("Bearer {unknown}")),
    ] {
        let request = edge.bare(Method::GET, path);
        let request = header
            .iter()
            .fold(request, |it, value| it.header("authorization", value));
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        assert_eq!(refusal(response).await, (401, "unauthorized".to_owned()));
    }
}

#[tokio::test]
async fn the_workspace_of_others_does_not_exist() {
    let edge = Edge::new().await;
    for (workspace, token) in [
        ("default", &edge.other_token),
        ("other", &edge.token),
        ("nowhere", &edge.token),
        ("no.name", &edge.token),
    ] {
        let path = format!("/v1/workspaces/{workspace}/runs");
        let request = edge.bare(Method::GET, &path).bearer_auth(token);
        let response = request.send().await.unwrap();
        assert_eq!(
            refusal(response).await,
            (404, "not_found".to_owned()),
            "{workspace}"
        );
    }
    ok(edge.get("/runs").await).await;
}

#[tokio::test]
async fn only_the_digest_of_a_token_is_stored() {
    let edge = Edge::new().await;
    assert!(
        edge.token.starts_with("hp_") && edge.token.len() == 46,
        "{}",
        edge.token
    );
    let secret = edge.token.as_bytes();
    for file in ["gateway.db", "gateway.db-wal"] {
        let stored = std::fs::read(edge.dir.path().join(file)).unwrap();
        assert!(
            !stored.windows(secret.len()).any(|it| it == secret),
            "{file}"
        );
    }
}
