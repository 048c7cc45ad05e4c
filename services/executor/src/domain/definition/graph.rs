//! The order of steps.
//!
//! Owns what "done before" means: everything a step needs, and what that needs. It must never
//! recurse: a chain may have a thousand steps.

/// For each step, by index, whether each other step is done before it. `Err` is one circle of
/// steps that need each other.
pub(super) fn before(needs: &[Vec<usize>]) -> Result<Vec<Vec<bool>>, Vec<usize>> {
    let order = sorted(needs)?;
    let mut before = vec![vec![false; needs.len()]; needs.len()];
    for step in order {
        let mut row = vec![false; needs.len()];
        for &need in needs.get(step).into_iter().flatten() {
            for (mine, theirs) in row.iter_mut().zip(before.get(need).into_iter().flatten()) {
                *mine |= *theirs;
            }
            if let Some(mine) = row.get_mut(need) {
                *mine = true;
            }
        }
        if let Some(place) = before.get_mut(step) {
            *place = row;
        }
    }
    Ok(before)
}

/// Steps so that each comes after all it needs.
fn sorted(needs: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut open: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    for (step, needed) in needs.iter().enumerate() {
        for &need in needed {
            if let Some(list) = waiting.get_mut(need) {
                list.push(step);
            }
        }
    }
    let mut order: Vec<usize> = (0..needs.len())
        .filter(|&at| open.get(at) == Some(&0))
        .collect();
    let mut next = 0;
    while let Some(&done) = order.get(next) {
        next += 1;
        for &step in waiting.get(done).into_iter().flatten() {
            if let Some(count) = open.get_mut(step) {
                *count -= 1;
                if *count == 0 {
                    order.push(step);
                }
            }
        }
    }
    if order.len() == needs.len() {
        Ok(order)
    } else {
        Err(circle(needs, &open))
    }
}

/// Follows needs among the steps that never became free until one comes again.
fn circle(needs: &[Vec<usize>], open: &[usize]) -> Vec<usize> {
    let stuck = |at: usize| open.get(at).is_some_and(|count| *count > 0);
    let mut path: Vec<usize> = Vec::new();
    let mut at = (0..needs.len()).find(|&at| stuck(at));
    while let Some(step) = at {
        if let Some(start) = path.iter().position(|&seen| seen == step) {
            let mut found = path.split_off(start);
            let lowest = found
                .iter()
                .enumerate()
                .min_by_key(|(_, step)| **step)
                .map_or(0, |(i, _)| i);
            found.rotate_left(lowest);
            return found;
        }
        path.push(step);
        at = needs
            .get(step)
            .into_iter()
            .flatten()
            .copied()
            .find(|&need| stuck(need));
    }
    path
}
