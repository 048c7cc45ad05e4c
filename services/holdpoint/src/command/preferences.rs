//! `preferences` and `webhooks`: by which ways people and programs are told.

use holdpoint_contracts::notification::{
    ChannelRule, DeliveryView, Preferences, WebhookAdded, WebhookView,
};
use holdpoint_contracts::run::Page;
use serde_json::{Map, Value, json};

use super::short_id::Listed;
use super::{ClientCommand, Session, instant, list, page_query, show};
use crate::cli::{PreferencesCommand, SetPreferences, WebhooksCommand};
use crate::client::{Body, segment};
use crate::exit::Outcome;

impl ClientCommand for PreferencesCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        let known: Body<Preferences> = session.client.get("preferences", &[]).await?;
        match self {
            Self::Show => show(session, &known, told),
            Self::Set(args) => {
                let mut said = serde_json::to_value(&known.value)?;
                change(&mut said, *args);
                let answer: Body<Preferences> = session.client.put("preferences", &said).await?;
                show(session, &answer, told)
            }
        }
    }
}

/// Puts what was typed into what was said before. The address of a chat is sent back as it is shown,
/// which keeps it.
fn change(said: &mut Value, args: SetPreferences) {
    let SetPreferences {
        order,
        email_from,
        email,
        chat_url,
        chat_format,
        chat_from,
        time_zone,
        quiet_hours,
        digest,
    } = args;
    let forgets_chat = chat_url.as_deref() == Some("none");
    let chat_url = chat_url.filter(|_| !forgets_chat);
    let order = (!order.is_empty()).then_some(order);
    let digest = digest.map(|at| match at.as_str() {
        "none" => Value::Null,
        at => json!({ "at": at }),
    });
    let (chat, mail) = (&["channels", "chat"][..], &["channels", "email"][..]);
    let channels = &["channels"][..];
    let changes = [
        (chat, "url", chat_url.map(Value::from)),
        (chat, "format", chat_format.map(Value::from)),
        (chat, "from", chat_from.map(Value::from)),
        (mail, "from", email_from.map(Value::from)),
        (mail, "enabled", email.map(Value::from)),
        (channels, "order", order.map(Value::from)),
        (channels, "chat", forgets_chat.then_some(Value::Null)),
        (&[], "time_zone", time_zone.map(Value::from)),
        (&[], "quiet_hours", quiet_hours),
        (&[], "digest", digest),
    ];
    for (path, name, value) in changes {
        put(said, path, name, value);
    }
}

/// A field of an object inside another, which is made where it is not there.
fn put(said: &mut Value, path: &[&str], name: &str, value: Option<Value>) {
    let Some(value) = value else { return };
    let mut at = said;
    for step in path {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(fields) = at else { return };
        at = fields.entry(*step).or_insert(Value::Null);
    }
    if !at.is_object() {
        *at = Value::Object(Map::new());
    }
    if let Value::Object(fields) = at {
        fields.insert(name.to_owned(), value);
    }
}

fn told(said: &Preferences) -> String {
    let channels = &said.channels;
    let order: Vec<_> = channels
        .order
        .iter()
        .map(|way| way.channel().as_str())
        .collect();
    let mut lines = vec![
        format!("order        {}", order.join(", then ")),
        format!("email        {}", rule(channels.email)),
    ];
    if let Some(chat) = &channels.chat {
        let takes = rule(ChannelRule {
            enabled: chat.enabled,
            from: chat.from,
        });
        let url = chat.url.as_deref().unwrap_or_default();
        lines.push(format!(
            "chat         {takes}, {} ({url})",
            chat.format.as_str()
        ));
        if let Some(secret) = &chat.secret {
            lines.push(format!("chat secret  {secret}   (shown this once)"));
        }
    }
    lines.push(format!("time zone    {}", said.time_zone));
    let quiet = said.quiet_hours.as_ref();
    let quiet = quiet.map_or_else(
        || "none".to_owned(),
        |quiet| format!("{} to {}", quiet.from, quiet.to),
    );
    lines.push(format!("quiet hours  {quiet}"));
    let digest = said.digest.as_ref().map_or("none", |digest| &digest.at);
    lines.push(format!("digest       {digest}"));
    lines.join("\n")
}

fn rule(rule: ChannelRule) -> String {
    if rule.enabled {
        format!("from {}", rule.from.as_str())
    } else {
        "off".to_owned()
    }
}

impl ClientCommand for WebhooksCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self {
            Self::List(page) => {
                let query = page_query(&page);
                let answer: Body<Page<WebhookView>> =
                    session.client.get("webhooks", &query).await?;
                let heading = ["WEBHOOK", "STATUS", "FORMAT", "EVENTS", "URL", "LAST ERROR"];
                list(session, &answer, &heading, row)
            }
            Self::Add {
                address,
                events,
                format,
            } => {
                let body = json!({ "url": address, "events": events, "format": format });
                let answer: Body<WebhookAdded> = session.client.post("webhooks", &body).await?;
                show(session, &answer, |added| {
                    let id = added.webhook.id;
                    format!(
                        "webhook  {id}\nsecret   {}   (shown this once)",
                        added.secret
                    )
                })
            }
            Self::Enable { id } => switch(session, &id, true).await,
            Self::Disable { id } => switch(session, &id, false).await,
            Self::Deliveries { id, page } => {
                let id = session.whole_id(Listed::Webhooks, &id).await?;
                let path = format!("webhooks/{}/deliveries", segment(&id)?);
                let query = page_query(&page);
                let answer: Body<Page<DeliveryView>> = session.client.get(&path, &query).await?;
                let heading = [
                    "SINCE",
                    "NOTIFICATION",
                    "STATE",
                    "TRIES",
                    "NEXT",
                    "LAST ERROR",
                ];
                list(session, &answer, &heading, delivery)
            }
            Self::Remove { id } => {
                let id = session.whole_id(Listed::Webhooks, &id).await?;
                let path = format!("webhooks/{}", segment(&id)?);
                let answer: Body<Value> = session.client.delete(&path).await?;
                show(session, &answer, |_| format!("{id}  removed"))
            }
        }
    }
}

/// All of a webhook is put again, but for whether it is called.
async fn switch(session: &Session, id: &str, enabled: bool) -> anyhow::Result<Outcome> {
    let id = session.whole_id(Listed::Webhooks, id).await?;
    let path = format!("webhooks/{}", segment(&id)?);
    let known: Body<WebhookView> = session.client.get(&path, &[]).await?;
    let WebhookView {
        url,
        events,
        format,
        ..
    } = known.value;
    let body = json!({ "url": url, "events": events, "format": format, "enabled": enabled });
    let answer: Body<WebhookView> = session.client.put(&path, &body).await?;
    show(session, &answer, |one| {
        format!("{}  {}  {}", one.id, one.status.as_str(), one.url)
    })
}

fn row(one: &WebhookView) -> Vec<String> {
    vec![
        one.id.to_string(),
        one.status.as_str().to_owned(),
        one.format.as_str().to_owned(),
        one.events.join(" "),
        one.url.clone(),
        one.last_error.clone().unwrap_or_default(),
    ]
}

fn delivery(one: &DeliveryView) -> Vec<String> {
    let state = serde_json::to_value(one.state).unwrap_or_default();
    vec![
        instant(one.at),
        one.notification.to_string(),
        state.as_str().unwrap_or_default().to_owned(),
        one.attempts.to_string(),
        one.next_at.map(instant).unwrap_or_default(),
        one.last_error.clone().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> SetPreferences {
        SetPreferences {
            order: Vec::new(),
            email_from: None,
            email: None,
            chat_url: None,
            chat_format: None,
            chat_from: None,
            time_zone: None,
            quiet_hours: None,
            digest: None,
        }
    }

    /// What is not named stays, and a chat is made where there was none.
    #[test]
    fn what_is_not_named_stays() {
        let before = serde_json::to_value(Preferences::default()).unwrap();
        let mut said = before.clone();
        change(&mut said, nothing());
        assert_eq!(said, before);
        let args = SetPreferences {
            order: vec!["chat".to_owned(), "email".to_owned()],
            chat_url: Some("https://chat.example/x".to_owned()),
            time_zone: Some("Asia/Kolkata".to_owned()),
            ..nothing()
        };
        change(&mut said, args);
        let read: Preferences = serde_json::from_value(said.clone()).unwrap();
        assert_eq!(read.time_zone, "Asia/Kolkata");
        assert_eq!(read.channels.order.len(), 2);
        assert!(read.channels.chat.is_some());
        let args = SetPreferences {
            order: vec!["email".to_owned()],
            chat_url: Some("none".to_owned()),
            ..nothing()
        };
        change(&mut said, args);
        let read: Preferences = serde_json::from_value(said).unwrap();
        assert_eq!(read.channels.chat, None);
        assert_eq!(read.time_zone, "Asia/Kolkata");
    }
}
