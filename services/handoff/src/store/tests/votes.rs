//! Inboxes of voters.

use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, Policy};
use holdpoint_contracts::run::HoldKind;
use sea_orm::DatabaseConnection;

use super::{acme, boxed, filter, list_requests, now, open, request, save_all, sqlite, user};
use crate::domain::{Phase, Request, Vote};
use crate::store::Filter;

#[tokio::test]
async fn an_accepted_vote_stays_in_the_inboxes_of_all_voters() {
    let (_dir, db) = sqlite().await;
    inboxes(&db).await;
}

/// An approval that two of `to` must give and that alice has accepted.
fn accepted(number: u32, to: &[&str], phase: Phase) -> Request {
    let mut one = request("acme", number, phase);
    one.spec = Some(HoldSpec {
        to: to.iter().map(|to| (*to).to_owned()).collect(),
        policy: Policy {
            need: 2,
            not_requester: false,
        },
        ..HoldSpec::asking(HoldKind::Approval, "Deploy?")
    });
    one.progress.assignee = Some("alice".parse().unwrap());
    one
}

/// S2-R4, People 8: the request stays in the inbox of each voter until they have voted. After the decision, all of
/// them find it again.
pub(super) async fn inboxes(db: &DatabaseConnection) {
    let vote = |by: &str| Vote {
        by: by.to_owned(),
        at: now(),
        addressed_by: None,
    };
    let decided = Phase::Decided {
        outcome: HoldOutcome::Approved,
        data: serde_json::Value::Null,
        by: "bob".to_owned(),
        at: now(),
    };
    let to_ops = accepted(1, &["@role.ops"], open());
    let to_owners = accepted(2, &[], open());
    let mut voted = accepted(3, &["@role.ops"], open());
    voted.progress.votes = vec![vote("bob")];
    let mut over = accepted(4, &["@role.ops"], decided);
    over.progress.votes = vec![vote("carl"), vote("bob")];
    let states = [to_ops, to_owners, voted, over].map(|one| (boxed(one), 0));
    assert_eq!(save_all(db, &states).await, []);
    let acme = acme();
    let of = async |name: &str, roles: &[&str]| {
        let user = user(name, roles);
        let wanted = Filter {
            assignee: Some(&user),
            ..filter(&acme)
        };
        let found = list_requests(db, &wanted).await.unwrap();
        found.iter().map(|one| one.id.number).collect::<Vec<_>>()
    };
    assert_eq!(
        of("alice", &[]).await,
        [4, 3, 2, 1],
        "alice has accepted them"
    );
    assert_eq!(
        of("carl", &["ops"]).await,
        [4, 3, 1],
        "carl has not voted on 3"
    );
    assert_eq!(of("bob", &["ops"]).await, [4, 1], "bob has voted on 3");
    assert_eq!(of("olga", &["owner"]).await, [2], "the owners' request");
    assert_eq!(of("eve", &[]).await, [0; 0]);
}
