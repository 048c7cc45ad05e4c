//! A place among few: what a workspace may have a limited number of.

use crate::domain::decision::{Lookup, LookupFn, Undecided};
use crate::domain::need::{Fact, Need};
use crate::domain::refusal::Refusal;

/// Takes one of `most` places. Returns the raised count as a fact for the other inputs of the batch, because the count
/// is loaded once for all of them.
pub(crate) fn take_place(
    need: Need,
    most: u64,
    refusal: Refusal,
    lookup: LookupFn<'_>,
) -> Result<(Need, Fact), Undecided> {
    let count = match lookup(&need) {
        Lookup::NotLoaded => return Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Count(count)) => count,
        Lookup::Found(_) | Lookup::Missing => 0,
    };
    if count >= most {
        return Err(refusal.into());
    }
    Ok((need, Fact::Count(count + 1)))
}
