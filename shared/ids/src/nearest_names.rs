//! The names that a mistyped name may have meant.

/// Longest name that is compared, in characters: comparing takes the product of both lengths.
const NAME_CHARS_MAX: usize = 100;

/// At most three of the names that differ from `written` by a typo, best first.
#[must_use]
pub fn nearest<'n>(written: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let written = written.to_lowercase();
    let length = written.chars().count();
    if length > NAME_CHARS_MAX {
        return Vec::new();
    }
    let allowed = (length / 3).clamp(1, 3);
    let mut near: Vec<(usize, &str)> = names
        .filter(|name| name.chars().count().abs_diff(length) <= allowed)
        .map(|name| (distance(&written, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter()
        .take(3)
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// Insertions, deletions, replacements and swaps of neighbours between two texts.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut two_back: Vec<usize> = Vec::new();
    let mut back: Vec<usize> = (0..=right.len()).collect();
    let mut previous = None;
    for (row, l) in left.chars().enumerate() {
        let mut now = vec![row + 1];
        for (column, r) in right.iter().enumerate() {
            let cell =
                |cells: &[usize], at: usize| cells.get(at).copied().unwrap_or(usize::MAX / 2);
            let replaced = cell(&back, column) + usize::from(l != *r);
            let mut best = replaced
                .min(cell(&back, column + 1) + 1)
                .min(cell(&now, column) + 1);
            let before = column
                .checked_sub(1)
                .and_then(|at| Some((at, right.get(at)?)));
            if let Some((at, before)) = before
                && previous == Some(*r)
                && l == *before
            {
                best = best.min(cell(&two_back, at) + 1);
            }
            now.push(best);
        }
        previous = Some(l);
        two_back = std::mem::replace(&mut back, now);
    }
    back.last().copied().unwrap_or(0)
}
