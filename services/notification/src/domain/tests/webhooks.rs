//! Examples of webhooks: of what they are told, and how long they are called.

use super::*;
use crate::domain::tests::fact;
use crate::domain::{Effect, Person, Rules};

/// Olga, who adds webhooks, is there or gone; otto is an owner.
fn olga(active: bool) -> impl Fn(&Need) -> Lookup {
    move |need: &Need| match need {
        Need::Person(_, name) => Lookup::Found(Fact::Person(Person {
            name: name.clone(),
            active,
            has_mail: true,
            may_look: true,
            rules: Rules::default(),
        })),
        Need::Members { .. } => Lookup::Found(Fact::Members(vec!["otto".parse().unwrap()])),
        Need::RequestLifecycle(..)
        | Need::Webhooks(_)
        | Need::Watchers { .. }
        | Need::WatchStatus(..)
        | Need::Unread { .. } => Lookup::Missing,
    }
}

fn called(known: &Webhook, call: &Call, now: DateTime<Utc>) -> Outcome {
    super::called(known, call, &olga(true), now).unwrap()
}

fn webhook() -> Webhook {
    Webhook {
        workspace: "acme".parse().unwrap(),
        id: "wh_01920000000070008000000000000001".parse().unwrap(),
        url: "https://crm.example/hook".to_owned(),
        events: vec!["*".to_owned()],
        format: WebhookFormat::Standard,
        secret: "whsec_AAAA".to_owned(),
        created_by: "olga".parse().unwrap(),
        created_at: DateTime::UNIX_EPOCH,
        standing: Standing::Active {
            failing_since: None,
        },
        last_error: None,
        version: 1,
    }
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

/// Of what a webhook is told: by name, by kind, of everything; a channel of people of ends, too.
#[test]
fn a_webhook_is_told_of_what_it_wants() {
    let handoff = |kind| fact(3, kind, &[]);
    let told = |events: &[&str], format, kind| {
        let mut hook = webhook().hook().unwrap();
        hook.events = events.iter().map(|event| (*event).to_owned()).collect();
        hook.format = format;
        hook.wants(&handoff(kind))
    };
    for (events, format, kind, is_told) in [
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
        assert_eq!(told(events, format, kind), is_told, "{events:?} {kind:?}");
    }
    let mut timer = handoff(RequestEventKind::Expired);
    timer.request.kind = HoldKind::Timer;
    assert!(
        !webhook().hook().unwrap().wants(&timer),
        "it concerns nobody"
    );
}

#[test]
fn what_is_no_address_or_no_event_is_refused_with_where() {
    let words = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    let fine = words(&["*", "approval.*", "input.answered"]);
    assert!(check("https://crm.example/x", &fine).is_ok());
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
        let problem = check(url, &words(events)).unwrap_err();
        assert_eq!((problem.status, &*problem.code), (422, "invalid_body"));
        let told: Vec<_> = problem
            .errors
            .iter()
            .filter_map(|one| one.pointer.as_deref())
            .collect();
        assert_eq!(told, pointers, "{problem}");
    }
}

/// Whoever takes nothing for days is not called any more; one call that is taken begins anew.
#[test]
fn a_webhook_that_fails_for_days_is_disabled() {
    let failed = Call::Failed("The webhook answered 500.".to_owned());
    let start = DateTime::UNIX_EPOCH;
    let one = after(called(&webhook(), &failed, start));
    assert_eq!(one.view().failing_since, Some(start));
    let day_four = start + TimeDelta::days(4);
    assert_eq!(
        called(&one, &failed, day_four),
        Outcome::Unchanged(Reply::Done)
    );
    let well = after(called(&one, &Call::Taken, day_four));
    assert_eq!(well.view().failing_since, None);
    assert_eq!(
        called(&well, &Call::Taken, day_four),
        Outcome::Unchanged(Reply::Done)
    );
    let day_five = start + DISABLED_AFTER;
    let over = after(called(&one, &failed, day_five)).view();
    assert_eq!(
        (over.status, over.disabled_at),
        (WebhookStatus::Disabled, Some(day_five))
    );
    let gone = Call::Refused("The webhook answered 410.".to_owned());
    assert_eq!(
        after(called(&well, &gone, start)).view().status,
        WebhookStatus::Disabled
    );
}

#[test]
fn there_is_room_for_so_many_and_the_same_again_is_the_same() {
    let lookup = |count: usize| {
        move |_: &Need| Lookup::Found(Fact::Webhooks(vec![webhook().hook().unwrap(); count]))
    };
    let added = after(add(None, &webhook(), &lookup(WEBHOOKS_MAX - 1)).unwrap());
    let refused = add(None, &webhook(), &lookup(WEBHOOKS_MAX)).unwrap_err();
    assert_eq!(refused, Undecided::Refused(Refusal::TooManyWebhooks));
    let again = add(Some(&added), &webhook(), &lookup(WEBHOOKS_MAX)).unwrap();
    assert!(matches!(again, Outcome::Unchanged(Reply::WebhookAdded(_))));
    let removed = after(remove(&added).unwrap());
    assert!(removed.secret.is_empty() && removed.hook().is_none());
    assert_eq!(
        remove(&removed).unwrap_err(),
        Undecided::Refused(Refusal::NoWebhook(added.id))
    );
}

/// Whoever added it is told once that it is called no more, and the owners where that person is gone;
/// by whom it is enabled again, it begins anew.
#[test]
fn a_disabled_webhook_is_told_of_and_may_be_enabled_again() {
    let gone = Call::Refused("The webhook answered 410.".to_owned());
    let now = DateTime::UNIX_EPOCH;
    let told = |active, known: &Webhook| {
        let step = super::called(known, &gone, &olga(active), now).unwrap();
        let Outcome::Decided(change) = step else {
            return (Vec::new(), None);
        };
        let Aggregate::Webhook(next) = change.state else {
            panic!("no webhook");
        };
        let mut names = Vec::new();
        for effect in change.effects {
            let Effect::Notice { notice, people, .. } = effect else {
                panic!("{effect:?}");
            };
            assert!(notice.message.contains("410") && notice.title.contains("crm.example"));
            names.extend(people.iter().map(ToString::to_string));
        }
        (names, Some(*next))
    };
    assert_eq!(told(false, &webhook()).0, ["otto"]);
    let (people, disabled) = told(true, &webhook());
    assert_eq!(people, ["olga"]);
    let disabled = disabled.unwrap();
    assert_eq!(told(true, &disabled).0, [""; 0], "once");

    let to = Wording {
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
    assert_eq!(told(true, &enabled).0, ["olga"], "disabled anew, told anew");
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
            standing,
            ..webhook()
        };
        match super::watch_run_ends(&earlier) {
            Outcome::Decided(change) => change.effects,
            Outcome::Unchanged(_) => Vec::new(),
        }
    };
    let active = Standing::Active {
        failing_since: None,
    };
    let wanted = Effect::WatchRunEnds {
        workspace: "acme".parse().unwrap(),
        by: EndsFor::Webhook(webhook().id),
        of: RunEndsOf::All,
        rev: 2,
    };
    for events in ["*", "run.*", "run.failed"] {
        assert_eq!(watch(events, active.clone()), [wanted.clone()], "{events}");
    }
    assert_eq!(watch("approval.*", active), []);
    let since = DateTime::UNIX_EPOCH;
    assert_eq!(watch("*", Standing::Disabled { since }), []);
    assert_eq!(watch("*", Standing::Removed), []);
}
