//! Filters of lists: a form in the query of the page.

use holdpoint_contracts::Problem;
use maud::{Markup, html};

use crate::params::Params;

/// Reads a parameter. The form submits unused fields as empty texts.
pub(super) fn read_filled<T>(
    params: &Params,
    name: &str,
    read: impl FnOnce(&Params, &str) -> Result<Option<T>, Problem>,
) -> Result<Option<T>, Problem> {
    match params.read_as::<String>(name)? {
        Some(text) if !text.is_empty() => read(params, name),
        Some(_) | None => Ok(None),
    }
}

/// The form with these fields. The script submits it after every change.
pub(super) fn form(path: &str, fields: &Markup) -> Markup {
    html! {
        form.filter method="get" action=(path) data-auto aria-label="Filter" {
            (fields)
            button.quiet { "Apply" }
        }
    }
}

/// A list of values with their labels.
pub(super) fn select<'a>(
    label: &str,
    name: &str,
    selected: &str,
    options: impl IntoIterator<Item = (&'a str, String)>,
) -> Markup {
    html! {
        label { span { (label) }
            select name=(name) {
                @for (value, text) in options { option value=(value) selected[value == selected] { (text) } }
            }
        }
    }
}
