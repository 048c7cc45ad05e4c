//! Versions of NATS servers.

use std::fmt;

/// The oldest server with message schedules, which timers need.
pub const OLDEST: ServerVersion = ServerVersion {
    major: 2,
    minor: 12,
    patch: 0,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerVersion {
    pub major: u32,
    pub minor: u32,
    /// A suffix such as `-RC.1` is not kept.
    pub patch: u32,
}

impl ServerVersion {
    /// Reads `2.15.1`, `v2.15.1` and `2.15.1-RC.1`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('v');
        let plain = text.split(['-', '+']).next()?;
        let mut numbers = plain.split('.').map(|part| part.parse::<u32>().ok());
        let major = numbers.next()??;
        let minor = numbers.next()??;
        let patch = numbers.next().unwrap_or(Some(0))?;
        Some(Self {
            major,
            minor,
            patch,
        })
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_and_lose_their_suffix() {
        let parsed = |text| ServerVersion::parse(text).unwrap();
        assert_eq!(parsed("v2.15.1-RC.1").to_string(), "2.15.1");
        assert!(parsed("2.9.30") < OLDEST && parsed("2.12") >= OLDEST && parsed("3.0.0") > OLDEST);
        assert_eq!(ServerVersion::parse("nats"), None);
    }
}
