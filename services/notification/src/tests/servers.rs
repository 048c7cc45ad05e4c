//! The outside world of tests: a server that is called back, and a mail server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// One call as it came.
#[derive(Debug, Clone)]
pub(super) struct Call {
    headers: BTreeMap<String, String>,
    pub(super) body: String,
}

impl Call {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Answers calls with the statuses of a script, the last of them for ever.
pub(super) struct Called {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Called {
    pub(super) async fn answering(script: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&calls);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (call, mut stream) = read_call(stream).await;
                let place = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(call);
                    seen.len().min(script.len()) - 1
                };
                let head =
                    "Location: http://127.0.0.1:1/\r\nContent-Length: 0\r\nConnection: close";
                let answer = format!("HTTP/1.1 {}\r\n{head}\r\n\r\n", script[place]);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Self { address, calls }
    }

    pub(super) fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/done", self.address.port())
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

async fn read_call(stream: TcpStream) -> (Call, BufReader<TcpStream>) {
    let mut stream = BufReader::new(stream);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ") {
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    let length = headers["content-length"].parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let body = String::from_utf8(body).unwrap();
    (Call { headers, body }, stream)
}

/// A mail server; what clients said to it.
pub(super) async fn mail_server(listener: TcpListener) -> Arc<Mutex<String>> {
    let said = Arc::new(Mutex::new(String::new()));
    let heard = Arc::clone(&said);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(take_mails(stream, Arc::clone(&heard)));
        }
    });
    said
}

async fn take_mails(stream: TcpStream, said: Arc<Mutex<String>>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut in_mail = false;
    write.write_all(b"220 test ESMTP\r\n").await.unwrap();
    while let Ok(Some(line)) = lines.next_line().await {
        {
            let mut said = said.lock().unwrap();
            said.push_str(&line);
            said.push('\n');
        }
        let reply = match line.get(..4).unwrap_or_default() {
            _ if in_mail && line != "." => continue,
            "DATA" => "354 go on",
            "QUIT" => "221 bye",
            _ => "250 ok",
        };
        in_mail = line == "DATA";
        let reply = format!("{reply}\r\n");
        if write.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}
