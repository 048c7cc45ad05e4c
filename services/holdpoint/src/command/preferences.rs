//! `preferences`: how the caller is notified.

use holdpoint_contracts::notification::{ChannelRule, Preferences};
use serde_json::{Map, Value, json};

use super::{ClientCommand, Session};
use crate::cli::notifications::{PreferencesCommand, SetPreferences};
use crate::client::{Body, Method};
use crate::exit::ExitKind;

impl ClientCommand for PreferencesCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        let current: Body<Preferences> = session.client.get("preferences", &[]).await?;
        let Self::Set(args) = self else {
            return session.show(&current, preferences_text);
        };
        let mut body = serde_json::to_value(&current.value)?;
        apply_changes(&mut body, *args);
        let saved = session
            .client
            .send_json(Method::PUT, "preferences", &body)
            .await?;
        session.show(&saved, preferences_text)
    }
}

/// Applies the options to the current preferences. The URL of a chat is sent back redacted as it was
/// received, and the API keeps the stored URL then.
fn apply_changes(body: &mut Value, args: SetPreferences) {
    let removes_chat = args.chat_url.as_deref() == Some("none");
    let chat_url = args.chat_url.filter(|_| !removes_chat);
    let order = (!args.order.is_empty()).then_some(args.order);
    let digest = args.digest.map(|at| match at.as_str() {
        "none" => Value::Null,
        at => json!({ "at": at }),
    });
    let (chat, email) = (&["channels", "chat"][..], &["channels", "email"][..]);
    let channels = &["channels"][..];
    let changes = [
        (chat, "url", chat_url.map(Value::from)),
        (chat, "format", args.chat_format.map(Value::from)),
        (chat, "from", args.chat_from.map(Value::from)),
        (email, "from", args.email_from.map(Value::from)),
        (email, "enabled", args.email.map(Value::from)),
        (channels, "order", order.map(Value::from)),
        (channels, "chat", removes_chat.then_some(Value::Null)),
        (&[], "time_zone", args.time_zone.map(Value::from)),
        (&[], "quiet_hours", args.quiet_hours),
        (&[], "digest", digest),
    ];
    for (path, name, value) in changes {
        if let Some(value) = value {
            let parent = path.iter().fold(&mut *body, |at, step| field(at, step));
            *field(parent, name) = value;
        }
    }
}

/// A field of an object. A value that is not an object becomes one.
fn field<'v>(value: &'v mut Value, name: &str) -> &'v mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    // Indexing by name inserts null if the field is missing.
    &mut value[name]
}

fn preferences_text(preferences: &Preferences) -> String {
    let channels = &preferences.channels;
    let order: Vec<_> = channels
        .order
        .iter()
        .map(|way| way.channel().as_str())
        .collect();
    let mut lines = vec![
        format!("order        {}", order.join(", then ")),
        format!("email        {}", rule_text(channels.email)),
    ];
    if let Some(chat) = &channels.chat {
        let rule = rule_text(ChannelRule {
            enabled: chat.enabled,
            from: chat.from,
        });
        let url = chat.url.as_deref().unwrap_or_default();
        let format = chat.format.as_str();
        lines.push(format!("chat         {rule}, {format} ({url})"));
        if let Some(secret) = &chat.secret {
            lines.push(format!("chat secret  {secret}   (shown once)"));
        }
    }
    let quiet = preferences.quiet_hours.as_ref();
    let quiet = quiet.map(|quiet| format!("{} to {}", quiet.from, quiet.to));
    let digest = preferences.digest.as_ref();
    let digest = digest.map_or("none", |digest| &digest.at);
    lines.extend([
        format!("time zone    {}", preferences.time_zone),
        format!("quiet hours  {}", quiet.as_deref().unwrap_or("none")),
        format!("digest       {digest}"),
    ]);
    lines.join("\n")
}

fn rule_text(rule: ChannelRule) -> String {
    if rule.enabled {
        format!("from {}", rule.from.as_str())
    } else {
        "off".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Omitted options stay as they are, and a missing chat is created.
    #[test]
    fn omitted_options_stay() {
        let before = serde_json::to_value(Preferences::default()).unwrap();
        let mut body = before.clone();
        apply_changes(&mut body, SetPreferences::default());
        assert_eq!(body, before);
        let args = SetPreferences {
            order: vec!["chat".to_owned(), "email".to_owned()],
            chat_url: Some("https://chat.example/x".to_owned()),
            time_zone: Some("Asia/Kolkata".to_owned()),
            ..SetPreferences::default()
        };
        apply_changes(&mut body, args);
        let read: Preferences = serde_json::from_value(body.clone()).unwrap();
        assert_eq!(read.time_zone, "Asia/Kolkata");
        assert_eq!(read.channels.order.len(), 2);
        assert!(read.channels.chat.is_some());
        let args = SetPreferences {
            order: vec!["email".to_owned()],
            chat_url: Some("none".to_owned()),
            ..SetPreferences::default()
        };
        apply_changes(&mut body, args);
        let read: Preferences = serde_json::from_value(body).unwrap();
        assert_eq!(read.channels.chat, None);
        assert_eq!(read.time_zone, "Asia/Kolkata");
    }
}
