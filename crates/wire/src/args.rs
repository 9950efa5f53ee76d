//! `CNI_ARGS`: `KEY=VALUE;KEY2=VALUE2`.
//!
//! Keys are case-sensitive. An unknown one is an error unless `IgnoreUnknown` is set, as in the CNI project's library.

use crate::cni::{Error, code};
use crate::config::parse_address;
use std::net::IpAddr;

/// What Berth understands of `CNI_ARGS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args {
    /// `IP`: addresses asked for. One in every specification, a comma-separated list in some runtimes.
    pub addresses: Vec<IpAddr>,
    /// `K8S_POD_NAMESPACE`.
    pub namespace: Option<String>,
    /// `K8S_POD_NAME`.
    pub pod: Option<String>,
    /// `K8S_POD_UID`.
    pub uid: Option<String>,
}

impl Args {
    /// Reads the text of `CNI_ARGS`.
    ///
    /// # Errors
    /// [`code::INVALID_ENVIRONMENT`] naming the pair that is wrong.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut args = Self::default();
        if text.is_empty() {
            return Ok(args);
        }
        let mut ignore_unknown = false;
        let mut unknown = Vec::new();
        for pair in text.split(';') {
            let Some((key, value)) = pair.split_once('=').filter(|(_, value)| !value.contains('=')) else {
                return Err(bad(format!("ARGS: invalid pair {pair:?}")).hint("write CNI_ARGS as KEY=VALUE;KEY=VALUE"));
            };
            let wrong = |why: String| bad(format!("ARGS: error parsing value of pair {pair:?}: {why}"));
            match key {
                "IP" => args.addresses = list(value).map(parse_address).collect::<Result<_, _>>().map_err(wrong)?,
                // The gateway comes from the subnet; it is only checked, so that a typo is not lost.
                "GATEWAY" => list(value).try_for_each(|text| parse_address(text).map(drop)).map_err(wrong)?,
                "K8S_POD_NAMESPACE" => args.namespace = non_empty(value),
                "K8S_POD_NAME" => args.pod = non_empty(value),
                "K8S_POD_UID" => args.uid = non_empty(value),
                "K8S_POD_INFRA_CONTAINER_ID" => {}
                "IgnoreUnknown" => ignore_unknown = parse_bool(value).map_err(wrong)?,
                _ => unknown.push(format!("{pair:?}")),
            }
        }
        if unknown.is_empty() || ignore_unknown {
            return Ok(args);
        }
        Err(bad(format!("ARGS: unknown args [{}]", unknown.join(" "))).hint("add IgnoreUnknown=1 to let them pass"))
    }
}

fn bad(msg: String) -> Error {
    Error::new(code::INVALID_ENVIRONMENT, msg)
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn non_empty(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

fn parse_bool(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(format!("boolean unmarshal error: invalid input {value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_keys_are_read() {
        let text = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=c;\
                    K8S_POD_UID=u-1;IP=10.1.2.3/24;GATEWAY=10.1.2.1;X=";
        let args = Args::parse(text).unwrap();
        assert_eq!(args.addresses, ["10.1.2.3".parse::<IpAddr>().unwrap()]);
        assert_eq!(args.namespace.as_deref(), Some("shop"));
        assert_eq!(args.pod.as_deref(), Some("web-0"));
        assert_eq!(args.uid.as_deref(), Some("u-1"));
    }

    #[test]
    fn addresses_may_be_a_list_or_nothing() {
        let of = |text| Args::parse(text).unwrap().addresses;
        assert_eq!(of("IP=10.0.0.1,2001:db8::1/64"), ["10.0.0.1", "2001:db8::1"].map(|a| a.parse::<IpAddr>().unwrap()));
        assert!(of("IP=").is_empty() && of("").is_empty());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, msg) in [
            ("IP", r#"ARGS: invalid pair "IP""#),
            ("A=B=C", r#"ARGS: invalid pair "A=B=C""#),
            ("IP=10.0.0.1;", r#"ARGS: invalid pair """#),
            ("FOO=1;BAR=2", r#"ARGS: unknown args ["FOO=1" "BAR=2"]"#),
            ("ip=10.0.0.1", r#"ARGS: unknown args ["ip=10.0.0.1"]"#),
            ("FOO=1;IgnoreUnknown=false", r#"ARGS: unknown args ["FOO=1"]"#),
            ("IgnoreUnknown=maybe", "boolean unmarshal error: invalid input maybe"),
            ("IP=10.0.0.256", r#"ARGS: error parsing value of pair "IP=10.0.0.256""#),
            ("IP=10.0.0.1/33", r#"ARGS: error parsing value of pair "IP=10.0.0.1/33""#),
            ("GATEWAY=x", r#"ARGS: error parsing value of pair "GATEWAY=x""#),
        ] {
            let error = Args::parse(text).unwrap_err();
            assert_eq!(error.code, code::INVALID_ENVIRONMENT);
            assert!(error.msg.contains(msg), "{text:?} gave {:?}", error.msg);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            let _ = Args::parse(&text);
        }

        #[test]
        fn any_pairs_are_read_or_refused(text in "((IP|GATEWAY|IgnoreUnknown|K8S_POD_NAME|X)=[0-9a-f.:/,;=]{0,12};?){0,4}") {
            let _ = Args::parse(&text);
        }
    }
}
