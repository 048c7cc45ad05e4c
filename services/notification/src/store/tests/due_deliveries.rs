//! A busy target fills no page of due deliveries, on both databases.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::Channel;
use holdpoint_ids::{HoldId, NotificationId, Workspace};
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

/// Mend: a webhook with a long backlog delays another webhook only until it is busy, although its deliveries are the
/// longest due.
pub(super) async fn a_busy_target_fills_no_page(db: &DatabaseConnection) {
    let now: DateTime<Utc> = "2026-02-01T00:00:00Z".parse().unwrap();
    let webhook =
        |number: u32| DeliveryTarget::Webhook(format!("wh_{number:032x}").parse().unwrap());
    let backlog = 300;
    let mut planned: Vec<_> = (1..=backlog).map(|number| (number, webhook(1))).collect();
    planned.extend([(backlog + 1, webhook(2)), (backlog + 2, webhook(2))]);
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
    let due = async |busy: &[(Workspace, DeliveryTarget)]| {
        let keys = delivery_row::due(db, Channel::Webhook, now, busy, 3).await;
        let place = |key: crate::domain::DeliveryKey| (key.note.hold.number, key.to);
        keys.unwrap().into_iter().map(place).collect::<Vec<_>>()
    };
    let first = [(1, webhook(1)), (2, webhook(1)), (3, webhook(1))];
    assert_eq!(due(&[]).await, first);
    assert_eq!(due(&[(acme(), webhook(1))]).await, planned[300..]);
    let other: Workspace = "other".parse().unwrap();
    assert_eq!(due(&[(other, webhook(1))]).await, first);
    let any = async |channels: &[Channel], at| delivery_row::any_due(db, channels, at).await;
    assert!(any(&[Channel::Chat, Channel::Webhook], now).await.unwrap());
    assert!(!any(&[Channel::Chat], now).await.unwrap());
    let yesterday = now - TimeDelta::days(1);
    assert!(!any(&[Channel::Webhook], yesterday).await.unwrap());
}
