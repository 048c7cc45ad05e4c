//! Columns that hold several values in one text, and the search for one of them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::instant;
use holdpoint_ids::UserName;
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

/// Characters of an instant.
const INSTANT_CHARS: i32 = 24;

/// `|name=2026-01-01T00:00:00.000Z|` for each user who snoozed a request, and until when. All instants have one
/// format, so that the later text is greater.
pub(super) fn join_snoozes(snoozed: &BTreeMap<UserName, DateTime<Utc>>) -> String {
    let one =
        |(name, until): (&UserName, &DateTime<Utc>)| format!("|{name}={}|", instant::write(*until));
    snoozed.iter().map(one).collect()
}

/// Whether a user has snoozed the request until after an instant. No name contains `|` or `=`.
pub(super) fn is_snoozed_by(
    column: impl IntoSimpleExpr,
    by: &UserName,
    now: DateTime<Utc>,
    is_sqlite: bool,
) -> SimpleExpr {
    let column = column.into_simple_expr();
    let key = format!("|{by}=");
    let length = i32::try_from(key.len()).unwrap_or(i32::MAX);
    let find = if is_sqlite { "instr" } else { "strpos" };
    let place = || {
        let args = [column.clone(), SimpleExpr::from(key.clone())];
        SimpleExpr::from(Func::cust(find).args(args))
    };
    let until = Func::cust("substr").args([
        column.clone(),
        place().add(length),
        SimpleExpr::from(INSTANT_CHARS),
    ]);
    let until = SimpleExpr::from(until);
    place().gt(0).and(until.gt(instant::write(now)))
}
