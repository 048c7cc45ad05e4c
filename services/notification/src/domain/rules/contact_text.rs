//! Headlines and sentences of notifications of contacts. Names are texts of others, so they are on one line and bounded.

use holdpoint_contracts::notification::{ContactEvent, ContactEventKind, EVENT_NAME_CHARS_MAX};

use super::notification_text::headline;
use super::plain_text::{cut, line};

/// `Deal won: Pilot (Zoe Zimmer)`
#[must_use]
pub fn contact_title(event: &ContactEvent) -> String {
    let contact = contact_name(event);
    let about = match event.deal.as_deref().and_then(shown) {
        Some(deal) => format!("{deal} ({contact})"),
        None => contact,
    };
    headline(&format!("{}: {about}", label(event.kind)))
}

/// `The deal Pilot of Zoe Zimmer is won.`
#[must_use]
pub fn contact_message(event: &ContactEvent, is_last: bool) -> String {
    let contact = contact_name(event);
    let deal = event.deal.as_deref().and_then(shown);
    let deal = deal.map_or_else(|| "A deal".to_owned(), |deal| format!("The deal {deal}"));
    let word = match event.kind {
        ContactEventKind::NewLead => {
            let more = is_last
                .then_some(" You are not notified of further new leads in this hour of the clock.");
            return format!("{contact} is a new contact.{}", more.unwrap_or_default());
        }
        ContactEventKind::DealWon => "won",
        ContactEventKind::DealLost => "lost",
        ContactEventKind::ContactErased => return "The contact is erased.".to_owned(),
    };
    let mut message = format!("{deal} of {contact} is {word}.");
    match event.more_deals {
        0 => {}
        1 => message.push_str(" One more deal of the contact is too."),
        more => message.push_str(&format!(" {more} more deals of the contact are too.")),
    }
    if is_last {
        message.push_str(&format!(
            " You are not notified of further {word} deals in this hour of the clock."
        ));
    }
    message
}

const fn label(kind: ContactEventKind) -> &'static str {
    match kind {
        ContactEventKind::NewLead => "New lead",
        ContactEventKind::DealWon => "Deal won",
        ContactEventKind::DealLost => "Deal lost",
        ContactEventKind::ContactErased => "Contact erased",
    }
}

/// The name, or else the id.
fn contact_name(event: &ContactEvent) -> String {
    let name = event.name.as_deref().and_then(shown);
    name.unwrap_or_else(|| event.contact.to_string())
}

/// A name on one line; none if nothing of it is visible.
fn shown(name: &str) -> Option<String> {
    let name = cut(&line(name), EVENT_NAME_CHARS_MAX);
    (!name.is_empty()).then_some(name)
}
