//! One line as one sentence: a condition, an action, and what follows the action.

use serde_json::{Map, Value};
use winnow::Parser as _;
use winnow::combinator::{alt, opt, preceded};
use winnow::stream::{Stateful, TokenSlice};

use crate::calls::{call, for_each, refuse_unclear_run, run_agent};
use crate::conditions::{condition, negate};
use crate::contacts::{change_contact, create_task, log};
use crate::diagnostics::InstructionError;
use crate::draft::{Action, Draft, Modifier};
use crate::finishes::finish;
use crate::line_errors;
use crate::line_parser::{
    END_OF_LINE, Input, Parsed, Progress, Question, choice, comma, mark, miss, phrase, refuse,
    refuse_at, tokens_left, with_need,
};
use crate::lines::Line;
use crate::mails::mail;
use crate::modifiers::{approval, read_modifiers};
use crate::people::{ask, handoff};
use crate::tokens::read_tokens;
use crate::waits::wait;

/// Words between two steps, which belong in two lines.
const STEP_JOINTS: &[&str] = &["and", "then", "and then"];

/// What earlier lines mean for the next one.
#[derive(Debug, Default)]
pub(crate) struct EarlierLines {
    /// Number of lines with words so far. It is the position of the last step.
    pub(crate) position: usize,
    questions: Vec<Question>,
    /// Condition of the line before, if `Otherwise` may follow.
    condition: Option<String>,
}

/// How a sentence is conditional.
enum Prefix {
    If(String),
    Otherwise(String),
}

/// A sentence with what it means for the next line.
struct Sentence {
    draft: Draft,
    condition: Option<String>,
}

/// Reads a line to the fields of its step.
pub(crate) fn read(
    line: &Line<'_>,
    earlier: &mut EarlierLines,
) -> Result<Map<String, Value>, InstructionError> {
    earlier.position += 1;
    let tokens = read_tokens(line.text());
    line_errors::check_tokens(line, &tokens)?;
    let progress = Progress {
        questions: &earlier.questions,
        ..Progress::default()
    };
    let mut input = Stateful {
        input: TokenSlice::new(&tokens),
        state: progress,
    };
    let position = format!("step-{:02}", earlier.position);
    let Ok(sentence) = sentence(&mut input, earlier.condition.as_deref()) else {
        let error = line_errors::error(line, &tokens, &input.state);
        // The next line may refer to this one, and must not be an error for that.
        earlier.condition = Some("true".to_owned());
        earlier.questions.push(Question {
            step: position,
            options: Vec::new(),
            is_conditional: false,
        });
        return Err(error);
    };
    let fields = sentence.draft.into_fields();
    earlier.condition = sentence.condition;
    if let Some(ask) = fields.get("ask") {
        let id = fields.get("id").and_then(Value::as_str);
        let options = ask.get("options").and_then(Value::as_array);
        let options = options.into_iter().flatten().filter_map(Value::as_str);
        earlier.questions.push(Question {
            step: id.map_or(position, str::to_owned),
            options: options.map(str::to_owned).collect(),
            is_conditional: fields.contains_key("when"),
        });
    }
    Ok(fields)
}

fn sentence(input: &mut Input<'_>, condition_before: Option<&str>) -> Parsed<Sentence> {
    let lead = phrase(&[
        "please",
        "then",
        "and then",
        "then please",
        "next",
        "first",
        "finally",
    ]);
    let _lead = opt((lead, opt(comma))).parse_next(input)?;
    let prefix = opt(|input: &mut Input<'_>| prefix(input, condition_before)).parse_next(input)?;
    let for_each = opt(for_each).parse_next(input)?;
    let approval = opt((approval, comma)).parse_next(input)?;
    let start = tokens_left(input);
    let action = action(input)?;
    let mut modifiers: Vec<Modifier> = approval
        .map(|(approval, ())| approval)
        .into_iter()
        .collect();
    if let Some(message) = modifiers
        .first()
        .and_then(|modifier| action.refusal(modifier))
    {
        return refuse_at(input, start, message);
    }
    if for_each.is_some() && !matches!(action, Action::Tool { .. }) {
        let message = "This release has `for each` with calls of tools only";
        return refuse_at(input, start, message);
    }
    read_modifiers(input, &action, &mut modifiers)?;
    if for_each.is_none()
        && modifiers
            .iter()
            .any(|modifier| matches!(modifier, Modifier::Parallel(_)))
    {
        let message = "Only a line with `For each …` has a number of items at a time";
        return refuse_at(input, start, message);
    }
    let suffix = suffix(input, prefix.is_some())?;
    end(input)?;
    let (when, condition) = match (prefix, suffix) {
        (Some(Prefix::If(cel)), _) | (None, Some(cel)) => (Some(cel.clone()), Some(cel)),
        (Some(Prefix::Otherwise(cel)), _) => (Some(negate(&cel)), Some(cel)),
        (None, None) => (None, None),
    };
    let draft = Draft {
        when,
        for_each,
        action,
        modifiers,
    };
    Ok(Sentence { draft, condition })
}

fn action(input: &mut Input<'_>) -> Parsed<Action> {
    let people = alt((handoff, ask));
    let tools = alt((call, run_agent, change_contact, create_task, log));
    let any = alt((wait, mail, people, tools, finish, refuse_unclear_run));
    with_need("a step such as `wait 5 days`", any)(input)
}

fn prefix(input: &mut Input<'_>, condition_before: Option<&str>) -> Parsed<Prefix> {
    alt((
        |input: &mut Input<'_>| otherwise(input, condition_before),
        if_condition,
    ))
    .parse_next(input)
}

fn otherwise(input: &mut Input<'_>, condition_before: Option<&str>) -> Parsed<Prefix> {
    let start = tokens_left(input);
    let word = (phrase(&["otherwise", "else"]), opt(comma)).void();
    let if_not = (phrase(&["if not"]), comma).void();
    alt((word, if_not)).parse_next(input)?;
    if opt(phrase(&["if", "when"])).parse_next(input)?.is_some() {
        let message = "A line with `Otherwise` has no further condition; write the whole condition with `If …`";
        return refuse(input, message);
    }
    match condition_before {
        Some(cel) => Ok(Prefix::Otherwise(cel.to_owned())),
        None => refuse_at(
            input,
            start,
            "`Otherwise` follows directly after a line with a condition",
        ),
    }
}

fn if_condition(input: &mut Input<'_>) -> Parsed<Prefix> {
    let words = choice(&[
        ("if", false),
        ("when", false),
        ("in case", false),
        ("unless", true),
    ]);
    let mut conditional = (words, condition);
    let (is_negated, found) = conditional.parse_next(input)?;
    let then = alt(((comma, opt(phrase(&["then"]))).void(), phrase(&["then"])));
    with_need("a comma", then)(input)?;
    Ok(Prefix::If(if is_negated { negate(&found) } else { found }))
}

/// `… if no reply`, at the end of a line.
fn suffix(input: &mut Input<'_>, has_prefix: bool) -> Parsed<Option<String>> {
    let start = tokens_left(input);
    let holds = preceded(phrase(&["if", "when"]), condition);
    let holds_not = preceded(phrase(&["unless"]), condition).map(|cel| negate(&cel));
    let found = opt(preceded(opt(comma), alt((holds, holds_not)))).parse_next(input)?;
    if found.is_some() && has_prefix {
        return refuse_at(
            input,
            start,
            "A line has one condition; join two with `and`",
        );
    }
    Ok(found)
}

fn end(input: &mut Input<'_>) -> Parsed<()> {
    let start = tokens_left(input);
    let stop = opt(mark(".")).parse_next(input)?;
    if tokens_left(input) == 0 {
        return Ok(());
    }
    // A look at the next step must not change what the line needs.
    let furthest = input.state.furthest.clone();
    let joint = alt((
        (comma, opt(phrase(STEP_JOINTS))).void(),
        phrase(STEP_JOINTS),
    ));
    let has_second_step = opt(preceded(joint, action)).parse_next(input)?.is_some();
    input.state.furthest = furthest;
    if stop.is_some() || has_second_step {
        let message = "A line has one step; write the second one in the next line";
        return refuse_at(input, start, message);
    }
    miss(input, END_OF_LINE)
}
