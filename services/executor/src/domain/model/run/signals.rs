//! The signals of a run: those that no step has used yet, and the keys of those that arrived.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::domain::model::plan::signal_steps::OnWaitTimeout;

/// Unused signals that a run keeps.
pub const KEPT_SIGNALS_MAX: usize = 100;

/// Keys that a run remembers, the newest ones.
pub const SIGNAL_KEYS_MAX: usize = 100;

/// Most bytes of the data of a signal, as JSON.
pub const SIGNAL_BYTES_MAX: usize = 64 * 1024;

/// Longest key of a signal, in characters.
pub const SIGNAL_KEY_CHARS_MAX: usize = 200;

/// A signal, as its sender describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    pub name: String,
    pub data: Value,
    /// A run takes each key once.
    pub key: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signals {
    /// Signals that no step has used, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptSignal>,
    /// Keys of the newest signals. A repeated one changes nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<SignalKey>,
    /// Number of signals so far.
    #[serde(default)]
    pub count: u32,
}

/// A key that has arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SignalKey {
    /// Of an older version, which kept no digest. Every signal with this key counts as a repetition.
    Undigested(String),
    Digested {
        key: String,
        /// Of name and data of its signal.
        digest: String,
    },
}

impl SignalKey {
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Undigested(key) | Self::Digested { key, .. } => key,
        }
    }

    /// Whether it came with this signal, as far as that is known.
    #[must_use]
    pub fn is_of(&self, signal: &Signal) -> bool {
        match self {
            Self::Undigested(_) => true,
            Self::Digested { digest, .. } => *digest == signal.digest(),
        }
    }
}

/// Characters of a digest that a run keeps of a signal.
const DIGEST_CHARS: usize = 32;

impl Signal {
    /// The same for every order of the fields.
    #[must_use]
    pub fn digest(&self) -> String {
        let signal = json!({ "name": self.name, "data": self.data });
        let bytes = serde_json_canonicalizer::to_vec(&signal);
        let bytes = bytes.unwrap_or_else(|_inexact| signal.to_string().into_bytes());
        let mut digest = format!("{:x}", Sha256::digest(&bytes));
        digest.truncate(DIGEST_CHARS);
        digest
    }
}

/// A signal that waits for its step. Its data is a value of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSignal {
    pub name: String,
    /// From 1, in the order of arrival.
    pub number: u32,
}

/// What a hold of kind `signal` waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitedSignal {
    pub name: String,
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub on_timeout: OnWaitTimeout,
}

impl Signals {
    /// Adds a signal that no step has used yet.
    pub fn keep(&mut self, name: &str) -> u32 {
        self.count = self.count.saturating_add(1);
        self.kept.push(KeptSignal {
            name: name.to_owned(),
            number: self.count,
        });
        self.count
    }

    /// Remembers a key, and forgets the oldest ones.
    pub fn remember(&mut self, key: &str, digest: String) {
        let key = key.to_owned();
        self.keys.push(SignalKey::Digested { key, digest });
        let surplus = self.keys.len().saturating_sub(SIGNAL_KEYS_MAX);
        self.keys.drain(..surplus);
    }

    /// Removes the oldest signal with this name.
    pub fn take(&mut self, name: &str) -> Option<KeptSignal> {
        let place = self.kept.iter().position(|kept| kept.name == name)?;
        Some(self.kept.remove(place))
    }
}

/// Name of the value with the data of a kept signal.
#[must_use]
pub fn signal_name(number: u32) -> String {
    format!("signal:{number}")
}
