//! Ends of runs as rows, and what they do to what is watched.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::notification::{ContactEvent, ContactEventKind, RunEnded, Watched};
use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::{RunId, UserName, Workspace};
use holdpoint_store::{StateRow as _, begin_write};
use sea_orm::{DatabaseConnection, EntityTrait as _, PaginatorTrait as _};

use super::super::{event_row, retention, watch_row, watching};
use super::{load_watches, save_events, save_watches};
use crate::domain::{FanOutProgress, Key, NotificationEvent, Subject, Watch};

fn acme() -> Workspace {
    "ends".parse().unwrap()
}

fn now() -> DateTime<Utc> {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

pub(super) fn run(number: u32) -> RunId {
    format!("run_{number:032x}").parse().unwrap()
}

pub(super) fn end(number: u32) -> RunEnded {
    RunEnded {
        erased: false,
        run: run(number),
        agent: "outreach".parse().unwrap(),
        status: RunStatus::Failed,
        message: "It failed.".to_owned(),
        by: None,
        started_at: now(),
        ended_at: now() + TimeDelta::milliseconds(7),
        watch: 1,
        workspace_watch: 0,
    }
}

fn event(number: u32) -> NotificationEvent {
    let subject = Subject::RunEnd(Box::new(end(number)));
    NotificationEvent::new(&acme(), subject, FanOutProgress::Watchers { after: None })
}

/// A commit may store more events than one statement of either database takes.
pub(super) async fn many_events_are_stored_in_one_commit(db: &DatabaseConnection) {
    let events: Vec<_> = (100..6_100).map(event).collect();
    let tx = begin_write(db).await.unwrap();
    event_row::Entity::add(&tx, &events, now()).await.unwrap();
    let all = event_row::Entity::find().count(&tx).await.unwrap();
    assert!(all >= 6_000, "{all} are stored");
    tx.rollback().await.unwrap();
}

/// S0-T4: an end is stored once, and found as long as people are to be notified; a run that has ended is
/// watched no more, and both go after their time.
pub(super) async fn run_ends(db: &DatabaseConnection) {
    let ada: UserName = "ada".parse().unwrap();
    let (first, second) = (event(1), event(2));
    let watch = |of: Watched| Watch {
        workspace: acme(),
        person: ada.clone(),
        of,
        since: Some(now()),
        version: 1,
    };
    let agent = Watched::Agent("outreach".parse().unwrap());
    let run = Watched::Run(run(1));
    let watches = [watch(agent.clone()), watch(run.clone())];
    let tx = begin_write(db).await.unwrap();
    let new: Vec<_> = watches.iter().map(|one| (one, 0)).collect();
    assert_eq!(save_watches(&tx, &new, now()).await, []);
    assert_eq!(watch_row::count(&tx, &acme(), &ada).await.unwrap(), 2);
    let found = watching(&tx, &acme(), &ada, &run).await.unwrap();
    assert_eq!((found.is_watched, found.watchers), (true, 1));
    let bob: UserName = "bob".parse().unwrap();
    let found = watching(&tx, &acme(), &bob, &run).await.unwrap();
    assert_eq!((found.is_watched, found.watchers), (false, 1));

    let both = [(&first, 0), (&second, 0)];
    assert_eq!(save_events(&tx, &both, now()).await, []);
    let key = first.key();
    let lost = save_events(&tx, &both[..1], now()).await;
    assert_eq!(lost, [Key::Event(key.clone())], "once");
    let stored = [event_row::row_key(&key).unwrap()];
    let loaded = event_row::Entity::load_states(&tx, &stored).await.unwrap();
    assert_eq!(loaded, std::slice::from_ref(&first));
    assert_eq!(event_row::fanning(&tx, true, 0, 9).await.unwrap().len(), 2);
    let done = NotificationEvent {
        fan_out: FanOutProgress::Done,
        version: 2,
        ..first.clone()
    };
    assert_eq!(save_events(&tx, &[(&done, 1)], now()).await, []);
    let left = event_row::fanning(&tx, true, 0, 9).await.unwrap();
    assert_eq!(left, [(second.key(), 0)]);

    let listed = watch_row::list(&tx, &acme(), &ada).await.unwrap();
    assert_eq!(listed, watches[..1], "the run has ended");
    assert_eq!(watch_row::count(&tx, &acme(), &ada).await.unwrap(), 1);
    let later = now() + TimeDelta::days(1);
    assert!(retention::has_expired(&tx, later).await.unwrap());
    retention::delete_expired(&tx, later).await.unwrap();
    let loaded = event_row::Entity::load_states(&tx, &stored).await;
    assert_eq!(loaded.unwrap(), []);
    let kept = load_watches(&tx, &[&watches[1], &watches[0]]).await;
    assert_eq!(kept, watches[..1]);
    tx.commit().await.unwrap();
}

/// B-11: an old event of a contact goes, also while the contact has newer ones.
pub(super) async fn old_contact_events_go(db: &DatabaseConnection) {
    let event = |version: u64| {
        let event = ContactEvent {
            contact: "zoe".parse().unwrap(),
            version,
            kind: ContactEventKind::DealWon,
            at: now(),
            name: Some("Zoe".to_owned()),
            deal: None,
            more_deals: 0,
            to: Vec::new(),
        };
        let subject = Subject::Contact {
            event: Box::new(event),
            is_last: false,
            erased: false,
        };
        NotificationEvent::new(&acme(), subject, FanOutProgress::Done)
    };
    let (old, new) = (event(1), event(2));
    let later = now() + TimeDelta::days(20);
    let tx = begin_write(db).await.unwrap();
    assert_eq!(save_events(&tx, &[(&old, 0)], now()).await, []);
    assert_eq!(save_events(&tx, &[(&new, 0)], later).await, []);
    let before = now() + TimeDelta::days(1);
    assert!(retention::has_expired(&tx, before).await.unwrap());
    retention::delete_expired(&tx, before).await.unwrap();
    let keys = [&old, &new].map(|event| event_row::row_key(&event.key()).unwrap());
    let left = event_row::Entity::load_states(&tx, &keys).await.unwrap();
    assert_eq!(left, [new]);
    tx.commit().await.unwrap();
}
