//! Rules of holds that every door shares: REST, bus, agent definition and worker.

pub mod limits;
