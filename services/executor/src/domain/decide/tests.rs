//! The core of runs: every arrow as an example, and what holds in every history.

mod ending;
mod histories;
mod pausing;
mod starting;
mod waiting;
mod working;
mod world;
