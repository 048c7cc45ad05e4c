//! What is past its retention goes, and the record of decisions stays.

use super::*;

/// S0-NFR, B-11
#[tokio::test]
async fn requests_that_asked_no_person_are_deleted_after_their_retention() {
    let (_dir, db) = sqlite().await;
    unasked_requests_go(&db).await;
}

/// The sweep searches every five seconds, so the query must use an index.
#[tokio::test]
async fn expired_requests_are_found_by_an_index() {
    let (_dir, db) = sqlite().await;
    let plans = Plans::of(&db);
    assert!(!has_expired(&plans, now()).await.unwrap());
    assert_eq!(plans.whole_tables(), Vec::<String>::new());
}

/// S0-NFR, B-11: more than one page of ended standalone timers and withdrawn holds is deleted. Open timers stay, and
/// requests that asked a person.
pub(super) async fn unasked_requests_go(db: &DatabaseConnection) {
    let of_kind = |number, kind, phase| {
        let mut one = request("acme", number, phase);
        one.spec = Some(HoldSpec::asking(kind, "Is it time?"));
        one
    };
    let withdrawn = || Phase::Withdrawn {
        reason: String::new(),
        by: None,
        at: now(),
    };
    let over = || Phase::TimedOut { at: now() };
    let mut tombstone = request("other", 1_000, withdrawn());
    tombstone.spec = None;
    let expired = (1..=600).map(|number| of_kind(number, HoldKind::Timer, over()));
    let kept = [
        of_kind(2_001, HoldKind::Timer, open()),
        of_kind(2_002, HoldKind::Approval, over()),
        of_kind(2_003, HoldKind::Input, withdrawn()),
    ];
    let states = expired.chain([tombstone]).chain(kept.clone());
    let states: Vec<_> = states.map(|one| (boxed(one), 0)).collect();
    assert_eq!(save_all(db, &states).await, []);

    assert!(
        !has_expired(db, now()).await.unwrap(),
        "not before its time"
    );
    let standing = standing_approvals::standing(0, "refund");
    let own = (Aggregate::StandingApproval(Box::new(standing.clone())), 0);
    assert_eq!(save_all(db, &[own]).await, []);
    let used = standing_approvals::used(&standing, 1);
    let tx = begin_write(db).await.unwrap();
    handoff().record(&tx, &[used], now()).await.unwrap();
    tx.commit().await.unwrap();

    let before = now() + TimeDelta::milliseconds(1);
    let mut pages = 0;
    while has_expired(db, before).await.unwrap() {
        let tx = begin_write(db).await.unwrap();
        let effect = Effect::DeleteExpired { before };
        handoff().record(&tx, &[effect], now()).await.unwrap();
        tx.commit().await.unwrap();
        pages += 1;
    }
    assert_eq!(pages, 2);
    let keys: Vec<_> = states.iter().map(|(state, _)| state.key()).collect();
    let tx = begin_write(db).await.unwrap();
    let left = handoff().load(&tx, &keys).await.unwrap();
    tx.commit().await.unwrap();
    let left: BTreeSet<_> = left.into_iter().map(|(key, _)| key).collect();
    let kept: BTreeSet<_> = kept.into_iter().map(|one| boxed(one).key()).collect();
    assert_eq!(left, kept);
    let standing = list_standing_approvals(db, &acme(), &StandingApprovalFilter::default(), 10)
        .await
        .unwrap();
    assert_eq!(standing, [], "an expired standing approval");
}
