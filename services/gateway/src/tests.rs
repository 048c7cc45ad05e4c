//! The HTTP surface as a client sees it: the real router on a real port, a real bus and database,
//! and owners that are played.

mod acting;
mod approvals;
mod asking;
mod blobs;
mod bodies;
mod edge;
mod events;
mod handoff;
mod health;
mod holds;
mod installation;
mod later;
mod narrowed;
mod notifications;
mod page_behavior;
mod pages;
mod people;
mod repeated;
mod runs;
mod sessions;
mod settings;
mod slow;
mod standing_approvals;
mod tokens;
