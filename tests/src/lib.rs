//! holdpoint-tests
