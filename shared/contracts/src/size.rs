//! How large a value is as JSON, without writing it anywhere.

use std::io;

use serde::Serialize;

struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Length as JSON, in bytes; the largest number if the value cannot be written.
pub fn json_bytes(value: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    match serde_json::to_writer(&mut counted, value) {
        Ok(()) => counted.0,
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::json_bytes;

    #[test]
    fn a_value_is_as_large_as_its_text() {
        for value in [json!(null), json!({ "a": [1, "ü\n"], "b": {} })] {
            assert_eq!(json_bytes(&value), value.to_string().len());
        }
    }
}
