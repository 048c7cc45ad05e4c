//! Words that call a tool, run another agent, and repeat a call for each item of a list.

use serde_json::{Map, Value};
use winnow::Parser as _;
use winnow::combinator::{alt, not, opt, peek, preceded};

use crate::draft::Action;
use crate::line_parser::{
    Input, Parsed, comma, is_same_word, miss, phrase, quoted_text, refuse_at, tokens_left,
};
use crate::values::{name, object, optional_colon, placeholder, value};

/// Words that are not the name of a tool, although they have its form.
const OTHER_WORDS: [&str; 27] = [
    "a", "an", "the", "me", "him", "her", "it", "us", "them", "back", "my", "our", "contact",
    "customer", "this", "that", "tool", "agent", "with", "as", "his", "your", "their", "everyone",
    "no", "not", "again",
];

/// Words that begin what follows the arguments, and are not the name of an argument.
const WORDS_AFTER: &[&str] = &[
    "timeout", "after", "at", "as", "named", "if", "unless", "when", "then", "on", "within",
    "retry", "priority", "no", "without", "with", "every", "until", "till", "up to", "not", "or",
    "nor", "but",
];

/// Words that begin another step. As an argument they need a colon, so that no second step becomes an argument.
const STEP_VERBS: &[&str] = &[
    "log",
    "ask",
    "finish",
    "fail",
    "stop",
    "send",
    "email",
    "mail",
    "wait",
    "pause",
    "sleep",
    "call",
    "use",
    "invoke",
    "execute",
    "run",
    "start",
    "set",
    "update",
    "add",
    "remove",
    "create",
    "hand",
    "pass",
    "otherwise",
    "else",
];

/// Reads `call orders.find with customer $input.customer`.
pub(crate) fn call(input: &mut Input<'_>) -> Parsed<Action> {
    let verb = phrase(&["call", "use", "invoke", "execute"]);
    let verb_with_noun = phrase(&[
        "call tool",
        "call the tool",
        "use tool",
        "use the tool",
        "run tool",
        "run the tool",
        "invoke tool",
        "invoke the tool",
        "execute tool",
        "execute the tool",
    ]);
    alt((verb_with_noun, verb)).parse_next(input)?;
    let tool = callee(input, "the name of a tool such as `orders.find`")?;
    let args = opt(preceded(phrase(&["with"]), arguments)).parse_next(input)?;
    Ok(Action::Tool { tool, args })
}

/// Reads `run agent summary with topic $input.topic`.
pub(crate) fn run_agent(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&[
        "run agent",
        "run the agent",
        "start agent",
        "start the agent",
    ])(input)?;
    let agent = callee(input, "the name of an agent such as `summary`")?;
    let with = phrase(&["with", "with input"]);
    let fields = opt(preceded(with, arguments)).parse_next(input)?;
    Ok(Action::Run {
        agent,
        input: fields,
    })
}

/// Explains that `run summary` could mean a tool or an agent.
pub(crate) fn refuse_unclear_run(input: &mut Input<'_>) -> Parsed<Action> {
    let start = tokens_left(input);
    phrase(&["run", "start"])(input)?;
    let is_name = |name: &&str| !is_same_word(name, "agent") && !is_same_word(name, "tool");
    let _name = name("`agent` or `tool`")
        .verify(is_name)
        .parse_next(input)?;
    let message =
        "It is not clear whether this is an agent or a tool; write `Run agent …` or `Call …`";
    refuse_at(input, start, message)
}

/// Reads `for each $find.orders,`.
pub(crate) fn for_each(input: &mut Input<'_>) -> Parsed<String> {
    phrase(&[
        "for each",
        "for every",
        "for each of",
        "for every one of",
        "for each item of",
        "for each item in",
        "for every item of",
        "for every item in",
        "for all",
    ])(input)?;
    let items = placeholder(input)?;
    comma(input)?;
    Ok(items)
}

/// `NAME VALUE`, `NAME: VALUE` or `NAME = VALUE`, joined by commas or `and`; or one object.
pub(crate) fn arguments(input: &mut Input<'_>) -> Parsed<Map<String, Value>> {
    if let Some(fields) = opt(object).parse_next(input)? {
        return Ok(fields);
    }
    let mut fields = Map::new();
    let mut next = Some(argument(input)?);
    while let Some((name, value)) = next {
        let start = tokens_left(input);
        if fields.contains_key(&name) {
            return refuse_at(
                input,
                start,
                format!("The argument `{name}` is written twice"),
            );
        }
        fields.insert(name, value);
        let joint = alt(((comma, phrase(&["and"])).void(), comma, phrase(&["and"])));
        next = opt(preceded(joint, argument)).parse_next(input)?;
    }
    Ok(fields)
}

fn argument(input: &mut Input<'_>) -> Parsed<(String, Value)> {
    let need = "an argument such as `limit 5`";
    // A reserved word in quotes, or with a colon, is a name.
    let with_colon = (name(need), colon_or_equals).map(|(name, ())| name.to_owned());
    let bare = preceded(not(peek(phrase(WORDS_AFTER))), name(need)).map(str::to_owned);
    let quoted = (quoted_text, optional_colon).map(|(name, ())| name);
    let name = alt((with_colon, refuse_verb, bare, quoted)).parse_next(input)?;
    Ok((name, value(input)?))
}

/// Refuses `and log "Done."` among arguments: it reads as a second step.
fn refuse_verb(input: &mut Input<'_>) -> Parsed<String> {
    let start = tokens_left(input);
    peek(phrase(STEP_VERBS)).parse_next(input)?;
    let message = "A line has one step; write the second one in the next line, or the name of an argument with a colon";
    refuse_at(input, start, message)
}

fn colon_or_equals(input: &mut Input<'_>) -> Parsed<()> {
    alt((crate::line_parser::mark(":"), crate::line_parser::mark("="))).parse_next(input)
}

fn callee(input: &mut Input<'_>, need: &'static str) -> Parsed<String> {
    let is_other = |word: &str| OTHER_WORDS.iter().any(|other| is_same_word(word, other));
    let found = peek(name(need)).parse_next(input)?;
    if is_other(found) {
        return miss(input, need);
    }
    name(need).map(str::to_owned).parse_next(input)
}

/// Whether a word begins what follows the arguments.
pub(crate) fn is_reserved(word: &str) -> bool {
    WORDS_AFTER.contains(&word) || STEP_VERBS.contains(&word) || word == "and"
}
