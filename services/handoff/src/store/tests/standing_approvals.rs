//! Standing approvals and their uses.

use holdpoint_contracts::handoff::{PlannedCall, StandingApprovalTerms};
use holdpoint_ids::{StandingApprovalId, Workspace};
use holdpoint_kernel::Store as _;
use holdpoint_store::{StoreError, begin_write, is_conflict};
use sea_orm::DatabaseConnection;
use serde_json::json;

use super::{acme, handoff, now, save_all, sqlite};
use crate::domain::{
    Aggregate, AuditStamp, CallKind, CountedStandingApproval, Effect, Fact, Need, StandingApproval,
};
use crate::store::{
    StandingApprovalFilter, list_standing_approvals, list_uses, standing_approval_use_row,
};

#[tokio::test]
async fn uses_of_a_standing_approval_are_counted_and_never_doubled() {
    let (_dir, db) = sqlite().await;
    are_counted(&db).await;
}

pub(super) fn standing(number: u32, tool: &str) -> StandingApproval {
    StandingApproval {
        workspace: acme(),
        id: format!("sa_0193aaaabbbb7ccc8ddd{number:012x}")
            .parse()
            .unwrap(),
        terms: StandingApprovalTerms {
            agent: "refund".parse().unwrap(),
            tool: tool.parse().unwrap(),
            version: None,
            args_schema: json!({}),
            max_uses: 3,
            expires_in: 60_000 * u64::from(number),
            reason: None,
            call: None,
        },
        created_by: "ada".parse().unwrap(),
        created_at: now(),
        revoked: None,
        version: 1,
    }
}

/// Of one call of one run.
fn early(number: u32) -> StandingApproval {
    let mut approval = standing(number, "refund");
    approval.terms.call = Some(PlannedCall {
        run: "run_01920000000070008000000000000001".parse().unwrap(),
        step: "pay".to_owned(),
        digest: "00".repeat(32),
    });
    approval
}

pub(super) fn used(approval: &StandingApproval, number: u32) -> Effect {
    let request = format!("hold_01920000000070008000000000000001-{number}");
    Effect::StandingApprovalUsed {
        workspace: approval.workspace.clone(),
        id: approval.id,
        number,
        request: request.parse().unwrap(),
    }
}

async fn insert(db: &DatabaseConnection, effects: &[Effect]) -> Result<(), StoreError> {
    let tx = begin_write(db).await.unwrap();
    standing_approval_use_row::insert(&tx, effects, now()).await?;
    tx.commit().await
}

fn live_count(is_early: bool) -> Need {
    Need::StandingApprovalCount {
        workspace: acme(),
        is_early,
        now: now(),
    }
}

/// Those that are neither expired, revoked nor for one call.
async fn lasting(db: &DatabaseConnection) -> Vec<StandingApprovalId> {
    let filter = StandingApprovalFilter {
        lasting_at: Some(now()),
        ..StandingApprovalFilter::default()
    };
    let found = list_standing_approvals(db, &acme(), &filter, 10).await;
    found.unwrap().iter().map(|one| one.approval.id).collect()
}

pub(super) async fn are_counted(db: &DatabaseConnection) {
    let (one, other) = (standing(5, "refund"), standing(9, "deploy"));
    let mut revoked = standing(7, "refund");
    revoked.revoked = Some(AuditStamp {
        by: "ada".to_owned(),
        at: now(),
    });
    let expired = standing(0, "refund");
    let planned = early(11);
    let all = [&one, &other, &revoked, &expired, &planned];
    let states = all.map(|state| (Aggregate::StandingApproval(Box::new(state.clone())), 0));
    assert_eq!(save_all(db, &states).await, []);
    insert(db, &[used(&one, 1), used(&one, 2), used(&other, 1)])
        .await
        .unwrap();

    // Another replica took the number 2 first.
    let lost = insert(db, &[used(&one, 2), used(&one, 3)]).await;
    assert!(is_conflict(&lost.unwrap_err()));

    let kind = CallKind {
        agent: "refund".parse().unwrap(),
        tool: "refund".parse().unwrap(),
        planned: None,
    };
    let counted = |approval: &StandingApproval, used| CountedStandingApproval {
        approval: approval.clone(),
        used,
    };
    let of_calls = |kind, found| {
        let need = Need::StandingApprovals(acme(), kind, now());
        (need, Fact::StandingApprovals(found))
    };
    let expected = [
        of_calls(kind.clone(), vec![counted(&one, 2)]),
        of_calls(planned.call_kind(), vec![counted(&planned, 0)]),
        (live_count(false), Fact::StandingApprovalCount(2)),
        (live_count(true), Fact::StandingApprovalCount(1)),
    ];
    let needs = expected.clone().map(|(need, _)| need);
    let tx = begin_write(db).await.unwrap();
    let found = handoff().find(&tx, &needs).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(found, expected);

    let list = async |workspace: Workspace, filter: StandingApprovalFilter<'_>| {
        let listed = list_standing_approvals(db, &workspace, &filter, 10).await;
        listed.unwrap()
    };
    let all = list(acme(), StandingApprovalFilter::default()).await;
    let order = [&planned, &other, &revoked, &one, &expired].map(|state| state.id);
    let ids: Vec<_> = all.iter().map(|one| one.approval.id).collect();
    assert_eq!(ids, order);
    let below = StandingApprovalFilter {
        after: Some(one.id),
        ..StandingApprovalFilter::default()
    };
    assert_eq!(list(acme(), below).await, [counted(&expired, 0)]);
    let of_other = StandingApprovalFilter {
        agent: Some(&kind.agent),
        tool: Some(&"deploy".parse().unwrap()),
        ..StandingApprovalFilter::default()
    };
    assert_eq!(list(acme(), of_other).await, [counted(&other, 1)]);
    assert_eq!(lasting(db).await, [other.id, one.id]);
    let uses = list_uses(db, &acme(), one.id).await.unwrap();
    let numbers: Vec<_> = uses.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [2, 1]);
    let elsewhere: Workspace = "other".parse().unwrap();
    let of_elsewhere = list(elsewhere.clone(), StandingApprovalFilter::default()).await;
    assert_eq!(of_elsewhere, []);
    assert_eq!(list_uses(db, &elsewhere, one.id).await.unwrap(), []);
}
