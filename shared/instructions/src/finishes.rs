//! Words that end the run.

use serde_json::{Value, json};
use winnow::Parser as _;
use winnow::combinator::{alt, opt, preceded};

use crate::draft::Action;
use crate::line_parser::{Input, Parsed, filled_text, mark, phrase};
use crate::values::placeholder;

/// Summary of a run whose line has none.
pub(crate) const SUMMARY_DEFAULT: &str = "Finished.";

/// Reads `finish with "…"` and `fail with "…"`.
pub(crate) fn finish(input: &mut Input<'_>) -> Parsed<Action> {
    alt((failed, completed))
        .map(Action::Finish)
        .parse_next(input)
}

fn completed(input: &mut Input<'_>) -> Parsed<Value> {
    phrase(&[
        "finish",
        "finish the run",
        "finish here",
        "stop",
        "stop the run",
        "stop here",
        "end",
        "end the run",
        "end here",
        "complete the run",
    ])(input)?;
    let summary = opt(summary).parse_next(input)?;
    let summary = summary.unwrap_or_else(|| SUMMARY_DEFAULT.to_owned());
    Ok(Value::String(summary))
}

fn failed(input: &mut Input<'_>) -> Parsed<Value> {
    phrase(&["fail", "fail the run"])(input)?;
    let summary = summary(input)?;
    Ok(json!({ "summary": summary, "status": "failed" }))
}

fn summary(input: &mut Input<'_>) -> Parsed<String> {
    let before = alt((
        mark(":"),
        phrase(&[
            "with",
            "with summary",
            "with the summary",
            "saying",
            "because",
        ]),
    ));
    let text = alt((filled_text, placeholder));
    preceded(opt(before), text).parse_next(input)
}
