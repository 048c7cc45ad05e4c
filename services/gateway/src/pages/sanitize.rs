//! Texts of others, made fit to be shown. HTML is escaped by the templates; this is about what no
//! escaping reaches: control characters, and those that turn the direction of writing around.

use std::borrow::Cow;

/// A text as it is shown: lines and tabs stay, other control characters become a visible mark.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unfit) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if is_unfit(c) { '\u{fffd}' } else { c };
    Cow::Owned(text.chars().map(shown).collect())
}

/// The same on one line, at most so many characters long.
pub(super) fn line(text: &str, max: usize) -> String {
    let one = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if one.chars().count() <= max {
        return one;
    }
    let mut cut: String = one.chars().take(max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// A word of a body for people: `no_action_needed` is `No action needed`.
pub(super) fn spoken(word: &str) -> String {
    let spaced = line(&word.replace(['_', '-'], " "), 200);
    let mut letters = spaced.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => spaced,
    }
}

fn is_unfit(c: char) -> bool {
    let turns =
        matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    turns || (c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// People, "Must": HTML and control characters in every text.
    #[test]
    fn what_cannot_be_seen_is_seen() {
        assert_eq!(clean("two\nlines\tand ä"), "two\nlines\tand ä");
        assert_eq!(
            clean("a\u{0}b\u{1b}[31mc\u{202e}txt"),
            "a\u{fffd}b\u{fffd}[31mc\u{fffd}txt"
        );
    }

    #[test]
    fn a_line_is_one_line_and_not_too_long() {
        assert_eq!(line(" a\n b\t", 9), "a b");
        assert_eq!(line("abcdef", 4), "abc…");
    }

    #[test]
    fn words_are_spoken() {
        assert_eq!(spoken("no_action_needed"), "No action needed");
        assert_eq!(spoken(""), "");
    }
}
