//! The forms on a request's card: one for each action that the owning service allows.

use holdpoint_auth::{Choice, Right};
use holdpoint_contracts::handoff::{OutcomeType, RequestStatus, RequestView};
use holdpoint_contracts::link::{DECLINED, DONE, LABEL_CHARS_MAX, Link};
use holdpoint_holds::Recipient;
use maud::{Markup, html};

use super::attempt::RequestAttempt;
use super::sanitize::{humanize, one_line};
use super::schema::FormSchema;
use super::session::SignedInUser;
use super::{approval_items, labels};
use crate::redaction::is_named;

/// Up to this number, options are buttons; more options are a list.
const BUTTONS_MAX: usize = 6;
/// Durations that a user can snooze a request for.
const SNOOZES: [(&str, &str); 5] = [
    ("1h", "1 hour"),
    ("4h", "4 hours"),
    ("1d", "1 day"),
    ("3d", "3 days"),
    ("7d", "7 days"),
];
/// Actions that do not decide a request.
const MORE_ACTIONS: [&str; 5] = ["reassign", "delegate", "snooze", "acknowledge", "withdraw"];
const REASON_LABEL: &str = "Reason (recorded and shown to the requester)";
const RECIPIENT_HINT: &str = "@user.name or @role.name";

struct RequestForms<'a> {
    user: &'a SignedInUser,
    request: &'a RequestView,
    attempt: &'a RequestAttempt,
    /// Prefix of the ids of all inputs.
    id: String,
}

pub(super) fn card_id(request: &RequestView) -> String {
    format!("card-{}", request.id)
}

/// The forms of an open request, or a sentence that says why there are none.
pub(super) fn open_forms(
    user: &SignedInUser,
    request: &RequestView,
    attempt: &RequestAttempt,
) -> Markup {
    if !user.may(Right::Decide) {
        return html! { p.muted { "You can view this request but not decide it." } };
    }
    if !may_act_on(user, request) {
        return html! { p.muted { "This request is addressed to other people. Operators can also decide it." } };
    }
    let forms = RequestForms::new(user, request, attempt);
    html! {
        div.controls {
            @if forms.allows("respond") { (forms.respond()) }
            @if forms.allows("approve") || forms.allows("reject") { (forms.verdict()) }
            (forms.take())
            @if forms.allows("complete") { (forms.complete()) }
            (forms.more())
        }
    }
}

/// The answer that the user chose in an email. It is not decided until they submit this form.
pub(super) fn chosen_answer(user: &SignedInUser, request: &RequestView, choice: Choice) -> Markup {
    let none = RequestAttempt::default();
    let forms = RequestForms {
        id: format!("{}-chosen", card_id(request)),
        ..RequestForms::new(user, request, &none)
    };
    let may_decide = user.may(Right::Decide) && may_act_on(user, request);
    html! {
        @if let Some((label, form)) = forms.chosen(choice).filter(|_| may_decide) {
            div.chosen {
                p { "In the email you chose " strong { (label) } ". " span.muted { "Nothing is decided yet." } }
                (form)
            }
        }
    }
}

/// The requester or an operator can repeat a request without an answer.
pub(super) fn ask_again_form(
    user: &SignedInUser,
    request: &RequestView,
    attempt: &RequestAttempt,
) -> Markup {
    let forms = RequestForms::new(user, request, attempt);
    let is_requester = request.asked_by.first().is_some_and(|by| by == user.name());
    if !forms.allows("ask_again") || !(is_requester || user.may(Right::Operate)) {
        return html! {};
    }
    let optional = || html! { span.muted { "(optional; otherwise unchanged)" } };
    let inside = html! {
        label for={ (forms.id) "-to" } { "Recipients " (optional()) }
        input id={ (forms.id) "-to" } name="to" list="people" placeholder=(RECIPIENT_HINT)
            value=(forms.submitted("to"));
        label for={ (forms.id) "-timeout" } { "Timeout " (optional()) }
        input id={ (forms.id) "-timeout" } name="timeout" placeholder="2h, 3 days"
            value=(forms.submitted("timeout"));
        button.primary { "Ask again" }
    };
    let inside = unfold("Ask again…", forms.was_submitted("ask_again"), &inside);
    forms.form("ask_again", "block", &inside)
}

/// A button that opens further fields.
pub(super) fn unfold(label: &str, is_open: bool, inside: &Markup) -> Markup {
    html! {
        details.unfold open[is_open] { summary.button { (label) } div.stack { (inside) } }
    }
}

impl<'a> RequestForms<'a> {
    fn new(user: &'a SignedInUser, request: &'a RequestView, attempt: &'a RequestAttempt) -> Self {
        Self {
            user,
            request,
            attempt,
            id: card_id(request),
        }
    }

    fn allows(&self, action: &str) -> bool {
        let mut actions = self.request.actions.iter();
        actions.any(|allowed| allowed.replace('-', "_") == action)
    }

    fn form(&self, action: &str, class: &str, inside: &Markup) -> Markup {
        let version = self.request.version.to_string();
        let hidden = [("version", version.as_str()), ("do", action)];
        let path = self.user.request_path(self.request.id);
        self.user.form(&path, class, &hidden, inside)
    }

    /// The value of a field in the last attempt.
    fn submitted(&self, name: &str) -> &str {
        self.attempt.fields.get(name).unwrap_or_default()
    }

    fn was_submitted(&self, action: &str) -> bool {
        self.submitted("do") == action
    }

    /// The label of a chosen answer and its form; absent if the request does not allow it now.
    fn chosen(&self, choice: Choice) -> Option<(String, Markup)> {
        let request = self.request;
        let (action, label, inside) = match choice {
            Choice::Option(index) => {
                let option = request.options.get(index)?;
                if request.link.is_some() || request.schema.is_some() {
                    return None;
                }
                let inside =
                    html! { button.primary name="answer" value=(option) { "Send this answer" } };
                ("respond", self.option_label(option), inside)
            }
            Choice::Approve if has_voted(self.user, request) => return None,
            Choice::Approve => {
                let inside = html! { button.primary { "Approve" } };
                ("approve", "to approve".to_owned(), inside)
            }
            Choice::Reject => ("reject", "to reject".to_owned(), self.reject_fields()),
            Choice::Revise => ("revise", "to send it back".to_owned(), self.revise_fields()),
        };
        self.allows(action)
            .then(|| (label, self.form(action, "stack", &inside)))
    }

    /// The options of our own request about an uncertain step are identifiers.
    fn option_label(&self, option: &str) -> String {
        if self.request.reason.as_deref() == Some("uncertain") {
            humanize(option)
        } else {
            one_line(option, 200)
        }
    }

    fn respond(&self) -> Markup {
        let request = self.request;
        if let Some(link) = &request.link {
            return self.respond_at_link(link);
        }
        if let Some(schema) = &request.schema {
            let Some(form) = FormSchema::read(schema) else {
                return self.respond_with_text("Answer as JSON", "json");
            };
            let fields = form.inputs(&self.id, &self.attempt.fields, &self.attempt.errors);
            let inside = html! { (fields) button.primary { "Send answer" } };
            return self.form("respond", "stack", &inside);
        }
        if request.options.is_empty() {
            return self.respond_with_text("Answer", "answer");
        }
        if request.options.len() <= BUTTONS_MAX {
            let inside = html! {
                @for option in &request.options {
                    button.choose name="answer" value=(option) { (self.option_label(option)) }
                }
            };
            return self.form("respond", "row", &inside);
        }
        let submitted = self.submitted("answer");
        let inside = html! {
            label for={ (self.id) "-answer" } { "Answer" }
            select id={ (self.id) "-answer" } name="answer" required {
                option value="" { "Choose…" }
                @for option in &request.options {
                    option value=(option) selected[submitted == option] { (self.option_label(option)) }
                }
            }
            button.primary { "Send answer" }
        };
        self.form("respond", "stack", &inside)
    }

    /// A secret is entered on another site. The host is shown first, and only "done" or "declined"
    /// is answered here.
    fn respond_at_link(&self, link: &Link) -> Markup {
        let (Some(host), Some(address)) = (link.host(), link.address()) else {
            let decline = html! { button.choose name="answer" value=(DECLINED) { "Decline" } };
            return html! {
                p.why { "This link is not safe to open. Decline, and inform the requester." }
                (self.form("respond", "row", &decline))
            };
        };
        let label = link.label.as_deref().unwrap_or("Open the page");
        let hint = format!("{}-there", self.id);
        let inside = html! {
            button.choose name="answer" value=(DONE) { "Done: I have entered it" }
            button name="answer" value=(DECLINED) { "Decline" }
        };
        html! {
            div.elsewhere {
                p id=(hint) { "Enter this at " strong.host { (host) } ", not here. Holdpoint does not see it. "
                    "Continue only if you know this address." }
                p { a.button.primary href=(address) target="_blank" rel="noopener noreferrer"
                    aria-describedby=(hint) { (one_line(label, LABEL_CHARS_MAX)) span.hidden { " (opens in a new tab)" } } }
                (self.form("respond", "row", &inside))
            }
        }
    }

    fn respond_with_text(&self, label: &str, name: &str) -> Markup {
        let inside = html! {
            label for={ (self.id) "-answer" } { (label) }
            textarea id={ (self.id) "-answer" } name=(name) rows="3" required { (self.submitted(name)) }
            button.primary { "Send answer" }
        };
        self.form("respond", "stack", &inside)
    }

    fn verdict(&self) -> Markup {
        let has_voted = has_voted(self.user, self.request);
        let comment = self.submitted("comment");
        let approve = html! {
            button.primary { "Approve" }
            (approval_items::inputs(self.request, &self.id, self.attempt))
            details.inline open[!comment.is_empty()] {
                summary { "Add a comment" }
                label.hidden for={ (self.id) "-comment" } { "Comment" }
                textarea id={ (self.id) "-comment" } name="comment" rows="2" placeholder="For the record" { (comment) }
            }
        };
        let is_open = self.was_submitted("reject");
        let reject = unfold("Reject…", is_open, &self.reject_fields());
        let is_open = self.was_submitted("revise");
        let revise = unfold("Send back…", is_open, &self.revise_fields());
        html! {
            @if has_voted {
                p.hint { "You approved this request. It needs more approvals; until then you can reject it." }
            }
            div.verdict {
                @if self.allows("approve") && !has_voted { (self.form("approve", "row", &approve)) }
                @if self.allows("revise") { (self.form("revise", "row", &revise)) }
                @if self.allows("reject") { (self.form("reject", "row", &reject)) }
            }
            (approval_items::advance_link(self.user, self.request))
        }
    }

    fn revise_fields(&self) -> Markup {
        html! {
            label for={ (self.id) "-instructions" } { "What should the agent change?" }
            textarea id={ (self.id) "-instructions" } name="instructions" rows="2" required { (self.submitted("instructions")) }
            p.hint { "The step that made the arguments runs again, and you are asked about the new ones." }
            button { "Send back" }
        }
    }

    fn reject_fields(&self) -> Markup {
        html! {
            label for={ (self.id) "-reason" } { (REASON_LABEL) }
            textarea id={ (self.id) "-reason" } name="reason" rows="2" required { (self.submitted("reason")) }
            button.danger { "Reject" }
        }
    }

    fn take(&self) -> Markup {
        let (accepts, takes_over) = (self.allows("accept"), self.allows("take_over"));
        let take_over = html! { button.primary { "Take over" } };
        html! {
            @if accepts || takes_over {
                div.row {
                    @if takes_over { (self.form("take_over", "row", &take_over)) }
                    @if accepts { (self.form("accept", "row", &html! { button { "Accept" } })) }
                }
            }
            @if takes_over && self.request.run.is_some() {
                p.hint { "Taking over stops the timer and the agent. You own the run until you complete it." }
            }
        }
    }

    /// Two buttons complete a handoff: one returns the run to the agent, the other ends it.
    fn complete(&self) -> Markup {
        let is_owned = matches!(
            self.request.status,
            RequestStatus::Accepted | RequestStatus::TakenOver
        );
        let has_run = self.request.run.is_some();
        let continue_label = match self.request.steps_left {
            Some(1) => "Let the agent continue – 1 step left".to_owned(),
            Some(left) => format!("Let the agent continue – {left} steps left"),
            None => "Let the agent continue".to_owned(),
        };
        let reader = if has_run { "the agent" } else { "the record" };
        let submitted = self.submitted("outcome_type");
        let inside = html! {
            label for={ (self.id) "-notes" } { "Notes " span.muted { "(optional; for " (reader) ")" } }
            textarea id={ (self.id) "-notes" } name="notes" rows="3" { (self.submitted("notes")) }
            label for={ (self.id) "-outcome" } { "Outcome" }
            select id={ (self.id) "-outcome" } name="outcome_type" {
                @for outcome in [OutcomeType::Resolved, OutcomeType::Escalated, OutcomeType::NoActionNeeded].map(|it| it.as_str()) {
                    option value=(outcome) selected[outcome == submitted] { (humanize(outcome)) }
                }
            }
            div.row {
                @if has_run {
                    button.primary name="disposition" value="return_to_agent" { (continue_label) }
                    button name="disposition" value="finish" { "End the run" }
                } @else {
                    button.primary name="disposition" value="finish" { "Complete" }
                }
            }
        };
        let is_open = is_owned || self.was_submitted("complete");
        self.form("complete", "block", &unfold("Complete…", is_open, &inside))
    }

    /// Actions that do not decide the request.
    fn more(&self) -> Markup {
        if !MORE_ACTIONS.iter().any(|action| self.allows(action)) {
            return html! {};
        }
        let snooze = html! {
            label for={ (self.id) "-snooze" } { "Snooze for" }
            select id={ (self.id) "-snooze" } name="for" {
                @for (value, label) in SNOOZES { option value=(value) { (label) } }
            }
            button { "Snooze" }
        };
        let withdraw = html! {
            button.danger { "Withdraw" }
            span.hint { "Closes the request without an answer." }
        };
        html! {
            details.more open[MORE_ACTIONS.iter().any(|action| self.was_submitted(action))] {
                summary { "More" }
                @if self.allows("reassign") { (self.give_to("reassign", "Reassign to", "Reassign")) }
                @if self.allows("delegate") { (self.give_to("delegate", "Also let another person or role decide", "Delegate")) }
                @if self.allows("snooze") { (self.form("snooze", "row", &snooze)) }
                @if self.allows("acknowledge") { (self.acknowledge()) }
                @if self.allows("withdraw") { (self.form("withdraw", "row", &withdraw)) }
            }
        }
    }

    fn give_to(&self, action: &str, label: &str, button: &str) -> Markup {
        let submitted = Some(self.submitted("to")).filter(|_| self.was_submitted(action));
        let inside = html! {
            label for={ (self.id) "-" (action) } { (label) }
            input id={ (self.id) "-" (action) } name="to" required list="people"
                placeholder=(RECIPIENT_HINT) value=(submitted.unwrap_or_default());
            button { (button) }
        };
        self.form(action, "row", &inside)
    }

    fn acknowledge(&self) -> Markup {
        let escalated = self.request.escalated_at.is_some();
        let deadline = self.request.deadline.filter(|_| !escalated);
        let inside = html! {
            button { "Acknowledge" }
            span.hint {
                "Pauses reminders for a while. Without an action they start again."
                @if let Some(deadline) = deadline {
                    " The deadline remains " (labels::instant(deadline, self.user.zone)) ". Without a decision, "
                    (labels::timeout_consequence(self.request))
                }
            }
        };
        self.form("acknowledge", "row", &inside)
    }
}

/// A request is addressed to a user by name, by role or by delegation. A request without recipients
/// is addressed to the owners. An assignee has it alone, except where several people must agree.
/// The service that owns the request checks every decision again.
pub(super) fn is_addressed_to(user: &SignedInUser, request: &RequestView) -> bool {
    let names_user = |to: &String| is_named(&user.caller.claims, to);
    if request.also.iter().any(names_user) {
        return true;
    }
    if let Some(assignee) = request.assignee.as_deref() {
        let is_assignee = Recipient::bare_user_name(assignee) == user.name();
        if is_assignee || request.votes.is_none() {
            return is_assignee;
        }
    }
    if request.to.is_empty() {
        return user.may(Right::Own);
    }
    request.to.iter().any(names_user)
}

/// The user may see the forms of a request: it is addressed to them, or they are an operator.
fn may_act_on(user: &SignedInUser, request: &RequestView) -> bool {
    is_addressed_to(user, request) || user.may(Right::Operate)
}

/// The user has approved a request that needs more approvals.
fn has_voted(user: &SignedInUser, request: &RequestView) -> bool {
    let mut history = request.history.iter();
    request.votes.is_some()
        && history.any(|entry| entry.action == "approved" && entry.by == user.name())
}
