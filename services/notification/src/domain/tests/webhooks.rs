//! Examples of webhooks: of what they are notify, and how long they are called.

use std::sync::Arc;

use holdpoint_contracts::executor::RunEndsOf;
use holdpoint_contracts::notification::{WebhookFormat, WebhookStatus};

use super::*;
use crate::domain::commands::add_webhook::add_webhook as add;
use crate::domain::commands::change_webhook::change_webhook as put;
use crate::domain::commands::record_call::{DISABLED_AFTER, record_call};
use crate::domain::commands::remove_webhook::remove_webhook as remove;
use crate::domain::commands::watch_run_ends::watch_run_ends;
use crate::domain::rules::webhook_backlog::{PENDING_DELIVERIES_MAX, plan_calls};

fn called(known: &Webhook, call: &CallOutcome, now: DateTime<Utc>) -> Outcome {
    record_call(known, call, now)
}

fn after(step: Outcome) -> Webhook {
    let Outcome::Decided(change) = step else {
        panic!("nothing changed");
    };
    let Aggregate::Webhook(next) = change.state else {
        panic!("no webhook");
    };
    *next
}

/// Of what a webhook is notify: by name, by kind, of everything; a channel of people of ends, too.
#[test]
fn a_webhook_is_called_for_wanted_events() {
    let handoff = |kind| fact(3, kind, &[]);
    let calls = |events: &[&str], format, kind| {
        let mut hook = webhook();
        hook.events = events.iter().map(|event| (*event).to_owned()).collect();
        hook.format = format;
        hook.wants(&handoff(kind))
    };
    for (events, format, kind, is_called) in [
        (
            &["*"][..],
            WebhookFormat::Standard,
            RequestEventKind::Assigned,
            true,
        ),
        (
            &["handoff.*"],
            WebhookFormat::Standard,
            RequestEventKind::TakenOver,
            true,
        ),
        (
            &["approval.*"],
            WebhookFormat::Standard,
            RequestEventKind::Opened,
            false,
        ),
        (
            &["input.answered", "handoff.completed"],
            WebhookFormat::Standard,
            RequestEventKind::Decided,
            true,
        ),
        (
            &["handoff.offered"],
            WebhookFormat::Standard,
            RequestEventKind::Decided,
            false,
        ),
        (
            &["handoff.offered"],
            WebhookFormat::Slack,
            RequestEventKind::Decided,
            true,
        ),
        (
            &["handoff.offered"],
            WebhookFormat::Slack,
            RequestEventKind::Assigned,
            false,
        ),
    ] {
        assert_eq!(
            calls(events, format, kind),
            is_called,
            "{events:?} {kind:?}"
        );
    }
    let mut timer = handoff(RequestEventKind::Expired);
    timer.request.kind = HoldKind::Timer;
    assert!(!webhook().wants(&timer), "it concerns nobody");
}

#[test]
fn what_is_no_address_or_no_event_is_refused_with_where() {
    let words = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    let fine = words(&["*", "approval.*", "input.answered"]);
    assert!(check_webhook("https://crm.example/x", &fine).is_ok());
    for (url, events, pointers) in [
        ("ftp://crm.example", &["*"][..], &["/url"][..]),
        ("https://", &["*"], &["/url"]),
        ("https://a.example/\n", &["*"], &["/url"]),
        ("https://a.example", &[], &["/events"]),
        (
            "nothing",
            &["approval.*", "approval.opened", "app*"],
            &["/url", "/events/1", "/events/2"],
        ),
    ] {
        let problem = check_webhook(url, &words(events)).unwrap_err();
        assert_eq!((problem.status, &*problem.code), (422, "invalid_body"));
        let pointed: Vec<_> = problem
            .errors
            .iter()
            .filter_map(|one| one.pointer.as_deref())
            .collect();
        assert_eq!(pointed, pointers, "{problem}");
    }
}

/// Whoever takes nothing for days is not called any more; one call that is taken begins anew.
#[test]
fn a_webhook_that_fails_for_days_is_disabled() {
    let failed = CallOutcome::Failed("The webhook answered 500.".to_owned());
    let start = DateTime::UNIX_EPOCH;
    let one = after(called(&webhook(), &failed, start));
    assert_eq!(one.view().failing_since, Some(start));
    let day_four = start + TimeDelta::days(4);
    assert_eq!(
        called(&one, &failed, day_four),
        Outcome::Unchanged(Reply::Done)
    );
    let well = after(called(&one, &CallOutcome::Accepted, day_four));
    assert_eq!(well.view().failing_since, None);
    assert_eq!(
        called(&well, &CallOutcome::Accepted, day_four),
        Outcome::Unchanged(Reply::Done)
    );
    let day_five = start + DISABLED_AFTER;
    let over = after(called(&one, &failed, day_five)).view();
    assert_eq!(
        (over.status, over.disabled_at),
        (WebhookStatus::Disabled, Some(day_five))
    );
    let gone = CallOutcome::Refused("The webhook answered 410.".to_owned());
    assert_eq!(
        after(called(&well, &gone, start)).view().status,
        WebhookStatus::Disabled
    );
}

#[test]
fn there_is_room_for_so_many_and_the_same_again_is_the_same() {
    let lookup =
        |count: usize| move |_: &Need| Lookup::Found(Fact::Webhooks(vec![subscription(0); count]));
    let added = after(add(None, &webhook(), &lookup(WEBHOOKS_MAX - 1)).unwrap());
    let refused = add(None, &webhook(), &lookup(WEBHOOKS_MAX)).unwrap_err();
    assert_eq!(refused, Undecided::Refused(Refusal::TooManyWebhooks));
    let again = add(Some(&added), &webhook(), &lookup(WEBHOOKS_MAX)).unwrap();
    assert!(matches!(again, Outcome::Unchanged(Reply::WebhookAdded(_))));
    let removed = after(remove(&added).unwrap());
    assert!(removed.secret.is_empty() && removed.state == WebhookState::Removed);
    assert_eq!(
        remove(&removed).unwrap_err(),
        Undecided::Refused(Refusal::NoWebhook(added.id))
    );
}

/// Whoever added it is notify once that it is called no more, and the owners where that person is gone;
/// by whom it is enabled again, it begins anew.
#[test]
fn a_disabled_webhook_causes_a_notice_and_may_be_enabled_again() {
    let gone = CallOutcome::Refused("The webhook answered 410.".to_owned());
    let now = DateTime::UNIX_EPOCH;
    // Olga, who added it, is active or disabled; otto is an owner.
    let notify = |active, known: &Webhook| {
        let Outcome::Decided(change) = record_call(known, &gone, now) else {
            return (Vec::new(), None);
        };
        let Aggregate::Webhook(next) = change.state else {
            panic!("no webhook");
        };
        (
            notified(&change.effects, active, &["410", "crm.example"]),
            Some(*next),
        )
    };
    assert_eq!(notify(false, &webhook()).0, ["otto"]);
    let (people, disabled) = notify(true, &webhook());
    assert_eq!(people, ["olga"]);
    let disabled = disabled.unwrap();
    assert_eq!(notify(true, &disabled).0, [""; 0], "once");

    let to = WebhookConfig {
        url: disabled.url.clone(),
        events: vec!["approval.*".to_owned()],
        format: WebhookFormat::Slack,
    };
    let enabled = after(put(&disabled, &to, true, now).unwrap());
    assert_eq!(
        (enabled.view().status, &enabled.last_error),
        (WebhookStatus::Active, &None)
    );
    assert_eq!(
        (&enabled.events, &enabled.secret),
        (&to.events, &disabled.secret)
    );
    assert_eq!(
        notify(true, &enabled).0,
        ["olga"],
        "disabled again, notified again"
    );
    let off = after(put(&enabled, &to, false, now).unwrap());
    assert_eq!(off.view().status, WebhookStatus::Disabled);
    let removed = after(remove(&off).unwrap());
    assert!(put(&removed, &to, true, now).is_err());
}

/// Mend C-10: a webhook that was added before run ends were reported asks for them when the service starts.
#[test]
fn an_earlier_webhook_asks_for_run_ends() {
    let watch = |events: &str, standing| {
        let earlier = Webhook {
            events: vec![events.to_owned()],
            state: standing,
            ..webhook()
        };
        match watch_run_ends(&earlier) {
            Outcome::Decided(change) => change.effects,
            Outcome::Unchanged(_) => Vec::new(),
        }
    };
    let active = WebhookState::Active {
        failing_since: None,
    };
    let wanted = Effect::WatchRunEnds {
        workspace: "acme".parse().unwrap(),
        by: EndsFor::Webhook(webhook().id),
        of: RunEndsOf::All,
        rev: 2,
    };
    for events in ["*", "run.*", "run.failed"] {
        assert_eq!(
            watch(events, active.clone()),
            std::slice::from_ref(&wanted),
            "{events}"
        );
    }
    assert_eq!(watch("approval.*", active), []);
    let since = DateTime::UNIX_EPOCH;
    assert_eq!(watch("*", WebhookState::Disabled { since }), []);
    assert_eq!(watch("*", WebhookState::Removed), []);
}

fn subscription(pending: u64) -> Subscription {
    Subscription {
        webhook: Arc::new(webhook()),
        pending,
    }
}

/// The people that a stored notice reaches. Olga, who added the webhook, is active or disabled; otto is an
/// owner.
fn notified(effects: &[Effect], is_olga_active: bool, parts: &[&str]) -> Vec<String> {
    let [
        Effect::StoreEvent(event),
        Effect::ContinueFanOut,
        others @ ..,
    ] = effects
    else {
        panic!("{effects:?}");
    };
    assert!(
        matches!(others, [] | [Effect::RetryWebhook { .. }]),
        "{others:?}"
    );
    let Subject::System(notice) = &event.subject else {
        panic!("{event:?}");
    };
    for part in parts {
        let text = format!("{} {}", notice.title, notice.message);
        assert!(text.contains(part), "{text}");
    }
    let roles: &[&'static str] = if is_olga_active { &["admin"] } else { &[] };
    let world = world(&[("olga", roles), ("otto", &["owner"])]);
    let lookup = |need: &Need| found(&world, need);
    let (mut event, mut names) = ((**event).clone(), Vec::new());
    while let Ok(Outcome::Decided(change)) = continue_fan_out(&event, &lookup, DateTime::UNIX_EPOCH)
    {
        for effect in &change.effects {
            let Effect::AddInboxEntries(NewInboxEntries { people, .. }) = effect else {
                panic!("a notice stays in the application: {effect:?}");
            };
            names.extend(people.iter().map(ToString::to_string));
        }
        let Aggregate::Event(next) = change.state else {
            panic!("no event");
        };
        event = *next;
    }
    names
}

/// Mend C-10: deliveries to one webhook are bounded. At the bound a new one is dropped with the reason, and the
/// person who added the webhook gets one notice a configuration.
#[test]
fn a_webhook_that_is_too_far_behind_gets_no_further_deliveries() {
    let now = DateTime::UNIX_EPOCH;
    let plan = |all| plan_calls(&acme(), all, |_| true, now);
    let last = plan(vec![subscription(PENDING_DELIVERIES_MAX - 1)]);
    assert_eq!(last.deliveries[0].dropped, None);
    assert_eq!(last.notices, []);
    let Some((_, Fact::Webhooks(all))) = last.fact else {
        panic!("later events of the batch would not count it");
    };
    assert_eq!(all, [subscription(PENDING_DELIVERIES_MAX)]);
    let over = plan(all);
    let reason = "the webhook is too far behind: 10,000 deliveries are pending";
    assert_eq!(over.deliveries[0].dropped.as_deref(), Some(reason));
    assert_eq!(
        notified(&over.notices, true, &[reason, "too far behind"]),
        ["olga"]
    );
    let id = |notices: &[Effect]| {
        let Effect::StoreEvent(event) = &notices[0] else {
            panic!("{notices:?}");
        };
        event.id()
    };
    let again = plan(vec![subscription(PENDING_DELIVERIES_MAX)]);
    assert_eq!(id(&again.notices), id(&over.notices), "stored once");
    let changed = Subscription {
        webhook: Arc::new(Webhook {
            configured_version: 7,
            ..webhook()
        }),
        pending: PENDING_DELIVERIES_MAX,
    };
    let anew = plan(vec![changed]);
    assert_ne!(
        id(&anew.notices),
        id(&over.notices),
        "reported anew after a change"
    );
}
