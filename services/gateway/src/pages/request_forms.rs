//! What one can do to a request: a form for each thing that its owner says is possible.

use holdpoint_auth::{Choice, Right};
use holdpoint_contracts::handoff::{OutcomeType, RequestStatus, RequestView};
use holdpoint_contracts::link::{DECLINED, DONE, LABEL_CHARS_MAX, Link};
use maud::{Markup, html};

use super::card::{Tried, has_voted, id_of, is_for};
use super::labels;
use super::sanitize::{line, spoken};
use super::schema::FormSchema;
use super::session::SignedInUser;

/// So many options are buttons; more are a list.
const BUTTONS_MAX: usize = 6;
/// For how long one can put a request away.
pub(super) const SNOOZES: [(&str, &str); 5] = [
    ("1h", "1 hour"),
    ("4h", "4 hours"),
    ("1d", "1 day"),
    ("3d", "3 days"),
    ("7d", "7 days"),
];

/// Everything about the forms of one card.
struct Forms<'a> {
    person: &'a SignedInUser,
    request: &'a RequestView,
    tried: &'a Tried,
    id: String,
}

/// The forms for what can be done; a sentence where nothing can.
pub(super) fn controls(person: &SignedInUser, request: &RequestView, tried: &Tried) -> Markup {
    if !person.may(Right::Decide) {
        return html! { p.muted { "You may look at this, and not decide it." } };
    }
    if !is_for(person, request) && !person.may(Right::Operate) {
        return html! { p.muted { "This is put to others; an operator may decide it too." } };
    }
    let forms = Forms {
        person,
        request,
        tried,
        id: id_of(request),
    };
    html! {
        div.controls {
            @if forms.can("respond") { (forms.respond()) }
            @if forms.can("approve") || forms.can("reject") { (forms.verdict()) }
            @if forms.can("accept") || forms.can("take_over") || forms.can("complete") {
                (forms.handoff())
            }
            (forms.more())
        }
    }
}

/// What somebody has chosen in a mail, above all else: nothing is decided until they confirm it.
pub(super) fn chosen(person: &SignedInUser, request: &RequestView, choice: Choice) -> Markup {
    let forms = Forms {
        person,
        request,
        tried: &Tried::default(),
        id: format!("{}-chosen", id_of(request)),
    };
    let is_theirs = is_for(person, request) || person.may(Right::Operate);
    if !person.may(Right::Decide) || !is_theirs {
        return html! {};
    }
    match forms.confirmed(choice) {
        Some((words, form)) => html! {
            div.chosen {
                p { "In the mail you chose " strong { (words) } ". " span.muted { "Nothing is decided yet." } }
                (form)
            }
        },
        None => html! {},
    }
}

/// Nobody has answered it: whoever asked, or an operator, asks again.
pub(super) fn again(person: &SignedInUser, request: &RequestView, tried: &Tried) -> Markup {
    let forms = Forms {
        person,
        request,
        tried,
        id: id_of(request),
    };
    let is_theirs = request
        .asked_by
        .first()
        .is_some_and(|by| by == person.name());
    if !forms.can("ask_again") || !(is_theirs || person.may(Right::Operate)) {
        return html! {};
    }
    let inside = html! {
        details.unfold open[forms.was_tried("ask_again")] {
            summary.button { "Ask again…" }
            div.stack {
                label for={ (forms.id) "-to" } { "Whom? " span.muted { "(as before, unless you say)" } }
                input id={ (forms.id) "-to" } name="to" list="people" placeholder="@user.name or @role.name"
                    value=(forms.before("to"));
                label for={ (forms.id) "-timeout" } { "For how long? " span.muted { "(as before, unless you say)" } }
                input id={ (forms.id) "-timeout" } name="timeout" placeholder="2h, 3 days" value=(forms.before("timeout"));
                button.primary { "Ask again" }
            }
        }
    };
    forms.form("ask_again", "block", &inside)
}

impl Forms<'_> {
    fn can(&self, action: &str) -> bool {
        let same = |known: &String| known.replace('-', "_") == action;
        self.request.actions.iter().any(same)
    }

    fn form(&self, what: &str, class: &str, inside: &Markup) -> Markup {
        html! {
            form class=(class) method="post" action=(self.person.acts_at(self.request.id)) {
                input type="hidden" name="csrf" value=(self.person.csrf());
                input type="hidden" name="version" value=(self.request.version);
                input type="hidden" name="do" value=(what);
                (inside)
            }
        }
    }

    fn before(&self, name: &str) -> &str {
        self.tried.fields.get(name).unwrap_or_default()
    }

    fn was_tried(&self, what: &str) -> bool {
        self.before("do") == what
    }

    /// A chosen answer in words, and the form that sends it; none where it is no answer now.
    fn confirmed(&self, choice: Choice) -> Option<(String, Markup)> {
        let request = self.request;
        let (what, words, inside) = match choice {
            Choice::Option(place) => {
                let option = request.options.get(place)?;
                let is_free = request.link.is_none() && request.schema.is_none();
                let inside =
                    html! { button.primary name="answer" value=(option) { "Send this answer" } };
                let words = self.label(option);
                is_free.then_some(("respond", words, inside))?
            }
            Choice::Approve => {
                let inside = html! { button.primary { "Approve" } };
                let is_new = !has_voted(self.person, request);
                is_new.then_some(("approve", "to approve".to_owned(), inside))?
            }
            Choice::Reject => {
                let inside = html! {
                    label for={ (self.id) "-reason" } { "Why? It is put on record and shown to whoever asked." }
                    textarea id={ (self.id) "-reason" } name="reason" rows="2" required {}
                    button.danger { "Reject" }
                };
                ("reject", "to reject".to_owned(), inside)
            }
        };
        self.can(what)
            .then(|| (words, self.form(what, "stack", &inside)))
    }

    /// An option as people read it.
    fn label(&self, option: &str) -> String {
        match self.request.reason.as_deref() {
            Some("uncertain") => spoken(option),
            Some(_) | None => line(option, 200),
        }
    }

    fn respond(&self) -> Markup {
        let request = self.request;
        if let Some(link) = &request.link {
            return self.elsewhere(link);
        }
        if let Some(schema) = &request.schema {
            return match FormSchema::read(schema) {
                Some(form) => {
                    let fields = form.inputs(&self.id, &self.tried.fields, &self.tried.faults);
                    let inside = html! { (fields) button.primary { "Send answer" } };
                    self.form("respond", "stack", &inside)
                }
                None => self.free("Answer as JSON", "json"),
            };
        }
        if request.options.is_empty() {
            return self.free("Reply", "answer");
        }
        let label = |option: &str| self.label(option);
        if request.options.len() <= BUTTONS_MAX {
            let inside = html! {
                @for option in &request.options {
                    button.choose name="answer" value=(option) { (label(option)) }
                }
            };
            return self.form("respond", "row", &inside);
        }
        let inside = html! {
            label for={ (self.id) "-answer" } { "Reply" }
            select id={ (self.id) "-answer" } name="answer" required {
                option value="" { "Choose…" }
                @for option in &request.options {
                    option value=(option) selected[self.before("answer") == option] { (label(option)) }
                }
            }
            button.primary { "Send answer" }
        };
        self.form("respond", "stack", &inside)
    }

    /// What is asked for is entered at its owner. Where that is, is seen before one goes there, and
    /// what is said here is only whether it was done.
    fn elsewhere(&self, link: &Link) -> Markup {
        let (Some(host), Some(address)) = (link.host(), link.address()) else {
            let said = "This link leads nowhere that is safe. Decline, and tell whoever asked.";
            let decline = html! { button.choose name="answer" value=(DECLINED) { "Decline" } };
            return html! { p.why { (said) } (self.form("respond", "row", &decline)) };
        };
        let label = link.label.as_deref().unwrap_or("Enter it there");
        let hint = format!("{}-there", self.id);
        let inside = html! {
            button.choose name="answer" value=(DONE) { "Done: I have entered it there" }
            button name="answer" value=(DECLINED) { "Decline" }
        };
        html! {
            div.elsewhere {
                p id=(hint) { "This is entered at " strong.host { (host) } ", and never here. Holdpoint does not see it. "
                    "Go on only if you know this address." }
                p { a.button.primary href=(address) target="_blank" rel="noopener noreferrer"
                    aria-describedby=(hint) { (line(label, LABEL_CHARS_MAX)) span.hidden { " (opens in a new tab)" } } }
                (self.form("respond", "row", &inside))
            }
        }
    }

    fn free(&self, label: &str, name: &str) -> Markup {
        let inside = html! {
            label for={ (self.id) "-answer" } { (label) }
            textarea id={ (self.id) "-answer" } name=(name) rows="3" required { (self.before(name)) }
            button.primary { "Send answer" }
        };
        self.form("respond", "stack", &inside)
    }

    fn verdict(&self) -> Markup {
        let has_voted = has_voted(self.person, self.request);
        let approve = html! {
            button.primary { "Approve" }
            details.inline open[!self.before("comment").is_empty()] {
                summary { "Add a comment" }
                label.hidden for={ (self.id) "-comment" } { "Comment" }
                textarea id={ (self.id) "-comment" } name="comment" rows="2" placeholder="For the record"
                    { (self.before("comment")) }
            }
        };
        let reject = html! {
            details.unfold open[self.was_tried("reject")] {
                summary.button { "Reject…" }
                div.stack {
                    label for={ (self.id) "-reason" } { "Why? It is put on record and shown to whoever asked." }
                    textarea id={ (self.id) "-reason" } name="reason" rows="2" required { (self.before("reason")) }
                    button.danger { "Reject" }
                }
            }
        };
        html! {
            @if has_voted {
                p.hint { "You have approved; it waits for the others. Until then you may still reject it." }
            }
            div.verdict {
                @if self.can("approve") && !has_voted { (self.form("approve", "row", &approve)) }
                @if self.can("reject") { (self.form("reject", "row", &reject)) }
            }
        }
    }

    fn handoff(&self) -> Markup {
        let plain = |what: &str, label: &str, class: &str| {
            let inside = html! { button class=(class) { (label) } };
            self.form(what, "row", &inside)
        };
        html! {
            @if self.can("accept") || self.can("take_over") {
                div.row {
                    @if self.can("take_over") { (plain("take_over", "Take over", "primary")) }
                    @if self.can("accept") { (plain("accept", "Accept: it is mine", "")) }
                }
                @if self.can("take_over") && self.request.run.is_some() {
                    p.hint { "Taking over stops the clock and the agent: the run is yours until you complete it." }
                }
            }
            @if self.can("complete") { (self.complete()) }
        }
    }

    /// Two ways to complete, each labelled with what it does.
    fn complete(&self) -> Markup {
        let is_mine = matches!(
            self.request.status,
            RequestStatus::Accepted | RequestStatus::TakenOver
        );
        let go_on = match self.request.steps_left {
            Some(1) => "Let the agent go on – 1 step left".to_owned(),
            Some(left) => format!("Let the agent go on – {left} steps left"),
            None => "Let the agent go on".to_owned(),
        };
        let told = match self.request.run {
            Some(_) => "(optional; the agent is told)",
            None => "(optional; for the record)",
        };
        let outcome = self.before("outcome_type");
        let inside = html! {
            details.unfold open[is_mine || self.was_tried("complete")] {
                summary.button { "Complete…" }
                div.stack {
                    label for={ (self.id) "-notes" } { "What did you do? " span.muted { (told) } }
                    textarea id={ (self.id) "-notes" } name="notes" rows="3" { (self.before("notes")) }
                    label for={ (self.id) "-outcome" } { "What came of it?" }
                    select id={ (self.id) "-outcome" } name="outcome_type" {
                        @for one in [OutcomeType::Resolved, OutcomeType::Escalated, OutcomeType::NoActionNeeded] {
                            option value=(one.as_str()) selected[one.as_str() == outcome] { (spoken(one.as_str())) }
                        }
                    }
                    div.row {
                        @if self.request.run.is_some() {
                            button.primary name="disposition" value="return_to_agent" { (go_on) }
                            button name="disposition" value="finish" { "End the run" }
                        } @else {
                            button.primary name="disposition" value="finish" { "Complete" }
                        }
                    }
                }
            }
        };
        self.form("complete", "block", &inside)
    }

    /// What does not decide it.
    fn more(&self) -> Markup {
        let some = ["reassign", "delegate", "snooze", "acknowledge", "withdraw"];
        if !some.iter().any(|action| self.can(action)) {
            return html! {};
        }
        let to = |what: &str, label: &str, button: &str| {
            let inside = html! {
                label for={ (self.id) "-" (what) } { (label) }
                input id={ (self.id) "-" (what) } name="to" required list="people"
                    placeholder="@user.name or @role.name" value=(if self.was_tried(what) { self.before("to") } else { "" });
                button { (button) }
            };
            self.form(what, "row", &inside)
        };
        let snooze = html! {
            label for={ (self.id) "-snooze" } { "Not now" }
            select id={ (self.id) "-snooze" } name="for" {
                @for (value, label) in SNOOZES { option value=(value) { (label) } }
            }
            button { "Put away" }
        };
        let time_is_up = self
            .request
            .deadline
            .filter(|_| self.request.escalated_at.is_none());
        let seen = html! {
            button { "I have seen it" }
            span.hint {
                "Nobody is told for a while. If nothing is done then, everybody is told again."
                @if let Some(end) = time_is_up {
                    " No longer than until its time is up at " (labels::instant(end, self.person.zone)) ". "
                    (labels::then(self.request))
                }
            }
        };
        let back =
            html! { button.danger { "Take it back" } span.hint { "It is not asked any more." } };
        html! {
            details.more open[some.iter().any(|action| self.was_tried(action))] {
                summary { "More" }
                @if self.can("reassign") { (to("reassign", "Somebody else has it", "Reassign")) }
                @if self.can("delegate") { (to("delegate", "Somebody else may decide it too", "Delegate")) }
                @if self.can("snooze") { (self.form("snooze", "row", &snooze)) }
                @if self.can("acknowledge") { (self.form("acknowledge", "row", &seen)) }
                @if self.can("withdraw") { (self.form("withdraw", "row", &back)) }
            }
        }
    }
}
