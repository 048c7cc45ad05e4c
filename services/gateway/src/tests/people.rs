//! Who may do what: roles, tokens, users, workspaces, steps.

use std::time::Duration;

use chrono::TimeDelta;
use holdpoint_auth::{Right, Role, StepClaims, may};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::subject;
use holdpoint_ids::RunId;
use holdpoint_testkit::until;
use reqwest::Method;
use serde_json::{Value, json};

use super::edge::{Edge, at, ok, refusal, workspace};
use super::handoff;

const RUN: &str = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";

/// DESIGN, Subjects: a person's decision carries an assertion signed by the gateway.
#[tokio::test]
async fn every_command_says_who_asks_in_a_way_that_can_be_checked() {
    let edge = Edge::new().await;
    for _ in 0..2 {
        assert_eq!(edge.post("/agents/a/runs", json!({})).await.status(), 201);
    }
    let asked = edge.played.lock().unwrap().asked.clone();
    let claims = edge.vouched(&asked[0].1);
    assert_eq!(
        (claims.user.as_str(), claims.roles[0].as_str()),
        ("owner", "owner")
    );
    assert_eq!(claims.expires_at, at() + TimeDelta::minutes(5));
    let other = edge.vouched(&asked[1].1);
    assert_eq!(other, claims, "each command by itself");
    assert_ne!(asked[0].1["assertion"], asked[1].1["assertion"]);
}

/// Method, path and what is needed.
const ROUTES: [(&str, &str, Right); 76] = [
    ("GET", "/agents", Right::Look),
    ("GET", "/runs", Right::Look),
    ("GET", "/runs/R", Right::Look),
    ("GET", "/contacts", Right::Look),
    ("GET", "/requests", Right::Look),
    ("GET", "/requests/H", Right::Look),
    ("GET", "/tools", Right::Look),
    ("GET", "/nodes", Right::Look),
    ("GET", "/claims", Right::Look),
    ("GET", "/notifications", Right::Look),
    ("POST", "/notifications/read", Right::Look),
    ("GET", "/preferences", Right::Look),
    ("PUT", "/preferences", Right::Look),
    ("GET", "/sessions", Right::Look),
    ("DELETE", "/sessions/ses_1", Right::Look),
    ("DELETE", "/sessions", Right::Look),
    ("GET", "/sessions?user=nobody", Right::Administer),
    ("DELETE", "/sessions?user=nobody", Right::Administer),
    (
        "POST",
        "/notifications/note_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1/read",
        Right::Look,
    ),
    (
        "POST",
        "/notifications/note_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1/respond",
        Right::Decide,
    ),
    ("POST", "/agents/a/runs", Right::Ask),
    ("POST", "/agents/a/runs:batch", Right::Ask),
    ("PATCH", "/contacts/c", Right::Ask),
    ("POST", "/holds", Right::Ask),
    ("POST", "/runs/R/request-input", Right::Ask),
    ("DELETE", "/holds/H", Right::Ask),
    ("POST", "/requests/H/approve", Right::Decide),
    ("POST", "/requests/H/reject", Right::Decide),
    ("POST", "/requests/H/revise", Right::Decide),
    ("POST", "/requests/H/respond", Right::Decide),
    ("POST", "/runs/R/signal", Right::Ask),
    ("POST", "/runs/R/pause", Right::Operate),
    ("POST", "/runs/R/cancel", Right::Operate),
    ("POST", "/runs/R/retry", Right::Operate),
    ("POST", "/runs/R/suspend", Right::Operate),
    ("GET", "/runs/R/snapshot", Right::Operate),
    ("GET", "/runs/R/steps/s/blobs/H", Right::Operate),
    ("POST", "/runs/R/take-over", Right::Operate),
    ("POST", "/requests/H/ask-again", Right::Ask),
    ("POST", "/agents/a/pause", Right::Operate),
    ("DELETE", "/agents/a", Right::Operate),
    ("DELETE", "/tools/t", Right::Operate),
    ("POST", "/pause", Right::Administer),
    ("POST", "/resume", Right::Administer),
    ("GET", "/policies", Right::Look),
    ("POST", "/policies", Right::Administer),
    ("DELETE", "/policies/on-call", Right::Administer),
    ("POST", "/agents/rehearse", Right::Look),
    ("GET", "/rehearsals", Right::Look),
    ("POST", "/rehearsals", Right::Look),
    ("GET", "/rehearsals/reh_1", Right::Look),
    ("GET", "/rehearsals/reh_1/runs", Right::Look),
    ("GET", "/rehearsals/reh_1/changes", Right::Look),
    ("POST", "/rehearsals/reh_1/cancel", Right::Look),
    ("DELETE", "/rehearsals/reh_1", Right::Look),
    ("GET", "/schedules", Right::Look),
    ("GET", "/schedules/daily", Right::Look),
    ("POST", "/schedules", Right::Operate),
    ("DELETE", "/schedules/daily", Right::Operate),
    ("POST", "/contacts/c/erase", Right::Administer),
    ("GET", "/contacts/c/erasure", Right::Administer),
    ("GET", "/tokens", Right::Administer),
    ("GET", "/hooks/inbound", Right::Administer),
    ("GET", "/hooks/inbound/unmatched", Right::Look),
    ("POST", "/hooks/inbound/unmatched/unm_1/assign", Right::Ask),
    ("DELETE", "/hooks/inbound/unmatched/unm_1", Right::Operate),
    ("GET", "/webhooks", Right::Administer),
    ("POST", "/webhooks", Right::Administer),
    (
        "DELETE",
        "/webhooks/wh_0193aaaabbbb7ccc8dddeeeeeeeeeeee",
        Right::Administer,
    ),
    (
        "GET",
        "/webhooks/wh_0193aaaabbbb7ccc8dddeeeeeeeeeeee/deliveries",
        Right::Administer,
    ),
    ("GET", "/watches", Right::Look),
    ("POST", "/watches", Right::Look),
    ("DELETE", "/watches/agent_a", Right::Look),
    ("DELETE", "/hooks/inbound/crm", Right::Administer),
    ("POST", "/users", Right::Administer),
    ("GET", "/users", Right::Administer),
];

/// API, REST: every route asks the same function; what is forbidden reaches nobody.
#[tokio::test]
async fn every_route_asks_for_its_right() {
    let edge = Edge::new().await;
    for role in Role::ALL.iter().copied() {
        edge.user(role.as_str(), &[role.as_str()]).await;
        let token = edge.token_of(role.as_str(), None).await;
        for (method, path, right) in ROUTES {
            let path = path.replace('R', RUN).replace('H', handoff::REQUEST);
            let before = edge.verbs().len();
            let method: Method = method.parse().unwrap();
            let response = edge.as_whom(&token, method, &path).await;
            let is_forbidden = response.status() == 403;
            assert_eq!(is_forbidden, !may(role, right), "{role:?} {path}");
            if is_forbidden {
                assert_eq!(refusal(response).await.1, "forbidden");
                assert_eq!(edge.verbs().len(), before, "{role:?} {path}");
            }
        }
    }
}

/// DESIGN, Identity: an agent's token can ask, never decide.
#[tokio::test]
async fn an_agents_token_of_an_owner_asks_and_never_decides() {
    let edge = Edge::new().await;
    let token = edge.token_of("owner", Some("agent")).await;
    let started = edge.as_whom(&token, Method::POST, "/agents/a/runs").await;
    assert_eq!(started.status(), 201);
    let asked = edge.played.lock().unwrap().asked.pop().unwrap().1;
    assert_eq!(edge.vouched(&asked).roles, ["agent".parse().unwrap()]);
    let approve = format!("/requests/{}/approve", handoff::REQUEST);
    let refused = edge.as_whom(&token, Method::POST, &approve).await;
    assert_eq!(refusal(refused).await, (403, "forbidden".to_owned()));
}

#[tokio::test]
async fn a_token_expires_is_revoked_and_is_never_shown_again() {
    let edge = Edge::new().await;
    let body = json!({"user": "owner", "role": "viewer", "expires_in": "1h"});
    let made: Value = edge.post("/tokens", body).await.json().await.unwrap();
    assert_eq!(made["expires_at"], "2026-01-01T01:00:00.000Z");
    let token = made["token"].as_str().unwrap();
    let second = edge.token_of("owner", None).await;
    let listed = ok(edge.get("/tokens").await).await.to_string();
    assert!(listed.contains(made["id"].as_str().unwrap()) && !listed.contains(token));
    assert!(!listed.contains(&second));

    assert_eq!(
        edge.as_whom(token, Method::GET, "/runs").await.status(),
        200
    );
    edge.clock.move_to(at() + TimeDelta::hours(1)).unwrap();
    assert_eq!(
        edge.as_whom(token, Method::GET, "/runs").await.status(),
        401
    );

    let items = ok(edge.get("/tokens").await).await;
    let id = items["items"].as_array().unwrap().last().unwrap()["id"].clone();
    let path = format!("/tokens/{}", id.as_str().unwrap());
    assert_eq!(
        edge.as_whom(&second, Method::DELETE, &path).await.status(),
        204
    );
    assert_eq!(
        edge.as_whom(&second, Method::GET, "/runs").await.status(),
        401
    );
    for (body, code) in [
        (json!({"user": "nobody"}), "invalid_body"),
        (json!({"user": "owner", "role": "boss"}), "invalid_body"),
        (json!({"user": "owner", "expires_in": "0s"}), "invalid_body"),
        (json!({"user": "owner", "scope": "all"}), "invalid_body"),
    ] {
        assert_eq!(
            refusal(edge.post("/tokens", body).await).await,
            (422, code.to_owned())
        );
    }
}

#[tokio::test]
async fn a_disabled_user_is_refused_whichever_way_it_was_disabled() {
    let edge = Edge::new().await;
    for name in ["ada", "bob"] {
        edge.user(name, &["member"]).await;
    }
    let (ada, bob) = (
        edge.token_of("ada", None).await,
        edge.token_of("bob", None).await,
    );
    let gone = edge
        .request(Method::DELETE, "/users/ada")
        .send()
        .await
        .unwrap();
    assert_eq!(ok(gone).await["active"], false);
    let out = edge.as_whom(&ada, Method::GET, "/runs").await;
    assert_eq!(refusal(out).await, (401, "unauthorized".to_owned()));

    assert_eq!(edge.as_whom(&bob, Method::GET, "/runs").await.status(), 200);
    let elsewhere = json!({"name": "bob"});
    handoff::put(
        "default",
        &elsewhere,
        false,
        &mut edge.played.lock().unwrap(),
    );
    let nudge = subject::live(&workspace("sys"), "handoff");
    edge.bus.send(nudge, b"{}".to_vec().into()).await.unwrap();
    let out = async || {
        let status = edge.as_whom(&bob, Method::GET, "/runs").await.status();
        (status == 401).then_some(())
    };
    until(Duration::from_secs(10), "the nudge to count", out)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_admin_makes_no_owner_and_no_token_of_one() {
    let edge = Edge::new().await;
    edge.user("ann", &["admin"]).await;
    let ann = edge.token_of("ann", None).await;
    let path = |path: &str| format!("/v1/workspaces/default{path}");
    for (route, body) in [
        ("/users", json!({"name": "new", "roles": ["owner"]})),
        ("/users", json!({"name": "owner", "roles": ["member"]})),
        ("/tokens", json!({"user": "owner"})),
    ] {
        let request = edge.bare(Method::POST, &path(route)).bearer_auth(&ann);
        let refused = request.json(&body).send().await.unwrap();
        assert_eq!(
            refusal(refused).await,
            (403, "forbidden".to_owned()),
            "{body}"
        );
    }
    let disable = edge.as_whom(&ann, Method::DELETE, "/users/owner").await;
    assert_eq!(disable.status(), 403);
    let narrowed = edge.bare(Method::POST, &path("/tokens")).bearer_auth(&ann);
    let body = json!({"user": "owner", "role": "agent"});
    assert_eq!(narrowed.json(&body).send().await.unwrap().status(), 201);
}

#[tokio::test]
async fn a_new_workspace_opens_for_its_owner_alone() {
    let edge = Edge::new().await;
    let make = async |token: &str, name: &str| {
        let request = edge.bare(Method::POST, "/v1/workspaces").bearer_auth(token);
        let body = json!({"workspace": name});
        request.json(&body).send().await.unwrap()
    };
    let made = make(&edge.token, "fresh").await;
    assert_eq!(made.status(), 201);
    let made: Value = made.json().await.unwrap();
    let token = made["token"].as_str().unwrap();
    let runs = edge.bare(Method::GET, "/v1/workspaces/fresh/runs");
    assert_eq!(runs.bearer_auth(token).send().await.unwrap().status(), 200);
    assert_eq!(
        edge.as_whom(token, Method::GET, "/runs").await.status(),
        404
    );
    for (name, status) in [
        ("fresh", 409),
        ("default", 409),
        ("sys", 422),
        ("timers", 422),
        ("a.b", 422),
    ] {
        assert_eq!(
            refusal(make(&edge.token, name).await).await.0,
            status,
            "{name}"
        );
    }
    let admin = edge.token_of("owner", Some("admin")).await;
    assert_eq!(refusal(make(&admin, "mine").await).await.0, 403);
}

/// Ground, "Must": a step token of another run.
#[tokio::test]
async fn a_step_sees_its_own_run_and_the_contact_of_it_and_nothing_else() {
    let edge = Edge::new().await;
    let claims = StepClaims {
        workspace: workspace("default"),
        run: RUN.parse().unwrap(),
        step: "step-01".to_owned(),
        dispatch: 1,
        expires_at: at() + TimeDelta::minutes(5),
    };
    let token = edge.steps.sign(&claims).unwrap();
    let other = RunId::fresh();
    for (method, path, status) in [
        (Method::GET, format!("/runs/{RUN}"), 200),
        (Method::GET, format!("/runs/{RUN}/events"), 200),
        (Method::GET, "/contacts".to_owned(), 200),
        (Method::GET, "/contacts/ada".to_owned(), 404),
        (Method::GET, "/contacts/ada/activities".to_owned(), 404),
        (Method::GET, format!("/runs/{other}"), 404),
        (Method::GET, format!("/runs/{other}/events"), 404),
        (Method::GET, "/runs".to_owned(), 403),
        (Method::PATCH, "/contacts/ada".to_owned(), 403),
        (Method::POST, format!("/runs/{RUN}/cancel"), 403),
        (Method::POST, "/agents/a/runs".to_owned(), 403),
        (Method::GET, "/tokens".to_owned(), 403),
    ] {
        let response = edge.as_whom(&token, method, &path).await;
        assert_eq!(response.status(), status, "{path}");
    }
    assert!(edge.verbs().is_empty());
    let elsewhere = edge.bare(Method::GET, "/v1/workspaces/other/contacts");
    assert_eq!(
        elsewhere.bearer_auth(&token).send().await.unwrap().status(),
        404
    );
    let forged = format!("{}AAAA", &token[..token.len() - 4]);
    edge.clock.move_to(at() + TimeDelta::minutes(4)).unwrap();
    let own = format!("/runs/{RUN}");
    assert_eq!(edge.as_whom(&forged, Method::GET, &own).await.status(), 401);
    assert_eq!(edge.as_whom(&token, Method::GET, &own).await.status(), 200);
    let earlier = StepClaims {
        dispatch: 0,
        ..claims
    };
    let earlier = edge.steps.sign(&earlier).unwrap();
    let refused = edge.as_whom(&earlier, Method::GET, &own).await;
    assert_eq!(refused.status(), 401, "a token of an earlier dispatch");
    edge.clock.move_to(at() + TimeDelta::minutes(5)).unwrap();
    assert_eq!(edge.as_whom(&token, Method::GET, &own).await.status(), 401);
}

/// A-H6: the token of a step opens nothing once its run has ended, whatever the route.
#[tokio::test]
async fn a_step_of_a_finished_run_opens_nothing() {
    let edge = Edge::new().await;
    let claims = StepClaims {
        workspace: workspace("default"),
        run: RUN.parse().unwrap(),
        step: "step-01".to_owned(),
        dispatch: 1,
        expires_at: at() + TimeDelta::minutes(5),
    };
    let token = edge.steps.sign(&claims).unwrap();
    let routes = [
        format!("/runs/{RUN}"),
        format!("/runs/{RUN}/events"),
        "/contacts".to_owned(),
        "/contacts/ada".to_owned(),
        "/contacts/ada/activities".to_owned(),
        format!("/requests/{}", handoff::REQUEST),
    ];
    let own = edge.as_whom(&token, Method::GET, &routes[0]).await;
    assert_eq!(own.status(), 200, "while it runs");
    edge.happens(RUN.parse().unwrap(), EventType::RunCompleted)
        .await;
    for path in routes {
        let answer = edge.as_whom(&token, Method::GET, &path).await;
        assert_eq!(answer.status(), 401, "{path}");
    }
}

/// A-H4: the maker of a workspace gets its token again until the token is revoked, and never afterwards.
#[tokio::test]
async fn the_maker_of_a_workspace_does_not_come_back() {
    let edge = Edge::new().await;
    let make = async || {
        let request = edge
            .bare(Method::POST, "/v1/workspaces")
            .bearer_auth(&edge.token);
        let request = request.header("idempotency-key", "made-once");
        let body = json!({"workspace": "fresh"});
        request.json(&body).send().await.unwrap()
    };
    assert_eq!(make().await.status(), 201);
    let again = make().await;
    assert_eq!(again.status(), 201, "the answer may have been lost");
    let token = again.json::<Value>().await.unwrap()["token"].clone();
    let token = token.as_str().unwrap();
    let tokens = "/v1/workspaces/fresh/tokens";
    let all = edge.bare(Method::GET, tokens).bearer_auth(token);
    let all: Value = all.send().await.unwrap().json().await.unwrap();
    let id = all["items"][0]["id"].as_str().unwrap();
    let revoke = edge.bare(Method::DELETE, &format!("{tokens}/{id}"));
    assert_eq!(
        revoke.bearer_auth(token).send().await.unwrap().status(),
        204
    );
    assert_eq!(refusal(make().await).await.0, 409);
}

/// A-M3: an admin cannot create a token that decides for another user, or revoke the token of an owner.
#[tokio::test]
async fn an_admin_does_not_act_for_others() {
    let edge = Edge::new().await;
    edge.user("ann", &["admin"]).await;
    edge.user("bob", &["member"]).await;
    let ann = edge.token_of("ann", None).await;
    let make = async |body: Value| {
        let request = edge.bare(Method::POST, "/v1/workspaces/default/tokens");
        request
            .bearer_auth(&ann)
            .json(&body)
            .send()
            .await
            .unwrap()
            .status()
    };
    for (body, status) in [
        (json!({"user": "bob"}), 403),
        (json!({"user": "owner", "role": "admin"}), 403),
        (json!({"user": "bob", "role": "viewer"}), 201),
        (json!({"user": "ann"}), 201),
    ] {
        assert_eq!(make(body.clone()).await, status, "{body}");
    }
    let all = ok(edge.get("/tokens").await).await;
    for token in all["items"].as_array().unwrap() {
        let id = token["id"].as_str().unwrap();
        if token["user"] == "owner" {
            let path = format!("/tokens/{id}");
            let refused = edge.as_whom(&ann, Method::DELETE, &path).await;
            assert_eq!(refused.status(), 403);
        }
        if token["user"] == "bob" {
            assert_eq!(token["made_by"], "ann", "who made it is on record");
        }
    }
}

/// Plays the owner of contacts.
pub(super) fn contact(verb: &str, body: &Value) -> Value {
    match verb {
        "contact" => json!({"ok": {"id": body["contact"]}}),
        "delete_contact" => json!({"ok": null}),
        "erase_contact" | "erasure" => json!({"ok": {
            "contact": "c1", "state": "running", "requested_by": "owner", "requested_at": at(),
        }}),
        _ => json!({"ok": {"id": body["command"]["contact"]}}),
    }
}
