//! The core by examples, by its table, and by properties.

mod again;
mod deciding;
mod handoff_events;
mod hands;
mod histories;
mod hours;
mod ladders;
mod policies;
mod progress;
mod quorum;
mod races;
mod standing_alone;
mod table;
mod users;
mod wishing;
mod world;
