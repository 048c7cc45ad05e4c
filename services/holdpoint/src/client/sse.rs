//! Parser of server-sent events. It knows neither runs nor connections.

/// Longest event, in bytes; a longer one is an error.
const EVENT_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    /// `Last-Event-ID` from here on, if the event has one.
    pub(super) id: Option<String>,
    /// Its type; the default is `message`.
    pub(super) event: String,
    pub(super) data: String,
}

#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    after_return: bool,
    id: Option<String>,
    event: String,
    data: Vec<String>,
    size: usize,
}

/// An event is longer than [`EVENT_MAX`].
#[derive(Debug)]
pub(super) struct TooLong;

impl Parser {
    /// Takes the next bytes, split anywhere, and returns the events that they complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, TooLong> {
        let mut frames = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    frames.extend(self.end_line());
                }
                other => {
                    self.after_return = false;
                    self.line.push(*other);
                    self.size += 1;
                }
            }
            if self.size > EVENT_MAX {
                return Err(TooLong);
            }
        }
        Ok(frames)
    }

    fn end_line(&mut self) -> Option<Frame> {
        let line = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        if line.is_empty() {
            return self.end_event();
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => self.data.push(value.to_owned()),
            "event" => value.clone_into(&mut self.event),
            "id" => self.id = Some(value.to_owned()),
            // A comment keeps the connection alive; the client has a fixed `retry`.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<Frame> {
        self.size = 0;
        let id = self.id.take();
        let event = std::mem::take(&mut self.event);
        let data = std::mem::take(&mut self.data);
        if data.is_empty() && event.is_empty() {
            return None;
        }
        let event = if event.is_empty() {
            "message".to_owned()
        } else {
            event
        };
        Some(Frame {
            id,
            event,
            data: data.join("\n"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": hello\n\nid: 1\nevent: run.started\ndata: {\"a\":\ndata: 1}\n\n\
        retry: 500\r\n\r\nid:2\r\ndata:ü\r\n\r\nevent: reset\ndata\n\nid: 3\ndata: cut";

    fn expected() -> Vec<Frame> {
        let frame = |id: Option<&str>, event: &str, data: &str| Frame {
            id: id.map(str::to_owned),
            event: event.to_owned(),
            data: data.to_owned(),
        };
        vec![
            frame(Some("1"), "run.started", "{\"a\":\n1}"),
            frame(Some("2"), "message", "ü"),
            frame(None, "reset", ""),
        ]
    }

    #[test]
    fn events_come_out_whole_however_the_bytes_were_cut() {
        for size in 1..=STREAM.len() {
            let mut parser = Parser::default();
            let frames: Vec<_> = STREAM
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| parser.feed(chunk).unwrap())
                .collect();
            assert_eq!(frames, expected(), "cut every {size} bytes");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::default();
        parser.feed(b"data: ").unwrap();
        assert!(parser.feed(&vec![b'x'; EVENT_MAX + 1]).is_err());
    }
}
