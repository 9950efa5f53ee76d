//! `/healthz`, `/readyz` and `/metrics` of a process that serves no other HTTP, for probes and Prometheus. A few lines of
//! HTTP on a thread: nobody sends it anything but a path.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// The longest request line that is read.
const LONGEST: u64 = 4096;

/// Listens, and answers until the process ends. `ready` says what is missing, if anything is.
///
/// # Errors
/// If the address is taken.
pub fn serve_probes(
    address: SocketAddr,
    ready: impl Fn() -> Result<(), &'static str> + Send + 'static,
    metrics: impl Fn() -> String + Send + 'static,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    std::thread::Builder::new().name("health".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, &ready, &metrics);
        }
    })?;
    Ok(address)
}

fn answer(
    mut stream: TcpStream,
    ready: &impl Fn() -> Result<(), &'static str>,
    metrics: &impl Fn() -> String,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    let mut line = String::new();
    BufReader::new(Read::take(&stream, LONGEST)).read_line(&mut line)?;
    let path = line.split_whitespace().nth(1).unwrap_or_default();
    let (status, body) = match path {
        "/healthz" => ("200 OK", "ok\n".to_owned()),
        "/readyz" => match ready() {
            Ok(()) => ("200 OK", "ready\n".to_owned()),
            Err(why) => ("503 Service Unavailable", format!("{why}\n")),
        },
        "/metrics" => ("200 OK", metrics()),
        _ => ("404 Not Found", "there are /healthz, /readyz and /metrics\n".to_owned()),
    };
    let head = "Content-Type: text/plain; charset=utf-8\r\nConnection: close";
    write!(stream, "HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
