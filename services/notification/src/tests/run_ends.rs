//! How a run ended, from the executor's word to mails, chats and webhooks (S0-T4); the executor is played.

use futures_util::StreamExt as _;
use holdpoint_contracts::executor::{self, RunEndWatched, RunEndsOf, WatchRunEnds};
use holdpoint_contracts::message::{Envelope, Reply};
use holdpoint_contracts::notification::{
    AddWebhook, Chat, DeliveryState, ListDeliveries, NotificationType, PersonalChannel,
    Preferences, PutPreferences, QuietHours, RecordRunEnds, RunEndRecorded, RunEnded, Watch,
    Watched, WebhookFormat,
};
use holdpoint_contracts::run::RunStatus;
use holdpoint_contracts::subject;
use holdpoint_ids::WebhookId;
use holdpoint_testkit::until;
use serde_json::{Value, json};

use super::bench::{Bench, PATIENCE, acme, people};
use super::servers::Called;

fn run_ended(watch: u64) -> RunEnded {
    RunEnded {
        erased: false,
        run: "run_01920000000070008000000000000001".parse().unwrap(),
        agent: "outreach".parse().unwrap(),
        status: RunStatus::Failed,
        message: "step-02 failed: the mail server refused it.".to_owned(),
        by: None,
        started_at: "2026-01-01T00:00:00Z".parse().unwrap(),
        ended_at: "2026-01-01T00:07:00Z".parse().unwrap(),
        watch,
        workspace_watch: 0,
    }
}

impl Bench {
    async fn ended(&self, end: RunEnded) -> RunEndRecorded {
        let command = Envelope::of_service(executor::SERVICE, RecordRunEnds { ends: vec![end] });
        let mut answers = self.bus.ask(&acme(), &command).await.unwrap();
        Result::from(answers.remove(0)).unwrap()
    }

    async fn follows(&self, person: &str, of: Watched) {
        let command = self.by(person, Watch { of });
        self.bus.ask(&acme(), &command).await.unwrap();
    }

    /// Answers as the executor does, with the same end for every run.
    async fn play_executor(&self, ended: Option<RunEnded>) {
        let filter = subject::commands_filter(executor::SERVICE);
        let bus = self.bus.clone();
        let mut asked = bus.client().subscribe(filter).await.unwrap();
        tokio::spawn(async move {
            while let Some(message) = asked.next().await {
                let envelope: Envelope<WatchRunEnds> =
                    serde_json::from_slice(&message.payload).unwrap();
                let answer = |of: &RunEndsOf| {
                    let ended = match of {
                        RunEndsOf::Run(_) => ended.clone().map(Box::new),
                        RunEndsOf::Agent(_) | RunEndsOf::Request(_) | RunEndsOf::All => None,
                    };
                    Reply::Ok(RunEndWatched { ended })
                };
                let answers: Vec<_> = envelope.command.of.iter().map(answer).collect();
                let body = serde_json::to_vec(&Reply::Ok(answers)).unwrap();
                let inbox = message.headers.as_ref().and_then(|it| it.get("hp-reply"));
                let Some(inbox) = inbox.map(ToString::to_string) else {
                    continue;
                };
                bus.send(inbox, body.into()).await.unwrap();
            }
        });
    }
}

/// Mend C-10: nobody watches.
async fn a_webhook_alone_is_notified(bench: &Bench, hook: &Called) {
    let other = RunEnded {
        run: "run_01920000000070008000000000000009".parse().unwrap(),
        ..run_ended(2)
    };
    assert_eq!(
        bench.ended(other).await,
        RunEndRecorded::Told,
        "by the webhook (C-10)"
    );
    let called = async || (hook.calls().len() == 1).then_some(());
    until(PATIENCE, "the webhook is called", called)
        .await
        .unwrap();
}

/// Mend C-10: a webhook that existed before the service asked for all run ends makes it ask at its start.
#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_webhook_is_reported_run_ends() {
    let bench = Bench::without_service(people(&[("ada", "admin")])).await;
    bench
        .insert_webhook("wh_01920000000070008000000000000007", "run.*")
        .await;
    let filter = subject::commands_filter(executor::SERVICE);
    let mut commands = bench.bus.client().subscribe(filter).await.unwrap();
    bench.serve().await;
    let message = until(PATIENCE, "the executor is asked", async || {
        commands.next().await
    });
    let envelope: Envelope<WatchRunEnds> =
        serde_json::from_slice(&message.await.unwrap().payload).unwrap();
    assert_eq!(envelope.command.of, [RunEndsOf::All]);
    bench.end().await;
}

/// S0-T4: by mail, by a chat of one's own and by webhooks, each under an id that stays; said again it is
/// told nobody twice.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_leaves_by_every_way_once() {
    let bench = Bench::start(people(&[("ada", "admin"), ("bob", "member")])).await;
    let (chat, hook) = (
        Called::answering(&["200 OK"]).await,
        Called::answering(&["200 OK"]).await,
    );
    let mut said = Preferences::default();
    said.channels.order = vec![PersonalChannel::Chat];
    said.channels.chat = Some(Chat {
        enabled: true,
        from: holdpoint_contracts::hold::Priority::Low,
        url: Some(chat.url("127.0.0.1")),
        format: WebhookFormat::Slack,
        secret: None,
    });
    let prefer = PutPreferences {
        person: "bob".parse().unwrap(),
        preferences: said,
    };
    let prefer = bench.by("bob", prefer);
    bench.bus.ask(&acme(), &prefer).await.unwrap();
    let id: WebhookId = "wh_01920000000070008000000000000007".parse().unwrap();
    let add = AddWebhook {
        id,
        url: hook.url("127.0.0.1"),
        events: vec!["run.*".to_owned()],
        format: WebhookFormat::Standard,
    };
    bench.bus.ask(&acme(), &bench.by("ada", add)).await.unwrap();
    a_webhook_alone_is_notified(&bench, &hook).await;
    let agent = Watched::Agent("outreach".parse().unwrap());
    bench.follows("ada", agent.clone()).await;
    bench.follows("bob", agent).await;
    bench.follows("bob", Watched::Run(run_ended(3).run)).await;
    assert_eq!(bench.ended(run_ended(3)).await, RunEndRecorded::Told);
    assert_eq!(bench.ended(run_ended(3)).await, RunEndRecorded::Known);
    for person in ["ada", "bob"] {
        let entry = bench.until_notified(person, 1).await.remove(0);
        assert_eq!(entry.kind, NotificationType::WorkflowComplete);
        assert_eq!(entry.title, "Run of outreach failed");
    }
    let mail = bench.until_mailed(1).await.remove(0);
    assert_eq!(mail.subject, "Run of outreach failed");
    let called = async || (chat.calls().len() + hook.calls().len() == 3).then_some(());
    until(PATIENCE, "both are called", called).await.unwrap();
    let call = hook.calls().remove(1);
    let body: Value = serde_json::from_str(&call.body).unwrap();
    assert_eq!(body["type"], "run.failed");
    assert_eq!(body["data"]["took_ms"], 420_000);
    assert_eq!(body["data"]["agent"], "outreach");
    let run = run_ended(3).run;
    assert_eq!(
        body["data"]["link"],
        json!(format!("https://hold.example/runs/{run}"))
    );
    let entry = bench.list("ada", false).await.remove(0);
    assert_eq!(call.header("webhook-id"), format!("msg_{}_{id}", entry.id));
    let body: Value = serde_json::from_str(&chat.calls()[0].body).unwrap();
    assert_eq!(body["text"], "Run of outreach failed");
    assert_eq!(bench.mails().len(), 1, "bob wants his chat alone");
    bench.end().await;
}

/// S0-T4: whoever follows a run that has ended is notified at once, by the answer to what is desired of the
/// executor.
#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_of_an_ended_run_is_notified_at_once() {
    let bench = Bench::start(people(&[("ada", "member")])).await;
    bench.play_executor(Some(run_ended(0))).await;
    bench.until_known("ada").await;
    bench.follows("ada", Watched::Run(run_ended(0).run)).await;
    let entry = bench.until_notified("ada", 1).await.remove(0);
    assert_eq!(entry.title, "Run of outreach failed");
    assert_eq!(bench.until_mailed(1).await.len(), 1);
    bench.end().await;
}

/// S0-T4: whoever may not look at runs any more is notified nothing, also not what has waited for the end of
/// their quiet hours.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_roles_gets_no_waiting_delivery() {
    let bench = Bench::start(people(&[("ada", "viewer")])).await;
    bench.until_known("ada").await;
    let said = Preferences {
        quiet_hours: Some(QuietHours {
            from: "23:00".to_owned(),
            to: "06:00".to_owned(),
            days: Vec::new(),
        }),
        ..Preferences::default()
    };
    let prefer = PutPreferences {
        person: "ada".parse().unwrap(),
        preferences: said,
    };
    let prefer = bench.by("ada", prefer);
    bench.bus.ask(&acme(), &prefer).await.unwrap();
    let agent = Watched::Agent("outreach".parse().unwrap());
    bench.follows("ada", agent).await;
    assert_eq!(bench.ended(run_ended(1)).await, RunEndRecorded::Told);
    let entry = bench.until_notified("ada", 1).await.remove(0);
    bench.now_is("ada", &[]).await;
    bench.later(chrono::TimeDelta::hours(7));
    let query = ListDeliveries {
        request: entry.id.hold,
        limit: 9,
        cursor: None,
    };
    let dropped = async || {
        let mut found = bench.bus.query(&acme(), &query).await.unwrap().items;
        let one = found.pop()?;
        (one.state != DeliveryState::Pending).then_some(one)
    };
    let one = until(PATIENCE, "it is decided whether it goes", dropped);
    assert_eq!(one.await.unwrap().state, DeliveryState::Dropped);
    assert_eq!(bench.mails().len(), 0);
    bench.end().await;
}

/// What has not ended is refused.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_ended_is_no_end() {
    let bench = Bench::start(people(&[("ada", "member")])).await;
    let live = RunEnded {
        status: RunStatus::Running,
        ..run_ended(1)
    };
    let command = Envelope::of_service(executor::SERVICE, RecordRunEnds { ends: vec![live] });
    let problem = bench.bus.ask(&acme(), &command).await.unwrap_err();
    assert_eq!(problem.status, 422);
    assert!(problem.detail.contains("`running`"), "{problem}");
    bench.end().await;
}
