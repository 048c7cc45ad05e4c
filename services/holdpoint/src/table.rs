//! Tables for people: columns, no borders, bold and colour only where it is wanted.

use std::collections::BTreeSet;

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, presets};

use crate::output::{self, is_unseen};

/// Rows under a heading.
pub(crate) struct Rows {
    table: Table,
    coloured: bool,
    /// Columns that may be broken into lines: those with sentences in them.
    with_sentences: BTreeSet<usize>,
}

/// Longest text that is never broken into lines: instants, and the few words of a status.
const SHORT: usize = 24;

impl Rows {
    /// An empty table for stdout.
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
            with_sentences: BTreeSet::new(),
        };
        rows.keep_whole();
        rows
    }

    /// An id that is broken into lines cannot be copied: only columns of sentences are.
    fn keep_whole(&mut self) {
        for (index, column) in self.table.column_iter_mut().enumerate() {
            if self.with_sentences.contains(&index) {
                column.remove_constraint();
            } else {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
    }

    /// One row; a word that is a status gets its colour.
    pub(crate) fn push<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let coloured = self.coloured;
        let cells: Vec<_> = cells
            .into_iter()
            .map(|text| one_line(text.as_ref()))
            .collect();
        let is_sentence = |text: &String| text.contains(' ') && text.chars().count() > SHORT;
        let with_sentences = cells.iter().enumerate();
        let with_sentences = with_sentences.filter(|(_, text)| is_sentence(text));
        self.with_sentences
            .extend(with_sentences.map(|(index, _)| index));
        self.table.add_row(cells.into_iter().map(|text| {
            let colour = if coloured { colour_of(&text) } else { None };
            let cell = Cell::new(text);
            match colour {
                Some(colour) => cell.fg(colour),
                None => cell,
            }
        }));
        self.keep_whole();
    }

    /// Whether nothing was pushed.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The lines, without blanks at their ends.
    pub(crate) fn render(&self) -> String {
        let lines: Vec<_> = self
            .table
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        lines.join("\n")
    }
}

/// A text from outside must not break a table, nor send codes to the terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if is_unseen(c) { ' ' } else { c })
        .collect()
}

fn colour_of(word: &str) -> Option<Color> {
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

    /// Mend D-4: on a narrow terminal a sentence is broken into lines, an id never is.
    #[test]
    fn ids_are_never_broken() {
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
