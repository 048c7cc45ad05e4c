//! The whole service on a real bus, from the command to the reply. The test plays the other services.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::StreamExt;
use holdpoint_auth::{Claims, Secrets};
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::handoff::{
    ActOnRequest, DecideRequest, DecideRequests, Decided, DecidedOne, Decision, DisableUser,
    Effect, GetRequest, ListRequests, ListUserChanges, PutUser, RequestAction, RequestNudge,
    RequestStatus, SetHolds,
};
use holdpoint_contracts::hold::{DesiredHold, HoldSpec, HoldState, SetHoldReply};
use holdpoint_contracts::message::{Actor, Command, Envelope, Reply};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::HoldKind;
use holdpoint_contracts::{executor, subject};
use holdpoint_ids::{HoldId, RunId, Workspace};
use holdpoint_kernel::{Deps, RETENTION_DEFAULT};
use holdpoint_store::Location;
use holdpoint_testkit::{TestNats, nats};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

struct Bench {
    _nats: TestNats,
    _folder: tempfile::TempDir,
    bus: Bus,
    secrets: Secrets,
    clock: Clock,
    stop: CancellationToken,
    tracker: TaskTracker,
}

fn acme() -> Workspace {
    "acme".parse().unwrap()
}

fn hold() -> HoldId {
    let run = RunId::fresh();
    HoldId { run, number: 1 }
}

impl Bench {
    /// Starts the service with an owner and the members ada and bob.
    async fn start() -> Self {
        let nats = nats().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let bench = Self {
            bus: Bus::connect(&nats.url, "test").await.unwrap(),
            _nats: nats,
            secrets: Secrets::fresh().unwrap(),
            clock: Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap()),
            stop: CancellationToken::new(),
            tracker: TaskTracker::new(),
            _folder: folder,
        };
        let deps = Deps {
            bus: bench.bus.clone(),
            clock: bench.clock.clone(),
            store: Location::Sqlite(bench._folder.path().join("handoff.db")),
            keys: bench.secrets.keys().unwrap(),
            kept_for: RETENTION_DEFAULT,
        };
        crate::start(&deps, bench.stop.clone(), &bench.tracker)
            .await
            .unwrap();
        let put = |name: &str, role: &str| PutUser {
            name: name.parse().unwrap(),
            email: None,
            roles: vec![role.parse().unwrap()],
        };
        let first = Envelope::of_service("gateway", put("olga", "owner"));
        bench.bus.ask(&acme(), &first).await.unwrap();
        for name in ["ada", "bob"] {
            let made = bench.by("olga", "owner", put(name, "member"));
            bench.bus.ask(&acme(), &made).await.unwrap();
        }
        bench
    }

    async fn end(self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// A command that the gateway has signed.
    fn by<C: Command>(&self, name: &str, role: &str, command: C) -> Envelope<C> {
        let claims = Claims {
            workspace: acme(),
            user: name.parse().unwrap(),
            roles: vec![role.parse().unwrap()],
            expires_at: self.clock.now() + TimeDelta::minutes(5),
        };
        let envelope = Envelope {
            actor: Actor(name.to_owned()),
            assertion: None,
            key: None,
            command,
        };
        let signer = self.secrets.signer().unwrap();
        signer.vouch(&claims, envelope).unwrap()
    }

    async fn desired_state(&self, id: HoldId, rev: u64, state: HoldState) -> SetHoldReply {
        let holds = vec![DesiredHold { id, rev, state }];
        let owner = executor::SERVICE.to_owned();
        let command = Envelope::of_service(executor::SERVICE, SetHolds { owner, holds });
        match self.bus.ask(&acme(), &command).await.unwrap().remove(0) {
            Reply::Ok(answer) => answer,
            Reply::Problem(problem) => panic!("{problem}"),
        }
    }

    async fn decide(&self, name: &str, id: HoldId, answer: &str) -> Result<Decided, Problem> {
        let command = self.by(name, "member", decision(id, answer));
        self.bus.ask(&acme(), &command).await
    }
}

fn decision(id: HoldId, answer: &str) -> DecideRequest {
    DecideRequest {
        id,
        decision: Decision::Respond {
            answer: json!(answer),
        },
        version: None,
        silent: false,
    }
}

fn open() -> HoldState {
    let spec = HoldSpec {
        step: Some("step-01".to_owned()),
        to: vec!["@user.ada".to_owned(), "@user.bob".to_owned()],
        ..HoldSpec::asking(HoldKind::Input, "Did it happen?")
    };
    HoldState::Open {
        spec: Box::new(spec),
        deadline: None,
    }
}

/// Races: two answers at once.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_concurrent_answers_wins_and_the_other_is_kept_as_late() {
    let bench = Bench::start().await;
    let id = hold();
    assert_eq!(bench.desired_state(id, 1, open()).await, SetHoldReply::Set);
    let (ada, bob) = tokio::join!(
        bench.decide("ada", id, "yes"),
        bench.decide("bob", id, "no")
    );
    let (winner, loser) = match (ada, bob) {
        (Ok(_), Err(lost)) => (("ada", "yes"), lost),
        (Err(lost), Ok(_)) => (("bob", "no"), lost),
        both => panic!("{both:?}"),
    };
    assert_eq!(
        (loser.status, loser.code.as_str()),
        (409, "already_decided")
    );
    assert_eq!(loser.data["winner"]["by"], winner.0);
    let view = bench.bus.query(&acme(), &GetRequest { id }).await.unwrap();
    assert_eq!(view.status, RequestStatus::Decided);
    assert_eq!(view.response, Some(json!(winner.1)));
    assert_eq!(view.late.len(), 1, "kept although the reply is a problem");
    bench.end().await;
}

/// Ground, "Must": a forged, an expired and a missing assertion.
#[tokio::test(flavor = "multi_thread")]
async fn only_signed_commands_decide() {
    let bench = Bench::start().await;
    let id = hold();
    bench.desired_state(id, 1, open()).await;
    let ask = async |command: Envelope<DecideRequest>| {
        bench.bus.ask(&acme(), &command).await.unwrap_err().status
    };
    let good = || bench.by("ada", "member", decision(id, "yes"));
    let unsigned = Envelope {
        assertion: None,
        ..good()
    };
    assert_eq!(ask(unsigned).await, 403);
    let mut forged = good();
    let others = Secrets::fresh().unwrap().signer().unwrap();
    let claims = Claims {
        workspace: acme(),
        user: "ada".parse().unwrap(),
        roles: vec!["owner".parse().unwrap()],
        expires_at: bench.clock.now() + TimeDelta::minutes(5),
    };
    forged = others.vouch(&claims, forged).unwrap();
    assert_eq!(ask(forged).await, 401);
    let old = good();
    let later = bench.clock.now() + TimeDelta::minutes(5);
    bench.clock.move_to(later).unwrap();
    assert_eq!(ask(old).await, 401);
    assert!(bench.bus.ask(&acme(), &good()).await.is_ok());
    bench.end().await;
}

/// People 1, batch decisions: all or none, in one commit, whichever partitions they are in.
#[tokio::test(flavor = "multi_thread")]
async fn several_requests_are_decided_together_or_not_at_all() {
    let bench = Bench::start().await;
    let ids: Vec<_> = (0..20).map(|_| hold()).collect();
    for id in &ids {
        bench.desired_state(*id, 1, open()).await;
    }
    let together = async |name: &str, ids: &[HoldId], answer: &str| {
        let DecideRequest { decision, .. } = decision(ids[0], answer);
        let ids = ids.to_vec();
        let command = bench.by(
            name,
            "member",
            DecideRequests {
                ids,
                decision,
                versions: BTreeMap::new(),
            },
        );
        bench.bus.ask(&acme(), &command).await
    };
    let code = |reply: &Reply<DecidedOne>| match reply {
        Reply::Ok(one) => format!("{:?}", one.effect),
        Reply::Problem(problem) => problem.code.clone(),
    };
    bench.decide("bob", ids[7], "no").await.unwrap();
    let replies = together("ada", &ids, "yes").await.unwrap();
    for (place, reply) in replies.iter().enumerate() {
        let wanted = if place == 7 {
            "already_decided"
        } else {
            "batch_aborted"
        };
        assert_eq!(code(reply), wanted, "{place}");
    }
    let Reply::Problem(problem) = &replies[7] else {
        panic!("it was decided")
    };
    assert_eq!(problem.data["late"], false, "nothing of it happened");
    let query = ListRequests {
        limit: 100,
        status: Some(RequestStatus::Open),
        ..ListRequests::default()
    };
    let page = bench.bus.query(&acme(), &query).await.unwrap();
    assert_eq!(page.items.len(), 19);
    let rest: Vec<_> = ids.iter().copied().filter(|id| *id != ids[7]).collect();
    for _ in 0..2 {
        let replies = together("ada", &rest, "yes").await.unwrap();
        assert!(
            replies.iter().all(|reply| code(reply) == "Pending"),
            "{replies:?}"
        );
    }
    let page = bench.bus.query(&acme(), &query).await.unwrap();
    assert_eq!(page.items, []);
    let twice = together("ada", &[rest[0], rest[0]], "yes").await;
    assert_eq!(twice.unwrap_err().status, 422);
    let DecideRequest { decision, .. } = decision(rest[0], "yes");
    let other = DecideRequests {
        ids: vec![rest[0]],
        decision,
        versions: BTreeMap::from([(rest[1], 1)]),
    };
    let other = bench.by("ada", "member", other);
    let refused = bench.bus.ask(&acme(), &other).await.unwrap_err();
    let pointer = refused.errors[0].pointer.as_deref();
    assert_eq!(pointer, Some(&*format!("/versions/{}", rest[1])));
    bench.end().await;
}

/// S0-R3: watchers of requests and user directories are nudged after each commit.
#[tokio::test(flavor = "multi_thread")]
async fn watchers_are_nudged() {
    let bench = Bench::start().await;
    let client = bench.bus.client();
    let live = subject::live(&acme(), "handoff");
    let mut nudges = client.subscribe(live).await.unwrap();
    let mut users = client.subscribe(subject::live_users()).await.unwrap();
    client.flush().await.unwrap();
    let soon = Duration::from_secs(10);
    let mut next = async || {
        let message = tokio::time::timeout(soon, nudges.next()).await.unwrap();
        let nudge: RequestNudge = serde_json::from_slice(&message.unwrap().payload).unwrap();
        nudge.requests
    };
    let id = hold();
    bench.desired_state(id, 1, open()).await;
    assert_eq!(next().await, BTreeMap::from([(id, 1)]));
    let act = ActOnRequest {
        id,
        action: RequestAction::Acknowledge,
        version: None,
    };
    let act = bench.by("ada", "member", act);
    bench.bus.ask(&acme(), &act).await.unwrap();
    assert_eq!(next().await[&id], 2);
    bench.decide("ada", id, "yes").await.unwrap();
    assert_eq!(next().await[&id], 3);
    let name = "bob".parse().unwrap();
    let disabled = bench.by("olga", "owner", DisableUser { name });
    bench.bus.ask(&acme(), &disabled).await.unwrap();
    let nudge = tokio::time::timeout(soon, users.next()).await.unwrap();
    assert_eq!(nudge.unwrap().payload.as_ref(), b"null");
    bench.end().await;
}

/// DESIGN, the hold protocol: `withdrawn` leaves a tombstone.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_was_withdrawn_before_it_was_opened_stays_withdrawn() {
    let bench = Bench::start().await;
    let id = hold();
    let reason = "the run was cancelled".to_owned();
    assert_eq!(
        bench
            .desired_state(id, 5, HoldState::Withdrawn { reason, by: None })
            .await,
        SetHoldReply::Set
    );
    assert_eq!(
        bench.desired_state(id, 4, open()).await,
        SetHoldReply::Stale
    );
    assert_eq!(
        bench.decide("ada", id, "yes").await.unwrap_err().status,
        404
    );
    let list = ListRequests {
        limit: 10,
        ..ListRequests::default()
    };
    let page = bench.bus.query(&acme(), &list).await.unwrap();
    assert_eq!(page.items, []);
    bench.end().await;
}

/// DESIGN, "The tables are enough": other services copy users by numbered changes.
#[tokio::test(flavor = "multi_thread")]
async fn user_changes_are_listed_only_in_the_system_workspace() {
    let bench = Bench::start().await;
    let facts = ListUserChanges {
        after: 0,
        limit: 500,
    };
    let sys = subject::SYSTEM_WORKSPACE.parse().unwrap();
    let found = bench.bus.query(&sys, &facts).await.unwrap();
    let seen: Vec<_> = found
        .iter()
        .map(|fact| (fact.seq, fact.user.name.as_str()))
        .collect();
    assert_eq!(seen, [(1, "olga"), (2, "ada"), (3, "bob")]);
    let elsewhere = bench.bus.query(&acme(), &facts).await;
    assert_eq!(elsewhere.unwrap_err().status, 404);
    bench.end().await;
}

/// DESIGN, "The tables are enough": a close is sent again until the executor acknowledges it, and the request
/// shows the reported effect.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_is_sent_again_until_the_executor_acknowledges_it() {
    let bench = Bench::start().await;
    let service = executor::SERVICE;
    let filter = subject::commands_filter(service);
    let soon = Duration::from_secs(30);
    // The executor's first handling is interrupted: the message is acked, and no reply is sent.
    let wanted = holdpoint_bus::StreamUse::Commands(service);
    bench.bus.provide_stream(wanted).await.unwrap();
    let mut messages = bench
        .bus
        .pull(wanted, service, &filter, soon)
        .await
        .unwrap();
    let id = hold();
    bench.desired_state(id, 1, open()).await;
    bench.decide("ada", id, "yes").await.unwrap();
    let mut next = async || loop {
        let message = tokio::time::timeout(soon, messages.next()).await.unwrap();
        let Ok(message) = message.unwrap() else {
            continue;
        };
        message.ack().await.unwrap();
        let inbox = message
            .headers
            .as_ref()
            .unwrap()
            .get("hp-reply")
            .unwrap()
            .to_string();
        let body: Envelope<executor::HoldsClosed> =
            serde_json::from_slice(&message.payload).unwrap();
        break (inbox, body.command.closed);
    };
    let (_, first) = next().await;
    let (inbox, again) = next().await;
    assert_eq!(first, again);
    assert_eq!((again[0].id, &again[0].data), (id, &json!("yes")));
    let reply = json!({ "ok": [{ "ok": "on_resume" }] }).to_string();
    bench.bus.send(inbox, reply.into()).await.unwrap();
    let word = async || {
        let view = bench.bus.query(&acme(), &GetRequest { id }).await.unwrap();
        view.effect.filter(|effect| *effect == Effect::OnResume)
    };
    holdpoint_testkit::until(soon, "the executor's word", word)
        .await
        .unwrap();
    bench.end().await;
}
