//! Where in the text a step or a field is.
//!
//! Owns a light look at block YAML, by indentation. It must never be wrong: where the text is not
//! plain block YAML (JSON, flow style) it answers nothing, and the step id has to do.

pub(super) struct Lines<'t> {
    lines: Vec<&'t str>,
    /// First line of each step, from 0.
    steps: Vec<usize>,
    /// Line after the last step.
    end: usize,
    /// Line of each instruction that was asked for, from 1, if the text shows where they are.
    instructions: Option<Vec<usize>>,
}

impl<'t> Lines<'t> {
    /// Looks for `steps:` at the left edge and the `-` of its items.
    pub(super) fn of(text: &'t str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let mut found = Self {
            steps: Vec::new(),
            end: lines.len(),
            instructions: None,
            lines,
        };
        let Some(start) = found.field("steps") else {
            return found;
        };
        let mut indent = None;
        for (at, line) in found.lines.iter().enumerate().skip(start) {
            let content = line.trim_start();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let spaces = line.len() - content.len();
            let is_item = content == "-" || content.starts_with("- ");
            let expected = *indent.get_or_insert(spaces);
            if spaces < expected || (spaces == expected && !is_item) {
                found.end = at;
                break;
            }
            if spaces == expected {
                found.steps.push(at);
            }
        }
        found
    }

    /// Line of a field of the agent, from 1.
    pub(super) fn field(&self, name: &str) -> Option<usize> {
        self.lines
            .iter()
            .position(|line| is_field(line, name))
            .map(|at| at + 1)
    }

    /// Finds lines of `instructions`, which count from 1 in their own text. From then on they are the lines of the steps.
    pub(super) fn place_instructions(&mut self, text: &str, lines: Vec<usize>) {
        // The text of a block begins below its field.
        let before = self.field("instructions");
        let found = before.and_then(|before| {
            let is_block = text.lines().enumerate().all(|(at, line)| {
                let whole = self.lines.get(before + at);
                whole.is_some_and(|whole| whole.trim() == line.trim())
            });
            is_block.then(|| lines.into_iter().map(|line| before + line).collect())
        });
        self.instructions = Some(found.unwrap_or_default());
    }

    /// Characters before a line of a block, which are not part of its text.
    pub(super) fn indent_of_block(&self, line: usize, text: &str) -> usize {
        let whole = line.checked_sub(1).and_then(|at| self.lines.get(at));
        let whole = whole.map_or(0, |whole| whole.chars().count());
        whole.saturating_sub(text.chars().count())
    }

    /// Line of a step, or of one of its fields if it is found, from 1.
    pub(super) fn step(&self, step: usize, field: Option<&str>) -> Option<usize> {
        if let Some(lines) = &self.instructions {
            return lines.get(step).copied();
        }
        let start = *self.steps.get(step)?;
        let end = self.steps.get(step + 1).copied().unwrap_or(self.end);
        let first = self.lines.get(start)?;
        let inner = first.find('-')? + 1;
        let gap = first.get(inner..)?;
        let indent = inner + (gap.len() - gap.trim_start().len());
        let at = field.and_then(|name| {
            (start..end).find(|&at| {
                let line = self.lines.get(at).copied().unwrap_or_default();
                let blank = if at == start { inner } else { indent };
                let before = line.get(..blank.min(indent)).unwrap_or_default();
                let is_inside = at == start || before.trim().is_empty();
                is_inside && line.get(indent..).is_some_and(|rest| is_field(rest, name))
            })
        });
        Some(at.unwrap_or(start) + 1)
    }
}

fn is_field(line: &str, name: &str) -> bool {
    let rest = line.strip_prefix(name);
    rest.and_then(|rest| rest.trim_start().strip_prefix(':'))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r']))
}
