//! One suite for both databases: SQLite always, Postgres where there is one.

mod drift;
mod golden;
mod inboxes;
mod retention;
mod standing_approvals;
mod unreadable;
mod user_changes;
mod votes;

use std::collections::BTreeSet;

use chrono::TimeDelta;
use holdpoint_auth::Secrets;
use holdpoint_clock::Clock;
use holdpoint_contracts::handoff::RequestStatus;
use holdpoint_contracts::hold::{HoldSpec, OnTimeout, Priority};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, RunId};
use holdpoint_kernel::Sweep as _;
use holdpoint_store::{Location, Transaction, begin_write, migrate, open_writer};
use holdpoint_testkit::Plans;
use sea_orm::DatabaseConnection;

use super::*;
use crate::domain::{Input, Owner, Phase, Recipient, Request, Timer, User};
use crate::sweeps::Reassignment;
use user_changes::user_changes_are_numbered;

async fn sqlite() -> (tempfile::TempDir, DatabaseConnection) {
    let dir = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(dir.path().join("handoff.db"));
    (dir, prepared(&location).await)
}

async fn prepared(location: &Location) -> DatabaseConnection {
    migrate::<holdpoint_migrations::handoff::Migrator>(location)
        .await
        .unwrap();
    open_writer(location).await.unwrap()
}

/// The whole suite, each test in a separate schema.
#[tokio::test]
async fn postgres_behaves_as_sqlite_does() {
    let Some(postgres) = holdpoint_testkit::postgres().await.unwrap() else {
        return;
    };
    let location = |schema: &str| Location::Postgres {
        url: postgres.url.clone(),
        schema: schema.to_owned(),
    };
    comes_back(&prepared(&location("comes_back")).await).await;
    one_winner(&prepared(&location("one_winner")).await).await;
    lists(&prepared(&location("lists")).await).await;
    users_are_found(&prepared(&location("users")).await).await;
    inboxes::inboxes(&prepared(&location("inboxes")).await).await;
    the_most_urgent_request_comes_first(&prepared(&location("urgency")).await).await;
    votes::inboxes(&prepared(&location("votes")).await).await;
    standing_approvals::are_counted(&prepared(&location("standing")).await).await;
    user_changes_are_numbered(&prepared(&location("user_changes")).await).await;
    drift::columns(&prepared(&location("columns")).await).await;
    retention::unasked_requests_go(&prepared(&location("retention")).await).await;
    let one = prepared(&location("owners")).await;
    let other = prepared(&location("owners")).await;
    two_replicas(&one, &other).await;
}

/// The sweep searches for leaving users twice a second, so the query must use an index.
#[tokio::test]
async fn leaving_users_are_found_by_an_index() {
    let (_dir, db) = sqlite().await;
    let plans = Plans::of(&db);
    find_leaving(&plans, None).await.unwrap();
    assert_eq!(plans.whole_tables(), Vec::<String>::new());
}

#[tokio::test]
async fn every_aggregate_comes_back_as_it_was_saved() {
    let (_dir, db) = sqlite().await;
    comes_back(&db).await;
}

/// STYLE, store conformance: a guarded update has one winner.
#[tokio::test]
async fn one_of_two_writers_of_a_row_wins_and_the_other_is_reported() {
    let (_dir, db) = sqlite().await;
    one_winner(&db).await;
}

/// API `GET /requests`
#[tokio::test]
async fn lists_have_an_order_filters_a_limit_and_one_workspace() {
    let (_dir, db) = sqlite().await;
    lists(&db).await;
}

/// S0-R1, API `GET /requests?assignee=`
#[tokio::test]
async fn requests_are_found_by_assignee_and_users_by_role() {
    let (_dir, db) = sqlite().await;
    users_are_found(&db).await;
}

#[tokio::test]
async fn user_changes_are_numbered_without_gaps() {
    let (_dir, db) = sqlite().await;
    user_changes_are_numbered(&db).await;
}

#[tokio::test]
async fn an_inbox_has_the_requests_of_a_user_in_order_of_urgency() {
    let (_dir, db) = sqlite().await;
    inboxes::inboxes(&db).await;
    let (_dir, db) = sqlite().await;
    the_most_urgent_request_comes_first(&db).await;
}

/// Mend B-12: requests that cannot be reassigned are skipped for a round, and the sweep goes on to the next user.
/// No input is decided here, as if no row could be read.
#[tokio::test]
async fn a_user_whose_requests_stay_does_not_delay_the_next_one() {
    let (_dir, db) = sqlite().await;
    let mut states = vec![(Aggregate::User(user("olga", &["owner"])), 0)];
    for (number, name) in [(1, "ada"), (2, "bob")] {
        let mut leaves = user(name, &["member"]);
        (leaves.active, leaves.is_leaving) = (false, true);
        states.push((Aggregate::User(leaves), 0));
        let mut theirs = request("acme", number, Phase::Open { deadline: None });
        let spec = theirs.spec.as_mut().unwrap();
        spec.to = vec![format!("@user.{name}")];
        states.push((Aggregate::Request(Box::new(theirs)), 0));
    }
    assert_eq!(save_all(&db, &states).await, []);
    let mut sweep = Reassignment::default();
    let mut found = Vec::new();
    for _page in 0..10 {
        let page = sweep.page(&db).await.unwrap();
        found.extend(page.inputs.iter().filter_map(|input| match input {
            Input::Request { id, .. } => Some(id.number),
            Input::User { .. }
            | Input::Policy { .. }
            | Input::StandingApproval { .. }
            | Input::DeleteExpired { .. } => None,
        }));
        if !page.more {
            break;
        }
    }
    assert_eq!(found, [1, 2], "each once, and the round ends");
}

/// STYLE, store conformance: migrations equal entities.
#[tokio::test]
async fn the_migrated_columns_are_those_of_the_entities() {
    let (_dir, db) = sqlite().await;
    drift::columns(&db).await;
}

fn now() -> DateTime<Utc> {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn acme() -> Workspace {
    "acme".parse().unwrap()
}

fn request(workspace: &str, number: u32, phase: Phase) -> Request {
    Request {
        erased_at: None,
        workspace: workspace.parse().unwrap(),
        id: HoldId {
            run: RunId::from_uuid("0193aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee".parse().unwrap()),
            number,
        },
        version: 1,
        visible_version: 1,
        owner: Some(Owner::Executor),
        rev: 3,
        spec: Some(HoldSpec {
            step: Some("step-01".to_owned()),
            to: vec!["@user.ada".to_owned()],
            on_timeout: OnTimeout::Escalate,
            ..HoldSpec::asking(HoldKind::Input, "Did it happen?")
        }),
        phase,
        escalated_at: Some(now()),
        timer: Timer::default(),
        closed_rev: None,
        effect: Some(holdpoint_contracts::handoff::Effect::OnResume),
        late: Vec::new(),
        earlier_openers: Vec::new(),
        timeout_ms: 0,
        opened_by: None,
        progress: crate::domain::RequestProgress::default(),
        created_at: now() + TimeDelta::milliseconds(i64::from(number / 2)),
    }
}

fn open() -> Phase {
    Phase::Open {
        deadline: Some(now()),
    }
}

fn user(name: &str, roles: &[&str]) -> User {
    User {
        workspace: acme(),
        name: name.parse().unwrap(),
        email: None,
        roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
        active: true,
        version: 1,
        is_leaving: false,
        left_roles: BTreeSet::new(),
    }
}

fn handoff() -> Handoff {
    let keys = Secrets::fresh().unwrap().keys().unwrap();
    Handoff::new(keys.trust, Clock::system())
}

async fn save_in(db: &Transaction, states: &[(Aggregate, u64)]) -> Vec<Key> {
    let keys: Vec<Key> = states.iter().map(|(state, _)| state.key()).collect();
    let changed: Vec<_> = states
        .iter()
        .zip(&keys)
        .map(|((state, read_version), key)| Changed {
            key,
            state,
            read_version: *read_version,
        })
        .collect();
    handoff().save(db, &changed, now()).await.unwrap()
}

async fn save_all(db: &DatabaseConnection, states: &[(Aggregate, u64)]) -> Vec<Key> {
    let tx = begin_write(db).await.unwrap();
    let losers = save_in(&tx, states).await;
    tx.commit().await.unwrap();
    losers
}

fn boxed(request: Request) -> Aggregate {
    Aggregate::Request(Box::new(request))
}

async fn comes_back(db: &DatabaseConnection) {
    let states = [
        boxed(request("acme", 1, open())),
        Aggregate::User(user("ada", &["owner", "ops"])),
    ];
    assert_eq!(save_all(db, &states.clone().map(|one| (one, 0))).await, []);
    let tx = begin_write(db).await.unwrap();
    let unknown = Key::User(acme(), "nobody".parse().unwrap());
    let keys = [states[0].key(), states[1].key(), unknown];
    let found = handoff().load(&tx, &keys).await.unwrap();
    let expected = states.map(|one| (one.key(), one));
    assert_eq!(found, expected);
    let empty: Workspace = "empty".parse().unwrap();
    let needs = [
        Need::Owners(acme()),
        Need::Members(acme()),
        Need::Members(empty.clone()),
    ];
    let facts = handoff().find(&tx, &needs).await.unwrap();
    let owners = std::iter::once("ada".parse().unwrap()).collect();
    assert!(facts.contains(&(Need::Owners(acme()), Fact::Owners(owners))));
    assert!(facts.contains(&(Need::Members(acme()), Fact::Members(true))));
    assert!(facts.contains(&(Need::Members(empty), Fact::Members(false))));
}

async fn one_winner(db: &DatabaseConnection) {
    let first = boxed(request("acme", 1, open()));
    assert_eq!(save_all(db, &[(first.clone(), 0)]).await, []);
    let decided = |version: u64| {
        let mut next = request("acme", 1, Phase::TimedOut { at: now() });
        next.version = version;
        boxed(next)
    };
    assert_eq!(save_all(db, &[(decided(2), 1)]).await, []);
    assert_eq!(save_all(db, &[(decided(2), 1)]).await, [first.key()]);
    assert_eq!(save_all(db, &[(first.clone(), 0)]).await, [first.key()]);
    let found = list_requests(db, &filter(&acme())).await.unwrap();
    assert_eq!(found[0].version, 2);
}

fn filter(workspace: &Workspace) -> Filter<'_> {
    Filter {
        workspace,
        status: None,
        kind: None,
        run: None,
        priority: None,
        assignee: None,
        snoozed: None,
        asks: false,
        order: Order::Newest { after: None },
        limit: 100,
    }
}

async fn lists(db: &DatabaseConnection) {
    let mut tombstone = request(
        "acme",
        9,
        Phase::Withdrawn {
            reason: String::new(),
            by: None,
            at: now(),
        },
    );
    tombstone.spec = None;
    let states: Vec<_> = (1..=5)
        .map(|number| request("acme", number, open()))
        .chain([
            request("acme", 6, Phase::TimedOut { at: now() }),
            request("other", 7, open()),
            tombstone,
        ])
        .map(|one| (boxed(one), 0))
        .collect();
    assert_eq!(save_all(db, &states).await, []);
    let acme = acme();
    let numbers = |found: Vec<Request>| found.iter().map(|one| one.id.number).collect::<Vec<_>>();
    let all = list_requests(db, &filter(&acme)).await.unwrap();
    // Of two requests of one instant, the greater id comes first.
    assert_eq!(numbers(all.clone()), [6, 5, 4, 3, 2, 1]);
    let mut pages = Vec::new();
    let mut after = None;
    loop {
        let page = Filter {
            order: Order::Newest { after },
            limit: 2,
            ..filter(&acme)
        };
        let found = list_requests(db, &page).await.unwrap();
        let Some(last) = found.last() else { break };
        after = Some(RequestCursor {
            created_at: last.created_at,
            id: last.id,
        });
        pages.extend(numbers(found));
    }
    assert_eq!(pages, numbers(all));
    let open = Filter {
        status: Some(RequestStatus::Open),
        kind: Some(HoldKind::Input),
        run: Some(states_run()),
        limit: 1,
        ..filter(&acme)
    };
    assert_eq!(numbers(list_requests(db, &open).await.unwrap()), [5]);
    let none = Filter {
        kind: Some(HoldKind::Approval),
        ..filter(&acme)
    };
    assert!(list_requests(db, &none).await.unwrap().is_empty());
}

async fn users_are_found(db: &DatabaseConnection) {
    let (ada, mut bob, carl) = (
        user("ada", &["ops"]),
        user("bob", &["ops"]),
        user("carl", &["op_s"]),
    );
    bob.active = false;
    bob.is_leaving = true;
    let put = |number: u32, to: &str, assignee: Option<&User>, kind: HoldKind| {
        let mut one = request("acme", number, open());
        let spec = one.spec.as_mut().unwrap();
        spec.to = vec![to.to_owned()];
        spec.kind = kind;
        one.progress.assignee = assignee.map(|user| user.name.clone());
        (boxed(one), 0)
    };
    let mut states = vec![
        put(1, "@role.ops", None, HoldKind::Input),
        put(2, "@role.ops", Some(&bob), HoldKind::Handoff),
        put(3, "@role.op_s", None, HoldKind::Input),
        put(4, "@user.bob", None, HoldKind::Input),
        put(5, "@role.ops", Some(&bob), HoldKind::Handoff),
    ];
    // A workspace without an owner saves no user.
    let olga = user("olga", &["owner"]);
    states.extend([&ada, &bob, &carl, &olga].map(|one| (Aggregate::User(one.clone()), 0)));
    assert_eq!(save_all(db, &states).await, []);
    let acme = acme();
    let of = async |user: &User| {
        let wanted = Filter {
            assignee: Some(user),
            ..filter(&acme)
        };
        let found = list_requests(db, &wanted).await.unwrap();
        found.iter().map(|one| one.id.number).collect::<Vec<_>>()
    };
    assert_eq!(of(&ada).await, [1]);
    assert_eq!(of(&bob).await, [5, 4, 2, 1]);
    assert_eq!(of(&carl).await, [3], "`_` is itself");
    let offered = Filter {
        status: Some(RequestStatus::Offered),
        ..filter(&acme)
    };
    assert_eq!(list_requests(db, &offered).await.unwrap().len(), 2);
    assert_eq!(find_leaving(db, None).await.unwrap().as_ref(), Some(&bob));
    let theirs = async |gone: Recipient, after: Option<HoldId>| {
        let theirs = list_requests_of(db, &acme, &gone, (after, 10))
            .await
            .unwrap();
        theirs.iter().map(|id| id.number).collect::<Vec<_>>()
    };
    let of_bob = Recipient::User(bob.name.clone());
    assert_eq!(theirs(of_bob.clone(), None).await, [2, 4, 5]);
    let second = list_requests(db, &filter(&acme)).await.unwrap()[3].id;
    assert_eq!(theirs(of_bob, Some(second)).await, [4, 5], "{second}");
    let namesake = Recipient::User("Bob".parse().unwrap());
    assert_eq!(theirs(namesake, None).await, [0; 0], "`B` is not `b`");
    let ops = Recipient::Role("ops".parse().unwrap());
    assert_eq!(
        theirs(ops, None).await,
        [1],
        "a request with an assignee stays"
    );
    members_and_loads_are_found(db, (ada, bob)).await;
}

async fn members_and_loads_are_found(db: &DatabaseConnection, (ada, bob): (User, User)) {
    let tx = begin_write(db).await.unwrap();
    let role = Need::Role(acme(), "ops".parse().unwrap());
    let loads = Need::Loads(acme());
    let found = handoff()
        .find(&tx, &[role.clone(), loads.clone()])
        .await
        .unwrap();
    let members = Fact::Role([ada.name].into_iter().collect());
    let counts = Fact::Loads([(bob.name, 2)].into_iter().collect());
    assert_eq!(found, [(role, members), (loads, counts)]);
}

/// People 8, the inbox: priority, then deadline, then age.
async fn the_most_urgent_request_comes_first(db: &DatabaseConnection) {
    let put = |number: u32, priority: Priority, hours: Option<i64>| {
        let deadline = hours.map(|hours| now() + TimeDelta::hours(hours));
        let mut one = request("acme", number, Phase::Open { deadline });
        one.spec.as_mut().unwrap().priority = priority;
        (boxed(one), 0)
    };
    let states = [
        put(9, Priority::Low, Some(1)),
        put(2, Priority::Normal, None),
        put(1, Priority::Normal, None),
        put(3, Priority::Normal, Some(5)),
        put(5, Priority::Critical, Some(9)),
    ];
    assert_eq!(save_all(db, &states).await, []);
    let acme = acme();
    let page = async |skip: u64, limit: u64| {
        let wanted = Filter {
            order: Order::Urgency { skip },
            limit,
            ..filter(&acme)
        };
        let found = list_requests(db, &wanted).await.unwrap();
        found.iter().map(|one| one.id.number).collect::<Vec<_>>()
    };
    assert_eq!(page(0, 100).await, [5, 3, 1, 2, 9]);
    assert_eq!(
        (page(0, 2).await, page(2, 2).await),
        (vec![5, 3], vec![1, 2])
    );
}

fn states_run() -> RunId {
    request("acme", 1, open()).id.run
}

/// Each replica disables one of two owners after it has read the other one. The second one loses.
async fn two_replicas(one: &DatabaseConnection, other: &DatabaseConnection) {
    let states = ["ada", "bob"].map(|name| (Aggregate::User(user(name, &["owner"])), 0));
    assert_eq!(save_all(one, &states).await, []);
    let disabled = |name: &str| {
        let mut user = user(name, &["owner"]);
        (user.active, user.version) = (false, 2);
        [(Aggregate::User(user), 1)]
    };
    let first = begin_write(one).await.unwrap();
    assert_eq!(save_in(&first, &disabled("ada")).await, []);
    let (ours, second) = (disabled("bob"), begin_write(other).await.unwrap());
    let waiting = save_in(&second, &ours);
    let commit = async { first.commit().await.unwrap() };
    let (lost, ()) = tokio::join!(waiting, commit);
    assert_eq!(lost, [ours[0].0.key()]);
}
