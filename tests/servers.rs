//! Minimal HTTP servers on loopback, so that each can misbehave as a test requires.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A server that runs until the test binary exits.
pub struct Server {
    pub port: u16,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Serves each connection once, in a thread: `answer` gets the request up to the end of its
    /// head or of a short body.
    pub fn start(answer: impl Fn(&[u8], &mut TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let (counted, answer) = (connections.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                counted.fetch_add(1, Ordering::SeqCst);
                let answer = answer.clone();
                std::thread::spawn(move || {
                    let request = head(&mut stream);
                    answer(&request, &mut stream);
                });
            }
        });
        Server { port, connections }
    }

    /// Answers with a body of this many bytes.
    pub fn of_size(bytes: usize) -> Server {
        Server::start(move |_, stream| respond(stream, "200 OK", "", &vec![b'x'; bytes]))
    }

    /// Echoes the request.
    pub fn echo() -> Server {
        Server::start(|request, stream| {
            let mut all = request.to_vec();
            // A body arrives with its head or not at all.
            stream.set_read_timeout(Some(Duration::from_millis(50))).ok();
            let mut more = [0; 4096];
            while let Ok(n) = stream.read(&mut more) {
                if n == 0 {
                    break;
                }
                all.extend_from_slice(&more[..n]);
            }
            respond(stream, "200 OK", "", &all);
        })
    }

    /// Accepts connections, reads, and never answers.
    pub fn silent() -> Server {
        Server::start(|_, _| std::thread::sleep(Duration::from_secs(3600)))
    }

    /// Sends the head at once, then a byte from time to time, forever.
    pub fn dripping() -> Server {
        Server::start(|_, stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").ok();
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        })
    }

    /// Redirects every request to this URL.
    pub fn redirecting(location: String) -> Server {
        Server::start(move |_, stream| {
            respond(stream, "302 Found", &format!("location: {location}\r\n"), b"")
        })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Writes a response and closes.
pub fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n",
        body.len()
    );
    // The client may disconnect early.
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).ok();
}

/// Reads up to the end of a request's head, including any body bytes that arrive with it.
fn head(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => bytes.extend_from_slice(&buffer[..n]),
            _ => break,
        }
    }
    bytes
}
