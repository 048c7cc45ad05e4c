//! A step searches for contacts of its workspace.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::TimeDelta;
use holdpoint_auth::{Keys, Secrets, StepClaims};
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::contact::TagChange;
use holdpoint_contracts::executor::{
    ApplyAgent, CancelRun, GetContact, PatchContact, PutContact, SearchContacts, StartRun,
};
use holdpoint_contracts::message::{Envelope, IdempotencyKey};
use holdpoint_contracts::problem::Problem;
use holdpoint_ids::{RunId, Workspace};
use holdpoint_kernel::{Deps, RETENTION_DEFAULT};
use holdpoint_store::Location;
use holdpoint_testkit::NatsProcess;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A service with contacts, and a step that waits for a worker.
struct Searched {
    bus: Bus,
    keys: Keys,
    run: RunId,
}

impl Searched {
    async fn start(bus: &Bus, keys: &Keys) -> Self {
        for (workspace, contact) in [("acme", "ann"), ("acme", "bob"), ("umbrella", "eve")] {
            let fields = json!({ "stage": "won" });
            let put = PutContact {
                contact: contact.parse().unwrap(),
                fields: fields.as_object().unwrap().clone(),
                merge: false,
                silent: false,
            };
            let put = Envelope::of_service("test", put);
            bus.ask(&workspace.parse().unwrap(), &put).await.unwrap();
        }
        let acme = "acme".parse().unwrap();
        let steps = json!([{ "tool": "search_contacts", "args": { "tag": "vip" } }]);
        let apply = ApplyAgent {
            agent: "finder".parse().unwrap(),
            text: json!({ "agent": "finder", "steps": steps }).to_string(),
        };
        let apply = Envelope::of_service("test", apply);
        bus.ask(&acme, &apply).await.unwrap();
        let run = RunId::fresh();
        let start = StartRun {
            run,
            agent: "finder".parse().unwrap(),
            input: json!({}),
            contact: None,
            labels: BTreeMap::new(),
        };
        let start = Envelope::of_service("test", start);
        bus.ask(&acme, &start).await.unwrap();
        Self {
            bus: bus.clone(),
            keys: keys.clone(),
            run,
        }
    }

    fn claims(&self) -> StepClaims {
        StepClaims {
            workspace: "acme".parse().unwrap(),
            run: self.run,
            step: "step-01".to_owned(),
            dispatch: 1,
            expires_at: Clock::system().now() + TimeDelta::minutes(5),
        }
    }

    /// The ids that are found in a workspace, and the cursor.
    async fn search(
        &self,
        workspace: &str,
        claims: &StepClaims,
        change: Value,
    ) -> Result<Value, Problem> {
        let token = self.keys.steps.sign(claims).unwrap();
        let mut query = json!({ "token": token, "fields": { "stage": "won" }, "limit": 100 });
        let fields = query.as_object_mut().unwrap();
        fields.extend(change.as_object().unwrap().clone());
        let query: SearchContacts = serde_json::from_value(query).unwrap();
        let workspace: Workspace = workspace.parse().unwrap();
        let page = self.bus.query(&workspace, &query).await?;
        let ids: Vec<_> = page.items.iter().map(|contact| &contact.id).collect();
        Ok(json!([ids, page.next_cursor]))
    }

    /// A token of another workspace, run, step or dispatch, or an old one, finds nothing.
    async fn refuse_others(&self, own: &StepClaims) {
        let umbrella: Workspace = "umbrella".parse().unwrap();
        let others = [
            ("umbrella", own.clone()),
            (
                "umbrella",
                StepClaims {
                    workspace: umbrella.clone(),
                    ..own.clone()
                },
            ),
            (
                "acme",
                StepClaims {
                    workspace: umbrella,
                    ..own.clone()
                },
            ),
            (
                "acme",
                StepClaims {
                    run: RunId::fresh(),
                    ..own.clone()
                },
            ),
            (
                "acme",
                StepClaims {
                    step: "step-02".to_owned(),
                    ..own.clone()
                },
            ),
            (
                "acme",
                StepClaims {
                    dispatch: 2,
                    ..own.clone()
                },
            ),
            (
                "acme",
                StepClaims {
                    expires_at: own.expires_at - TimeDelta::hours(1),
                    ..own.clone()
                },
            ),
        ];
        for (workspace, claims) in others {
            let refused = self.search(workspace, &claims, json!({})).await;
            assert_eq!(refused.unwrap_err().status, 401, "{workspace} {claims:?}");
        }
    }
}

/// Words 5: a repeated change of tags is not applied again, whatever has changed since.
async fn change_tags_twice(bus: &Bus) {
    let acme = "acme".parse().unwrap();
    let add = |key: &str, tags: TagChange| {
        let command = PatchContact {
            contact: "ann".parse().unwrap(),
            patch: Map::new(),
            tags,
        };
        let key = Some(IdempotencyKey {
            key: key.to_owned(),
            digest: key.to_owned(),
        });
        Envelope {
            key,
            ..Envelope::of_service("worker", command)
        }
    };
    let vip = || vec!["vip".to_owned()];
    let first = TagChange {
        add: vip(),
        ..TagChange::default()
    };
    let removal = TagChange {
        remove: vip(),
        ..TagChange::default()
    };
    for (key, tags, expected) in [
        ("one", first.clone(), json!(["vip"])),
        ("same", first.clone(), json!(["vip"])),
        ("two", removal, json!([])),
        ("one", first.clone(), json!(["vip"])),
        ("same", first, json!(["vip"])),
    ] {
        let reply = bus.ask(&acme, &add(key, tags)).await.unwrap();
        assert_eq!(reply.fields["tags"], expected, "{key}");
    }
    let contact = "ann".parse().unwrap();
    let ann = bus.query(&acme, &GetContact { contact }).await.unwrap();
    assert_eq!(ann.fields["tags"], json!([]));
}

/// Words 5: the token of a step finds contacts of its workspace, and none once the step has ended.
#[tokio::test]
async fn a_step_finds_contacts_of_its_workspace_only() {
    let nats = NatsProcess::start("").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bus = Bus::connect(&nats.url, "test").await.unwrap();
    let keys = Secrets::fresh().unwrap().keys().unwrap();
    let deps = Deps {
        bus: bus.clone(),
        clock: Clock::system(),
        store: Location::Sqlite(folder.path().join("executor.db")),
        keys: keys.clone(),
        kept_for: RETENTION_DEFAULT,
    };
    let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
    drop(
        crate::start(&deps, None, stop.clone(), &tracker)
            .await
            .unwrap(),
    );
    let searched = Searched::start(&bus, &keys).await;
    let own = searched.claims();
    let all = json!([["ann", "bob"], null]);
    assert_eq!(searched.search("acme", &own, json!({})).await, Ok(all));
    let first = searched.search("acme", &own, json!({ "limit": 1 })).await;
    assert_eq!(first, Ok(json!([["ann"], "ann"])));
    let next = json!({ "limit": 1, "cursor": "ann" });
    let next = searched.search("acme", &own, next).await;
    assert_eq!(next, Ok(json!([["bob"], null])));
    let refused = searched.search("acme", &own, json!({ "limit": 101 })).await;
    assert_eq!(refused.unwrap_err().status, 422);

    searched.refuse_others(&own).await;
    change_tags_twice(&bus).await;
    let cancel = CancelRun {
        run: searched.run,
        reason: None,
    };
    let cancel = Envelope::of_service("test", cancel);
    bus.ask(&own.workspace, &cancel).await.unwrap();
    let refused = searched.search("acme", &own, json!({})).await;
    assert_eq!(refused.unwrap_err().status, 401);
    stop.cancel();
    tracker.close();
    let ended = tokio::time::timeout(Duration::from_secs(30), tracker.wait());
    ended.await.unwrap();
}
