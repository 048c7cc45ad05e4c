//! Each target of due deliveries has its share of a page, on both databases.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::Channel;
use holdpoint_ids::{HoldId, NotificationId};
use holdpoint_store::begin_write;
use sea_orm::DatabaseConnection;

use super::super::delivery_row;
use crate::domain::testing::acme;
use crate::domain::{DeliveryTarget, NewDeliveries, PlannedDelivery};

fn notification(number: u32) -> NotificationId {
    let mut hold: HoldId = "hold_01920000000070008000000000000009-1".parse().unwrap();
    hold.number = number;
    NotificationId { hold, rev: None }
}

/// Mend: a webhook with a long backlog delays neither another webhook nor the mails of another person, although
/// its deliveries are the longest due. Within a target the longest due comes first.
pub(super) async fn every_target_has_its_share(db: &DatabaseConnection) {
    let now: DateTime<Utc> = "2026-02-01T00:00:00Z".parse().unwrap();
    let webhook =
        |number: u32| DeliveryTarget::Webhook(format!("wh_{number:032x}").parse().unwrap());
    let mail = |name: &str| DeliveryTarget::Mail(name.parse().unwrap());
    let backlog = 300;
    let mut planned: Vec<_> = (1..=backlog)
        .flat_map(|number| [(number, webhook(1)), (number, mail("busy"))])
        .collect();
    planned.extend([
        (backlog + 1, webhook(2)),
        (backlog + 2, webhook(2)),
        (backlog + 3, mail("ada")),
    ]);
    let tx = begin_write(db).await.unwrap();
    for (number, to) in &planned {
        let at = now - TimeDelta::days(1) + TimeDelta::seconds(i64::from(*number));
        let new = NewDeliveries {
            workspace: acme(),
            id: notification(*number),
            priority: Priority::Normal,
            to: vec![PlannedDelivery::at_once(to.clone(), at)],
        };
        delivery_row::insert(&tx, &[&new], at).await.unwrap();
    }
    tx.commit().await.unwrap();
    let due = async |channel, busy: &[DeliveryTarget]| {
        let keys = delivery_row::due(db, channel, now, busy, 5).await.unwrap();
        let place = |key: crate::domain::DeliveryKey| (key.note.hold.number, key.to);
        keys.into_iter().map(place).collect::<Vec<_>>()
    };
    let expected = [
        (1, webhook(1)),
        (backlog + 1, webhook(2)),
        (2, webhook(1)),
        (backlog + 2, webhook(2)),
        (3, webhook(1)),
    ];
    assert_eq!(due(Channel::Webhook, &[]).await, expected);
    let others = due(Channel::Webhook, &[webhook(1)]).await;
    assert_eq!(others, [expected[1].clone(), expected[3].clone()]);
    let mails = due(Channel::Email, &[]).await;
    assert_eq!(mails[..2], [(1, mail("busy")), (backlog + 3, mail("ada"))]);
}
