//! The webhooks of a workspace and their status, and the form that adds one.

use holdpoint_contracts::FieldError;
use holdpoint_contracts::notification::{
    AddWebhook, ChangeWebhook, WebhookFormat, WebhookStatus, WebhookView,
};
use holdpoint_ids::WebhookId;
use maud::{Markup, html};

use super::super::inputs::{Input, field_error};
use super::super::labels::{self, Tone};
use super::super::request_forms::unfold;
use super::super::sanitize::one_line;
use super::super::session::{Fields, SignedInUser};
use super::form::{PATH, choice, format_select};

/// Groups of events that the form offers.
const EVENT_GROUPS: [(&str, &str); 5] = [
    ("*", "Everything"),
    ("approval.*", "Approvals"),
    ("input.*", "Questions"),
    ("handoff.*", "Handoffs"),
    ("run.*", "Ends of all runs"),
];

/// The webhook of the empty form. Its id is made with the form, so that a second submit adds nothing.
fn empty() -> AddWebhook {
    AddWebhook {
        id: WebhookId::fresh(),
        url: String::new(),
        events: vec!["*".to_owned()],
        format: WebhookFormat::Standard,
    }
}

pub(super) fn read(fields: &Fields) -> AddWebhook {
    let chosen = fields.get_all("event").map(str::trim);
    let typed = fields.get("names").unwrap_or_default();
    let typed = typed.split(|c: char| c == ',' || c.is_whitespace());
    let mut events: Vec<_> = chosen.chain(typed).map(str::to_owned).collect();
    events.retain(|event| !event.is_empty());
    events.dedup();
    let id = fields.get("id").and_then(|id| id.parse().ok());
    AddWebhook {
        id: id.unwrap_or_else(WebhookId::fresh),
        url: fields.get_text("url").unwrap_or_default().to_owned(),
        events,
        format: fields.get_word("format").unwrap_or_default(),
    }
}

/// The command that enables or disables a webhook and changes nothing else.
pub(super) fn change(known: WebhookView, enabled: bool) -> ChangeWebhook {
    ChangeWebhook {
        id: known.id,
        url: known.url,
        events: known.events,
        format: known.format,
        enabled,
    }
}

/// All webhooks, the oldest first.
pub(super) fn list(user: &SignedInUser, hooks: &[WebhookView]) -> Markup {
    html! {
        section #webhooks {
            h2 { "Webhooks" }
            @if hooks.is_empty() {
                p.muted { "No webhooks. A webhook notifies a program or a chat channel about requests and the ends of runs." }
            } @else {
                ul.hooks { @for hook in hooks { li { (entry(user, hook)) } } }
            }
        }
    }
}

fn entry(user: &SignedInUser, hook: &WebhookView) -> Markup {
    let format = match hook.format {
        WebhookFormat::Standard => "Standard Webhooks",
        WebhookFormat::Slack => "Slack",
    };
    let (tone, status) = match (hook.status, hook.failing_since) {
        (WebhookStatus::Active, None) => (Tone::Good, "Active"),
        (WebhookStatus::Active, Some(_)) => (Tone::Waits, "Failing"),
        (WebhookStatus::Disabled | WebhookStatus::Removed, _) => (Tone::Bad, "Disabled"),
    };
    let path = format!("{PATH}/webhooks/{}", hook.id);
    let button = |action: &str, class: &str, label: &str| {
        let url = one_line(&hook.url, 200);
        let inside = html! { button class=(class) { (label) span.hidden { ": " (url) } } };
        user.form(&path, "", &[("do", action)], &inside)
    };
    let remove = html! {
        p { "Pending deliveries are dropped, and the secret becomes invalid." }
        (button("remove", "danger", "Remove"))
    };
    html! {
        div.chips { (labels::chip(tone, status)) span.kind { (format) } }
        p.address { (one_line(&hook.url, 2_048)) }
        p.meta {
            span { "Events: " (event_labels(&hook.events)) }
            span { "Added by " (hook.created_by) " on " (labels::instant(hook.created_at, user.zone)) }
            @if let Some(since) = hook.failing_since { span { "Failing since " (labels::instant(since, user.zone)) } }
            @if let Some(since) = hook.disabled_at { span { "Disabled since " (labels::instant(since, user.zone)) } }
        }
        @if let Some(error) = &hook.last_error { p.why { (one_line(error, 300)) } }
        div.row {
            @if hook.status == WebhookStatus::Disabled { (button("enable", "primary", "Enable")) }
            @else { (button("disable", "", "Disable")) }
            (unfold("Remove…", false, &remove))
        }
    }
}

/// Groups as in the form, and single events by their names.
fn event_labels(events: &[String]) -> String {
    let label = |event: &String| {
        let group = EVENT_GROUPS.iter().find(|(value, _)| value == event);
        group.map_or_else(|| event.clone(), |(_, label)| label.to_lowercase())
    };
    let all: Vec<_> = events.iter().map(label).collect();
    one_line(&all.join(", "), 400)
}

/// The form that adds a webhook, with the submitted one after a refusal.
pub(super) fn add_form(
    user: &SignedInUser,
    submitted: Option<AddWebhook>,
    errors: &[FieldError],
) -> Markup {
    // Without a submitted webhook the errors belong to another form.
    let errors = if submitted.is_some() { errors } else { &[] };
    let webhook = submitted.unwrap_or_else(empty);
    let is_group = |event: &&String| EVENT_GROUPS.iter().any(|(value, _)| value == event);
    let single = webhook.events.iter().filter(|event| !is_group(event));
    let single: Vec<_> = single.map(String::as_str).collect();
    let single = single.join(", ");
    let url = Input {
        placeholder: Some("https://example.com/holdpoint"),
        required: true,
        ..Input::text("url", &webhook.url, field_error(errors, "/url"))
    };
    let names = Input::text("names", &single, field_error(errors, "/events"));
    let is_chosen = |group: &str| webhook.events.iter().any(|event| event == group);
    let inside = html! {
        h2 { "Add a webhook" }
        div.field { (url.render(&html! { "URL" })) }
        fieldset.field {
            legend { "Events" }
            div.choices {
                @for (value, label) in EVENT_GROUPS { (choice("checkbox", "event", value, label, is_chosen(value))) }
            }
            (names.render(&html! { "Single events " span.muted { "(optional, such as " code { "approval.decided" } ")" } }))
        }
        div.field { (format_select("format", webhook.format, "Slack, for a channel of people")) }
        div.row { button.primary { "Add" } }
    };
    let id = webhook.id.to_string();
    let hidden = [("id", id.as_str())];
    user.form("/settings/webhooks", "panel settings", &hidden, &inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Fields(pairs.iter().map(own).collect())
    }

    #[test]
    fn groups_are_chosen_and_single_events_are_typed() {
        let sent = fields(&[
            ("url", " https://x.example/ "),
            ("event", "approval.*"),
            (
                "names",
                "input.answered, handoff.expired  handoff.completed",
            ),
            ("format", "slack"),
        ]);
        let wanted = read(&sent);
        assert_eq!(wanted.url, "https://x.example/");
        assert_eq!(
            wanted.events,
            [
                "approval.*",
                "input.answered",
                "handoff.expired",
                "handoff.completed"
            ]
        );
        assert_eq!(wanted.format, WebhookFormat::Slack);
        let twice = fields(&[("id", &wanted.id.to_string()), ("url", "x")]);
        assert_eq!(
            read(&twice).id,
            wanted.id,
            "a second submit has the same id"
        );
        assert_eq!(read(&twice).events, Vec::<String>::new());
    }
}
