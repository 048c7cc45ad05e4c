//! The HTTP surface as a client sees it: the real router on a real port, a real bus and database,
//! and an executor that is played.

mod bodies;
mod edge;
mod events;
mod health;
mod runs;
mod tokens;
