//! Columns that hold several words between blanks, and finding one of them.

use sea_orm::sea_query::{ExprTrait, LikeExpr};
use sea_orm::{IntoSimpleExpr, sea_query::SimpleExpr};

/// ` word word `; nothing where there is none.
pub(super) fn words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let text = words.fold(String::new(), |text, word| format!("{text} {word}"));
    if text.is_empty() { text } else { text + " " }
}

/// Whether a column holds a word; `_` and `%` in it are themselves.
pub(super) fn has_word(column: impl IntoSimpleExpr, word: &str) -> SimpleExpr {
    let word = word
        .replace('\\', "\\\\")
        .replace('_', "\\_")
        .replace('%', "\\%");
    let like = LikeExpr::new(format!("% {word} %")).escape('\\');
    column.into_simple_expr().like(like)
}
