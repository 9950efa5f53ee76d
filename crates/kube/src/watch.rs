//! Following a kind of object for as long as the connection lives.

use futures::StreamExt;
use kube::Resource;
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;
use tracing::{debug, warn};

/// Feeds every event to `handle`, and starts again whatever happens.
pub(crate) async fn follow<K>(
    what: &'static str,
    stream: impl futures::Stream<Item = Result<Event<K>, watcher::Error>> + Send,
    mut handle: impl FnMut(Event<K>),
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut stream = std::pin::pin!(stream);
    let mut failures = 0u32;
    // The stream itself lists anew after an error; it never ends.
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                failures = 0;
                handle(event);
            }
            Err(error) => {
                failures += 1;
                match failures {
                    1 => debug!(what, %error, "the watch broke and is begun anew"),
                    _ => warn!(what, %error, failures, "cannot watch"),
                }
                tokio::time::sleep(Duration::from_millis(200 << failures.min(5))).await;
            }
        }
    }
}
