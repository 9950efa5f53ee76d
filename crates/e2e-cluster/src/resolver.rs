//! A name server that answers nobody and remembers what it was asked: as if the cluster's own were down.

use berth_e2e::Instead;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The name server, and the configuration that leads to it.
pub struct Resolver {
    asked: Arc<Mutex<Vec<String>>>,
    configuration: PathBuf,
}

impl Resolver {
    /// Starts one at an address of this machine. Needs root.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(host: IpAddr, dir: &Path) -> Self {
        let socket = UdpSocket::bind((host, 53)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let configuration = dir.join("resolv.conf");
        std::fs::write(&configuration, format!("nameserver {host}\noptions timeout:1 attempts:1\n")).unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::downgrade(&asked);
        thread::spawn(move || {
            let mut question = [0; 512];
            while let Some(heard) = heard.upgrade() {
                if let Ok(length) = socket.recv(&mut question) {
                    heard.lock().unwrap().push(name_in(&question[..length]));
                }
            }
        });
        Self { asked, configuration }
    }

    /// The configuration, for a program that is to see it instead of the machine's own.
    #[must_use]
    pub fn configuration(&self) -> Instead {
        (self.configuration.clone(), "/etc/resolv.conf".into())
    }

    /// The names it was asked for.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// The name that a question is about: labels with their lengths, after a header of twelve bytes.
fn name_in(question: &[u8]) -> String {
    let (mut rest, mut labels) = (question.get(12..).unwrap_or_default(), Vec::new());
    while let Some((&length, after)) = rest.split_first().filter(|(length, _)| **length > 0) {
        let Some((label, more)) = after.split_at_checked(length.into()) else { break };
        labels.push(String::from_utf8_lossy(label).into_owned());
        rest = more;
    }
    labels.join(".")
}
