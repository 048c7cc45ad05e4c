//! A rehearsal is kept in its workspace, and until it is deleted, dropped, forgotten or erased.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::rehearsal::{KEPT_MAX, Rehearsal, RehearsalStatus, RehearsedRun};
use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::{ContactId, Workspace};

use super::{
    Erasures, Found, Kept, NewRehearsal, PlacedRun, RehearsalId, RunsPage, SILENT_MAX, add, append,
    count_erasures, end, erase, forget, heads, interrupt, load, remove, runs,
};
use crate::app::Tables;

fn at() -> DateTime<Utc> {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn run(contact: &str) -> RehearsedRun {
    RehearsedRun {
        contact: contact.parse().unwrap(),
        status: RunStatus::Completed,
        code: None,
        message: "completed".to_owned(),
        ended_at: Some(at()),
        steps_reached: Vec::new(),
        generated_steps: Vec::new(),
        calls: [("mail".to_owned(), 1)].into(),
        requests: [].into(),
        users: [].into(),
        empty_roles: [].into(),
        standing_approvals: [].into(),
        stopped_by: None,
        timeline: serde_json::from_value(serde_json::json!([
            { "at": "2026-01-01T00:00:00.000Z", "type": "run.started", "message": contact }
        ]))
        .unwrap(),
        events_left: 0,
    }
}

fn page<'p>(
    workspace: &'p Workspace,
    rehearsal: RehearsalId,
    place: u64,
    runs: &'p [RehearsedRun],
) -> RunsPage<'p> {
    RunsPage {
        workspace,
        rehearsal,
        place,
        runs,
    }
}

fn placed(place: u64, contact: &str) -> PlacedRun {
    let run = run(contact);
    PlacedRun { place, run }
}

async fn added(tables: &Tables, workspace: &str, contacts: u64) -> RehearsalId {
    let erasures = count_erasures(&tables.writer, &workspace.parse().unwrap()).await;
    let added = added_by(tables, workspace, contacts, "nina", erasures.unwrap()).await;
    added.unwrap()
}

async fn added_by(
    tables: &Tables,
    workspace: &str,
    contacts: u64,
    creator: &str,
    erasures: Erasures,
) -> Option<RehearsalId> {
    let first = Rehearsal {
        agent: "outreach".parse().unwrap(),
        version: Some(3),
        started_at: at(),
        steps: vec!["mail".to_owned()],
        runs: vec![run("ann")],
        contacts_left: 0,
    };
    let new = NewRehearsal {
        workspace: &workspace.parse().unwrap(),
        created_by: &creator.parse().unwrap(),
        contacts,
        first: &first,
        erasures,
        now: at(),
    };
    add(&tables.writer, &new).await.unwrap()
}

fn kept<'k>(tables: &'k Tables, workspace: &'k Workspace) -> Kept<'k> {
    Kept {
        db: &tables.writer,
        workspace,
        now: at(),
    }
}

async fn found(tables: &Tables, workspace: &str, id: RehearsalId) -> Option<Found> {
    kept(tables, &workspace.parse().unwrap())
        .find(id)
        .await
        .unwrap()
}

async fn status(tables: &Tables, id: RehearsalId) -> RehearsalStatus {
    found(tables, "acme", id).await.unwrap().rehearsal.status
}

/// Words 6
pub(crate) async fn a_rehearsal_runs_until_it_is_ended(tables: &Tables) {
    let writer = &tables.writer;
    let acme: Workspace = "acme".parse().unwrap();
    let id = added(tables, "acme", 3).await;
    assert_eq!(found(tables, "other", id).await, None);
    let more = [run("bob"), run("cleo")];
    assert!(
        append(writer, &page(&acme, id, 1, &more), at())
            .await
            .unwrap()
    );
    let all = runs(writer, id, 0, 9).await.unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(all[2], placed(2, "cleo"), "with its timeline");
    assert_eq!(runs(writer, id, 1, 1).await.unwrap(), [placed(1, "bob")]);
    assert!(
        heads(writer, id)
            .await
            .unwrap()
            .iter()
            .all(|run| run.timeline.is_empty())
    );
    let running = found(tables, "acme", id).await.unwrap();
    assert_eq!(
        (running.rehearsal.rehearsed, running.rehearsal.contacts),
        (3, 3)
    );
    let loaded = load(writer, id, running).await.unwrap();
    assert_eq!((loaded.runs.len(), loaded.contacts_left), (3, 0));

    let end = async |status| end(writer, id, status, None, at()).await.unwrap();
    assert!(end(RehearsalStatus::Cancelled).await);
    assert!(!end(RehearsalStatus::Completed).await, "it has ended");
    assert!(
        !append(writer, &page(&acme, id, 3, &more), at())
            .await
            .unwrap()
    );
    assert_eq!(status(tables, id).await, RehearsalStatus::Cancelled);
    assert_eq!(runs(writer, id, 0, 9).await.unwrap().len(), 3);

    let listed = kept(tables, &acme).list(None, None, 9).await.unwrap();
    assert_eq!(listed.len(), 1);
    let other = "other".parse().unwrap();
    assert!(
        kept(tables, &acme)
            .list(Some(&other), None, 9)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        kept(tables, &acme)
            .list(None, Some(id), 9)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        !remove(writer, &other.as_str().parse().unwrap(), id)
            .await
            .unwrap()
    );
    assert!(remove(writer, &acme, id).await.unwrap());
    assert!(runs(writer, id, 0, 9).await.unwrap().is_empty());
}

/// Words 6: a kill of the gateway leaves a running row, which is marked.
pub(crate) async fn a_silent_rehearsal_is_interrupted(tables: &Tables) {
    let writer = &tables.writer;
    let acme: Workspace = "acme".parse().unwrap();
    let (killed, alive) = (
        added(tables, "acme", 9).await,
        added(tables, "acme", 9).await,
    );
    let later = at() + SILENT_MAX + TimeDelta::milliseconds(1);
    assert!(
        append(writer, &page(&acme, alive, 1, &[]), later)
            .await
            .unwrap()
    );
    interrupt(writer, at() + SILENT_MAX).await.unwrap();
    assert_eq!(status(tables, killed).await, RehearsalStatus::Running);
    let read_later = Kept {
        now: later,
        ..kept(tables, &acme)
    };
    let read = read_later.find(killed).await.unwrap().unwrap().rehearsal;
    assert_eq!(
        read.status,
        RehearsalStatus::Interrupted,
        "before it is marked"
    );
    interrupt(writer, later).await.unwrap();
    assert_eq!(status(tables, killed).await, RehearsalStatus::Interrupted);
    assert_eq!(status(tables, alive).await, RehearsalStatus::Running);
    let detail = found(tables, "acme", killed)
        .await
        .unwrap()
        .rehearsal
        .detail;
    assert!(detail.unwrap().contains("start it again"));
}

/// Words 6, B-11
pub(crate) async fn rehearsals_do_not_pile_up(tables: &Tables) {
    let writer = &tables.writer;
    let acme: Workspace = "acme".parse().unwrap();
    let elsewhere = added(tables, "other", 1).await;
    let running = added(tables, "acme", 1).await;
    let mut newest = running;
    for _ in 0..KEPT_MAX + 2 {
        newest = added(tables, "acme", 1).await;
        let status = RehearsalStatus::Completed;
        end(writer, newest, status, None, at()).await.unwrap();
    }
    let listed = kept(tables, &acme).list(None, None, 99).await.unwrap();
    assert_eq!(listed.len() as u64, KEPT_MAX);
    let of_running = status(tables, running).await;
    assert_eq!(of_running, RehearsalStatus::Running, "it is not dropped");

    let others = added_by(
        tables,
        "acme",
        1,
        "oscar",
        count_erasures(writer, &acme).await.unwrap(),
    );
    let others = others.await.unwrap();
    end(writer, others, RehearsalStatus::Completed, None, at())
        .await
        .unwrap();
    added(tables, "acme", 1).await;
    let kept_others = found(tables, "acme", others).await;
    assert!(
        kept_others.is_some(),
        "those of the creator are dropped first"
    );

    let ann: ContactId = "ann".parse().unwrap();
    let before = count_erasures(writer, &acme).await.unwrap();
    erase(writer, &acme, &ann, at()).await.unwrap();
    let late = added_by(tables, "acme", 1, "nina", before).await;
    assert_eq!(late, None, "its contacts were read before the erasure");
    assert!(runs(writer, newest, 0, 9).await.unwrap().is_empty());
    assert_eq!(status(tables, running).await, RehearsalStatus::Cancelled);
    assert_eq!(runs(writer, elsewhere, 0, 9).await.unwrap().len(), 1);

    let kept_until = found(tables, "acme", newest)
        .await
        .unwrap()
        .rehearsal
        .kept_until;
    let of_end = Kept {
        now: kept_until + TimeDelta::milliseconds(1),
        ..kept(tables, &acme)
    };
    assert_eq!(
        of_end.find(newest).await.unwrap(),
        None,
        "before it is deleted"
    );
    forget(writer, kept_until).await.unwrap();
    assert!(found(tables, "acme", newest).await.is_some());
    forget(writer, kept_until + TimeDelta::milliseconds(1))
        .await
        .unwrap();
    assert_eq!(found(tables, "acme", newest).await, None);
    assert!(runs(writer, elsewhere, 0, 9).await.unwrap().is_empty());
}
