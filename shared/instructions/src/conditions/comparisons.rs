//! Words that compare a value: `contact.plan is "pro"`, `$input.amount is above 100`.

use serde_json::Value;

use super::condition::{Check, Comparison, Path, Test};
use super::paths::path;
use crate::line_parser::{
    Input, Parsed, choice, is_same_word, quoted_text, refuse, refuse_at, take_token, tokens_left,
    with_need,
};
use crate::quotes::quote;
use crate::tokens::TokenKind;
use crate::values::literal;

/// What follows the name of a value.
#[derive(Debug, Clone, Copy)]
enum Operator {
    Compare(Comparison),
    Contains,
    ContainsNot,
    StartsWith,
    EndsWith,
    IsSet,
    IsMissing,
}

const OPERATORS: &[(&str, Operator)] = &[
    ("is", Operator::Compare(Comparison::Equal)),
    ("equals", Operator::Compare(Comparison::Equal)),
    ("is equal to", Operator::Compare(Comparison::Equal)),
    ("=", Operator::Compare(Comparison::Equal)),
    ("==", Operator::Compare(Comparison::Equal)),
    ("is not", Operator::Compare(Comparison::NotEqual)),
    ("isn't", Operator::Compare(Comparison::NotEqual)),
    ("is not equal to", Operator::Compare(Comparison::NotEqual)),
    ("does not equal", Operator::Compare(Comparison::NotEqual)),
    ("!=", Operator::Compare(Comparison::NotEqual)),
    ("is above", Operator::Compare(Comparison::Above)),
    ("is over", Operator::Compare(Comparison::Above)),
    ("is more than", Operator::Compare(Comparison::Above)),
    ("is greater than", Operator::Compare(Comparison::Above)),
    ("is larger than", Operator::Compare(Comparison::Above)),
    (">", Operator::Compare(Comparison::Above)),
    ("is below", Operator::Compare(Comparison::Below)),
    ("is under", Operator::Compare(Comparison::Below)),
    ("is less than", Operator::Compare(Comparison::Below)),
    ("is smaller than", Operator::Compare(Comparison::Below)),
    ("<", Operator::Compare(Comparison::Below)),
    ("is at least", Operator::Compare(Comparison::AtLeast)),
    (">=", Operator::Compare(Comparison::AtLeast)),
    ("≥", Operator::Compare(Comparison::AtLeast)),
    ("is at most", Operator::Compare(Comparison::AtMost)),
    ("<=", Operator::Compare(Comparison::AtMost)),
    ("≤", Operator::Compare(Comparison::AtMost)),
    ("contains", Operator::Contains),
    ("does not contain", Operator::ContainsNot),
    ("doesn't contain", Operator::ContainsNot),
    ("starts with", Operator::StartsWith),
    ("begins with", Operator::StartsWith),
    ("ends with", Operator::EndsWith),
    ("exists", Operator::IsSet),
    ("is set", Operator::IsSet),
    ("is not missing", Operator::IsSet),
    ("is not empty", Operator::IsSet),
    ("is missing", Operator::IsMissing),
    ("is empty", Operator::IsMissing),
    ("is not set", Operator::IsMissing),
    ("isn't set", Operator::IsMissing),
    ("does not exist", Operator::IsMissing),
];

/// A value and what it is compared with.
pub(super) fn field(input: &mut Input<'_>) -> Parsed<Test> {
    let path = path(input)?;
    let need = "a comparison such as `is`, `is not`, `is above`, `contains` or `is set`";
    let operator = with_need(need, choice(OPERATORS))(input)?;
    let check = match operator {
        Operator::Compare(Comparison::Equal) => {
            Check::Compare(Comparison::Equal, any_value(input, &path)?)
        }
        Operator::Compare(Comparison::NotEqual) => {
            Check::Compare(Comparison::NotEqual, any_value(input, &path)?)
        }
        Operator::Compare(comparison) => {
            if options_of(input, &path).is_some() {
                return refuse(
                    input,
                    "An answer is a text; compare it with `is` and an option",
                );
            }
            Check::Compare(comparison, number(input)?)
        }
        Operator::Contains => Check::Contains(quoted_text(input)?),
        Operator::ContainsNot => Check::ContainsNot(quoted_text(input)?),
        Operator::StartsWith => Check::StartsWith(quoted_text(input)?),
        Operator::EndsWith => Check::EndsWith(quoted_text(input)?),
        Operator::IsSet => Check::IsSet,
        Operator::IsMissing => Check::IsMissing,
    };
    Ok(Test::Field { path, check })
}

/// `yes` is the text of an answer, and true in other places.
fn any_value(input: &mut Input<'_>, path: &Path) -> Parsed<Value> {
    let start = tokens_left(input);
    let need = "a text in quotes, a number, `yes`, `no`, `true`, `false` or `null`";
    let found = take_token(input, need, |kind| match kind {
        TokenKind::Text(text) => Some(Value::String(text.clone())),
        TokenKind::Word(word) => read_word(word, path.is_answer()),
        TokenKind::Path(_)
        | TokenKind::Expression(_)
        | TokenKind::Punctuation(_)
        | TokenKind::Unclosed(_) => None,
    })?;
    if is_beyond_cel(&found) {
        return refuse_at(input, start, "This number is too large for a condition");
    }
    let Some(options) = options_of(input, path).filter(|_| !found.is_null()) else {
        return Ok(found);
    };
    match option_of_answer(options, &found) {
        Some(option) => Ok(Value::String(option)),
        None => {
            let options: Vec<String> = options.iter().map(|it| quote(it)).collect();
            let options = options.join(", ");
            let message = format!("The question has no such option; it has {options}");
            refuse_at(input, start, message)
        }
    }
}

/// The options of the question whose answer this is. `None`: it is another value, or the question takes any text.
fn options_of<'t>(input: &Input<'t>, path: &Path) -> Option<&'t [String]> {
    let step = path.text().strip_prefix('$')?.strip_suffix(".answer")?;
    let mut questions = input.state.questions.iter();
    let question = questions.find(|question| question.step == step)?;
    (!question.options.is_empty()).then_some(question.options.as_slice())
}

/// The option that a value names: written the same, or with other capital letters. `None`: no answer can be this value.
fn option_of_answer(options: &[String], value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let lower = text.to_lowercase();
    let exact = options.iter().find(|option| *option == text);
    let found = exact.or_else(|| options.iter().find(|option| option.to_lowercase() == lower));
    found.cloned()
}

fn number(input: &mut Input<'_>) -> Parsed<Value> {
    take_token(input, "a number", |kind| match kind {
        TokenKind::Word(word) => literal(word).filter(|it| it.is_number() && !is_beyond_cel(it)),
        TokenKind::Text(_)
        | TokenKind::Path(_)
        | TokenKind::Expression(_)
        | TokenKind::Punctuation(_)
        | TokenKind::Unclosed(_) => None,
    })
}

fn read_word(word: &str, is_answer: bool) -> Option<Value> {
    let truths = [("yes", true), ("no", false)];
    let named = truths
        .into_iter()
        .find(|(name, _)| is_same_word(word, name));
    match named {
        Some((name, _)) if is_answer => Some(Value::String(name.to_owned())),
        Some((_, truth)) => Some(Value::Bool(truth)),
        None => literal(word),
    }
}

/// CEL has whole numbers of 64 bits with a sign.
fn is_beyond_cel(value: &Value) -> bool {
    value.is_u64() && !value.is_i64()
}
