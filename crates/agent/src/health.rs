//! `/healthz`, `/readyz` and `/metrics`, for probes and Prometheus. A few lines of HTTP on a thread: nobody sends it
//! anything but a path.

use crate::agent::Agent;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest request line that is read.
const LONGEST: u64 = 4096;

/// Listens, and answers until the process ends.
///
/// # Errors
/// If the address is taken.
pub(crate) fn serve(address: SocketAddr, ready: Arc<AtomicBool>, agent: Arc<Agent>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    std::thread::Builder::new().name("health".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, ready.load(Ordering::SeqCst), &agent);
        }
    })?;
    Ok(address)
}

fn answer(mut stream: TcpStream, ready: bool, agent: &Agent) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    let mut line = String::new();
    BufReader::new(Read::take(&stream, LONGEST)).read_line(&mut line)?;
    let path = line.split_whitespace().nth(1).unwrap_or_default();
    let (status, body) = match path {
        "/healthz" => ("200 OK", "ok\n".to_owned()),
        "/readyz" if ready => ("200 OK", "ready\n".to_owned()),
        "/readyz" => ("503 Service Unavailable", "what this node holds is still being restored\n".to_owned()),
        "/metrics" => ("200 OK", agent.metrics.scrape_engine(&agent.engine)),
        _ => ("404 Not Found", "there are /healthz, /readyz and /metrics\n".to_owned()),
    };
    let head = "Content-Type: text/plain; charset=utf-8\r\nConnection: close";
    write!(stream, "HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
