//! Texts of users in messages: without invisible characters, on one line, and cut.

/// Removes control characters and those that reverse the direction of writing.
pub(crate) fn clean(text: &str) -> String {
    let is_fit = |c: &char| {
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
        !turns && (!c.is_control() || matches!(c, '\n' | '\t'))
    };
    text.chars().filter(is_fit).collect()
}

/// Removes these characters, and puts the text on one line.
pub(crate) fn line(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    clean(&text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Cuts a text to so many characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept = text.chars().take(most - 1);
    kept.chain(std::iter::once('…')).collect()
}

/// `recommended_action` is `Recommended action`.
pub(crate) fn field_label(name: &str) -> String {
    let spaced = name.replace(['_', '-'], " ");
    let mut letters = spaced.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => spaced,
    }
}
