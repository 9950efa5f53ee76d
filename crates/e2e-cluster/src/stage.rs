//! A world in which everything plays that a cluster has but containers: the controllers and the scheduler of Kubernetes,
//! Berth's controller with its webhook, and [kubelets](Kubelets). The cases of a catalogue share one.

use crate::controller::Controller;
use crate::kubelets::Kubelets;
use crate::resolver::Resolver;
use crate::world::World;
use berth_dialects::crd;
use berth_e2e::Instead;
use serde_json::json;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Times that a test can wait for.
pub const SOON: &str = "pod-gone=1s,pod-replaced=1s,pod-ended=1s,pod-stuck=1s,node-gone=1s,not-coming-back=1s";

/// A world with everything in it.
pub struct Stage {
    /// Where the webhook is asked.
    webhook: SocketAddr,
    /// What the controller is told beyond that.
    arguments: Vec<String>,
    controller: Arc<Mutex<Option<Controller>>>,
    /// Files that the controller sees in the place of others.
    sees: Mutex<Vec<Instead>>,
    /// The kubelets of all nodes.
    pub kubelets: Kubelets,
    /// The rest of it; dropped last.
    pub world: World,
}

impl Stage {
    /// A stage whose controller is yet to be [started](Self::start_controller), with these arguments.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn set(arguments: &[&str]) -> Option<Self> {
        let world = World::start_with_controllers()?;
        let kubelets = Kubelets::start(&world.plane.kubeconfig());
        // The address of this control plane, which is this process' own, so that the port can be had again.
        let host: IpAddr = world.plane.url().trim_start_matches("https://").split(':').next().unwrap().parse().unwrap();
        let webhook = TcpListener::bind((host, 0)).unwrap().local_addr().unwrap();
        let controller = Arc::default();
        restart_what_ends(&controller);
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Some(Self { webhook, arguments, controller, sees: Mutex::default(), kubelets, world })
    }

    /// The one stage of this test program, with everything started. It ends with the program.
    #[must_use]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Stage>> = OnceLock::new();
        let start = || {
            let stage = Self::set(&["--reclaim", SOON])?;
            stage.start_controller();
            stage.ask_webhook();
            Some(stage)
        };
        SHARED.get_or_init(start).as_ref()
    }

    /// Starts Berth's controller, or starts it anew.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_controller(&self) {
        let mut controller = self.controller.lock().unwrap();
        // Killed, if it runs.
        drop(controller.take());
        let (listen, name) = (self.webhook.to_string(), self.webhook.ip().to_string());
        let mut args = vec!["--webhook", &listen, "--webhook-name", &name];
        args.extend(self.arguments.iter().map(String::as_str));
        *controller = Some(self.world.controller_seeing("r1", &args, &self.sees.lock().unwrap()));
    }

    /// Shows Berth's controller, from its next start on, these files in the place of others. Needs root.
    ///
    /// # Panics
    /// Never.
    pub fn show_controller(&self, files: &[Instead]) {
        *self.sees.lock().unwrap() = files.to_vec();
    }

    /// A name server that answers nobody. Needs root.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn resolver(&self) -> Resolver {
        Resolver::start(self.webhook.ip(), self.world.dir())
    }

    /// Kills Berth's controller.
    ///
    /// # Panics
    /// Never.
    pub fn kill_controller(&self) {
        drop(self.controller.lock().unwrap().take());
    }

    /// Registers the webhook, and waits until the API server asks it and believes it. Nothing of Berth's is made or
    /// changed from then on without it.
    ///
    /// # Panics
    /// If that does not happen.
    pub fn ask_webhook(&self) {
        for mut webhook in crd::webhooks() {
            let hook = &mut webhook["webhooks"][0];
            let path = hook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
            hook["clientConfig"] = json!({ "url": format!("https://{}{path}", self.webhook) });
            hook["failurePolicy"] = json!("Fail");
            // A machine that is busy with other things is not what is tested.
            hook["timeoutSeconds"] = json!(30);
            self.world.apply(&webhook.to_string());
        }
        let wrong = "{apiVersion: berth.io/v1alpha1, kind: IPPool, metadata: {name: probe}, \
            spec: {ranges: [192.0.2.0/24], gateway: 10.3.0.1}}";
        let since = Instant::now();
        loop {
            let refusal = match self.world.plane.apply(wrong) {
                Err(refusal) => refusal.to_string(),
                Ok(()) => "accepted".to_owned(),
            };
            if refusal.contains("10.3.0.1 is not inside") {
                return;
            }
            assert!(since.elapsed() < Duration::from_secs(120), "the webhook is not asked: {refusal}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// What the controller has logged.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn controller_log(&self) -> String {
        self.controller.lock().unwrap().as_ref().unwrap().log()
    }
}

/// Does what Kubernetes does for a controller that ends, until the stage is gone.
fn restart_what_ends(controller: &Arc<Mutex<Option<Controller>>>) {
    let watched = Arc::downgrade(controller);
    thread::spawn(move || {
        while let Some(controller) = watched.upgrade() {
            if let Some(controller) = &mut *controller.lock().unwrap() {
                controller.restart_if_ended();
            }
            drop(controller);
            thread::sleep(Duration::from_millis(200));
        }
    });
}
