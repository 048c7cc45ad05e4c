//! One line as one sentence: a condition, an action, and what follows the action.

use winnow::Parser as _;
use winnow::combinator::{alt, opt, preceded};
use winnow::stream::{Stateful, TokenSlice};

use crate::calls::{call, for_each, refuse_unclear_run, run_agent};
use crate::conditions::{condition, negate, no_reply_after};
use crate::contacts::{change_contact, create_task, log};
use crate::diagnostics::InstructionError;
use crate::draft::{Action, Draft, Modifier, ReadStep, default_id};
use crate::earlier_lines::{EarlierLines, otherwise_of};
use crate::finishes::finish;
use crate::line_errors;
use crate::line_parser::{
    END_OF_LINE, Input, Parsed, Progress, choice, comma, mark, miss, phrase, refuse, refuse_at,
    tokens_left, with_need,
};
use crate::lines::Line;
use crate::mails::mail;
use crate::modifiers::{approval, read_modifiers};
use crate::people::{ask, handoff};
use crate::repeated_steps::RepeatedLine;
use crate::repetition::{Repetition, RepetitionParts};
use crate::tokens::read_tokens;
use crate::waits::wait;

/// Words between two steps, which belong in two lines.
const STEP_JOINTS: &[&str] = &["and", "then", "and then"];

/// What is shown beside the second step of a line with `no reply after 5 days`.
const SHOWN_AFTER_WAIT: &str = "# If there is still no reply";

/// How a sentence is conditional. All have the condition in CEL.
enum Prefix {
    If(String),
    Otherwise(String),
    /// A missing reply, and the time that the run waits for it.
    NoReplyAfter(String, String),
}

/// The condition of a line, in CEL.
#[derive(Default)]
struct LineCondition {
    when: Option<String>,
    /// That of a line with `Otherwise`.
    otherwise: Option<String>,
    /// How long the run waits for a reply first.
    waits: Option<String>,
}

impl LineCondition {
    fn of(prefix: Option<Prefix>) -> Self {
        match prefix {
            Some(Prefix::If(cel)) => Self {
                when: Some(cel),
                ..Self::default()
            },
            Some(Prefix::Otherwise(cel)) => Self {
                when: Some(cel.clone()),
                otherwise: Some(cel),
                ..Self::default()
            },
            Some(Prefix::NoReplyAfter(cel, time)) => Self {
                when: Some(cel),
                waits: Some(time),
                ..Self::default()
            },
            None => Self::default(),
        }
    }
}

/// A sentence with what it means for the next line.
struct Sentence {
    /// How long the run waits for a reply before the step.
    waits: Option<String>,
    draft: Draft,
    repetition: Option<Repetition>,
    /// The condition of a line with `Otherwise`.
    otherwise: Option<String>,
}

/// The steps of a line, and what the line means for the next one.
struct LineSteps {
    steps: Vec<ReadStep>,
    otherwise: Option<String>,
    /// Ids of the times of a repeated step.
    repeated: Option<Vec<String>>,
    /// Bytes that the line itself does not have.
    bytes: usize,
}

/// Reads a line to its steps: one, or several if it repeats its step.
pub(crate) fn read(
    line: &Line<'_>,
    earlier: &mut EarlierLines,
) -> Result<Vec<ReadStep>, InstructionError> {
    let tokens = read_tokens(line.text());
    if let Err(error) = line_errors::check_tokens(line, &tokens) {
        earlier.position += 1;
        return Err(error);
    }
    let progress = Progress {
        questions: &earlier.questions,
        ..Progress::default()
    };
    let mut input = Stateful {
        input: TokenSlice::new(&tokens),
        state: progress,
    };
    let read = sentence(&mut input, earlier.otherwise.as_deref()).and_then(|sentence| {
        let mut read = line_steps(&mut input, sentence, line.text().len(), earlier)?;
        match earlier.write_latest(&mut read.steps) {
            Ok(bytes) => read.bytes += bytes,
            Err(message) => {
                let at = earlier.find_repeated(&tokens).unwrap_or_default();
                return refuse_at(&mut input, tokens.len() - at, message);
            }
        }
        Ok(read)
    });
    let Ok(read) = read else {
        let error = line_errors::error(line, &tokens, &input.state);
        earlier.add_unknown();
        return Err(error);
    };
    earlier.count_bytes(read.bytes);
    match (read.repeated, read.steps.as_slice()) {
        (None, [waits @ .., (fields, _)]) => {
            earlier.position += waits.len();
            earlier.add_step(fields, read.otherwise);
        }
        (ids, steps) => earlier.add_repeated(steps.len(), &ids.unwrap_or_default()),
    }
    Ok(read.steps)
}

/// Makes no step of a repetition before all limits are checked, so that a refused line costs nothing.
fn line_steps(
    input: &mut Input<'_>,
    sentence: Sentence,
    bytes: usize,
    earlier: &EarlierLines,
) -> Parsed<LineSteps> {
    let Some(repetition) = sentence.repetition else {
        let wait = sentence.waits.map(wait_for_reply);
        let steps = usize::from(wait.is_some()) + 1;
        if let Some(message) = earlier.refuse_repeated(steps, 0) {
            return refuse_at(input, 0, message);
        }
        let position = earlier.position + steps;
        let draft = &sentence.draft;
        let id = draft
            .id()
            .map_or_else(|| default_id(position), str::to_owned);
        let opposite = draft.when.as_deref().map(|when| otherwise_of(&id, when));
        let shown = wait.as_ref().map(|_| SHOWN_AFTER_WAIT.to_owned());
        let step = (sentence.draft.into_fields(), shown);
        return Ok(LineSteps {
            steps: wait.into_iter().chain([step]).collect(),
            // A second `Otherwise` has the condition of the first one.
            otherwise: sentence.otherwise.or(opposite),
            repeated: None,
            bytes: 0,
        });
    };
    let start = repetition.start;
    let line = match RepeatedLine::new(sentence.draft, repetition, earlier.position + 1) {
        Ok(line) => line,
        Err(message) => return refuse_at(input, start, message),
    };
    let bytes = bytes * line.times();
    match earlier.refuse_repeated(line.steps_count(), bytes) {
        Some(message) => refuse_at(input, start, message),
        None => Ok(LineSteps {
            steps: line.make_steps(),
            otherwise: None,
            repeated: Some(line.ids()),
            bytes,
        }),
    }
}

/// The wait of a line with `no reply after 5 days`. The line is shown beside it.
fn wait_for_reply(time: String) -> ReadStep {
    let wait = Draft {
        when: None,
        for_each: None,
        action: Action::Reply { within: Some(time) },
        modifiers: Vec::new(),
    };
    (wait.into_fields(), None)
}

fn sentence(input: &mut Input<'_>, otherwise_before: Option<&str>) -> Parsed<Sentence> {
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
    let prefix = opt(|input: &mut Input<'_>| prefix(input, otherwise_before)).parse_next(input)?;
    let mut repetition = RepetitionParts::default();
    repetition.read_before_step(input)?;
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
    if for_each.is_some() && !action.may_have_items() {
        let message = "Only a call of a tool, a question or a handoff is done `for each` item";
        return refuse_at(input, start, message);
    }
    read_modifiers(input, &action, &mut modifiers, repetition.is_begun())?;
    while repetition.read_part(input)? {
        read_modifiers(input, &action, &mut modifiers, true)?;
    }
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
    let LineCondition {
        when,
        otherwise,
        waits,
    } = LineCondition::of(prefix.or(suffix));
    if waits.is_some() && action.is_wait() {
        let message = "It is not clear which of the two times comes first; write two lines";
        return refuse_at(input, start, message);
    }
    let draft = Draft {
        when,
        for_each,
        action,
        modifiers,
    };
    let repetition = repetition.finish(input, &draft)?;
    Ok(Sentence {
        waits,
        draft,
        repetition,
        otherwise,
    })
}

fn action(input: &mut Input<'_>) -> Parsed<Action> {
    let people = alt((handoff, ask));
    let tools = alt((call, run_agent, change_contact, create_task, log));
    let any = alt((wait, mail, people, tools, finish, refuse_unclear_run));
    with_need("a step such as `wait 5 days`", any)(input)
}

fn prefix(input: &mut Input<'_>, otherwise_before: Option<&str>) -> Parsed<Prefix> {
    alt((
        |input: &mut Input<'_>| otherwise(input, otherwise_before),
        if_condition,
    ))
    .parse_next(input)
}

fn otherwise(input: &mut Input<'_>, otherwise_before: Option<&str>) -> Parsed<Prefix> {
    let start = tokens_left(input);
    let word = (phrase(&["otherwise", "else"]), opt(comma)).void();
    let if_not = (phrase(&["if not"]), comma).void();
    alt((word, if_not)).parse_next(input)?;
    if opt(phrase(&["if", "when"])).parse_next(input)?.is_some() {
        let message = "A line with `Otherwise` has no further condition; write the whole condition with `If …`";
        return refuse(input, message);
    }
    match otherwise_before {
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
    let after = preceded(phrase(&["if", "when", "in case"]), no_reply_after);
    let after = after.map(|(cel, time)| Prefix::NoReplyAfter(cel, time));
    let held = (words, condition)
        .map(|(is_negated, found)| Prefix::If(if is_negated { negate(&found) } else { found }));
    let found = alt((after, held)).parse_next(input)?;
    let then = alt(((comma, opt(phrase(&["then"]))).void(), phrase(&["then"])));
    with_need("a comma", then)(input)?;
    Ok(found)
}

/// `… if no reply`, at the end of a line.
fn suffix(input: &mut Input<'_>, has_prefix: bool) -> Parsed<Option<Prefix>> {
    let start = tokens_left(input);
    let after = preceded(phrase(&["if", "when"]), no_reply_after);
    let after = after.map(|(cel, time)| Prefix::NoReplyAfter(cel, time));
    let holds = preceded(phrase(&["if", "when"]), condition).map(Prefix::If);
    let holds_not = preceded(phrase(&["unless"]), condition);
    let holds_not = holds_not.map(|cel| Prefix::If(negate(&cel)));
    let found = opt(preceded(opt(comma), alt((after, holds, holds_not)))).parse_next(input)?;
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
