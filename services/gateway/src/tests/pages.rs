//! Pages at the edge: signing in and out, forms that are ours, and what they ask the owners.

use holdpoint_contracts::instant;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::json;

use super::edge::{Edge, at};
use super::handoff::REQUEST;

/// A browser without a script.
pub(super) struct Browser<'a> {
    edge: &'a Edge,
    client: Client,
    cookie: String,
}

impl<'a> Browser<'a> {
    pub(super) fn new(edge: &'a Edge) -> Self {
        let client = Client::builder().redirect(Policy::none()).no_proxy();
        Self {
            edge,
            client: client.build().unwrap(),
            cookie: String::new(),
        }
    }

    pub(super) async fn signed_in(edge: &'a Edge, token: &str) -> Self {
        let mut browser = Self::new(edge);
        let answer = browser.post("/login", &[("token", token)]).await;
        assert_eq!(answer.status(), 303);
        browser.keep(&answer);
        browser
    }

    /// Takes the cookie of an answer over.
    pub(super) fn keep(&mut self, answer: &Response) {
        let header = answer.headers()["set-cookie"].to_str().unwrap();
        assert!(header.contains("HttpOnly") && header.contains("SameSite=Lax"));
        self.cookie = header.split(';').next().unwrap().to_owned();
    }

    /// Is signed in no more.
    pub(super) fn forget(&mut self) {
        self.cookie.clear();
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.edge.base);
        let request = self.client.request(method, url);
        request.header("cookie", &self.cookie)
    }

    pub(super) async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.unwrap()
    }

    pub(super) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        let request = self.request(Method::POST, path);
        let request = request.header("origin", &self.edge.base);
        form(request, fields).send().await.unwrap()
    }

    /// What a form on one of its pages carries.
    pub(super) async fn csrf(&self) -> String {
        let page = self.get("/inbox").await.text().await.unwrap();
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }

    async fn act(&self, fields: &[(&str, &str)]) -> Response {
        let csrf = self.csrf().await;
        let all = [&[("csrf", csrf.as_str())], fields].concat();
        self.post(&format!("/requests/{REQUEST}/act"), &all).await
    }
}

fn form(request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    let encode = |text: &str| {
        let bytes = text.bytes();
        bytes.map(|byte| format!("%{byte:02X}")).collect::<String>()
    };
    let pairs = fields
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    let body = pairs.collect::<Vec<_>>().join("&");
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    request.body(body)
}

pub(super) fn location(answer: &Response) -> &str {
    answer.headers()["location"].to_str().unwrap()
}

/// A slow query of statistics takes nothing else from the page.
#[tokio::test]
async fn an_agent_is_shown_without_its_statistics() {
    let edge = Edge::new().await;
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let page = browser.get("/agents/books").await;
    assert_eq!(page.status(), 200);
    let text = page.text().await.unwrap();
    for part in [
        "Statistics are not available",
        "Start a run",
        "This agent has no runs.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn a_token_signs_a_browser_in_until_it_signs_out() {
    let edge = Edge::new().await;
    let mut browser = Browser::new(&edge);
    let redirected = browser.get("/runs?status=failed").await;
    assert_eq!(location(&redirected), "/login?next=/runs%3Fstatus%3Dfailed");
    for wrong in ["", "hp_wrong"] {
        let refused = browser.post("/login", &[("token", wrong)]).await;
        assert_eq!(refused.status(), 401);
        assert!(refused.text().await.unwrap().contains("Invalid token"));
    }
    let fields = [("token", edge.token.as_str()), ("next", "/runs")];
    let answer = browser.post("/login", &fields).await;
    assert_eq!(
        (answer.status().as_u16(), location(&answer)),
        (303, "/runs")
    );
    browser.keep(&answer);
    let page = browser.get("/inbox").await;
    assert_eq!(page.status(), 200);
    let text = page.text().await.unwrap();
    assert!(text.contains("No open requests") && text.contains("default"));
    assert!(!text.contains(&edge.token), "no page holds the token");

    let csrf = browser.csrf().await;
    let out = browser.post("/logout", &[("csrf", &csrf)]).await;
    assert_eq!(location(&out), "/login");
    assert_eq!(location(&browser.get("/inbox").await), "/login");
}

/// Mend A-L2: who came by TLS keeps to it, on pages, in the API and where something is refused; over plain
/// HTTP nothing is said, and a browser is signed in by a cookie of another name.
#[tokio::test]
async fn who_came_by_tls_keeps_to_it() {
    let edge = Edge::new().await;
    let browser = Browser::new(&edge);
    for path in [
        "/login",
        "/inbox",
        "/v1/clock",
        "/v1/workspaces/default/runs",
        "/nowhere",
    ] {
        let plain = browser.get(path).await;
        assert!(
            !plain.headers().contains_key("strict-transport-security"),
            "{path}"
        );
        let request = browser.request(Method::GET, path);
        let secure = request.header("x-forwarded-proto", "https").send().await;
        let secure = secure.unwrap();
        assert_eq!(
            secure.headers()["strict-transport-security"],
            "max-age=31536000",
            "{path}"
        );
    }
    let request = browser.request(Method::POST, "/login");
    let request = request.header("x-forwarded-proto", "https");
    let signed_in = form(request, &[("token", &edge.token)])
        .send()
        .await
        .unwrap();
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap();
    let pair = cookie.split(';').next().unwrap();
    let secret = pair.strip_prefix("__Host-holdpoint_session=").unwrap();
    let inbox = async |pair: &str| {
        let request = browser.request(Method::GET, "/inbox");
        let request = request.header("x-forwarded-proto", "https");
        request
            .header("cookie", pair)
            .send()
            .await
            .unwrap()
            .status()
    };
    assert_eq!(inbox(pair).await, 200);
    let planted = format!("holdpoint_session={secret}");
    assert_eq!(
        inbox(&planted).await,
        303,
        "another host of the domain can set that one"
    );
}

/// `up` prints a one-time link; whatever looks at links ahead does no harm.
#[tokio::test]
async fn a_link_signs_in_once() {
    let edge = Edge::new().await;
    let mut browser = Browser::new(&edge);
    for _preview in 0..2 {
        let shown = browser.get(&edge.login).await;
        assert_eq!(shown.status(), 200);
        assert!(shown.text().await.unwrap().contains("Sign in as owner"));
    }
    let opened = browser.post(&edge.login, &[]).await;
    assert_eq!(location(&opened), "/inbox");
    browser.keep(&opened);
    assert_eq!(browser.get("/inbox").await.status(), 200);
    assert_eq!(browser.post(&edge.login, &[]).await.status(), 410);
    assert_eq!(browser.get(&edge.login).await.status(), 410);
}

#[tokio::test]
async fn a_form_of_another_session_does_nothing() {
    let edge = Edge::new().await;
    let (mine, other) = (
        Browser::signed_in(&edge, &edge.token).await,
        Browser::signed_in(&edge, &edge.token).await,
    );
    let (own, foreign) = (mine.csrf().await, other.csrf().await);
    assert_ne!(own, foreign);
    edge.played.lock().unwrap().asked.clear();
    let path = format!("/requests/{REQUEST}/act");
    let fields = |csrf: &str| [("csrf", csrf.to_owned()), ("do", "accept".to_owned())];
    for (csrf, origin) in [
        ("", edge.base.as_str()),
        (&foreign, &edge.base),
        (&own, "http://evil.example"),
        (&own, "null"),
    ] {
        let fields = fields(csrf);
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let request = mine.request(Method::POST, &path).header("origin", origin);
        let refused = form(request, &fields).send().await.unwrap();
        assert_eq!(refused.status(), 403, "{csrf} {origin}");
    }
    assert_eq!(edge.verbs(), [""; 0], "no owner was asked for anything");
    let stranger = Browser::new(&edge);
    let redirected = stranger.post(&path, &[("do", "accept")]).await;
    assert_eq!(location(&redirected), "/login");
}

/// A form sends the same signed command as a call of the API.
#[tokio::test]
async fn a_form_asks_the_owner_as_the_person_who_is_signed_in() {
    let edge = Edge::new().await;
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let id = REQUEST;
    for (fields, verb, command) in [
        (
            &[("do", "respond"), ("answer", "yes"), ("version", "1")][..],
            "decide_request",
            json!({"id": id, "decision": {"respond": {"answer": "yes"}}, "version": 1}),
        ),
        (
            &[("do", "reject"), ("reason", " too much ")],
            "decide_request",
            json!({"id": id, "decision": {"reject": {"reason": "too much"}}}),
        ),
        (
            &[
                ("do", "complete"),
                ("notes", "called"),
                ("disposition", "return_to_agent"),
            ],
            "decide_request",
            json!({"id": id, "decision": {"complete": {
                "notes": "called", "outcome_type": "resolved", "disposition": "return_to_agent"}}}),
        ),
        (
            &[("do", "take_over")],
            "act_on_request",
            json!({"id": id, "action": "take_over"}),
        ),
        (
            &[("do", "reassign"), ("to", "bob")],
            "act_on_request",
            json!({"id": id, "action": {"reassign": {"to": "@user.bob"}}}),
        ),
        (
            &[("do", "snooze"), ("for", "4h")],
            "act_on_request",
            json!({"id": id, "action": {"snooze": {"for_ms": 14_400_000}}}),
        ),
    ] {
        let done = browser.act(fields).await;
        assert_eq!(done.status(), 303, "{fields:?}");
        assert_eq!(location(&done), format!("/requests/{id}"));
        let (asked, envelope) = edge.played.lock().unwrap().asked.pop().unwrap();
        assert_eq!((asked.as_str(), &envelope["command"]), (verb, &command));
        assert_eq!(envelope["actor"], "owner");
        assert_eq!(edge.vouched(&envelope).user.as_str(), "owner");
    }
    for fields in [
        &[("do", "reject"), ("reason", " ")][..],
        &[("do", "complete")],
        &[("do", "explode")],
        &[("do", "respond")],
    ] {
        assert_eq!(browser.act(fields).await.status(), 422, "{fields:?}");
    }
}

/// Barge-in, from the page of a run: the same signed command, and the page as it then is.
#[tokio::test]
async fn a_run_is_taken_over_from_its_page() {
    let edge = Edge::new().await;
    let run = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
    let path = format!("/runs/{run}");
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let page = browser.get(&path).await.text().await.unwrap();
    assert!(page.contains("Take the run over"), "{page}");
    let csrf = browser.csrf().await;
    let act = format!("{path}/act");
    let fields = [("csrf", csrf.as_str()), ("do", "take_over")];
    let done = browser.post(&act, &fields).await;
    assert_eq!(
        (done.status().as_u16(), location(&done)),
        (303, path.as_str())
    );
    let (verb, envelope) = edge.played.lock().unwrap().asked.pop().unwrap();
    let command = (verb.as_str(), &envelope["command"], &envelope["actor"]);
    assert_eq!(
        command,
        ("take_over_run", &json!({ "run": run }), &json!("owner"))
    );
    let other = [("csrf", csrf.as_str()), ("do", "explode")];
    assert_eq!(browser.post(&act, &other).await.status(), 422);
    assert_eq!(
        browser.post(&act, &[("do", "take_over")]).await.status(),
        403
    );

    let token = edge.token_of("owner", Some("member")).await;
    let member = Browser::signed_in(&edge, &token).await;
    let page = member.get(&path).await.text().await.unwrap();
    assert!(!page.contains("Take the run over"), "{page}");
    let csrf = member.csrf().await;
    let fields = [("csrf", csrf.as_str()), ("do", "take_over")];
    assert_eq!(member.post(&act, &fields).await.status(), 403);
    assert_eq!(edge.verbs(), [""; 0], "no owner was asked");
}

/// Issue 4, ask again: the answer is the new request's page.
#[tokio::test]
async fn a_form_that_asks_again_leads_to_the_new_request() {
    let edge = Edge::new().await;
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let fields = [
        ("do", "ask_again"),
        ("to", "bob, @role.ops"),
        ("timeout", "2h"),
    ];
    let done = browser.act(&fields).await;
    assert_eq!(done.status(), 303);
    let (verb, envelope) = edge.played.lock().unwrap().asked.pop().unwrap();
    let command = &envelope["command"];
    assert_eq!(
        (verb.as_str(), &command["again"]),
        ("ask_again", &json!(REQUEST))
    );
    assert_eq!(command["to"], json!(["@user.bob", "@role.ops"]));
    assert_eq!(command["timeout_ms"], 7_200_000);
    let id = command["id"].as_str().unwrap();
    assert_eq!(location(&done), format!("/requests/{id}"));
}

/// A session has the rights of its user, and no more than the token that opened it.
#[tokio::test]
async fn a_scoped_token_signs_in_with_its_role() {
    let edge = Edge::new().await;
    let token = edge.token_of("owner", Some("viewer")).await;
    let browser = Browser::signed_in(&edge, &token).await;
    let page = browser.get(&format!("/requests/{REQUEST}")).await;
    assert!(
        page.text()
            .await
            .unwrap()
            .contains("You can view this request but not decide it.")
    );
    edge.played.lock().unwrap().asked.clear();
    let refused = browser.act(&[("do", "respond"), ("answer", "yes")]).await;
    assert_eq!(refused.status(), 403);
    assert_eq!(edge.verbs(), [""; 0]);

    let tokens = edge
        .get("/tokens")
        .await
        .json::<serde_json::Value>()
        .await
        .unwrap();
    let last = tokens["items"].as_array().unwrap().last().unwrap()["id"].clone();
    let path = format!("/tokens/{}", last.as_str().unwrap());
    edge.request(Method::DELETE, &path).send().await.unwrap();
    assert_eq!(location(&browser.get("/inbox").await), "/login");
}

/// DESIGN: of two deciders one wins; the other learns who, when and what.
#[tokio::test]
async fn who_comes_second_reads_who_was_first() {
    let edge = Edge::new().await;
    let browser = Browser::signed_in(&edge, &edge.token).await;
    edge.played.lock().unwrap().refusal = Some(json!({
        "status": 409, "code": "already_decided", "detail": "x",
        "data": {"winner": {"by": "bob", "at": instant::write(at()), "outcome": "approved", "data": "go"}, "late": true},
    }));
    let second = browser.act(&[("do", "respond"), ("answer", "no")]).await;
    assert_eq!(second.status(), 409);
    let text = second.text().await.unwrap();
    let shown = "This request was already approved by bob on 1 Jan 2026, 00:00 UTC. Your answer is kept as a late answer.";
    assert!(text.contains(shown), "{text}");
    assert!(
        text.contains("<!DOCTYPE html>"),
        "without the script it is a page"
    );
}

#[tokio::test]
async fn every_page_is_served_under_a_policy() {
    let edge = Edge::new().await;
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let script = "%3Cscript%3Ealert(1)%3C/script%3E";
    for (path, status) in [
        ("/inbox".to_owned(), 200),
        (format!("/inbox?who={script}"), 400),
        ("/inbox?who=owner&status=snoozed".to_owned(), 200),
        (format!("/requests/{REQUEST}"), 200),
        (format!("/tasks/task_{REQUEST}"), 200),
        ("/runs".to_owned(), 200),
        ("/runs/run_0193aaaabbbb7ccc8dddeeeeeeeeeeee".to_owned(), 200),
        ("/standing-approvals".to_owned(), 200),
        ("/standing-approvals/%3Cscript%3E".to_owned(), 404),
        ("/login".to_owned(), 200),
        ("/login/nothing".to_owned(), 410),
        ("/requests/%3Cscript%3E".to_owned(), 404),
        ("/runs/%3Cscript%3E".to_owned(), 404),
        (format!("/inbox?kind={script}"), 400),
        ("/assets/nothing".to_owned(), 404),
    ] {
        let page = browser.get(&path).await;
        assert_eq!(page.status(), status, "{path}");
        let header = |name: &str| page.headers()[name].to_str().unwrap().to_owned();
        let policy = header("content-security-policy");
        assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"));
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("cache-control"), "no-store");
        let text = page.text().await.unwrap();
        assert!(!text.contains("<script>"), "{path}: {text}");
        assert!(
            !text.contains("style=\"") && !text.contains(" onclick"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn style_and_script_are_named_by_what_they_hold() {
    let edge = Edge::new().await;
    let browser = Browser::new(&edge);
    let page = browser.get("/login").await.text().await.unwrap();
    let assets: Vec<_> = page
        .split('"')
        .filter(|part| part.starts_with("/assets/"))
        .collect();
    assert_eq!(assets.len(), 3);
    for asset in assets {
        let file = browser.get(asset).await;
        assert_eq!(file.status(), 200);
        let cached = file.headers()["cache-control"].to_str().unwrap();
        assert!(cached.contains("immutable"), "{cached}");
    }
}

#[tokio::test]
async fn a_live_page_starts_with_what_it_shows_and_ends_with_its_session() {
    let edge = Edge::new().await;
    let browser = Browser::signed_in(&edge, &edge.token).await;
    let path = format!("/live?page=/requests/{REQUEST}");
    let mut live = browser.get(&path).await;
    assert_eq!(live.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    while !text.contains("event: html") || !text.contains(REQUEST) {
        text += &String::from_utf8_lossy(&live.chunk().await.unwrap().unwrap());
    }
    let csrf = browser.csrf().await;
    browser.post("/logout", &[("csrf", &csrf)]).await;
    while let Some(chunk) = live.chunk().await.unwrap() {
        text += &String::from_utf8_lossy(&chunk);
    }
    assert!(text.contains("event: over"), "{text}");
    let over = browser.get(&path).await.text().await.unwrap();
    assert!(over.contains("event: over"), "{over}");
}
