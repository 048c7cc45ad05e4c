//! The form of notification preferences: rendered from them, and read into them again.

use holdpoint_contracts::FieldError;
use holdpoint_contracts::handoff::Weekday;
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{
    ChannelRule, Channels, Chat, Digest, PersonalChannel, Preferences, QuietHours, WebhookFormat,
};
use maud::{Markup, html};

use super::super::inputs::{Input, error_hint, field_error};
use super::super::sanitize::{humanize, one_line};
use super::super::session::{Fields, SignedInUser};
use super::form::{choice, format_select};

/// Times in fields that the user has not set.
const QUIET_HOURS: (&str, &str) = ("22:00", "07:00");
const DIGEST: &str = "08:00";

const MIDNIGHT: &str = "00:00";
const END_OF_DAY: &str = "24:00";

const DAYS: [(Weekday, &str, &str); 7] = [
    (Weekday::Mon, "mon", "Mon"),
    (Weekday::Tue, "tue", "Tue"),
    (Weekday::Wed, "wed", "Wed"),
    (Weekday::Thu, "thu", "Thu"),
    (Weekday::Fri, "fri", "Fri"),
    (Weekday::Sat, "sat", "Sat"),
    (Weekday::Sun, "sun", "Sun"),
];

/// The form with the saved or the submitted preferences.
pub(super) fn render(
    user: &SignedInUser,
    preferences: &Preferences,
    email: Option<&str>,
    errors: &[FieldError],
) -> Markup {
    let zone_error = field_error(errors, "/time_zone");
    let zone = Input {
        placeholder: Some("Europe/Berlin"),
        required: true,
        ..Input::text("zone", &preferences.time_zone, zone_error)
    };
    let inside = html! {
        h2 { "Notification preferences" }
        p.muted { "The Notifications page always shows everything. These settings control email and chat." }
        (email_fields(&preferences.channels, email))
        (chat_fields(&preferences.channels, errors))
        (order_fields(&preferences.channels))
        (quiet_hours_fields(preferences.quiet_hours.as_ref(), errors))
        (digest_fields(preferences.digest.as_ref(), errors))
        div.field { (zone.render(&html! { "Your time zone" })) }
        div.row { button.primary { "Save" } }
    };
    user.form("/settings/preferences", "panel settings", &[], &inside)
}

fn checkbox(name: &str, label: &str, is_checked: bool) -> Markup {
    html! {
        label.check { input type="checkbox" name=(name) value="on" checked[is_checked]; " " (label) }
    }
}

fn minimum_priority(name: &str, selected: Priority) -> Markup {
    html! {
        label for=(name) { "Minimum priority" }
        select id=(name) name=(name) {
            @for priority in Priority::ALL {
                option value=(priority.as_str()) selected[priority == selected] { (humanize(priority.as_str())) }
            }
        }
    }
}

fn email_fields(channels: &Channels, email: Option<&str>) -> Markup {
    let is_on = channels.email.enabled && channels.order.contains(&PersonalChannel::Email);
    html! {
        fieldset.field {
            legend { "Email" }
            @match email {
                Some(email) => { p.hint { "To " (one_line(email, 320)) } }
                None => { p.hint { "You have no email address yet. An owner can add it." } }
            }
            (checkbox("mail", "Send me emails", is_on))
            (minimum_priority("mail-from", channels.email.from))
        }
    }
}

fn chat_fields(channels: &Channels, errors: &[FieldError]) -> Markup {
    let chat = channels.chat.as_ref();
    let is_used = channels.order.contains(&PersonalChannel::Chat);
    let url = chat
        .and_then(|chat| chat.url.as_deref())
        .unwrap_or_default();
    let url = Input {
        placeholder: Some("https://hooks.slack.com/…"),
        ..Input::text("chat-url", url, field_error(errors, "/channels/chat"))
    };
    let format = chat.map_or(WebhookFormat::Slack, |chat| chat.format);
    html! {
        fieldset.field {
            legend { "Personal chat" }
            (url.render(&html! { "Incoming webhook URL " span.muted { "(optional)" } }))
            (checkbox("chat", "Send me chat messages", chat.is_none_or(|chat| chat.enabled && is_used)))
            (minimum_priority("chat-from", chat.map_or(Priority::Low, |chat| chat.from)))
            (format_select("chat-format", format, "Slack or compatible"))
        }
    }
}

fn order_fields(channels: &Channels) -> Markup {
    let chat_first = channels.order.first() == Some(&PersonalChannel::Chat);
    html! {
        fieldset.field {
            legend { "Preferred channel" }
            p.hint { "The other channel is used if the preferred one fails." }
            div.choices {
                (choice("radio", "first", "mail", "Email", !chat_first))
                (choice("radio", "first", "chat", "Chat", chat_first))
            }
        }
    }
}

fn time_field(name: &'static str, label: &str, value: &str, error: Option<String>) -> Markup {
    // A time input cannot show the end of a day.
    let value = if value == END_OF_DAY { MIDNIGHT } else { value };
    let input = Input {
        kind: "time",
        ..Input::text(name, value, error)
    };
    html! { div.field { (input.render(&html! { (label) })) } }
}

fn quiet_hours_fields(saved: Option<&QuietHours>, errors: &[FieldError]) -> Markup {
    let (from, to) = saved.map_or(QUIET_HOURS, |hours| (&hours.from, &hours.to));
    let is_on =
        |day: Weekday| saved.is_none_or(|hours| hours.days.is_empty() || hours.days.contains(&day));
    let days_error = field_error(errors, "/quiet_hours/days");
    html! {
        fieldset.field {
            legend { "Quiet hours" }
            p.hint { "Only urgent and critical notifications are sent during quiet hours. The others are sent afterwards." }
            (checkbox("quiet", "Use quiet hours", saved.is_some()))
            div.row.times {
                (time_field("quiet-from", "From", from, field_error(errors, "/quiet_hours/from")))
                (time_field("quiet-to", "To", to, field_error(errors, "/quiet_hours/to")))
            }
            div.choices role="group" aria-label="Days on which they begin" {
                @for (day, value, label) in DAYS { (choice("checkbox", "day", value, label, is_on(day))) }
            }
            (error_hint("days-wrong", days_error.as_ref()))
        }
    }
}

fn digest_fields(saved: Option<&Digest>, errors: &[FieldError]) -> Markup {
    let at = saved.map_or(DIGEST, |digest| digest.at.as_str());
    html! {
        fieldset.field {
            legend { "Daily digest" }
            p.hint { "A summary of open requests and finished runs you follow, unless you were already notified." }
            (checkbox("digest", "Send me a daily digest", saved.is_some()))
            (time_field("digest-at", "At", at, field_error(errors, "/digest")))
        }
    }
}

/// The submitted preferences. The notification service validates them.
pub(super) fn read(fields: &Fields) -> Preferences {
    let text = |name: &str| fields.get_text(name).unwrap_or_default().to_owned();
    let is_on = |name: &str| fields.get(name).is_some();
    let priority = |name: &str| fields.get_word(name).unwrap_or(Priority::Low);
    let chat = fields.get_text("chat-url").map(|url| Chat {
        enabled: is_on("chat"),
        from: priority("chat-from"),
        url: Some(url.to_owned()),
        format: fields
            .get_word("chat-format")
            .unwrap_or(WebhookFormat::Slack),
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
                from: priority("mail-from"),
            },
            chat,
        },
        time_zone: text("zone"),
        quiet_hours: is_on("quiet").then(|| read_quiet_hours(fields)),
        digest: is_on("digest").then(|| Digest {
            at: text("digest-at"),
        }),
    }
}

fn read_quiet_hours(fields: &Fields) -> QuietHours {
    let text = |name: &str| fields.get_text(name).unwrap_or_default().to_owned();
    let (from, mut to) = (text("quiet-from"), text("quiet-to"));
    // From midnight to midnight is a whole day, whose end a time input shows as 00:00.
    if from == MIDNIGHT && to == MIDNIGHT {
        to = END_OF_DAY.to_owned();
    }
    let is_chosen = |value: &str| fields.get_all("day").any(|day| day == value);
    let chosen = DAYS.iter().filter(|(_, value, _)| is_chosen(value));
    let mut days: Vec<_> = chosen.map(|(day, ..)| *day).collect();
    // No days means every day.
    if days.len() == DAYS.len() {
        days.clear();
    }
    QuietHours { from, to, days }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The fields that a browser sends for this form.
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

    fn save_unchanged(saved: &Preferences) -> Preferences {
        let now = chrono::DateTime::UNIX_EPOCH;
        let user = SignedInUser::for_test("ada", &["member"], now);
        read(&sent(&render(&user, saved, None, &[]).into_string()))
    }

    /// Saving the form unchanged changes nothing.
    #[test]
    fn the_form_shows_the_saved_preferences() {
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
        assert_eq!(save_unchanged(&all), all);
        let nothing = Preferences::default();
        assert_eq!(save_unchanged(&nothing), nothing);
        let whole_days = QuietHours {
            from: "00:00".to_owned(),
            to: "24:00".to_owned(),
            days: vec![Weekday::Sat, Weekday::Sun],
        };
        let saved = Preferences {
            quiet_hours: Some(whole_days),
            ..Preferences::default()
        };
        assert_eq!(
            save_unchanged(&saved),
            saved,
            "a time input has no end of the day"
        );
        let every_day = QuietHours {
            from: "22:00".to_owned(),
            to: "07:00".to_owned(),
            days: Weekday::ALL.to_vec(),
        };
        let saved = Preferences {
            quiet_hours: Some(every_day),
            ..Preferences::default()
        };
        assert_eq!(save_unchanged(&saved).quiet_hours.unwrap().days, []);
    }

    /// A channel that the order does not name is not used.
    #[test]
    fn an_unused_channel_is_shown_as_off() {
        let saved = json!({ "channels": { "order": ["chat"], "chat": { "url": "https://hooks.example/…" } } });
        let saved: Preferences = serde_json::from_value(saved).unwrap();
        let now = save_unchanged(&saved);
        assert!(!now.channels.email.enabled);
        assert_eq!(
            now.channels.order,
            [PersonalChannel::Chat, PersonalChannel::Email]
        );
        assert!(now.channels.chat.unwrap().enabled);
    }

    #[test]
    fn an_error_is_shown_at_its_field_and_input_is_escaped() {
        let saved = Preferences {
            time_zone: "\"><script>x</script>".to_owned(),
            ..Preferences::default()
        };
        let user = SignedInUser::for_test("ada", &["member"], chrono::DateTime::UNIX_EPOCH);
        let wrong = FieldError {
            nearest: vec!["Europe/Berlin".to_owned()],
            ..FieldError::at("/time_zone", "time_zone is the name of a zone")
        };
        let html = render(&user, &saved, Some("<b>@x"), &[wrong]).into_string();
        assert!(
            !html.contains("<script>") && !html.contains("<b>@x"),
            "{html}"
        );
        assert!(
            html.contains("This is the name of a zone. Did you mean Europe/Berlin?"),
            "{html}"
        );
        assert!(html.contains("aria-invalid=\"true\""), "{html}");
    }
}
