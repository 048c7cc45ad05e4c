//! Parsers for the tokens of a line, and the furthest place that was understood.
//!
//! Every parser that does not find what it needs records the place and the need. The furthest place is the error that
//! is shown if the line is not understood.

use winnow::ModalResult;
use winnow::Parser;
use winnow::combinator::opt;
use winnow::error::{EmptyError, ErrMode};
use winnow::stream::{Stateful, Stream as _, TokenSlice};

use crate::tokens::{Token, TokenKind};

/// Most needs that an error lists.
const EXPECTED_MAX: usize = 5;

/// What is needed when all words of a line have a meaning.
pub(crate) const END_OF_LINE: &str = "the end of the line";

pub(crate) type Parsed<O> = ModalResult<O, EmptyError>;

/// The tokens that are left, and what has been learned about the line.
pub(crate) type Input<'t> = Stateful<TokenSlice<'t, Token<'t>>, Progress<'t>>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Progress<'t> {
    /// The furthest place at which something was missing, and what.
    pub(crate) furthest: Option<Furthest>,
    /// Why a line that was understood is refused, and how many tokens were left.
    pub(crate) refusal: Option<Refusal>,
    /// The questions of earlier lines, in their order.
    pub(crate) questions: &'t [Question],
}

/// A question of an earlier line.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// Id of its step.
    pub(crate) step: String,
    /// The answers that it has; empty: any text.
    pub(crate) options: Vec<String>,
    /// It is asked only under a condition.
    pub(crate) is_conditional: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Furthest {
    pub(crate) tokens_left: usize,
    /// Descriptions such as `a duration such as `5 days``.
    pub(crate) needs: Vec<&'static str>,
    /// Words that would have continued the line.
    pub(crate) words: Vec<&'static str>,
}

#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) tokens_left: usize,
    pub(crate) message: String,
}

pub(crate) fn tokens_left(input: &Input<'_>) -> usize {
    input.eof_offset()
}

/// Ends the line with a message about the next token. No other form is tried.
pub(crate) fn refuse<O>(input: &mut Input<'_>, message: impl Into<String>) -> Parsed<O> {
    let left = tokens_left(input);
    refuse_at(input, left, message)
}

/// As [`refuse`], about an earlier token.
pub(crate) fn refuse_at<O>(
    input: &mut Input<'_>,
    tokens_left: usize,
    message: impl Into<String>,
) -> Parsed<O> {
    let message = message.into();
    input.state.refusal = Some(Refusal {
        tokens_left,
        message,
    });
    Err(ErrMode::Cut(EmptyError))
}

/// Records a need at the next token, so that another form is tried.
pub(crate) fn miss<O>(input: &mut Input<'_>, need: &'static str) -> Parsed<O> {
    let left = tokens_left(input);
    if let Some(needs) = needs_at(input, left).map(|furthest| &mut furthest.needs)
        && needs.len() < EXPECTED_MAX
        && !needs.contains(&need)
    {
        needs.push(need);
    }
    Err(ErrMode::Backtrack(EmptyError))
}

/// A parser whose failure records a need at its first token, beside the needs of its parts.
pub(crate) fn with_need<'t, O>(
    need: &'static str,
    mut parser: impl Parser<Input<'t>, O, ErrMode<EmptyError>>,
) -> impl FnMut(&mut Input<'t>) -> Parsed<O> {
    move |input| {
        let start = input.checkpoint();
        match parser.parse_next(input) {
            Err(ErrMode::Backtrack(_)) => {
                input.reset(&start);
                miss(input, need)
            }
            other => other,
        }
    }
}

/// The needs at a place, if no later place is known.
fn needs_at<'i>(input: &'i mut Input<'_>, tokens_left: usize) -> Option<&'i mut Furthest> {
    let known = input.state.furthest.as_ref();
    if known.is_none_or(|known| tokens_left < known.tokens_left) {
        input.state.furthest = Some(Furthest {
            tokens_left,
            needs: Vec::new(),
            words: Vec::new(),
        });
    }
    let furthest = input.state.furthest.as_mut();
    furthest.filter(|furthest| furthest.tokens_left == tokens_left)
}

#[cfg(test)]
thread_local! {
    /// How often the parsers of this thread have looked at a token.
    pub(crate) static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The next token, which is not taken. All parsers read tokens with it.
pub(crate) fn next_kind<'t>(input: &Input<'t>) -> Option<&'t TokenKind<'t>> {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
    input.peek_token().map(|token| &token.kind)
}

/// Takes the next token if `read` accepts it.
pub(crate) fn take_token<'t, O>(
    input: &mut Input<'t>,
    need: &'static str,
    read: impl FnOnce(&'t TokenKind<'t>) -> Option<O>,
) -> Parsed<O> {
    match next_kind(input).and_then(read) {
        Some(found) => {
            input.next_token();
            Ok(found)
        }
        None => miss(input, need),
    }
}

/// A word that `read` accepts.
pub(crate) fn take_word<'t, O>(
    input: &mut Input<'t>,
    need: &'static str,
    read: impl FnOnce(&'t str) -> Option<O>,
) -> Parsed<O> {
    take_token(input, need, |kind| match kind {
        TokenKind::Word(word) => read(word),
        TokenKind::Text(_)
        | TokenKind::Expression(_)
        | TokenKind::Path(_)
        | TokenKind::Punctuation(_)
        | TokenKind::Unclosed(_) => None,
    })
}

/// A quoted text.
pub(crate) fn quoted_text(input: &mut Input<'_>) -> Parsed<String> {
    quoted_if("a text in quotes", |_text| true)(input)
}

/// A quoted text that is not blank.
pub(crate) fn filled_text(input: &mut Input<'_>) -> Parsed<String> {
    match next_kind(input) {
        Some(TokenKind::Text(text)) if text.trim().is_empty() => {
            miss(input, "a text that is not empty")
        }
        Some(_) | None => quoted_text(input),
    }
}

/// A quoted text that passes a check.
pub(crate) fn quoted_if<'t>(
    need: &'static str,
    check: fn(&str) -> bool,
) -> impl FnMut(&mut Input<'t>) -> Parsed<String> {
    move |input| {
        take_token(input, need, |kind| match kind {
            TokenKind::Text(text) => check(text).then(|| text.clone()),
            TokenKind::Word(_)
            | TokenKind::Expression(_)
            | TokenKind::Path(_)
            | TokenKind::Punctuation(_)
            | TokenKind::Unclosed(_) => None,
        })
    }
}

/// A punctuation mark or an operator.
pub(crate) fn mark<'t>(wanted: &'static str) -> impl FnMut(&mut Input<'t>) -> Parsed<()> {
    move |input| match next_kind(input) {
        Some(TokenKind::Punctuation(found)) if *found == wanted => {
            input.next_token();
            Ok(())
        }
        Some(_) | None => miss_word(input, wanted),
    }
}

pub(crate) fn comma(input: &mut Input<'_>) -> Parsed<()> {
    mark(",")(input)
}

/// The longest of some phrases, without regard to case. `"hand off to"` is three words.
pub(crate) fn phrase<'t>(
    phrases: &'static [&'static str],
) -> impl FnMut(&mut Input<'t>) -> Parsed<()> {
    move |input| {
        let start = input.checkpoint();
        let mut longest = 0;
        for phrase in phrases {
            longest = longest.max(match_words(input, phrase).unwrap_or(0));
            input.reset(&start);
        }
        if longest == 0 {
            return Err(ErrMode::Backtrack(EmptyError));
        }
        for _word in 0..longest {
            input.next_token();
        }
        Ok(())
    }
}

/// As [`phrase`], for words that are refused: an error must not offer them.
pub(crate) fn refused_phrase<'t>(
    phrases: &'static [&'static str],
) -> impl FnMut(&mut Input<'t>) -> Parsed<()> {
    let mut refused = phrase(phrases);
    move |input| {
        let furthest = input.state.furthest.clone();
        let found = refused(input);
        input.state.furthest = furthest;
        found
    }
}

/// The value beside the longest of some phrases.
pub(crate) fn choice<'t, V: Copy>(
    choices: &'static [(&'static str, V)],
) -> impl FnMut(&mut Input<'t>) -> Parsed<V> {
    move |input| {
        let start = input.checkpoint();
        let mut longest = None;
        for (phrase, value) in choices {
            let words = match_words(input, phrase);
            input.reset(&start);
            let is_longer = |words: &usize| longest.is_none_or(|(most, _)| *words > most);
            if let Some(words) = words.filter(is_longer) {
                longest = Some((words, *value));
            }
        }
        let Some((words, value)) = longest else {
            return Err(ErrMode::Backtrack(EmptyError));
        };
        for _word in 0..words {
            input.next_token();
        }
        Ok(value)
    }
}

/// `the`, `a` or `an`, if it is there.
pub(crate) fn article(input: &mut Input<'_>) -> Parsed<()> {
    opt(phrase(&["the", "a", "an"])).void().parse_next(input)
}

/// Takes the words of a phrase, and gives their number.
fn match_words(input: &mut Input<'_>, phrase: &'static str) -> Option<usize> {
    let mut rest = phrase;
    let mut count = 0;
    while !rest.is_empty() {
        let (wanted, after) = rest.split_once(' ').unwrap_or((rest, ""));
        match next_kind(input) {
            Some(TokenKind::Word(word)) if is_same_word(word, wanted) => {}
            Some(TokenKind::Punctuation(mark)) if *mark == wanted => {}
            Some(_) | None => {
                let _missed: Parsed<()> = miss_word(input, rest);
                return None;
            }
        }
        input.next_token();
        count += 1;
        rest = after;
    }
    Some(count)
}

fn miss_word<O>(input: &mut Input<'_>, word: &'static str) -> Parsed<O> {
    let left = tokens_left(input);
    if let Some(words) = needs_at(input, left).map(|furthest| &mut furthest.words)
        && words.len() < EXPECTED_MAX
        && !words.contains(&word)
    {
        words.push(word);
    }
    Err(ErrMode::Backtrack(EmptyError))
}

/// Case does not matter, and a typographic apostrophe is an apostrophe.
pub(crate) fn is_same_word(word: &str, keyword: &str) -> bool {
    let plain = |c: char| {
        if c == '’' {
            '\''
        } else {
            c.to_ascii_lowercase()
        }
    };
    word.chars().map(plain).eq(keyword.chars())
}
