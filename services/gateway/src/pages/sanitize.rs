//! Makes texts of users and tools safe to show. Templates escape HTML; this module replaces control
//! characters and characters that reverse the direction of writing.

use std::borrow::Cow;

/// Keeps lines and tabs, and replaces other control characters with a visible mark.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if is_unsafe(c) { '\u{fffd}' } else { c };
    Cow::Owned(text.chars().map(shown).collect())
}

/// The same on one line of at most `max` characters.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let one = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if one.chars().count() <= max {
        return one;
    }
    let mut cut: String = one.chars().take(max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// An identifier as words: `no_action_needed` becomes `No action needed`.
pub(super) fn humanize(word: &str) -> String {
    let spaced = one_line(&word.replace(['_', '-'], " "), 200);
    let mut letters = spaced.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => spaced,
    }
}

fn is_unsafe(c: char) -> bool {
    let reverses =
        matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    reverses || (c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// People, "Must": HTML and control characters in every text.
    #[test]
    fn control_characters_become_visible() {
        assert_eq!(clean("two\nlines\tand ä"), "two\nlines\tand ä");
        assert_eq!(
            clean("a\u{0}b\u{1b}[31mc\u{202e}txt"),
            "a\u{fffd}b\u{fffd}[31mc\u{fffd}txt"
        );
    }

    #[test]
    fn a_line_has_no_breaks_and_is_cut() {
        assert_eq!(one_line(" a\n b\t", 9), "a b");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }

    #[test]
    fn identifiers_become_words() {
        assert_eq!(humanize("no_action_needed"), "No action needed");
        assert_eq!(humanize(""), "");
    }
}
