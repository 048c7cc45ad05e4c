//! A person's own chat: which addresses are valid, what is stored of them, and what is shown.

use holdpoint_contracts::FieldError;
use holdpoint_contracts::notification::{Channels, PersonalChannel, Preferences};

use crate::domain::model::webhook::{URL_BYTES_MAX, parse_url};

/// Ends an address that is not shown whole.
const MORE: &str = "…";

/// Every error of the channels that shows without stored preferences.
pub(super) fn wrong(channels: &Channels) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let order = &channels.order;
    let count = |channel: &PersonalChannel| order.iter().filter(|one| *one == channel).count();
    let is_twice = order.iter().any(|channel| count(channel) > 1);
    if order.is_empty() || is_twice {
        let message = "channels.order names email, chat or both, each once; to be notified by none, disable them";
        errors.push(FieldError::at("/channels/order", message));
    }
    let chat = channels.chat.as_ref();
    if chat.is_none() && order.contains(&PersonalChannel::Chat) {
        let message = "channels.order names chat: say where that is in channels.chat.url";
        errors.push(FieldError::at("/channels/chat", message));
    }
    let url = chat.and_then(|chat| chat.url.as_deref());
    if url.is_some_and(|url| parse_url(url).is_none()) {
        let message = format!(
            "channels.chat.url is an http or https address of at most {URL_BYTES_MAX} bytes"
        );
        errors.push(FieldError::at("/channels/chat/url", message));
    }
    errors
}

/// Completes new preferences with the stored address and secret of the chat. `None`: the address of the
/// chat is missing. `fresh` signs the calls of a new chat.
pub(crate) fn merge_chat(
    known: Option<&Preferences>,
    said: &Preferences,
    fresh: &str,
) -> Option<Preferences> {
    let mut merged = said.clone();
    let Some(chat) = &mut merged.channels.chat else {
        return Some(merged);
    };
    let before = known.and_then(|known| known.channels.chat.as_ref());
    let known_url = before.and_then(|before| before.url.as_ref());
    let given = chat.url.take();
    let is_kept = given.as_deref().is_none_or(|given| given.ends_with(MORE));
    chat.url = if !is_kept {
        given
    } else if given.is_none() || given == known_url.map(|url| masked(url)) {
        known_url.cloned()
    } else {
        None
    };
    chat.url.as_ref()?;
    let same = before.filter(|before| before.url == chat.url);
    let secret = same.and_then(|before| before.secret.clone());
    chat.secret = secret.or_else(|| Some(fresh.to_owned()));
    Some(merged)
}

/// Preferences as their person sees them. The address of a chat is masked: it alone lets anybody post there.
#[must_use]
pub fn masked_preferences(said: &Preferences) -> Preferences {
    let mut shown = said.clone();
    if let Some(chat) = &mut shown.channels.chat {
        chat.url = chat.url.as_deref().map(masked);
        chat.secret = None;
    }
    shown
}

/// `https://hooks.slack.example/…`
fn masked(url: &str) -> String {
    let origin = parse_url(url).map(|url| url.origin().ascii_serialization());
    format!("{}/{MORE}", origin.unwrap_or_default())
}
