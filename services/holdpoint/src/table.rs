//! Tables without borders, with style and colour only on request.

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, presets};

use crate::output::{self, is_control};

pub(crate) struct Rows {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
    coloured: bool,
    /// Columns of the terminal. In a file or a pipe no text wraps.
    width: Option<usize>,
}

/// Longest text that never wraps: an instant with its offset.
const SHORT_MAX: usize = 26;

/// Columns between two cells.
const GAP: u16 = 2;

impl Rows {
    pub(crate) fn new(heading: &[&str]) -> Self {
        let width = Table::new().width().map(usize::from);
        Self::with_style(heading, output::stdout_is_coloured(), width)
    }

    fn with_style(heading: &[&str], coloured: bool, width: Option<usize>) -> Self {
        Self {
            heading: heading.iter().copied().map(String::from).collect(),
            rows: Vec::new(),
            coloured,
            width,
        }
    }

    /// Adds a row; a status gets its colour.
    pub(crate) fn push<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(|text| one_line(text.as_ref()));
        self.rows.push(cells.collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines without trailing spaces. Only sentences wrap, because a wrapped id cannot be copied. In a terminal
    /// that is too narrow, sentences and the columns that have no room follow their row on a second line.
    pub(crate) fn render(&self) -> String {
        // In a terminal, a column without a text takes no room.
        let has_text = |column: &usize| self.texts(*column).any(|text| !text.is_empty());
        let columns =
            (0..self.heading.len()).filter(|column| self.width.is_none() || has_text(column));
        let all: Vec<_> = columns.collect();
        let (mut sentences, mut others): (Vec<_>, Vec<_>) =
            (all.iter().copied()).partition(|column| self.texts(*column).any(is_sentence));
        let width = self.width.unwrap_or(usize::MAX);
        let needed = self.width_of(&others) + sentences.len() * SHORT_MAX;
        if needed <= width.saturating_add(usize::from(GAP)) {
            return trimmed_lines(&self.table(&all, &sentences)).join("\n");
        }
        while others.len() > 1
            && self.width_of(&others) > width + usize::from(GAP)
            && let Some(column) = others.pop()
        {
            sentences.insert(0, column);
        }
        let mut lines = Vec::new();
        let bodies = std::iter::once(None).chain(self.rows.iter().map(Some));
        for (line, row) in trimmed_lines(&self.table(&others, &[]))
            .into_iter()
            .zip(bodies)
        {
            lines.push(line);
            let pieces = row.map(|row| self.pieces(row, &sentences));
            let pieces = pieces.unwrap_or_default();
            let pieces = pieces.iter().map(String::as_str);
            let below = filled(pieces, width.saturating_sub(2));
            lines.extend(below.into_iter().map(|line| format!("  {line}")));
        }
        lines.join("\n")
    }

    /// The pieces of the cells that follow a row: each word of a sentence, and a short cell with its heading as a whole.
    fn pieces(&self, row: &[String], columns: &[usize]) -> Vec<String> {
        let cells = columns.iter().filter_map(|column| {
            let text = row.get(*column).filter(|text| !text.is_empty())?;
            Some((self.heading.get(*column)?, text))
        });
        let cells: Vec<_> = cells.collect();
        let last = cells.len().saturating_sub(1);
        let mut pieces = Vec::new();
        for (place, (heading, text)) in cells.into_iter().enumerate() {
            if is_sentence(text) {
                pieces.extend(text.split_whitespace().map(str::to_owned));
            } else {
                let end = if place == last { "" } else { ";" };
                pieces.push(format!("{} {text}{end}", heading.to_lowercase()));
            }
        }
        pieces
    }

    fn texts(&self, column: usize) -> impl Iterator<Item = &str> {
        let cells = self.rows.iter().filter_map(move |row| row.get(column));
        cells.map(String::as_str)
    }

    fn width_of(&self, columns: &[usize]) -> usize {
        let widths = columns.iter().map(|column| {
            let heading = self.heading.get(*column).map(String::as_str);
            let widths = self.texts(*column).chain(heading);
            let widest = widths.map(|text| text.chars().count()).max();
            widest.unwrap_or_default() + usize::from(GAP)
        });
        widths.sum()
    }

    fn table(&self, columns: &[usize], wrapped: &[usize]) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        if self.coloured {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        match self.width.and_then(|width| u16::try_from(width).ok()) {
            Some(width) => table
                .set_width(width)
                .set_content_arrangement(ContentArrangement::Dynamic),
            None => table.set_content_arrangement(ContentArrangement::Disabled),
        };
        let pick = |row: &[String], style: fn(String, bool) -> Cell| {
            let texts = columns.iter().filter_map(|column| row.get(*column));
            let cells = texts.map(|text| style(text.clone(), self.coloured));
            cells.collect::<Vec<_>>()
        };
        table.set_header(pick(&self.heading, heading_cell));
        for row in &self.rows {
            table.add_row(pick(row, body_cell));
        }
        for (index, column) in columns.iter().zip(table.column_iter_mut()) {
            column.set_padding((0, GAP));
            if !wrapped.contains(index) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table
    }
}

fn is_sentence(text: &str) -> bool {
    text.contains(' ') && text.chars().count() > SHORT_MAX
}

fn heading_cell(text: String, coloured: bool) -> Cell {
    let cell = Cell::new(text);
    if coloured {
        cell.add_attribute(Attribute::Bold)
    } else {
        cell
    }
}

fn body_cell(text: String, coloured: bool) -> Cell {
    let colour = status_colour(&text).filter(|_| coloured);
    let cell = Cell::new(text);
    match colour {
        Some(colour) => cell.fg(colour),
        None => cell,
    }
}

fn trimmed_lines(table: &Table) -> Vec<String> {
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.collect()
}

/// Columns before the value of a fact.
const FACT_INDENT: usize = 11;

/// A line for each name and its value. On a terminal, a long value continues below its beginning.
pub(crate) fn fact_lines(facts: &[(&str, String)]) -> String {
    let width = Table::new().width().map(usize::from);
    facts_within(facts, width)
}

fn facts_within(facts: &[(&str, String)], width: Option<usize>) -> String {
    let room = width.map(|width| width.saturating_sub(FACT_INDENT).max(1));
    let lines = facts.iter().map(|(name, value)| {
        let value = one_line(value);
        let lines = match room {
            Some(room) => filled(value.split(' '), room),
            None => vec![value],
        };
        let indent = format!("\n{:FACT_INDENT$}", "");
        format!("{name:<10} {}", lines.join(&indent))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Words on lines of at most `width` columns. A longer word has a line of its own and is not broken, so that it can be
/// copied.
fn filled<'w>(words: impl Iterator<Item = &'w str>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
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
        let mut rows = Rows::with_style(&["RUN", "STATUS", "MESSAGE"], coloured, None);
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
        let mut rows = Rows::with_style(&["RUN", "MESSAGE"], true, Some(70));
        let id = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
        rows.push([id, "Agent paused. Will resume in 5 days."]);
        rows.push([id, "done"]);
        let text = rows.render();
        assert_eq!(text.matches(id).count(), 2, "{text}");
        assert!(
            text.lines().count() > 3 && !text.contains("resume in 5 days."),
            "{text}"
        );
    }

    /// Words 7: a long message of a run is read below its beginning, and its ids can be copied.
    #[test]
    fn a_long_fact_continues_below_its_beginning() {
        let id = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
        let message = format!("waits for a person {id}");
        let facts = [("run", "one".to_owned()), ("message", message)];
        let narrow = "run        one\n\
                      message    waits for a person\n           run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
        assert_eq!(facts_within(&facts, Some(40)), narrow);
        let piped = facts_within(&facts, None);
        assert_eq!(piped.lines().count(), 2, "{piped}");
    }

    /// Mend D-4: where the other columns leave no room, a sentence has lines of its own.
    #[test]
    fn sentences_follow_their_row_in_a_narrow_terminal() {
        let heading = [
            "RUN", "AGENT", "STATUS", "CONTACT", "CREATED", "UNTIL", "MESSAGE",
        ];
        let mut rows = Rows::with_style(&heading, false, Some(80));
        let id = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
        let (created, until) = ("2026-01-01 12:00:00", "2026-01-04 12:00:00 +02:00");
        let message = "Paused by owner; the timer hold has 3 days left, and the run continues when a person resumes it.";
        let cells = [id, "outreach", "waiting", "c-ada", created, until, message];
        rows.push(cells);
        rows.push([id, "outreach", "completed", "", created, "", ""]);
        let ends = "It ends with a semicolon, and its last words are broken as all others are;";
        rows.push([id, "outreach", "failed", "", "", "", ends]);
        let expected = "\
RUN                                   AGENT     STATUS     CONTACT
run_0193aaaabbbb7ccc8dddeeeeeeeeeeee  outreach  waiting    c-ada
  created 2026-01-01 12:00:00; until 2026-01-04 12:00:00 +02:00; Paused by
  owner; the timer hold has 3 days left, and the run continues when a person
  resumes it.
run_0193aaaabbbb7ccc8dddeeeeeeeeeeee  outreach  completed
  created 2026-01-01 12:00:00
run_0193aaaabbbb7ccc8dddeeeeeeeeeeee  outreach  failed
  It ends with a semicolon, and its last words are broken as all others are;";
        assert_eq!(rows.render(), expected);
    }

    #[test]
    fn with_colour_headings_are_bold_and_a_status_has_a_colour() {
        let text = table(true);
        assert!(text.contains("\u{1b}[1m"), "{text:?}");
        assert!(text.contains("\u{1b}[38;5;10mcompleted"), "{text:?}");
    }
}
