//! holdpoint-telemetry
