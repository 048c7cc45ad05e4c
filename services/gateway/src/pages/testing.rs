//! Fixtures of the tests of pages.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub(super) fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let header = |(name, value): &(&'static str, &'static str)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    pairs.iter().map(header).collect()
}
