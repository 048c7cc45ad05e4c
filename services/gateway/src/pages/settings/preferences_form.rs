//! How somebody wants to be told, as a form: shown from their preferences, and read into them again.

use holdpoint_contracts::FieldError;
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{
    ChannelRule, Channels, Chat, Day, Digest, PersonalChannel, Preferences, QuietHours,
    WebhookFormat,
};
use maud::{Markup, html};

use super::super::sanitize::{line, spoken};
use super::super::session::{Fields, SignedInUser};
use super::{HERE, fault, wrong};

/// Times that stand in fields that nobody has filled in.
const QUIET: (&str, &str) = ("22:00", "07:00");
const DIGEST: &str = "08:00";

const MIDNIGHT: &str = "00:00";
const DAYS_END: &str = "24:00";

const DAYS: [(Day, &str, &str); 7] = [
    (Day::Mon, "mon", "Mon"),
    (Day::Tue, "tue", "Tue"),
    (Day::Wed, "wed", "Wed"),
    (Day::Thu, "thu", "Thu"),
    (Day::Fri, "fri", "Fri"),
    (Day::Sat, "sat", "Sat"),
    (Day::Sun, "sun", "Sun"),
];

/// The form, as it is or as it was tried.
pub(super) fn form(
    person: &SignedInUser,
    said: &Preferences,
    mail: Option<&str>,
    faults: &[FieldError],
) -> Markup {
    let zone = fault(faults, "/time_zone");
    html! {
        form.panel.settings #telling method="post" action={ (HERE) "/telling" } {
            input type="hidden" name="csrf" value=(person.csrf());
            h2 { "How you are told" }
            p.muted { "In Holdpoint itself you are told of everything, at once. This is about what leaves it." }
            (ways(&said.channels, mail, faults))
            (quiet(said.quiet_hours.as_ref(), faults))
            (digest(said.digest.as_ref(), faults))
            div.field {
                label for="zone" { "Your time zone" }
                input #zone name="zone" value=(said.time_zone) required autocomplete="off" spellcheck="false"
                    placeholder="Europe/Berlin" aria-describedby="zone-wrong" autofocus[zone.is_some()]
                    aria-invalid=[zone.as_ref().map(|_| "true")];
                (wrong("zone-wrong", zone.as_ref()))
            }
            div.row { button.primary { "Save" } }
        }
    }
}

fn check(name: &str, label: &str, is_on: bool) -> Markup {
    html! {
        label.check { input type="checkbox" name=(name) value="on" checked[is_on]; " " (label) }
    }
}

fn from(name: &str, now: Priority) -> Markup {
    html! {
        label for=(name) { "From this priority on" }
        select id=(name) name=(name) {
            @for one in Priority::ALL {
                option value=(one.as_str()) selected[one == now] { (spoken(one.as_str())) }
            }
        }
    }
}

/// Mails, a chat, and which of the two is tried first.
fn ways(channels: &Channels, mail: Option<&str>, faults: &[FieldError]) -> Markup {
    let takes = |way: PersonalChannel, rule: bool| rule && channels.order.contains(&way);
    let chat = channels.chat.as_ref();
    let chat_first = channels.order.first() == Some(&PersonalChannel::Chat);
    let address = fault(faults, "/channels/chat");
    html! {
        fieldset.field {
            legend { "By mail" }
            @match mail {
                Some(mail) => { p.hint { "To " (line(mail, 320)) } }
                None => { p.hint { "No mail address is known of you; an owner can add it." } }
            }
            (check("mail", "Mail me", takes(PersonalChannel::Email, channels.email.enabled)))
            (from("mail-from", channels.email.from))
        }
        fieldset.field {
            legend { "By a chat of your own" }
            label for="chat-url" { "Its incoming webhook " span.muted { "(empty: none)" } }
            input #chat-url name="chat-url" value=(chat.and_then(|chat| chat.url.as_deref()).unwrap_or_default())
                autocomplete="off" spellcheck="false" placeholder="https://hooks.slack.com/…"
                aria-describedby="chat-wrong" autofocus[address.is_some()] aria-invalid=[address.as_ref().map(|_| "true")];
            (wrong("chat-wrong", address.as_ref()))
            (check("chat", "Write to it", chat.is_none_or(|chat| takes(PersonalChannel::Chat, chat.enabled))))
            (from("chat-from", chat.map_or(Priority::Low, |chat| chat.from)))
            label for="chat-format" { "In the words of" }
            select #chat-format name="chat-format" {
                @let format = chat.map_or(WebhookFormat::Slack, |chat| chat.format);
                option value="slack" selected[format == WebhookFormat::Slack] { "Slack, and what speaks like it" }
                option value="standard" selected[format == WebhookFormat::Standard] { "Standard Webhooks, for a program" }
            }
        }
        fieldset.field {
            legend { "Which first" }
            p.hint { "The other one takes over where the first has failed." }
            div.choices {
                @for (value, label, is_it) in [("mail", "Mail", !chat_first), ("chat", "Chat", chat_first)] {
                    label.choice { input type="radio" name="first" value=(value) checked[is_it]; " " (label) }
                }
            }
        }
    }
}

fn time(name: &str, label: &str, value: &str, fault: Option<&String>) -> Markup {
    let about = format!("{name}-wrong");
    // A day's end is the next one's beginning, which a field for times can show.
    let value = if value == DAYS_END { MIDNIGHT } else { value };
    html! {
        div.field {
            label for=(name) { (label) }
            input id=(name) name=(name) type="time" value=(value) aria-describedby=(about)
                autofocus[fault.is_some()] aria-invalid=[fault.map(|_| "true")];
            (wrong(&about, fault))
        }
    }
}

fn quiet(said: Option<&QuietHours>, faults: &[FieldError]) -> Markup {
    let times = said.map_or(QUIET, |said| (said.from.as_str(), said.to.as_str()));
    let is_on = |day: Day| said.is_none_or(|said| said.days.is_empty() || said.days.contains(&day));
    let days = fault(faults, "/quiet_hours/days");
    html! {
        fieldset.field {
            legend { "Quiet hours" }
            p.hint { "Nothing leaves Holdpoint for you then, but for what is urgent or critical; the rest waits for their end." }
            (check("quiet", "Keep quiet hours", said.is_some()))
            div.row.times {
                (time("quiet-from", "From", times.0, fault(faults, "/quiet_hours/from").as_ref()))
                (time("quiet-to", "To", times.1, fault(faults, "/quiet_hours/to").as_ref()))
            }
            div.choices role="group" aria-label="Days on which they begin" {
                @for (day, value, label) in DAYS {
                    label.choice { input type="checkbox" name="day" value=(value) checked[is_on(day)]; " " (label) }
                }
            }
            (wrong("days-wrong", days.as_ref()))
        }
    }
}

fn digest(said: Option<&Digest>, faults: &[FieldError]) -> Markup {
    let at = said.map_or(DIGEST, |said| said.at.as_str());
    html! {
        fieldset.field {
            legend { "One mail a day" }
            p.hint { "Of what is open, and which runs have ended that you follow, as far as it has not left Holdpoint for you otherwise." }
            (check("digest", "Mail me once a day", said.is_some()))
            (time("digest-at", "At", at, fault(faults, "/digest").as_ref()))
        }
    }
}

/// What was filled in. Whether it will do, its owner knows.
pub(super) fn read(fields: &Fields) -> Preferences {
    let text = |name: &str| fields.said(name).unwrap_or_default().to_owned();
    let is_on = |name: &str| fields.get(name).is_some();
    let from = |name: &str| text(name).parse().unwrap_or(Priority::Low);
    let chat = fields.said("chat-url").map(|url| Chat {
        enabled: is_on("chat"),
        from: from("chat-from"),
        url: Some(url.to_owned()),
        format: match fields.get("chat-format") {
            Some("standard") => WebhookFormat::Standard,
            Some(_) | None => WebhookFormat::Slack,
        },
        secret: None,
    });
    let order = match (&chat, fields.get("first")) {
        (None, _) => vec![PersonalChannel::Email],
        (Some(_), Some("chat")) => vec![PersonalChannel::Chat, PersonalChannel::Email],
        (Some(_), _) => vec![PersonalChannel::Email, PersonalChannel::Chat],
    };
    Preferences {
        channels: Channels {
            order,
            email: ChannelRule {
                enabled: is_on("mail"),
                from: from("mail-from"),
            },
            chat,
        },
        time_zone: text("zone"),
        quiet_hours: is_on("quiet").then(|| QuietHours {
            from: text("quiet-from"),
            to: match (&*text("quiet-from"), text("quiet-to")) {
                // As it was shown: a field for times has no end of the day.
                (MIDNIGHT, to) if to == MIDNIGHT => DAYS_END.to_owned(),
                (_, to) => to,
            },
            days: days(fields),
        }),
        digest: is_on("digest").then(|| Digest {
            at: text("digest-at"),
        }),
    }
}

/// All of them is every day, and so is none.
fn days(fields: &Fields) -> Vec<Day> {
    let chosen = |value: &str| {
        fields
            .0
            .iter()
            .any(|(name, one)| name == "day" && one == value)
    };
    let days: Vec<_> = DAYS
        .into_iter()
        .filter(|(_, value, _)| chosen(value))
        .map(|(day, ..)| day)
        .collect();
    if days.len() == DAYS.len() {
        Vec::new()
    } else {
        days
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What a browser sends of a form, as far as it is of a kind that this one has.
    fn sent(html: &str) -> Fields {
        let attribute = |tag: &str, name: &str| {
            let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
            Some(rest.split('"').next()?.to_owned())
        };
        let mut fields = Vec::new();
        let mut select = String::new();
        for tag in html.split('<').filter_map(|part| part.split('>').next()) {
            let value = attribute(tag, "value");
            if tag.starts_with("select ") {
                select = attribute(tag, "name").unwrap();
            } else if tag.starts_with("option ") && tag.ends_with(" selected") {
                fields.push((select.clone(), value.unwrap()));
            } else if tag.starts_with("input ") {
                let is_choice = tag.contains("\"checkbox\"") || tag.contains("\"radio\"");
                if !is_choice || tag.contains(" checked") {
                    fields.push((attribute(tag, "name").unwrap(), value.unwrap_or_default()));
                }
            }
        }
        Fields(fields)
    }

    fn again(said: &Preferences) -> Preferences {
        let now = chrono::DateTime::UNIX_EPOCH;
        let person = SignedInUser::played("ada", &["member"], now);
        read(&sent(&form(&person, said, None, &[]).into_string()))
    }

    /// Issue 4, deliverable 7: whoever saves what is shown changes nothing.
    #[test]
    fn what_is_shown_is_what_was_said() {
        let all: Preferences = serde_json::from_value(json!({
            "channels": {
                "order": ["chat", "email"],
                "email": { "enabled": true, "from": "high" },
                "chat": { "enabled": false, "from": "urgent", "url": "https://hooks.example/…", "format": "standard" },
            },
            "time_zone": "Europe/Berlin",
            "quiet_hours": { "from": "21:30", "to": "06:45", "days": ["fri", "sat"] },
            "digest": { "at": "07:15" },
        }))
        .unwrap();
        assert_eq!(again(&all), all);
        let nothing = Preferences::default();
        assert_eq!(again(&nothing), nothing);
        let whole_days = QuietHours {
            from: "00:00".to_owned(),
            to: "24:00".to_owned(),
            days: vec![Day::Sat, Day::Sun],
        };
        let said = Preferences {
            quiet_hours: Some(whole_days),
            ..Preferences::default()
        };
        assert_eq!(
            again(&said),
            said,
            "a field for times has no end of the day"
        );
        let every_day = QuietHours {
            from: "22:00".to_owned(),
            to: "07:00".to_owned(),
            days: Day::ALL.to_vec(),
        };
        let said = Preferences {
            quiet_hours: Some(every_day),
            ..Preferences::default()
        };
        assert_eq!(again(&said).quiet_hours.unwrap().days, []);
    }

    /// A way that is not named in the order is not used: it is shown as off.
    #[test]
    fn a_way_that_is_not_used_is_off() {
        let said = json!({ "channels": { "order": ["chat"], "chat": { "url": "https://hooks.example/…" } } });
        let said: Preferences = serde_json::from_value(said).unwrap();
        let now = again(&said);
        assert!(!now.channels.email.enabled);
        assert_eq!(
            now.channels.order,
            [PersonalChannel::Chat, PersonalChannel::Email]
        );
        assert!(now.channels.chat.unwrap().enabled);
    }

    /// "Must": what somebody wrote is text.
    #[test]
    fn what_is_wrong_is_said_at_its_field() {
        let said = Preferences {
            time_zone: "\"><script>x</script>".to_owned(),
            ..Preferences::default()
        };
        let person = SignedInUser::played("ada", &["member"], chrono::DateTime::UNIX_EPOCH);
        let wrong = FieldError {
            nearest: vec!["Europe/Berlin".to_owned()],
            ..FieldError::at("/time_zone", "time_zone is the name of a zone")
        };
        let html = form(&person, &said, Some("<b>@x"), &[wrong]).into_string();
        assert!(
            !html.contains("<script>") && !html.contains("<b>@x"),
            "{html}"
        );
        assert!(
            html.contains("This is the name of a zone. Perhaps: Europe/Berlin"),
            "{html}"
        );
        assert!(html.contains("aria-invalid=\"true\""), "{html}");
    }
}
