//! Columns that hold several tokens between blanks, and the search for one of them.

use sea_orm::sea_query::{ExprTrait, Func};
use sea_orm::{IntoSimpleExpr, sea_query::SimpleExpr};

/// ` token token `, or an empty text.
pub(super) fn join_tokens<'a>(tokens: impl Iterator<Item = &'a str>) -> String {
    let text = tokens.fold(String::new(), |text, token| format!("{text} {token}"));
    if text.is_empty() { text } else { text + " " }
}

/// Whether a column contains a token: then the text without the token differs. Both databases compare it
/// by bytes, while `LIKE` treats `%` and `_` as wildcards and, on SQLite, `A` like `a`.
pub(super) fn has_token(column: impl IntoSimpleExpr, token: &str) -> SimpleExpr {
    let column = column.into_simple_expr();
    let without = Func::cust("replace").args([
        column.clone(),
        SimpleExpr::from(format!(" {token} ")),
        SimpleExpr::from(""),
    ]);
    column.ne(without)
}
