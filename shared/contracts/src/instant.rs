//! Instants in bodies: RFC 3339, UTC, always with milliseconds.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serializer};

/// The one way to write an instant.
#[must_use]
pub fn write(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Writes an instant, for `#[serde(with = "…")]`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(at: &DateTime<Utc>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&write(*at))
}

/// Reads an instant, with or without milliseconds.
///
/// # Errors
/// When the text is not an RFC 3339 instant.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DateTime<Utc>, D::Error> {
    DateTime::deserialize(from)
}

/// The same for an instant that may be missing.
pub mod option {
    use chrono::{DateTime, Utc};
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes an instant or `null`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(at: &Option<DateTime<Utc>>, to: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => super::serialize(at, to),
            None => to.serialize_none(),
        }
    }

    /// Reads an instant or `null`.
    ///
    /// # Errors
    /// When the text is not an RFC 3339 instant.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<DateTime<Utc>>, D::Error> {
        Option::deserialize(from)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_instant_is_written_with_milliseconds() {
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(super::write(at), "2026-01-01T00:00:00.000Z");
    }
}
