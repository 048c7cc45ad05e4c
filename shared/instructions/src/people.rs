//! Words that hand a run to a person (S0-AC6) and that ask a person.

use winnow::Parser as _;
use winnow::combinator::{alt, opt};

use crate::draft::Action;
use crate::line_parser::{Input, Parsed, comma, filled_text, mark, phrase};
use crate::recipients::recipients;

/// Reads `hand off to @user.nina`.
pub(crate) fn handoff(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&[
        "hand off to",
        "hand-off to",
        "handoff to",
        "hand over to",
        "hand it to",
        "hand it off to",
        "hand it over to",
        "hand this to",
        "hand this off to",
        "hand this over to",
        "hand the run to",
        "hand the run off to",
        "hand the run over to",
        "hand the contact to",
        "hand the contact off to",
        "hand the contact over to",
        "pass to",
        "pass it to",
        "pass it on to",
        "pass on to",
        "pass the contact to",
        "pass the run to",
    ])(input)?;
    recipients(input).map(|to| Action::Handoff { to })
}

/// Reads `ask @user.owner "Tell the customer?"`.
pub(crate) fn ask(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&["ask", "ask the question", "ask people"])(input)?;
    let to = opt(recipients).parse_next(input)?;
    let _colon = opt(alt((mark(":"), comma, phrase(&["the question"])))).parse_next(input)?;
    let question = filled_text(input)?;
    Ok(Action::Ask { to, question })
}
