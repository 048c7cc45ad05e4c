//! The texts of the page.

pub(super) const HEAD: &str = "# States of runs and steps

Written by `HOLDPOINT_WRITE_DOCS=1 cargo test -p holdpoint-executor states_table`, never by hand: every cell
is what `domain::decide` answers.
";

pub(super) const LEGEND: &str = "## What an input does to a step

A row is the phase of a step `it` of a live run with one more step after it (a wait of one day), except where
the phase has ended the run; `planned` stands behind a wait of one day. A cell is `step / run`, then `paused`
if the run is, `dispatched` if `it` or what follows goes to a worker, and `→` the reply to the caller.
`unchanged` stores nothing; `refused` has the problem's code. Where nothing else is said the step must not be
done twice. An uncertain, waiting, asked or skipped step is the same one in every column.

- *timer fired*: for the hold of the step (`planned`: of the step before); without such a hold, for an
  unknown one. *Stale* is an older `rev`.
- *same delivery*: node-a asks on its first delivery, as the one that was granted did. *Other*: node-b on the
  second. `planned` was never dispatched: its current number is 0, and so is its older one. A cancelled
  step's number has risen with the cancellation, so that the number that was out is its older one.
- *asking*: its tool has asked and blocks; *parked*: it has asked and ended. *Asks* is a question of
  another key, *asks again* one of the same key, both by the current dispatch.
- *suspended*: the run is `paused_for_intervention` with a snapshot. *Supplement*: node-a adds its part to the
  snapshot; *stopped*: its tool has stopped too; *shutdown*: node-a leaves. *Upload*: its tool uploads a blob.
  *Continue*: node-a asks for what an earlier call saved.
- *lease ended*: of node-a, which was granted the step where it is in progress. *Answered*: about the step's
  own question; where nothing is asked, about a hold that never was. *Timed out*, *taken over*, *accepted*
  and *completed* are what the owner of a hold on people says of it; of the timeout of a paused run nothing
  is kept: its owner says it again on resume.
";
