//! Columns that hold several words between blanks, and finding one of them.

use sea_orm::sea_query::{ExprTrait, Func};
use sea_orm::{IntoSimpleExpr, sea_query::SimpleExpr};

/// ` word word `; nothing where there is none.
pub(super) fn words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let text = words.fold(String::new(), |text, word| format!("{text} {word}"));
    if text.is_empty() { text } else { text + " " }
}

/// Whether a column holds a word, compared byte by byte on both databases: without the word it is
/// another text. (`LIKE` would take `%` and `_` for more than they are and, on SQLite, `A` for `a`.)
pub(super) fn has_word(column: impl IntoSimpleExpr, word: &str) -> SimpleExpr {
    let column = column.into_simple_expr();
    let without = Func::cust("replace").args([
        column.clone(),
        SimpleExpr::from(format!(" {word} ")),
        SimpleExpr::from(""),
    ]);
    column.ne(without)
}
