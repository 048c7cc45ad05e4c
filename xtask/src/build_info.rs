//! `cargo xtask build-info PROGRAM`: prints the build information of a Go program, so that two builds of one
//! release can be compared. docs/nats-server.md uses it for the pinned NATS server.

use std::fs;

use anyhow::{Context as _, bail, ensure};

/// Start of the build information. Two texts with their lengths follow.
const MAGIC: &[u8] = b"\xff Go buildinf:";
/// Bytes from the magic to the first length.
const HEADER: usize = 32;
/// Index of the flags, and the flag for inline texts.
const FLAGS: usize = 15;
const INLINE: u8 = 2;
/// Bytes around the lines about modules.
const SENTINEL: usize = 16;

pub(crate) fn run(program: Option<&str>) -> anyhow::Result<()> {
    let program = program.context("`build-info` needs the path of a program")?;
    let bytes = fs::read(program).with_context(|| program.to_owned())?;
    for line in lines(&bytes).with_context(|| program.to_owned())? {
        println!("{line}");
    }
    Ok(())
}

/// The version of Go, then the modules and settings.
fn lines(program: &[u8]) -> anyhow::Result<Vec<String>> {
    let at = program
        .windows(MAGIC.len())
        .enumerate()
        .find(|(at, window)| *window == MAGIC && at.is_multiple_of(SENTINEL))
        .map(|(at, _)| at)
        .context("expected a Go program with build information")?;
    let info = program.get(at..).unwrap_or_default();
    ensure!(
        info.get(FLAGS).is_some_and(|flags| flags & INLINE != 0),
        "built by Go 1.17 or older"
    );
    let (version, rest) = text(info.get(HEADER..).unwrap_or_default())?;
    let (modules, _) = text(rest)?;
    let modules = modules
        .get(SENTINEL..modules.len().saturating_sub(SENTINEL))
        .unwrap_or_default();
    let mut lines = vec![format!("go\t{}", String::from_utf8_lossy(version))];
    let modules = String::from_utf8_lossy(modules);
    lines.extend(modules.lines().map(|line| line.trim_end().to_owned()));
    Ok(lines)
}

/// A text after its length, and the remaining bytes.
fn text(bytes: &[u8]) -> anyhow::Result<(&[u8], &[u8])> {
    let mut length = 0_usize;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let rest = bytes.get(index + 1..).unwrap_or_default();
            return rest
                .split_at_checked(length)
                .context("the build information is cut off");
        }
    }
    bail!("the build information has no length")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend D-17: the lines are those of `go version -m`.
    #[test]
    fn the_lines_of_a_build_are_read() {
        let modules = "path\tp\nmod\tm\tv2.15.1\t\nbuild\tvcs.revision=b2fd\n";
        let mut program = vec![0; 64];
        program.extend(MAGIC);
        program.extend([8, INLINE]);
        program.resize(64 + HEADER, 0);
        program.push(8);
        program.extend(b"go1.27.2");
        let length = u8::try_from(modules.len() + 2 * SENTINEL).unwrap();
        program.push(length);
        program.extend([1; SENTINEL]);
        program.extend(modules.as_bytes());
        program.extend([1; SENTINEL]);
        let expected = [
            "go\tgo1.27.2",
            "path\tp",
            "mod\tm\tv2.15.1",
            "build\tvcs.revision=b2fd",
        ];
        assert_eq!(lines(&program).unwrap(), expected);
        assert!(lines(b"#!/bin/sh").is_err());
        assert!(lines(&program[..110]).is_err(), "cut off");
    }
}
