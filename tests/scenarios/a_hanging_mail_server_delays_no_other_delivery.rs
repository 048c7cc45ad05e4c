//! A mail server accepts connections and never replies (People, "Must"). Notifications in the application come at
//! once, and other mails leave.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdpoint_testkit::{Person, until};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{PATIENCE, World};

/// The limit for "at once" beside other tests. A hanging server is given up after 30 s at the earliest.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A mail server whose first connections are never answered.
struct MailServer {
    url: String,
    connections: Arc<Mutex<usize>>,
    /// The recipients of accepted mails.
    mailed: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for MailServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MailServer {
    async fn silent_for(first: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        let (connections, mailed) = (
            Arc::<Mutex<usize>>::default(),
            Arc::<Mutex<Vec<_>>>::default(),
        );
        let (count, heard) = (Arc::clone(&connections), Arc::clone(&mailed));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = {
                    let mut count = count.lock().unwrap();
                    *count += 1;
                    *count
                };
                if number <= first {
                    tokio::spawn(silence(stream));
                } else {
                    tokio::spawn(talk(stream, Arc::clone(&heard)));
                }
            }
        });
        Self {
            url,
            connections,
            mailed,
            task,
        }
    }

    fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    fn has_mailed(&self, name: &str) -> bool {
        self.mailed
            .lock()
            .unwrap()
            .iter()
            .any(|to| to.contains(name))
    }
}

/// Waits until the other side closes the connection.
async fn silence(mut stream: TcpStream) {
    let mut bytes = [0; 64];
    while stream.read(&mut bytes).await.unwrap_or(0) > 0 {}
}

/// The part of SMTP that is needed to receive a mail.
async fn talk(stream: TcpStream, mailed: Arc<Mutex<Vec<String>>>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut said = write.write_all(b"220 here\r\n").await;
    let mut is_body = false;
    while said.is_ok() {
        let Ok(Some(line)) = lines.next_line().await else {
            return;
        };
        let word = line
            .split([' ', ':'])
            .next()
            .unwrap_or_default()
            .to_ascii_uppercase();
        let answer = match (is_body, &*line, &*word) {
            (true, ".", _) => {
                is_body = false;
                "250 taken\r\n"
            }
            (true, ..) => continue,
            (false, _, "RCPT") => {
                mailed.lock().unwrap().push(line);
                "250 yes\r\n"
            }
            (false, _, "DATA") => {
                is_body = true;
                "354 go on\r\n"
            }
            (false, _, "QUIT") => "221 bye\r\n",
            (false, ..) => "250 yes\r\n",
        };
        said = write.write_all(answer.as_bytes()).await;
    }
}

/// Asks a person and waits until the notification is in the application.
async fn notify_in_app(world: &World, who: &Person) -> Value {
    let body =
        json!({ "kind": "approval", "question": "Ship?", "to": format!("@user.{}", who.name) });
    let began = Instant::now();
    let (status, hold) = world.up.post("/holds", &body).await.unwrap();
    assert_eq!(status, 201, "{hold}");
    until(PATIENCE, "it is in the application", async || {
        let (_, page) = who.get(&world.up, "/notifications").await.unwrap();
        let items = page["items"].as_array().unwrap();
        items
            .iter()
            .find(|one| one["request"] == hold["id"])
            .cloned()
    })
    .await
    .unwrap();
    let took = began.elapsed();
    assert!(took < AT_ONCE, "{} was notified after {took:?}", who.name);
    hold
}

/// S0-T4, People "Must": a hanging mail delays no notification in the application and no other mail.
#[tokio::test]
async fn a_hanging_mail_delays_no_other_delivery() {
    let server = MailServer::silent_for(1).await;
    let world = World::with_real_env(&[("HOLDPOINT_SMTP_URL", &server.url)]).await;
    let ada = Person::join(&world.up, "ada", &["member"]).await.unwrap();
    let bob = Person::join(&world.up, "bob", &["member"]).await.unwrap();
    let first = notify_in_app(&world, &ada).await;
    until(PATIENCE, "the mail hangs", async || {
        (server.connections() == 1).then_some(())
    })
    .await
    .unwrap();
    notify_in_app(&world, &bob).await;
    let began = Instant::now();
    until(PATIENCE, "bob's mail leaves", async || {
        server.has_mailed("bob@").then_some(())
    })
    .await
    .unwrap();
    let took = began.elapsed();
    assert!(took < AT_ONCE, "bob's mail left after {took:?}");
    assert!(!server.has_mailed("ada@"), "her mail still hangs");

    // Her mail is attempted again, and leaves when the server replies.
    until(PATIENCE * 2, "ada's mail leaves", async || {
        server.has_mailed("ada@").then_some(())
    })
    .await
    .unwrap();
    let path = format!("/requests/{}/deliveries", first["id"].as_str().unwrap());
    until(PATIENCE, "it is on record", async || {
        let (_, page) = world.up.get(&path).await.unwrap();
        let items = page["items"].as_array().unwrap();
        let mut mails = items.iter().filter(|one| one["channel"] == "email");
        mails.all(|one| one["state"] == "sent").then_some(())
    })
    .await
    .unwrap();
}

/// The same with a server that never replies. With any number of waiting mails, notifications in the application
/// come at once and callbacks leave.
#[tokio::test]
async fn a_silent_mail_server_delays_no_other_channel() {
    let server = MailServer::silent_for(usize::MAX).await;
    let shop = crate::shop::Shop::open().await;
    let world = World::with_real_env(&[("HOLDPOINT_SMTP_URL", &server.url)]).await;
    for number in 0..8 {
        let name = format!("person{number}");
        let one = Person::join(&world.up, &name, &["member"]).await.unwrap();
        notify_in_app(&world, &one).await;
    }
    assert!(server.connections() > 0, "mails are on their way");
    let body = json!({ "kind": "timer", "wait": "1s", "callback": shop.url("/called") });
    let began = Instant::now();
    assert_eq!(world.up.post("/holds", &body).await.unwrap().0, 201);
    until(PATIENCE, "the callback", async || {
        (!shop.calls().is_empty()).then_some(())
    })
    .await
    .unwrap();
    let took = began.elapsed();
    assert!(took < AT_ONCE, "the callback came after {took:?}");
}
