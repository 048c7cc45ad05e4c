//! Live streams such as the history of a run: in order and without a gap, across lost connections.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use reqwest::{Method, Url, header};
use serde::de::DeserializeOwned;

use super::sse::{Frame, Parser, TooLong};
use super::{Client, ClientError};

/// Silence after which a connection counts as lost; a live one sends comments.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Consecutive tries without a byte before an error is returned.
const TRIES_MAX: u32 = 10;
/// Pause before the first new try; it doubles up to [`BACKOFF_MAX`].
const BACKOFF: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub(crate) enum Live<T> {
    /// An item, parsed and verbatim.
    Item(Box<T>, String),
    /// Items before this point are no longer kept.
    Reset,
}

type Bytes = Pin<Box<dyn Stream<Item = Result<Vec<u8>, reqwest::Error>> + Send>>;

/// A subscription to a live stream.
pub(crate) struct Events<T> {
    client: Client,
    url: Url,
    /// Id of the last event.
    after: Option<String>,
    /// Whether a connection succeeded before. Only then is an unreachable server worth retrying.
    was_connected: bool,
    connection: Option<(Bytes, Parser)>,
    frames: VecDeque<Frame>,
    tries: u32,
    item: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Events<T> {
    pub(super) fn new(client: Client, url: Url) -> Self {
        Self {
            client,
            url,
            after: None,
            was_connected: false,
            connection: None,
            frames: VecDeque::new(),
            tries: 0,
            item: PhantomData,
        }
    }

    /// Waits for the next item and reconnects after the last item if necessary. The stream does not
    /// end: the caller stops at the item that it waits for.
    ///
    /// # Errors
    /// When Holdpoint refuses, or cannot be reached for some time.
    pub(crate) async fn next(&mut self) -> Result<Live<T>, ClientError> {
        loop {
            while let Some(frame) = self.frames.pop_front() {
                if let Some(live) = self.parse(frame)? {
                    return Ok(live);
                }
            }
            self.read_more().await?;
        }
    }

    fn parse(&mut self, frame: Frame) -> Result<Option<Live<T>>, ClientError> {
        if let Some(id) = frame.id.filter(|id| !id.is_empty()) {
            self.after = Some(id);
        }
        if frame.event == "reset" {
            return Ok(Some(Live::Reset));
        }
        if frame.data.is_empty() {
            return Ok(None);
        }
        let item = serde_json::from_str(&frame.data)?;
        Ok(Some(Live::Item(Box::new(item), frame.data)))
    }

    /// Reads one chunk, or connects if there is no connection.
    async fn read_more(&mut self) -> Result<(), ClientError> {
        let Some((bytes, parser)) = &mut self.connection else {
            return self.connect().await;
        };
        match tokio::time::timeout(SILENCE_MAX, bytes.next()).await {
            Ok(Some(Ok(chunk))) => {
                let frames = parser
                    .feed(&chunk)
                    .map_err(|TooLong| ClientError::NotUnderstood {
                        reason: "an event is longer than 4 MiB".to_owned(),
                    })?;
                self.frames.extend(frames);
                self.tries = 1;
            }
            Ok(Some(Err(_)) | None) | Err(_) => self.connection = None,
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        if self.tries > 0 {
            let pause = BACKOFF.saturating_mul(1 << self.tries.min(8));
            tokio::time::sleep(pause.min(BACKOFF_MAX)).await;
        }
        self.tries += 1;
        let mut request = self
            .client
            .authorized(Method::GET, self.url.clone())
            .header(header::ACCEPT, "text/event-stream");
        if let Some(after) = &self.after {
            request = request.header("Last-Event-ID", after);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(_) if self.tries < TRIES_MAX && self.was_connected => return Ok(()),
            Err(error) => return Err(self.client.unreachable(&error)),
        };
        let status = response.status();
        if !status.is_success() {
            let text = response.text().await.unwrap_or_default();
            if status.as_u16() == 503 && self.tries < TRIES_MAX {
                return Ok(());
            }
            return Err(ClientError::refused(status.as_u16(), text));
        }
        if self.tries >= TRIES_MAX {
            return Err(ClientError::TimedOut);
        }
        self.was_connected = true;
        let bytes = response
            .bytes_stream()
            .map(|chunk| chunk.map(|chunk| chunk.to_vec()));
        self.connection = Some((Box::pin(bytes), Parser::default()));
        Ok(())
    }
}
