//! Decides whether the bus has lost schedules that it had stored. Pure.

use std::collections::BTreeSet;

use crate::arming::Bucket;

/// Compares what is armed with what the bus has stored, sweep by sweep.
///
/// A bucket counts as armed after its commit, and the publisher stores its schedule a little later. One
/// deficit may therefore be a slow bus. A loss is a deficit in two sweeps in a row, over the buckets that
/// were armed in the first of them.
#[derive(Debug, Default)]
pub(crate) struct LossDetector {
    /// What was armed at the last sweep, if the bus had stored fewer schedules.
    suspected: BTreeSet<Bucket>,
}

impl LossDetector {
    /// Whether schedules are lost. `armed` are the buckets that are far enough ahead not to have fired yet.
    pub(crate) fn is_loss(&mut self, armed: BTreeSet<Bucket>, stored: usize) -> bool {
        let suspected = std::mem::take(&mut self.suspected);
        if stored < suspected.intersection(&armed).count() {
            return true;
        }
        if stored < armed.len() {
            self.suspected = armed;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(seconds: std::ops::Range<i64>) -> BTreeSet<Bucket> {
        seconds.map(|second| (0, second)).collect()
    }

    /// Mend B-12: a bucket counts as armed after the commit and before the publisher has stored it.
    #[test]
    fn a_slow_bus_is_not_a_loss() {
        let mut detector = LossDetector::default();
        assert!(!detector.is_loss(buckets(0..3), 0), "not published yet");
        assert!(
            !detector.is_loss(buckets(0..5), 3),
            "the first three are stored, and two more are armed"
        );
        assert!(!detector.is_loss(buckets(0..9), 5));
        assert!(!detector.is_loss(buckets(0..9), 9));
    }

    #[test]
    fn a_deficit_in_two_sweeps_is_a_loss() {
        let mut detector = LossDetector::default();
        assert!(!detector.is_loss(buckets(0..3), 3));
        assert!(!detector.is_loss(buckets(0..5), 1));
        assert!(detector.is_loss(buckets(0..6), 1));
        // The buckets are armed again and counted from zero.
        assert!(!detector.is_loss(buckets(0..6), 0));
    }

    #[test]
    fn buckets_that_are_about_to_fire_are_not_missed() {
        let mut detector = LossDetector::default();
        assert!(!detector.is_loss(buckets(0..5), 3));
        assert!(!detector.is_loss(buckets(2..5), 3));
    }
}
