//! holdpoint-scheduler
