//! Samples of what the notification service says and is asked.

use holdpoint_ids::{HoldId, NotificationId, WebhookId};

use super::samples::{at, hold_id, page, run_id};
use super::{Entry, acme, command, message, query};
use crate::executor::{RunEndWatched, RunEndsOf, WatchRunEnds};
use crate::hold::{HoldOutcome, Priority};
use crate::message::Reply;
use crate::notification::{
    AddWebhook, AllRead, ChangeWebhook, Channel, ChannelRule, Channels, Chat, CountUnread, Day,
    DeliveryState, DeliveryView, Digest, FeedCursor, FeedItem, FeedPage, GetNotification,
    GetNotificationFeed, GetPreferences, GetWatchStatus, GetWebhook, ListDeliveries,
    ListNotifications, ListWatches, ListWebhookDeliveries, ListWebhooks, NotificationNudge,
    NotificationType, NotificationView, PendingReason, PersonalChannel, Preferences,
    PutPreferences, QuietHours, ReadNotification, ReadNotifications, RecordRunEnds, RemoveWebhook,
    RequestEnd, RequestEventKind, RunEndRecorded, RunEnded, ShowWebhookSecret, Unread, Unwatch,
    Watch, WatchAdded, WatchStatus, WatchView, Watched, WebhookAdded, WebhookFormat,
    WebhookSecretView, WebhookStatus, WebhookView,
};
use crate::run::RunStatus;
use crate::subject;

fn notification() -> NotificationView {
    NotificationView {
        id: NotificationId::opened(hold_id()),
        kind: NotificationType::AgentHandoff,
        title: "[Warm Lead] Agent handoff: Ann".to_owned(),
        message: "Warm lead from agent outreach: Ann is interested".to_owned(),
        priority: Priority::High,
        action_url: format!("/tasks/{}?action=handoff", hold_id()),
        link: format!("/requests/{}", hold_id()),
        run: Some(run_id()),
        request: Some(hold_id()),
        at: at("05T09:00:00"),
        read_at: Some(at("05T09:01:00")),
        decided: Some(RequestEnd {
            state: RequestEventKind::Decided,
            outcome: Some(HoldOutcome::Completed),
            by: Some("salesRep".to_owned()),
            at: at("05T09:30:00"),
        }),
        ended: None,
    }
}

fn preferences() -> Preferences {
    let email = ChannelRule {
        enabled: true,
        from: Priority::High,
    };
    let chat = Chat {
        enabled: true,
        from: Priority::Normal,
        url: Some("https://hooks.slack.example/…".to_owned()),
        format: WebhookFormat::Slack,
        secret: Some(secret().secret),
    };
    Preferences {
        channels: Channels {
            order: vec![PersonalChannel::Chat, PersonalChannel::Email],
            email,
            chat: Some(chat),
        },
        time_zone: "Europe/Berlin".to_owned(),
        quiet_hours: Some(QuietHours {
            from: "22:00".to_owned(),
            to: "07:00".to_owned(),
            days: vec![Day::Mon, Day::Tue],
        }),
        digest: Some(Digest {
            at: "08:00".to_owned(),
        }),
    }
}

fn webhook_id() -> WebhookId {
    "wh_01920000000070008000000000000007".parse().unwrap()
}

fn webhook() -> WebhookView {
    WebhookView {
        id: webhook_id(),
        url: "https://hooks.slack.example/services/T0/B0/x".to_owned(),
        events: vec!["approval.*".to_owned(), "handoff.offered".to_owned()],
        format: WebhookFormat::Slack,
        status: WebhookStatus::Active,
        created_by: "owner".parse().unwrap(),
        created_at: at("05T09:00:00"),
        failing_since: Some(at("05T09:30:00")),
        disabled_at: None,
        last_error: Some("The webhook answered 500.".to_owned()),
    }
}

fn secret() -> WebhookSecretView {
    WebhookSecretView {
        secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(),
    }
}

fn delivery() -> DeliveryView {
    let id = notification().id;
    DeliveryView {
        id: format!("msg_{id}"),
        notification: id,
        channel: Channel::Callback,
        person: None,
        webhook: None,
        state: DeliveryState::Pending,
        attempts: 1,
        next_at: Some(at("05T09:30:05")),
        waits: Some(PendingReason::Retry),
        after: Vec::new(),
        last_error: Some("The callback answered 500.".to_owned()),
        receipt: None,
        at: at("05T09:30:00"),
        ended_at: None,
    }
}

/// A chat took what a mail server refused.
fn to_chat() -> DeliveryView {
    let id = notification().id;
    DeliveryView {
        id: format!("msg_{id}_salesRep"),
        channel: Channel::Chat,
        person: Some("salesRep".parse().unwrap()),
        state: DeliveryState::Sent,
        next_at: None,
        waits: None,
        after: vec![Channel::Email],
        last_error: None,
        receipt: Some("HTTP 200".to_owned()),
        ended_at: Some(at("05T09:30:02")),
        ..delivery()
    }
}

pub(super) fn all() -> Vec<Entry> {
    let (person, id) = ("salesRep".parse().unwrap(), notification().id);
    let list = ListNotifications {
        person: "salesRep".parse().unwrap(),
        unread: true,
        limit: 100,
        cursor: None,
    };
    let mark = FeedCursor { seq: 12, id };
    let read_all = ReadNotifications {
        person: "salesRep".parse().unwrap(),
        until: Some(mark.seq),
    };
    let news = GetNotificationFeed {
        person: "salesRep".parse().unwrap(),
        after: Some(mark),
        unread: false,
        limit: 100,
    };
    let new = FeedPage {
        items: vec![FeedItem {
            mark: FeedCursor { seq: 14, id },
            notification: notification(),
        }],
        more: false,
        newest: 14,
    };
    let unread = CountUnread {
        person: "salesRep".parse().unwrap(),
    };
    let counted = Unread {
        count: 3,
        more: false,
        newest: 14,
    };
    let nudge = NotificationNudge {
        people: vec!["salesRep".parse().unwrap()],
    };
    let deliveries = ListDeliveries {
        request: hold_id(),
        limit: 100,
        cursor: None,
    };
    let put = PutPreferences {
        person: "salesRep".parse().unwrap(),
        preferences: preferences(),
    };
    let get = GetPreferences {
        person: "salesRep".parse().unwrap(),
    };
    let service = crate::notification::SERVICE;
    vec![
        command("salesRep", ReadNotification { id }, notification()),
        command("owner", ShowWebhookSecret {}, secret()),
        command("salesRep", put, preferences()),
        query(&get, preferences()),
        query(&deliveries, page(to_chat())),
        query(&GetNotification { person, id }, notification()),
        query(&list, page(notification())),
        command("salesRep", read_all, AllRead { read: 3 }),
        query(&news, new),
        query(&unread, counted),
        message(
            service,
            "notification_nudge",
            subject::live(&acme(), service),
            &nudge,
        ),
    ]
}

pub(super) fn webhooks() -> Vec<Entry> {
    let add = AddWebhook {
        id: webhook_id(),
        url: webhook().url,
        events: webhook().events,
        format: WebhookFormat::Slack,
    };
    let added = WebhookAdded {
        webhook: webhook(),
        secret: secret().secret,
    };
    let change = ChangeWebhook {
        id: webhook_id(),
        url: webhook().url,
        events: webhook().events,
        format: WebhookFormat::Slack,
        enabled: true,
    };
    let webhooks = ListWebhooks {
        limit: 100,
        cursor: None,
    };
    let to_webhook = ListWebhookDeliveries {
        webhook: webhook_id(),
        limit: 100,
        cursor: None,
    };
    vec![
        command("owner", add, added),
        command("owner", change, webhook()),
        command("owner", RemoveWebhook { id: webhook_id() }, webhook()),
        query(&GetWebhook { id: webhook_id() }, webhook()),
        query(&webhooks, page(webhook())),
        query(
            &to_webhook,
            page(DeliveryView {
                channel: Channel::Webhook,
                webhook: Some(webhook_id()),
                ..delivery()
            }),
        ),
    ]
}

fn watch(of: Watched) -> WatchView {
    WatchView {
        id: of.to_string(),
        of,
        since: at("05T09:00:00"),
    }
}

pub(super) fn watches() -> Vec<Entry> {
    let (run, request) = (Watched::Run(run_id()), Watched::Request(hold_id()));
    let agent = Watched::Agent("outreach".parse().unwrap());
    let added = WatchAdded {
        watch: watch(run.clone()),
        new: true,
    };
    let list = ListWatches {
        person: "salesRep".parse().unwrap(),
    };
    let unwatch = Unwatch {
        of: request.clone(),
    };
    vec![
        command("salesRep", Watch { of: run }, added),
        command("salesRep", unwatch, watch(request)),
        query(&list, page(watch(agent))),
    ]
}

fn run_ended() -> RunEnded {
    RunEnded {
        run: run_id(),
        agent: "outreach".parse().unwrap(),
        status: RunStatus::Failed,
        message: "step-02 failed: the mail server refused it.".to_owned(),
        by: None,
        started_at: at("02T09:00:00"),
        ended_at: at("05T09:00:00"),
        watch: 2,
        workspace_watch: 1,
    }
}

/// The end of a run as one person's copy tells of it.
fn told_of_end() -> NotificationView {
    let hold = HoldId {
        run: run_id(),
        number: 0,
    };
    NotificationView {
        id: NotificationId {
            hold,
            rev: Some(1_772_701_200_000),
        },
        kind: NotificationType::WorkflowComplete,
        title: "Run of outreach failed".to_owned(),
        message: "step-02 failed: the mail server refused it. It took 3 days.".to_owned(),
        action_url: format!("/runs/{}", run_id()),
        link: format!("/runs/{}", run_id()),
        request: None,
        read_at: None,
        decided: None,
        ended: Some(run_ended().shown()),
        ..notification()
    }
}

pub(super) fn ends() -> Vec<Entry> {
    let watching = GetWatchStatus {
        person: "salesRep".parse().unwrap(),
        of: Watched::Run(run_id()),
    };
    let counted = WatchStatus {
        is_watched: true,
        watchers: 3,
    };
    let watch = WatchRunEnds {
        of: vec![
            RunEndsOf::Run(run_id()),
            RunEndsOf::Agent("outreach".parse().unwrap()),
            RunEndsOf::All,
        ],
    };
    let watched = vec![
        Reply::Ok(RunEndWatched::default()),
        Reply::Ok(RunEndWatched {
            ended: Some(Box::new(run_ended())),
        }),
        Reply::Ok(RunEndWatched::default()),
    ];
    let note = RecordRunEnds {
        ends: vec![run_ended()],
    };
    let nobody = RunEndRecorded::Nobody {
        agent: "outreach".parse().unwrap(),
        watch: 2,
        workspace_watch: 0,
    };
    vec![
        query(&watching, counted),
        command("service:notification", watch, watched),
        command("service:executor", note, vec![Reply::Ok(nobody)]),
    ]
}

/// S0-T4: the end of a run stands in a list beside requests.
#[test]
fn the_end_of_a_run_is_read_back() {
    let told = told_of_end();
    let text = serde_json::to_string(&told).unwrap();
    assert!(text.contains(r#""type":"workflow_complete""#), "{text}");
    assert!(text.contains(r#""took_ms":259200000"#), "{text}");
    let read: NotificationView = serde_json::from_str(&text).unwrap();
    assert_eq!(read, told);
}

/// The id of a watch is read back as what is watched.
#[test]
fn what_is_watched_is_read_back() {
    for text in [
        hold_id().to_string(),
        run_id().to_string(),
        "agent_run_1".to_owned(),
        "agent_agent_x".to_owned(),
    ] {
        assert_eq!(text.parse::<Watched>().unwrap().to_string(), text);
    }
    for text in ["", "agent_", "outreach", "run_1"] {
        assert!(text.parse::<Watched>().is_err(), "{text}");
    }
}
