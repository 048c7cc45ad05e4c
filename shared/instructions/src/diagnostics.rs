//! Errors of instructions, as a user sees them.

/// Why a line is not a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionError {
    /// From 1.
    pub line: usize,
    /// The first place that is not understood, in characters from 1.
    pub column: usize,
    /// The line from that place on, cut to 80 characters. Empty: the line ends there.
    pub text: String,
    /// Says what was understood, and what is allowed.
    pub message: String,
    /// Samples of the most similar lines, the nearest first, such as `Wait 5 days`.
    pub nearest: Vec<String>,
}
