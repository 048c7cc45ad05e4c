//! The webhooks of a workspace: what there is and whether it is called, and the form for one more.

use holdpoint_contracts::FieldError;
use holdpoint_contracts::notification::{
    AddWebhook, ChangeWebhook, WebhookFormat, WebhookStatus, WebhookView,
};
use holdpoint_ids::WebhookId;
use maud::{Markup, html};

use super::super::labels::{self, Tone};
use super::super::sanitize::line;
use super::super::session::{Fields, SignedInUser};
use super::{HERE, fault, wrong};

/// What most are told of.
const KINDS: [(&str, &str); 5] = [
    ("*", "Everything"),
    ("approval.*", "Approvals"),
    ("input.*", "Questions"),
    ("handoff.*", "Handoffs"),
    ("run.*", "Ends of all runs"),
];

/// A webhook that somebody wants.
pub(super) struct Wanted {
    /// Made with the form: sent twice, it is added once.
    id: WebhookId,
    url: String,
    events: Vec<String>,
    format: WebhookFormat,
}

impl Wanted {
    fn fresh() -> Self {
        Self {
            id: WebhookId::fresh(),
            url: String::new(),
            events: vec!["*".to_owned()],
            format: WebhookFormat::Standard,
        }
    }

    pub(super) fn read(fields: &Fields) -> Self {
        let chosen = fields.0.iter().filter(|(name, _)| name == "event");
        let chosen = chosen.map(|(_, value)| value.trim());
        let named = fields.get("names").unwrap_or_default();
        let named = named.split(|c: char| c == ',' || c.is_whitespace());
        let mut events: Vec<_> = chosen.chain(named).map(str::to_owned).collect();
        events.retain(|event| !event.is_empty());
        events.dedup();
        let id = fields.get("id").and_then(|id| id.parse().ok());
        Self {
            id: id.unwrap_or_else(WebhookId::fresh),
            url: fields.said("url").unwrap_or_default().to_owned(),
            events,
            format: match fields.get("format") {
                Some("slack") => WebhookFormat::Slack,
                Some(_) | None => WebhookFormat::Standard,
            },
        }
    }

    pub(super) fn command(&self) -> AddWebhook {
        AddWebhook {
            id: self.id,
            url: self.url.clone(),
            events: self.events.clone(),
            format: self.format,
        }
    }
}

/// The same one, called again or not any more.
pub(super) fn switched(known: WebhookView, enabled: bool) -> ChangeWebhook {
    ChangeWebhook {
        id: known.id,
        url: known.url,
        events: known.events,
        format: known.format,
        enabled,
    }
}

/// What there is, oldest first.
pub(super) fn list(person: &SignedInUser, hooks: &[WebhookView]) -> Markup {
    html! {
        section #webhooks {
            h2 { "Webhooks" }
            @if hooks.is_empty() {
                p.muted { "None. A webhook tells a program, or a channel of people, what happens to requests, and how all runs end." }
            } @else {
                ul.hooks {
                    @for hook in hooks { li { (one(person, hook)) } }
                }
            }
        }
    }
}

fn one(person: &SignedInUser, hook: &WebhookView) -> Markup {
    let format = match hook.format {
        WebhookFormat::Standard => "Standard Webhooks",
        WebhookFormat::Slack => "Slack",
    };
    let button = |what: &str, class: &str, label: &str| {
        html! {
            form method="post" action={ (HERE) "/webhooks/" (hook.id) } {
                input type="hidden" name="csrf" value=(person.csrf());
                input type="hidden" name="do" value=(what);
                button class=(class) { (label) span.hidden { ": " (line(&hook.url, 200)) } }
            }
        }
    };
    html! {
        div.chips {
            @match (hook.status, hook.failing_since) {
                (WebhookStatus::Active, None) => { (labels::chip(Tone::Good, "Called")) }
                (WebhookStatus::Active, Some(_)) => { (labels::chip(Tone::Waits, "Failing")) }
                (WebhookStatus::Disabled | WebhookStatus::Removed, _) => { (labels::chip(Tone::Bad, "Disabled")) }
            }
            span.kind { (format) }
        }
        p.address { (line(&hook.url, 2_048)) }
        p.meta {
            span { "Told of " (told_of(&hook.events)) }
            span { "Added by " (hook.created_by) " on " (labels::instant(hook.created_at, person.zone)) }
            @if let Some(since) = hook.failing_since { span { "No call was taken since " (labels::instant(since, person.zone)) } }
            @if let Some(since) = hook.disabled_at { span { "Not called since " (labels::instant(since, person.zone)) } }
        }
        @if let Some(error) = &hook.last_error { p.why { (line(error, 300)) } }
        div.row {
            @if hook.status == WebhookStatus::Disabled {
                (button("enable", "primary", "Call it again"))
            } @else {
                (button("disable", "", "Do not call it"))
            }
            details.unfold {
                summary.button { "Remove…" }
                div.stack {
                    p { "What is on its way to it is dropped, and its secret is worth nothing any more." }
                    (button("remove", "danger", "Remove"))
                }
            }
        }
    }
}

/// Kinds in the words of the form, single events by their names.
fn told_of(events: &[String]) -> String {
    let words = |event: &String| {
        let kind = KINDS.iter().find(|(value, _)| value == event);
        kind.map_or_else(|| event.clone(), |(_, label)| label.to_lowercase())
    };
    let all: Vec<_> = events.iter().map(words).collect();
    line(&all.join(", "), 400)
}

/// One more.
pub(super) fn form(person: &SignedInUser, tried: Option<&Wanted>, faults: &[FieldError]) -> Markup {
    let fresh = Wanted::fresh();
    let wanted = tried.unwrap_or(&fresh);
    let faults = if tried.is_some() { faults } else { &[] };
    let (url, events) = (fault(faults, "/url"), fault(faults, "/events"));
    let is_kind = |event: &&String| KINDS.iter().any(|(value, _)| value == event);
    let named = wanted.events.iter().filter(|event| !is_kind(event));
    let named: Vec<_> = named.map(String::as_str).collect();
    html! {
        form.panel.settings #add-webhook method="post" action={ (HERE) "/webhooks" } {
            input type="hidden" name="csrf" value=(person.csrf());
            input type="hidden" name="id" value=(wanted.id);
            h2 { "Add a webhook" }
            div.field {
                label for="hook-url" { "Its address" }
                input #hook-url name="url" value=(wanted.url) required autocomplete="off" spellcheck="false"
                    placeholder="https://example.com/holdpoint" aria-describedby="hook-url-wrong"
                    autofocus[url.is_some()] aria-invalid=[url.as_ref().map(|_| "true")];
                (wrong("hook-url-wrong", url.as_ref()))
            }
            fieldset.field {
                legend { "Of what it is told" }
                div.choices {
                    @for (value, label) in KINDS {
                        label.choice {
                            input type="checkbox" name="event" value=(value)
                                checked[wanted.events.iter().any(|event| event == value)];
                            " " (label)
                        }
                    }
                }
                label for="hook-names" { "Single events " span.muted { "(optional, such as " code { "approval.decided" } ")" } }
                input #hook-names name="names" value=(named.join(", ")) autocomplete="off" spellcheck="false"
                    aria-describedby="hook-names-wrong" autofocus[events.is_some()] aria-invalid=[events.as_ref().map(|_| "true")];
                (wrong("hook-names-wrong", events.as_ref()))
            }
            div.field {
                label for="hook-format" { "In the words of" }
                select #hook-format name="format" {
                    option value="standard" selected[wanted.format == WebhookFormat::Standard] { "Standard Webhooks, for a program" }
                    option value="slack" selected[wanted.format == WebhookFormat::Slack] { "Slack, for a channel of people" }
                }
            }
            div.row { button.primary { "Add" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Fields(pairs.iter().map(own).collect())
    }

    #[test]
    fn kinds_are_chosen_and_single_events_are_named() {
        let sent = fields(&[
            ("url", " https://x.example/ "),
            ("event", "approval.*"),
            (
                "names",
                "input.answered, handoff.expired  handoff.completed",
            ),
            ("format", "slack"),
        ]);
        let wanted = Wanted::read(&sent);
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
            Wanted::read(&twice).id,
            wanted.id,
            "the same again is the same"
        );
        assert_eq!(Wanted::read(&twice).events, Vec::<String>::new());
    }
}
