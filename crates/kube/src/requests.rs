//! What is asked of the API server, counted: the cost of Berth to a cluster, as seen from where it arises.

use http::{Method, Request, Response, Uri};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`.
    pub verb: &'static str,
    /// Such as `ipblocks`, or `ipclaims/status`.
    pub resource: String,
    /// The object's name, where the path has it.
    pub name: String,
}

impl Call {
    /// What the request of a method and a path is about.
    #[must_use]
    pub fn of(method: &Method, uri: &Uri) -> Self {
        let mut path: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        // /api/VERSION/… or /apis/GROUP/VERSION/…, and namespaces/NAME/ before what is in one.
        path.drain(..path.len().min(if path.first() == Some(&"apis") { 3 } else { 2 }));
        if path.first() == Some(&"namespaces") && path.len() > 2 {
            path.drain(..2);
        }
        let mut path = path.into_iter();
        let (mut resource, name) = (path.next().unwrap_or_default().to_owned(), path.next().unwrap_or_default());
        path.for_each(|sub| resource.push_str(&format!("/{sub}")));
        let watches = uri.query().is_some_and(|query| query.contains("watch=true"));
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ if watches => "watch",
            _ if name.is_empty() => "list",
            _ => "get",
        };
        Self { verb, resource, name: name.to_owned() }
    }

    /// Whether it changes something.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete")
    }
}

/// What requests are told apart by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Labels {
    verb: &'static str,
    resource: String,
    /// The status of the answer; 0 if none came.
    code: u16,
}

/// The requests of a process to the API server.
#[derive(Clone, Debug, Default)]
pub struct Requests(Family<Labels, Counter>);

impl Requests {
    /// What it is called after the program's prefix, and what it means.
    pub const NAME: &str = "api_requests";
    /// See [`Self::NAME`].
    pub const HELP: &str = "Requests to the API server, by verb, resource and status of the answer";

    /// The counters, to be registered.
    #[must_use]
    pub fn family(&self) -> Family<Labels, Counter> {
        self.0.clone()
    }

    /// Counters of which one has a value, for the reference.
    #[must_use]
    pub fn sample() -> Self {
        let sample = Self::default();
        sample.count(Call { verb: "update", resource: "ipblocks".to_owned(), name: String::new() }, 200);
        sample
    }

    fn count(&self, Call { verb, resource, .. }: Call, code: u16) {
        self.0.get_or_create(&Labels { verb, resource, code }).inc();
    }
}

impl<S> Layer<S> for Requests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, requests: self.clone() }
    }
}

/// A way to the server whose requests are counted.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
    requests: Requests,
}

impl<S, In, Out> Service<Request<In>> for Counted<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        let (call, requests) = (Call::of(request.method(), request.uri()), self.requests.clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            requests.count(call, answer.as_ref().map_or(0, |answer| answer.status().as_u16()));
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_is_about() {
        let of = |method: Method, uri: &'static str| {
            let call = Call::of(&method, &Uri::from_static(uri));
            (call.verb, call.resource.clone(), call.name.clone(), call.is_write())
        };
        let expected = |verb, resource: &str, name: &str, writes| (verb, resource.to_owned(), name.to_owned(), writes);
        for (method, uri, call) in [
            (Method::GET, "/apis/berth.io/v1alpha1/ipblocks/a?x=y", expected("get", "ipblocks", "a", false)),
            (Method::GET, "/api/v1/pods?watch=true&limit=1", expected("watch", "pods", "", false)),
            (Method::GET, "/api/v1/namespaces", expected("list", "namespaces", "", false)),
            (Method::GET, "/api/v1/namespaces/blue", expected("get", "namespaces", "blue", false)),
            (Method::POST, "/apis/berth.io/v1alpha1/ipblocks", expected("create", "ipblocks", "", true)),
            (
                Method::PUT,
                "/apis/berth.io/v1alpha1/namespaces/n/ipclaims/c/status",
                expected("update", "ipclaims/status", "c", true),
            ),
            (Method::DELETE, "/api/v1/namespaces/n/pods/p", expected("delete", "pods", "p", true)),
            (Method::GET, "/version", expected("list", "", "", false)),
        ] {
            assert_eq!(of(method, uri), call, "{uri}");
        }
    }
}
