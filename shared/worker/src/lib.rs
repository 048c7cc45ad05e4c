//! holdpoint-worker

pub mod targets;
pub mod tool;
pub mod tools;
