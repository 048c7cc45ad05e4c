//! Words that send a mail. The text in quotes after `email` is the name of a template.

use serde_json::{Map, Value};
use winnow::Parser as _;
use winnow::combinator::{alt, opt, peek, preceded};

use crate::draft::{Action, text_field};
use crate::line_parser::{
    Input, Parsed, article, comma, filled_text, is_same_word, phrase, quoted_if, refuse, take_word,
    with_need,
};
use crate::recipients::{address, is_address};
use crate::values::{filled_value, is_name, placeholder};

/// The address of the contact of the run.
pub(crate) const CONTACT_ADDRESS: &str = "{{ contact.email }}";

/// Words after `send` that are not the bare name of a template.
const NO_TEMPLATE: &str = "email emails e-mail mail mails sms message text letter signal template contact it this that them him her me us no not another two \
    nothing none never nobody neither something anything everything";

/// What is sent.
enum Mail {
    /// Without a subject, the subject is the name of the template.
    Template {
        name: String,
        subject: Option<String>,
    },
    Written {
        subject: String,
        body: String,
    },
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
        send_bare_template,
    ))
    .parse_next(input)
}

/// `send email "Introduction" to contact`.
fn send_template_to(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["send"])(input)?;
    article(input)?;
    mail_noun(input)?;
    let name = filled_text(input)?;
    let to = preceded(phrase(&["to"]), mail_recipient_name).parse_next(input)?;
    template(input, name).map(|mail| send(to, mail))
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
    let name = filled_text(input)?;
    mail_noun(input)?;
    let to = preceded(phrase(&["to"]), mail_recipient_name).parse_next(input)?;
    template(input, name).map(|mail| send(to, mail))
}

/// `send the contact the email "Introduction"`.
fn send_recipient_mail(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["send"])(input)?;
    let to = mail_recipient_name(input)?;
    article(input)?;
    let after = preceded(mail_noun, alt((named_template, content)));
    let before = |input: &mut Input<'_>| {
        let name = filled_text(input)?;
        mail_noun(input)?;
        template(input, name)
    };
    alt((after, before))
        .map(|mail| send(to.clone(), mail))
        .parse_next(input)
}

/// `send follow-up` (S0-AC5): a template by its bare name.
fn send_bare_template(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["send"])(input)?;
    article(input)?;
    let name = take_word(input, "a template such as `follow-up`", |word| {
        let is_other = NO_TEMPLATE
            .split(' ')
            .any(|other| is_same_word(word, other));
        (is_name(word) && !is_other).then(|| word.to_owned())
    })?;
    let _noun = opt(mail_noun).parse_next(input)?;
    let to = opt(preceded(phrase(&["to"]), mail_recipient_name)).parse_next(input)?;
    let to = to.unwrap_or_else(|| CONTACT_ADDRESS.to_owned());
    template(input, name).map(|mail| send(to, mail))
}

/// `email contact "Introduction"`.
fn mail_recipient(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["email", "e-mail", "mail"])(input)?;
    let template_first = |input: &mut Input<'_>| {
        let name = filled_text(input)?;
        let to = preceded(phrase(&["to"]), mail_recipient_name).parse_next(input)?;
        template(input, name).map(|mail| send(to, mail))
    };
    let recipient_first =
        (mail_recipient_name, alt((named_template, content))).map(|(to, mail)| send(to, mail));
    alt((template_first, recipient_first)).parse_next(input)
}

fn mail_noun(input: &mut Input<'_>) -> Parsed<()> {
    phrase(&["email", "e-mail", "mail"])(input)
}

/// A template, or a subject with a body.
fn content(input: &mut Input<'_>) -> Parsed<Mail> {
    let before = phrase(&[
        "with template",
        "with the template",
        "from template",
        "using template",
        "using the template",
    ]);
    let any = alt((preceded(before, named_template), written));
    with_need("`with subject \"…\" and body \"…\"`", any)(input)
}

fn named_template(input: &mut Input<'_>) -> Parsed<Mail> {
    let name = filled_text(input)?;
    template(input, name)
}

/// The subject of a mail from a template, if the line has one.
fn template(input: &mut Input<'_>, name: String) -> Parsed<Mail> {
    let before = phrase(&["with subject", "with the subject", "and subject"]);
    let subject = preceded((opt(comma), before), filled_value);
    // Most mails of a template have no subject, so an error must not offer it.
    let furthest = input.state.furthest.clone();
    let subject = opt(subject).parse_next(input)?;
    if subject.is_none() {
        input.state.furthest = furthest;
    }
    Ok(Mail::Template { name, subject })
}

fn written(input: &mut Input<'_>) -> Parsed<Mail> {
    let mut subject = preceded(
        phrase(&["with subject", "with the subject", "subject"]),
        filled_value,
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
    let body = preceded((opt(comma), body), filled_value).parse_next(input)?;
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
        Mail::Template { name, subject } => {
            let subject = subject.map(|subject| text_field("subject", subject));
            [text_field("template", name)]
                .into_iter()
                .chain(subject)
                .collect()
        }
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
