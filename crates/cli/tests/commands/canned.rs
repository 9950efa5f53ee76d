//! A daemon that knows its answers beforehand, and the transcript of a command that talked to it.

use berth_cli::args::{Color, Command, ImportSource};
use berth_cli::ui::{Stream, Ui};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;

/// One answer: the status and the body.
pub(crate) type Answer = (u16, Value);

/// When all tests take place.
fn noon() -> Timestamp {
    "2026-02-01T12:00:00Z".parse().unwrap()
}

/// What was written to a stream.
#[derive(Clone, Default)]
struct Written(Rc<RefCell<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).unwrap()
    }
}

/// The same answer as that of the daemon when it refuses.
pub(crate) fn problem(status: u16, slug: &str, detail: &str, hint: &str, exit_code: u8) -> Answer {
    let kind = format!("urn:berth:problem:{slug}");
    (
        status,
        json!({ "type": kind, "title": slug, "status": status, "detail": detail, "hint": hint, "exitCode": exit_code }),
    )
}

/// Runs a command line against these answers, in order, and tells all that went to and fro.
pub(crate) fn transcript(line: &str, answers: &[Answer]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let answers = answers.to_vec();
    let daemon = thread::spawn(move || answers.iter().map(|answer| serve(&listener, answer)).collect::<Vec<String>>());
    let output = run(&format!("berth --server {server} {line}"));
    let requests = daemon.join().unwrap();
    let requests: String = requests.iter().map(|request| format!("> {request}\n")).collect();
    format!("$ berth {line}\n{requests}{}", output.replace(&server, "SERVER"))
}

/// Runs a command line and tells what it printed, and where.
pub(crate) fn run(line: &str) -> String {
    let cli = berth_cli::parse(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}"));
    let (out, err) = (Written::default(), Written::default());
    let stream = |writer: &Written| Stream {
        writer: Box::new(writer.clone()),
        terminal: false,
        color: cli.global.color == Color::Always,
    };
    let mut ui = Ui::new(stream(&out), stream(&err), cli.global.quiet, noon);
    let exit = match &cli.command {
        Command::Client(command) => berth_cli::run(command, &cli.global, &mut ui),
        Command::Import(ImportSource::HostLocal(args)) => berth_cli::import_host_local(args, &cli.global, &mut ui),
        _ => panic!("{line} is no client command"),
    };
    let mut text = out.text();
    if !err.text().is_empty() {
        text.push_str(&format!("--- stderr\n{}", err.text()));
    }
    text + &format!("--- exit {exit}")
}

/// Answers one request and tells what it was.
fn serve(listener: &TcpListener, (status, body): &Answer) -> String {
    let (stream, _) = listener.accept().unwrap();
    let request = read_request(&stream);
    let kind = if *status < 400 { "application/json" } else { "application/problem+json" };
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
    (&stream).write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes()).unwrap();
    request
}

/// `POST /v1alpha1/addresses` and the body, if there is one.
fn read_request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let request = line.rsplit_once(' ').unwrap().0.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().to_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    if body.is_empty() { request } else { format!("{request}\n{}", body.trim_end()) }
}
