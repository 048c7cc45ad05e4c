//! Texts of the largest size that make a careless parser slow. Tests count its work, and a benchmark measures its time.

use super::INSTRUCTIONS_BYTES_MAX;

/// One line that repeats a piece up to the limit.
pub(super) fn line(before: &str, piece: &str) -> String {
    let count = (INSTRUCTIONS_BYTES_MAX - before.len()) / piece.len();
    before.to_owned() + &piece.repeat(count)
}

/// The beginning of a text, and what is repeated after it.
pub(super) const PIECES: [(&str, &str); 63] = [
    ("If ", "no reply after 1 day and "),
    ("If no reply", " after 1 day"),
    ("Send ", "x "),
    ("Hand off to @user.a", " for x"),
    ("Call x with a ", "["),
    ("Call x with a ", "{\"a\":"),
    ("Call x with a ", "[1,"),
    ("Call x with ", "a 1 and "),
    ("", "\""),
    ("", "“"),
    ("", "{{"),
    ("", "{{}}"),
    ("", "$a[\"b\"]"),
    ("", "$a[\""),
    ("", "$a."),
    ("", "if "),
    ("If ", "no reply and "),
    ("If ", "no reply or "),
    ("If ", "it is not so that "),
    ("If contact.a is 1", " and contact.a is 1"),
    ("If contact.a", ".a"),
    ("If {{ a", " && a"),
    ("Hand off to ", "@user.a and "),
    ("Hand off to @user.a", ", then"),
    ("Ask \"x\" with options ", "\"a\", "),
    ("Wait ", "1d"),
    ("Wait ", "1 day "),
    ("Wait ", "9"),
    ("Wait 1", ".1"),
    ("", "wait "),
    ("", "then "),
    ("", "-"),
    ("", "- "),
    ("", "\\"),
    ("Log \"", "\\\\"),
    ("Log \"", "é"),
    ("", "é"),
    ("", "x\n"),
    ("", "wait 5 days\n"),
    ("", "otherwise\n"),
    ("", "If no reply, finish\nOtherwise, finish\n"),
    ("", "#"),
    ("", ","),
    ("", ":"),
    ("", "1:"),
    ("", "\n"),
    ("", " "),
    ("Finish ", "and "),
    ("Call x", ", timeout 1 day"),
    ("", "for each $a, "),
    ("", "call x with a 1, "),
    ("Update contact: ", "a 1, "),
    ("", "every 2 days "),
    ("", "repeat "),
    ("Log \"x\"", ", until contact replies"),
    ("Log \"x\"", " at most 5 times"),
    ("Log \"x\" until ", "contact replies or "),
    (
        "",
        "Log \"x\" every 1 day until contact replies, at most 50 times\n",
    ),
    (
        "",
        "Call x every 1 day until contact.a is 1, at most 50 times\n",
    ),
    (
        "Call x as find every 1 day until contact.a is 1, at most 50 times\n",
        "Log $find\n",
    ),
    (
        "Call x as find every 1 day until contact.a is 1, at most 50 times\nCall y with a [",
        "$find, ",
    ),
    (
        "Call x as find every 1 day until contact.a is 1, at most 50 times\nLog \"",
        "{{ $find.a.a }}",
    ),
    (
        "Repeat every 1 day until contact.a is 1, at most 50 times: call x with a ",
        "[1,",
    ),
];
