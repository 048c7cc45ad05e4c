//! `put_preferences`: a person sets how they want to be notified.

use chrono::{DateTime, Utc};

use crate::domain::decision::{Decision, Outcome, decided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::model::{DeliveryRules, Preferences, masked_preferences, merge_chat};
use crate::domain::refusal::Refusal;

/// Sets preferences; deliveries that wait are decided again. `fresh` signs the calls of a new chat.
pub(crate) fn put_preferences(
    known: Option<&Preferences>,
    new: &Preferences,
    fresh: &str,
    now: DateTime<Utc>,
) -> Decision {
    let said = merge_chat(known.map(|known| &known.said), &new.said, fresh);
    let said = said.ok_or(Refusal::NoChatAddress)?;
    let mut reply = masked_preferences(&said);
    if let (Some(chat), Some(stored)) = (&mut reply.channels.chat, &said.channels.chat) {
        chat.secret = stored.secret.clone().filter(|secret| secret == fresh);
    }
    let reply = Reply::Preferences(reply);
    if known.is_some_and(|known| known.said == said) {
        return Ok(Outcome::Unchanged(reply));
    }
    let rules = DeliveryRules::read(&said).ok();
    let mut new = new.clone();
    new.digest_at = rules.and_then(|rules| rules.digest_after(now));
    new.said = said;
    new.version += known.map_or(0, |known| known.version);
    let reconsider = Effect::Reconsider {
        workspace: new.workspace.clone(),
        person: new.person.clone(),
    };
    Ok(decided(new, vec![reconsider], reply))
}
