//! Words that send a mail. The text in quotes after `email` is the name of a template.

use serde_json::{Map, Value};
use winnow::Parser as _;
use winnow::combinator::{alt, opt, peek, preceded};

use crate::draft::{Action, text_field};
use crate::line_parser::{
    Input, Parsed, article, comma, filled_text, phrase, quoted_if, refuse, take_word, with_need,
};
use crate::recipients::{address, is_address};
use crate::values::{placeholder, text_value};

/// The address of the contact of the run.
pub(crate) const CONTACT_ADDRESS: &str = "{{ contact.email }}";

/// What is sent.
enum Mail {
    Template(String),
    Written { subject: String, body: String },
}

/// Reads a line that sends a mail.
pub(crate) fn mail(input: &mut Input<'_>) -> Parsed<Action> {
    alt((
        send_template_to,
        send_to_with,
        send_written_to,
        send_quoted_mail,
        send_recipient_mail,
        mail_recipient,
    ))
    .parse_next(input)
}

/// `send email "Introduction" to contact`.
fn send_template_to(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["send"])(input)?;
    article(input)?;
    mail_noun(input)?;
    let template = filled_text(input)?;
    let to = preceded(phrase(&["to"]), mail_recipient_name).parse_next(input)?;
    Ok(send(to, Mail::Template(template)))
}

/// `send email to contact with subject "Hi" and body "…"`.
fn send_to_with(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["send"])(input)?;
    article(input)?;
    mail_noun(input)?;
    let to = preceded(phrase(&["to"]), mail_recipient_name).parse_next(input)?;
    content(input).map(|mail| send(to, mail))
}

/// `send email with subject "Hi" and body "…" to contact`.
fn send_written_to(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["send"])(input)?;
    article(input)?;
    mail_noun(input)?;
    let mail = written(input)?;
    let to = preceded(phrase(&["to"]), mail_recipient_name).parse_next(input)?;
    Ok(send(to, mail))
}

/// `send the "Introduction" email to contact`.
fn send_quoted_mail(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["send"])(input)?;
    article(input)?;
    let template = filled_text(input)?;
    mail_noun(input)?;
    let to = preceded(phrase(&["to"]), mail_recipient_name).parse_next(input)?;
    Ok(send(to, Mail::Template(template)))
}

/// `send the contact the email "Introduction"`.
fn send_recipient_mail(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["send"])(input)?;
    let to = mail_recipient_name(input)?;
    article(input)?;
    let after = preceded(mail_noun, alt((filled_text.map(Mail::Template), content)));
    let before = (filled_text, mail_noun).map(|(template, ())| Mail::Template(template));
    alt((after, before))
        .map(|mail| send(to.clone(), mail))
        .parse_next(input)
}

/// `email contact "Introduction"`.
fn mail_recipient(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["email", "e-mail", "mail"])(input)?;
    let template_first = (filled_text, preceded(phrase(&["to"]), mail_recipient_name))
        .map(|(template, to)| send(to, Mail::Template(template)));
    let recipient_first = (
        mail_recipient_name,
        alt((filled_text.map(Mail::Template), content)),
    )
        .map(|(to, mail)| send(to, mail));
    alt((template_first, recipient_first)).parse_next(input)
}

fn mail_noun(input: &mut Input<'_>) -> Parsed<()> {
    phrase(&["email", "e-mail", "mail"])(input)
}

/// A template, or a subject with a body.
fn content(input: &mut Input<'_>) -> Parsed<Mail> {
    let template = phrase(&[
        "with template",
        "with the template",
        "from template",
        "using template",
        "using the template",
    ]);
    let any = alt((preceded(template, filled_text).map(Mail::Template), written));
    with_need("`with subject \"…\" and body \"…\"`", any)(input)
}

fn written(input: &mut Input<'_>) -> Parsed<Mail> {
    let mut subject = preceded(
        phrase(&["with subject", "with the subject", "subject"]),
        text_value,
    );
    let subject = subject.parse_next(input)?;
    let body = phrase(&[
        "and body",
        "and the body",
        "with body",
        "body",
        "saying",
        "and text",
        "and saying",
    ]);
    let body = preceded((opt(comma), body), text_value).parse_next(input)?;
    Ok(Mail::Written { subject, body })
}

/// The contact, an address or a placeholder.
fn mail_recipient_name(input: &mut Input<'_>) -> Parsed<String> {
    let contact = phrase(&["contact", "the contact"]).value(CONTACT_ADDRESS.to_owned());
    let quoted = quoted_if("an address in quotes", |text| {
        is_address(text) || text.contains("{{")
    });
    if opt(peek(recipient_of_requests))
        .parse_next(input)?
        .is_some()
    {
        let message = "A mail goes to `contact` or to an address; `@user.…` and `@role.…` are for `Ask` and `Hand off to`";
        return refuse(input, message);
    }
    let any = alt((contact, placeholder, address, quoted));
    with_need("`contact`", any)(input)
}

/// A person of the workspace, who has no address in an agent.
fn recipient_of_requests(input: &mut Input<'_>) -> Parsed<()> {
    take_word(input, "`contact`", |word| {
        word.starts_with('@').then_some(())
    })
}

fn send(to: String, mail: Mail) -> Action {
    let content = match mail {
        Mail::Template(name) => vec![text_field("template", name)],
        Mail::Written { subject, body } => {
            vec![text_field("subject", subject), text_field("body", body)]
        }
    };
    let args: Map<String, Value> = [text_field("to", to)].into_iter().chain(content).collect();
    Action::Tool {
        tool: "send_email".to_owned(),
        args: Some(args),
    }
}
