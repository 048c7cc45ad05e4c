//! The service on a real bus and real tables, and a handoff service that knows some users.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::StreamExt;
use holdpoint_auth::{Claims, Secrets};
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::handoff::{self, ListUserChanges, UserChange, UserView};
use holdpoint_contracts::message::{self, Actor, Envelope, Reply};
use holdpoint_contracts::notification::{
    EventRecorded, ListNotifications, NotificationView, RecordRequestEvents, RequestEvent,
};
use holdpoint_contracts::subject;
use holdpoint_egress::EgressPolicy;
use holdpoint_ids::Workspace;
use holdpoint_kernel::{Deps, RETENTION_DEFAULT};
use holdpoint_mail::{Mail, MailTransport, Mailer};
use holdpoint_migrations::notification::Migrator;
use holdpoint_store::{Location, begin_write, migrate, open_readers, open_writer};
use holdpoint_testkit::{TestNats, nats, until};
use holdpoint_user_directory::table;
use sea_orm::{ConnectionTrait as _, EntityTrait, PaginatorTrait};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{Outside, PublicUrl};

pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn acme() -> Workspace {
    "acme".parse().unwrap()
}

/// Variables that make a test process serve.
const URL: &str = "HOLDPOINT_TEST_NOTIFICATION_URL";
const FOLDER: &str = "HOLDPOINT_TEST_NOTIFICATION_FOLDER";

fn store_in(folder: &Path) -> Location {
    Location::Sqlite(folder.join("notification.db"))
}

/// Serves until it is killed, where the process was started for that.
pub(super) async fn serve_as_child() {
    let (Ok(url), Ok(folder)) = (std::env::var(URL), std::env::var(FOLDER)) else {
        return;
    };
    let deps = Deps {
        bus: Bus::connect(&url, "child").await.unwrap(),
        clock: Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap()),
        store: store_in(Path::new(&folder)),
        keys: Secrets::fresh().unwrap().keys().unwrap(),
        kept_for: RETENTION_DEFAULT,
    };
    let tracker = TaskTracker::new();
    crate::start(
        &deps,
        outside(dead_server(), EgressPolicy::AllowPrivate),
        CancellationToken::new(),
        &tracker,
    )
    .await
    .unwrap();
    std::future::pending::<()>().await;
}

/// A mail server that nobody is at.
fn dead_server() -> MailTransport {
    MailTransport::from_env(Some("smtp://127.0.0.1:1"), "unused").unwrap()
}

fn outside(transport: MailTransport, targets: EgressPolicy) -> Outside {
    drop(rustls::crypto::ring::default_provider().install_default());
    Outside {
        mailer: Mailer::new(transport, None).unwrap(),
        targets,
        public_url: PublicUrl::of(Some("https://hold.example/".to_owned())),
    }
}

/// Active users with one role each.
pub(super) fn people(all: &[(&str, &str)]) -> Vec<UserChange> {
    let fact = |(seq, (name, role)): (u64, &(&str, &str))| UserChange {
        seq,
        workspace: acme(),
        user: UserView {
            name: name.parse().unwrap(),
            email: Some(format!("{name}@acme.example")),
            roles: vec![role.parse().unwrap()],
            active: true,
            version: 1,
        },
    };
    (1..).zip(all).map(fact).collect()
}

pub(super) struct Bench {
    nats: TestNats,
    folder: tempfile::TempDir,
    pub(super) bus: Bus,
    secrets: Secrets,
    pub(super) clock: Clock,
    pub(super) smtp: Option<String>,
    pub(super) targets: EgressPolicy,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Bench {
    pub(super) async fn start(users: Vec<UserChange>) -> Self {
        let bench = Self::without_service(users).await;
        bench.serve().await;
        bench
    }

    /// The service is to be started by the test.
    pub(super) async fn without_service(users: Vec<UserChange>) -> Self {
        Self::with_deaf_handoff(users, 0).await
    }

    /// The same, with a handoff service that does not answer the first questions for users.
    pub(super) async fn with_deaf_handoff(users: Vec<UserChange>, deaf: usize) -> Self {
        let nats = nats().await.unwrap();
        let bench = Self {
            bus: Bus::connect(&nats.url, "test").await.unwrap(),
            nats,
            folder: tempfile::tempdir().unwrap(),
            secrets: Secrets::fresh().unwrap(),
            clock: Clock::standing_at("2026-01-01T00:00:00Z".parse().unwrap()),
            smtp: None,
            targets: EgressPolicy::AllowPrivate,
            stop: CancellationToken::new(),
            tracker: TaskTracker::new(),
        };
        play(&bench.bus, users, deaf).await;
        bench
    }

    fn mails_folder(&self) -> PathBuf {
        self.folder.path().join("mails")
    }

    /// Mails that were kept.
    pub(super) fn mails(&self) -> Vec<Mail> {
        holdpoint_mail::list(&self.mails_folder()).unwrap()
    }

    pub(super) fn raw_mail(&self, file: &str) -> String {
        std::fs::read_to_string(self.mails_folder().join("new").join(file)).unwrap()
    }

    /// Time goes on by that much.
    pub(super) fn later(&self, by: TimeDelta) {
        self.clock.move_to(self.clock.now() + by).unwrap();
    }

    pub(super) async fn until_mailed(&self, count: usize) -> Vec<Mail> {
        let mailed = async || Some(self.mails()).filter(|mails| mails.len() == count);
        until(PATIENCE, "mails are there", mailed).await.unwrap()
    }

    fn store(&self) -> Location {
        store_in(self.folder.path())
    }

    /// Starts the service in this process.
    pub(super) async fn serve(&self) {
        let deps = Deps {
            bus: self.bus.clone(),
            clock: self.clock.clone(),
            store: self.store(),
            keys: self.secrets.keys().unwrap(),
            kept_for: RETENTION_DEFAULT,
        };
        let transport = match &self.smtp {
            Some(url) => MailTransport::from_env(Some(url), "unused").unwrap(),
            None => MailTransport::Maildir(self.mails_folder()),
        };
        crate::start(
            &deps,
            outside(transport, self.targets),
            self.stop.clone(),
            &self.tracker,
        )
        .await
        .unwrap();
    }

    /// Starts the service in a process of its own, which may be notified where to die.
    pub(super) fn child(&self, crash: Option<&str>) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "tests::served_in_a_process_of_its_own"])
            .env(URL, &self.nats.url)
            .env(FOLDER, self.folder.path());
        if let Some(crash) = crash {
            command.env("HOLDPOINT_CRASH", crash);
        }
        command.stdout(Stdio::null()).spawn().unwrap()
    }

    pub(super) async fn end(self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// A command that the gateway vouches for.
    pub(super) fn by<C: message::Command>(&self, name: &str, command: C) -> Envelope<C> {
        self.by_role(name, &["admin"], command)
    }

    pub(super) fn by_role<C: message::Command>(
        &self,
        name: &str,
        roles: &[&str],
        command: C,
    ) -> Envelope<C> {
        let claims = Claims {
            workspace: acme(),
            user: name.parse().unwrap(),
            roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
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

    /// The handoff service says what happened.
    pub(super) async fn note(&self, facts: Vec<RequestEvent>) -> Vec<Reply<EventRecorded>> {
        let command = Envelope::of_service(handoff::SERVICE, RecordRequestEvents { facts });
        self.bus.ask(&acme(), &command).await.unwrap()
    }

    pub(super) async fn list(&self, person: &str, unread: bool) -> Vec<NotificationView> {
        let query = ListNotifications {
            person: person.parse().unwrap(),
            unread,
            limit: 100,
            cursor: None,
        };
        self.bus.query(&acme(), &query).await.unwrap().items
    }

    pub(super) async fn until_notified(&self, person: &str, count: usize) -> Vec<NotificationView> {
        let notified = async || {
            let list = self.list(person, false).await;
            (list.len() == count).then_some(list)
        };
        until(PATIENCE, "a user is notified", notified)
            .await
            .unwrap()
    }

    /// The user directory contains a user.
    pub(super) async fn until_known(&self, person: &str) {
        let db = open_readers(&self.store(), 1).await.unwrap();
        let name = person.parse().unwrap();
        // The tables may not be there yet.
        let known = async || table::find(&db, &acme(), &name).await.ok().flatten();
        until(PATIENCE, "the users are known", known).await.unwrap();
    }

    /// Changes the roles of a user in the user directory.
    pub(super) async fn now_is(&self, person: &str, roles: &[&str]) {
        let mut facts = people(&[(person, "member")]);
        facts[0].user.roles = roles.iter().map(|role| role.parse().unwrap()).collect();
        facts[0].user.version = 2;
        let db = open_writer(&self.store()).await.unwrap();
        let tx = begin_write(&db).await.unwrap();
        table::apply(&tx, &facts).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// A webhook that an earlier version of the service has stored.
    pub(super) async fn insert_webhook(&self, id: &str, events: &str) {
        migrate::<Migrator>(&self.store()).await.unwrap();
        let db = open_writer(&self.store()).await.unwrap();
        let at = "2026-01-01T00:00:00+00:00";
        let sql = format!(
            "INSERT INTO webhooks (workspace, id, url, events, format, secret, status, created_by, created_at, \
             configured_version, version, prior_version, updated_at) VALUES ('acme', '{id}', 'http://127.0.0.1:1/', '[\"{events}\"]', \
             'standard', 'whsec_AAAA', 'active', 'ada', '{at}', 1, 1, 0, '{at}')"
        );
        db.execute_unprepared(&sql).await.unwrap();
        db.close().await.unwrap();
    }

    pub(super) async fn entries(&self) -> u64 {
        let db = open_readers(&self.store(), 1).await.unwrap();
        let entries = crate::store::tests::InboxEntries::find();
        entries.count(&db).await.unwrap()
    }
}

/// Answers for the users as the handoff service does.
async fn play(bus: &Bus, users: Vec<UserChange>, deaf: usize) {
    let (bus, users) = (bus.clone(), Arc::new(users));
    let filter = subject::queries_filter(handoff::SERVICE);
    let mut asked = bus.client().subscribe(filter).await.unwrap().skip(deaf);
    tokio::spawn(async move {
        while let Some(message) = asked.next().await {
            let query: ListUserChanges = serde_json::from_slice(&message.payload).unwrap();
            let limit = usize::try_from(query.limit).unwrap();
            let later = users.iter().filter(|fact| fact.seq > query.after);
            let page: Vec<_> = later.take(limit).cloned().collect();
            let body = serde_json::to_vec(&Reply::Ok(page)).unwrap();
            let reply = message.reply.unwrap().to_string();
            bus.send(reply, body.into()).await.unwrap();
        }
    });
}
