//! Why a line was not understood: the furthest place, what was expected there, and what to write instead.

use crate::diagnostics::InstructionError;
use crate::line_parser::{END_OF_LINE, Furthest, Progress};
use crate::lines::Line;
use crate::samples::nearest_samples;
use crate::tokens::{Token, TokenKind};

/// Most characters of a line that a message repeats.
const SHOWN_CHARS_MAX: usize = 60;

/// Most needs in a message.
const NEEDS_MAX: usize = 4;

/// How a repetition is written.
const REPETITION_HINT: &str = "A line repeats its step with for example `every 2 days until contact replies, at most 5 times`.";

/// Words of sentences that are likely and not supported, one after the other, with what to write instead.
const HINTS: [(&[&str], &str); 8] = [
    (&["repeat"], REPETITION_HINT),
    (&["loop"], REPETITION_HINT),
    (&["while"], REPETITION_HINT),
    (&["daily"], REPETITION_HINT),
    (
        &["interested"],
        "Interest is not a fact that a run sees; write `contact replied positively` or `contact replied negatively`.",
    ),
    (
        &["hand", "off", "if"],
        "A handoff needs a recipient, such as `Hand off to @user.nina`.",
    ),
    (
        &["maybe"],
        "A condition must be true or false, such as `contact replied`.",
    ),
    (
        &["not", "positive"],
        "Write `contact did not reply positively`, which includes no reply.",
    ),
];

/// Refuses a line without words, and a quote or placeholder that does not end.
pub(crate) fn check_tokens(line: &Line<'_>, tokens: &[Token<'_>]) -> Result<(), InstructionError> {
    if tokens.is_empty() {
        let message = "This line has a bullet and no words.".to_owned();
        return Err(line.error(line.start, message, Vec::new()));
    }
    let broken = tokens.iter().find_map(|token| match token.kind {
        TokenKind::Unclosed(message) => Some((token.start, message)),
        TokenKind::Word(_)
        | TokenKind::Text(_)
        | TokenKind::Expression(_)
        | TokenKind::Path(_)
        | TokenKind::Punctuation(_) => None,
    });
    match broken {
        Some((start, message)) => {
            Err(line.error(line.start + start, format!("{message}."), Vec::new()))
        }
        None => Ok(()),
    }
}

/// The error of a line that was not understood.
pub(crate) fn error(
    line: &Line<'_>,
    tokens: &[Token<'_>],
    progress: &Progress<'_>,
) -> InstructionError {
    let text = line.text();
    let nearest = nearest_samples(text);
    if let Some(refusal) = &progress.refusal {
        let at = place(text, tokens, refusal.tokens_left);
        return line.error(line.start + at, format!("{}.", refusal.message), nearest);
    }
    let left = progress
        .furthest
        .as_ref()
        .map_or(tokens.len(), |it| it.tokens_left);
    let at = place(text, tokens, left);
    let message = message(text, at, tokens, progress.furthest.as_ref());
    let message = format!("{message}{}", hints(tokens));
    line.error(line.start + at, message, nearest)
}

/// Byte of the first token that is left.
fn place(text: &str, tokens: &[Token<'_>], tokens_left: usize) -> usize {
    let at = tokens.len().saturating_sub(tokens_left);
    tokens.get(at).map_or(text.len(), |token| token.start)
}

fn message(text: &str, at: usize, tokens: &[Token<'_>], furthest: Option<&Furthest>) -> String {
    let token = tokens.iter().find(|token| token.start >= at);
    let found = token.and_then(|token| text.get(token.start..token.end));
    let found = found.map_or_else(
        || "the end of the line".to_owned(),
        |found| format!("`{}`", cut(found)),
    );
    let understood = text.get(..at).unwrap_or_default().trim();
    if understood.is_empty() {
        return format!(
            "A step does not begin with {found}; it begins with a word such as Wait, Send, Hand off, Ask, Call, Set, Log, Finish or If."
        );
    }
    let expected = furthest.map(needs).unwrap_or_default();
    format!(
        "Understood `{}`; expected {expected}, found {found}.",
        cut_start(understood)
    )
}

fn needs(furthest: &Furthest) -> String {
    // A need says more than the many words that could also follow.
    let has_need = furthest.needs.iter().any(|need| *need != END_OF_LINE);
    let words = furthest.words.iter().map(|word| format!("`{word}`"));
    let needs = furthest.needs.iter().map(|need| (*need).to_owned());
    let mut all: Vec<String> = needs
        .chain(words.filter(|_| !has_need))
        .take(NEEDS_MAX)
        .collect();
    let last = all.pop().unwrap_or_default();
    if all.is_empty() {
        return last;
    }
    format!("{} or {last}", all.join(", "))
}

/// All hints whose words follow each other in the line.
fn hints(tokens: &[Token<'_>]) -> String {
    let words: Vec<String> = tokens.iter().filter_map(lower_word).collect();
    let is_in_line = |wanted: &[&str]| words.windows(wanted.len()).any(|some| some == wanted);
    let found = HINTS.iter().filter(|(wanted, _)| is_in_line(wanted));
    found.map(|(_, hint)| format!(" {hint}")).collect()
}

fn lower_word(token: &Token<'_>) -> Option<String> {
    match token.kind {
        TokenKind::Word(word) => Some(word.to_lowercase()),
        TokenKind::Text(_)
        | TokenKind::Expression(_)
        | TokenKind::Path(_)
        | TokenKind::Punctuation(_)
        | TokenKind::Unclosed(_) => None,
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= SHOWN_CHARS_MAX {
        return text.to_owned();
    }
    let begun: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    format!("{begun}…")
}

/// The end of a text, where the error is.
fn cut_start(text: &str) -> String {
    let extra = text.chars().count().saturating_sub(SHOWN_CHARS_MAX);
    if extra == 0 {
        return text.to_owned();
    }
    let ended: String = text.chars().skip(extra).collect();
    format!("…{ended}")
}
