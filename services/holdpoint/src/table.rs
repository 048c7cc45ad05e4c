//! Tables without borders, with style and colour only on request.

use std::collections::BTreeSet;

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, presets};

use crate::output::{self, is_control};

pub(crate) struct Rows {
    table: Table,
    coloured: bool,
    /// Columns that may wrap, because they contain sentences.
    wrapped_columns: BTreeSet<usize>,
}

/// Longest text that never wraps, such as an instant.
const SHORT_MAX: usize = 24;

impl Rows {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self::with_colour(heading, output::stdout_is_coloured())
    }

    fn with_colour(heading: &[&str], coloured: bool) -> Self {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        if coloured {
            table.enforce_styling();
            table.set_content_arrangement(ContentArrangement::Dynamic);
        } else {
            table.force_no_tty();
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
        let cells = heading.iter().map(|word| {
            let cell = Cell::new(word);
            if coloured {
                cell.add_attribute(Attribute::Bold)
            } else {
                cell
            }
        });
        table.set_header(cells);
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let mut rows = Self {
            table,
            coloured,
            wrapped_columns: BTreeSet::new(),
        };
        rows.set_wrapping();
        rows
    }

    /// Lets only columns of sentences wrap, because a wrapped id cannot be copied.
    fn set_wrapping(&mut self) {
        for (index, column) in self.table.column_iter_mut().enumerate() {
            if self.wrapped_columns.contains(&index) {
                column.remove_constraint();
            } else {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
    }

    /// Adds a row; a status gets its colour.
    pub(crate) fn push<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(|text| one_line(text.as_ref()));
        let cells: Vec<_> = cells.collect();
        let is_sentence = |text: &str| text.contains(' ') && text.chars().count() > SHORT_MAX;
        let sentences = cells.iter().zip(0..).filter(|(text, _)| is_sentence(text));
        self.wrapped_columns
            .extend(sentences.map(|(_, index)| index));
        self.table.add_row(cells.into_iter().map(|text| {
            let colour = status_colour(&text).filter(|_| self.coloured);
            let cell = Cell::new(text);
            match colour {
                Some(colour) => cell.fg(colour),
                None => cell,
            }
        }));
        self.set_wrapping();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The lines without trailing spaces.
    pub(crate) fn render(&self) -> String {
        let lines = self.table.lines().map(|line| line.trim_end().to_owned());
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Replaces line ends and control characters, which would break a table or control the terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if is_control(c) { ' ' } else { c })
        .collect()
}

fn status_colour(word: &str) -> Option<Color> {
    match word {
        "completed" | "active" | "started" => Some(Color::Green),
        "failed" | "refused" => Some(Color::Red),
        "waiting"
        | "awaiting_approval"
        | "awaiting_input"
        | "paused_for_intervention"
        | "waiting_confirm"
        | "uncertain"
        | "stale" => Some(Color::Yellow),
        "running" | "in_progress" | "claimed" => Some(Color::Cyan),
        "cancelled" | "skipped" | "planned" | "queued" => Some(Color::DarkGrey),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(coloured: bool) -> String {
        let mut rows = Rows::with_colour(&["RUN", "STATUS", "MESSAGE"], coloured);
        rows.push(["run_1", "waiting", "Will resume\nin 5 days\u{1b}[2J."]);
        rows.push(["run_22", "completed", ""]);
        rows.render()
    }

    #[test]
    fn without_colour_it_is_plain_columns() {
        let expected = "\
RUN     STATUS     MESSAGE
run_1   waiting    Will resume in 5 days [2J.
run_22  completed";
        assert_eq!(table(false), expected);
    }

    /// Mend D-4: on a narrow terminal a sentence wraps, but an id never does.
    #[test]
    fn ids_never_wrap() {
        let mut rows = Rows::with_colour(&["RUN", "CREATED", "MESSAGE"], true);
        let id = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
        rows.push([
            id,
            "2026-01-01 12:00:00",
            "Agent paused. Will resume in 5 days.",
        ]);
        rows.push([id, "2026-01-01 12:00:00", "done"]);
        rows.table.set_width(70);
        let text = rows.render();
        assert_eq!(text.matches(id).count(), 2, "{text}");
        assert_eq!(text.matches("2026-01-01 12:00:00").count(), 2, "{text}");
        assert!(
            text.lines().count() > 3 && !text.contains("resume in 5 days."),
            "{text}"
        );
    }

    #[test]
    fn with_colour_headings_are_bold_and_a_status_has_a_colour() {
        let text = table(true);
        assert!(text.contains("\u{1b}[1m"), "{text:?}");
        assert!(text.contains("\u{1b}[38;5;10mcompleted"), "{text:?}");
    }
}
