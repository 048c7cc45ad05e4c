//! The answers that a mail lists: the options of a question, or yes and no, each with a link; or the fields of a
//! form, which the person fills in at the request.

use holdpoint_auth::Choice;
use holdpoint_contracts::form::{Field, FieldKind, Form, Format};
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::run::HoldKind;
use maud::{Markup, html};

use crate::domain::{cut, field_label, line};

/// Options or fields that a mail names. More are only counted.
const NAMED: usize = 12;

/// Longest option or name of a field, in characters.
const LABEL_CHARS_MAX: usize = 120;

/// The style of a link to an answer: mails have no style sheet.
const BUTTON: &str = "display: inline-block; padding: .5em 1em; border: 1px solid #2450c4; border-radius: .5em; \
                      color: #2450c4; text-decoration: none; font-weight: bold";

/// A person who opens a link has not decided.
const CONFIRMED: &str = "a link shows the answer, and you confirm it there";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// Each with its label, and the number of further ones.
    Choices(Vec<(Choice, String)>, usize),
    /// Names and kinds of fields, and the number of further ones.
    Fields(Vec<String>, usize),
    /// A text, a handoff, or a value that is entered elsewhere.
    Free,
}

impl Answers {
    pub(super) fn of(request: &RequestView) -> Self {
        match request.kind {
            HoldKind::Approval => {
                let approve = (Choice::Approve, "Approve".to_owned());
                let reject = (Choice::Reject, "Reject, and say why".to_owned());
                let label = "Send back, and say what to change";
                let may_revise = request.actions.iter().any(|action| action == "revise");
                let revise = may_revise.then(|| (Choice::Revise, label.to_owned()));
                let choices = [approve].into_iter().chain(revise).chain([reject]);
                Self::Choices(choices.collect(), 0)
            }
            HoldKind::Input if request.link.is_some() => Self::Free,
            HoldKind::Input => match request.schema.as_ref().map(Form::parse) {
                Some(Ok(form)) => {
                    let named = form.fields.iter().take(NAMED).map(asked);
                    let more = form.fields.len().saturating_sub(NAMED);
                    Self::Fields(named.collect(), more)
                }
                Some(Err(_)) => Self::Free,
                None => Self::options(request),
            },
            HoldKind::Handoff | HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => {
                Self::Free
            }
        }
    }

    fn options(request: &RequestView) -> Self {
        let is_word = request.reason.as_deref() == Some("uncertain");
        let label = if is_word { spoken } else { short };
        let all = request.options.iter().enumerate().take(NAMED);
        let named: Vec<_> = all
            .map(|(place, option)| (Choice::Option(place), label(option)))
            .collect();
        if named.is_empty() {
            Self::Free
        } else {
            Self::Choices(named, request.options.len().saturating_sub(NAMED))
        }
    }

    /// As plain text; empty if there is nothing to list.
    pub(super) fn text(&self, link: impl Fn(Option<Choice>) -> Option<String>) -> String {
        let (head, mut lines, more) = match self {
            Self::Free => return String::new(),
            Self::Fields(fields, more) => {
                let fields = fields.iter().map(|field| format!("- {field}"));
                ("You are asked for:".to_owned(), fields.collect(), more)
            }
            Self::Choices(choices, more) => {
                let with_link = |(choice, words): &(Choice, String)| match link(Some(*choice)) {
                    Some(link) => format!("- {words}\n  {link}"),
                    None => format!("- {words}"),
                };
                let lines: Vec<_> = choices.iter().map(with_link).collect();
                let head = match link(None) {
                    Some(_) => format!("Your answer ({CONFIRMED}):"),
                    None => "The answers there are:".to_owned(),
                };
                (head, lines, more)
            }
        };
        lines.insert(0, head);
        lines.extend(more_words(*more).map(|more| format!("- {more}")));
        lines.join("\n")
    }

    pub(super) fn html(&self, link: impl Fn(Option<Choice>) -> Option<String>) -> Markup {
        match self {
            Self::Free => html! {},
            Self::Fields(fields, more) => html! {
                p { "You are asked for:" }
                ul {
                    @for field in fields { li { (field) } }
                    @if let Some(more) = more_words(*more) { li { (more) } }
                }
            },
            Self::Choices(choices, more) => html! {
                ul style="list-style: none; padding: 0" {
                    @for (choice, words) in choices {
                        li style="margin: .6em 0" {
                            @match link(Some(*choice)) {
                                Some(link) => { a href=(link) style=(BUTTON) { (words) } }
                                None => { (words) }
                            }
                        }
                    }
                    @if let Some(more) = more_words(*more) { li { (more) } }
                }
                @if link(None).is_some() {
                    p style="font-size: .9em" { "Nothing is decided yet: " (CONFIRMED) "." }
                }
            },
        }
    }
}

fn more_words(more: usize) -> Option<String> {
    (more > 0).then(|| format!("and {more} more, where it is decided"))
}

/// The name and kind of a field.
fn asked(field: &Field) -> String {
    let name = match &field.title {
        Some(title) => short(title),
        None => spoken(&field.name),
    };
    let kind = match &field.kind {
        FieldKind::Text { format, .. } => match format {
            None => "a text".to_owned(),
            Some(Format::Email) => "a mail address".to_owned(),
            Some(Format::Uri) => "a web address".to_owned(),
            Some(Format::Date) => "a date".to_owned(),
            Some(Format::DateTime) => "a date and time".to_owned(),
        },
        FieldKind::Choice(all) => {
            let labels = all.iter().take(NAMED).map(|one| short(&one.label));
            let more = more_words(all.len().saturating_sub(NAMED));
            let labels: Vec<_> = labels.chain(more).collect();
            format!("one of {}", labels.join(", "))
        }
        FieldKind::Number { whole: true, .. } => "a whole number".to_owned(),
        FieldKind::Number { whole: false, .. } => "a number".to_owned(),
        FieldKind::Boolean => "yes or no".to_owned(),
    };
    let optional = if field.required { "" } else { " (optional)" };
    format!("{name}: {kind}{optional}")
}

/// On one line, and cut.
fn short(text: &str) -> String {
    cut(&line(text), LABEL_CHARS_MAX)
}

/// `it_happened` is `It happened`.
fn spoken(word: &str) -> String {
    field_label(&short(&word.replace(['_', '-'], " ")))
}

#[cfg(test)]
mod tests {
    use holdpoint_contracts::notification::RequestEventKind;
    use serde_json::json;

    use super::*;
    use crate::domain::testing::request_event as fact;
    use crate::email_template::request_mail as words;

    fn request(kind: HoldKind) -> RequestView {
        RequestView {
            kind,
            ..*fact(1, RequestEventKind::Opened, &[]).request
        }
    }

    fn to(choice: Option<Choice>) -> Option<String> {
        Some(format!("https://hold.example/l/{choice:?}"))
    }

    /// Issue 4, deliverable 7: each answer with a link of its own, in the order of the question.
    #[test]
    fn a_mail_lists_the_answers_there_are() {
        let mut asked = request(HoldKind::Input);
        asked.options = vec!["yes".to_owned(), "no".to_owned()];
        let answers = Answers::of(&asked);
        assert_eq!(
            answers.text(to),
            "Your answer (a link shows the answer, and you confirm it there):\n\
             - yes\n  https://hold.example/l/Some(Option(0))\n\
             - no\n  https://hold.example/l/Some(Option(1))"
        );
        let html = answers.html(to).into_string();
        assert!(
            html.contains("href=\"https://hold.example/l/Some(Option(1))\""),
            "{html}"
        );
        assert_eq!(
            answers.text(|_| None),
            "The answers there are:\n- yes\n- no"
        );
        asked.reason = Some("uncertain".to_owned());
        asked.options = vec!["it_happened".to_owned()];
        assert!(
            Answers::of(&asked)
                .text(to)
                .contains("- It happened\n  https")
        );
        asked.options = (0..40).map(|n| "x".repeat(100 + n)).collect();
        let many = Answers::of(&asked).text(to);
        assert!(
            many.ends_with("- and 28 more, where it is decided"),
            "{many}"
        );
        assert!(many.lines().all(|line| line.len() < 250), "{many}");

        let approval = Answers::of(&request(HoldKind::Approval)).text(to);
        assert!(
            approval.contains("- Approve\n  https://hold.example/l/Some(Approve)\n"),
            "{approval}"
        );
        assert!(
            approval.contains("- Reject, and say why\n  https"),
            "{approval}"
        );
        assert!(!approval.contains("Send back"), "{approval}");
        let mut revisable = request(HoldKind::Approval);
        revisable.actions = vec!["approve".to_owned(), "revise".to_owned()];
        let approval = Answers::of(&revisable).text(to);
        let link = "- Send back, and say what to change\n  https://hold.example/l/Some(Revise)";
        assert!(approval.contains(link), "{approval}");
        assert_eq!(Answers::of(&request(HoldKind::Handoff)), Answers::Free);
        assert_eq!(
            Answers::of(&request(HoldKind::Input)),
            Answers::Free,
            "any text"
        );
    }

    /// Issue 4, deliverable 7: a form is filled in at the request; the mail says what for.
    #[test]
    fn a_mail_says_which_fields_are_asked() {
        let mut fact = fact(1, RequestEventKind::Opened, &[]);
        fact.request.kind = HoldKind::Input;
        fact.request.schema = Some(json!({
            "type": "object",
            "properties": {
                "amount": { "type": "number", "title": "Amount <b>in EUR</b>" },
                "due_on": { "type": "string", "format": "date" },
                "speed": { "type": "string", "enum": ["slow", "fast"] },
                "sure": { "type": "boolean" },
            },
            "required": ["amount"],
        }));
        let mail = words(&fact, to);
        for line in [
            "You are asked for:",
            "- Amount <b>in EUR</b>: a number\n",
            "- Due on: a date (optional)",
            "- Speed: one of slow, fast (optional)",
            "- Sure: yes or no (optional)",
        ] {
            assert!(mail.text.contains(line), "{line}: {}", mail.text);
        }
        assert!(
            mail.html
                .contains("<li>Amount &lt;b&gt;in EUR&lt;/b&gt;: a number</li>")
        );
        assert_eq!(
            mail.text.matches("https://").count(),
            1,
            "one link: to the form"
        );
    }
}
