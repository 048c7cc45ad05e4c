//! The scenarios of the whole system are in `scenarios/`; this library is empty on purpose.
