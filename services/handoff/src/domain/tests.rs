//! The core by examples, by its table, and by properties.

mod deciding;
mod histories;
mod standing_alone;
mod table;
mod users;
mod wishing;
mod world;
