//! The environment a runtime calls a plugin with.
//!
//! Which variables are required, in which order they are checked, and the texts and codes of the errors are those of
//! the CNI project's own plugin library, since runtimes and people match on them.

use crate::cni::{Error, code};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// What the runtime wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Attach a container: allocate.
    Add,
    /// Detach a container: release.
    Del,
    /// See whether an attachment still is as ADD left it.
    Check,
    /// Release everything but the attachments listed.
    Gc,
    /// See whether ADD can be served.
    Status,
    /// Say which versions of CNI are supported.
    Version,
}

impl Verb {
    const ALL: [Self; 6] = [Self::Add, Self::Del, Self::Check, Self::Gc, Self::Status, Self::Version];

    /// The verb as `CNI_COMMAND` spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }

    const fn required(self) -> &'static [&'static str] {
        match self {
            Self::Add | Self::Check => &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
            Self::Del => &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
            Self::Gc | Self::Status => &["CNI_PATH"],
            Self::Version => &[],
        }
    }

    const fn names_an_attachment(self) -> bool {
        matches!(self, Self::Add | Self::Del | Self::Check)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One call of the plugin. Variables that a verb does not take are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// What to do.
    pub verb: Verb,
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// `CNI_NETNS`.
    pub netns: PathBuf,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// `CNI_ARGS`, see [`crate::args`].
    pub args: String,
    /// `CNI_NETNS_OVERRIDE`: the runtime knows that `netns` is the plugin's own.
    pub netns_override: bool,
}

impl Invocation {
    /// Reads the environment through `lookup`. `None` means that `CNI_COMMAND` is not set: a person, not a runtime.
    ///
    /// # Errors
    /// [`code::INVALID_ENVIRONMENT`] if a variable is missing or wrong.
    pub fn read(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>, Error> {
        let lookup = |name: &str| lookup(name).unwrap_or_default();
        // What is not UTF-8 gets replacement characters, which no validation below lets through.
        let text = |name: &str| lookup(name).to_string_lossy().into_owned();

        let command = text("CNI_COMMAND");
        if command.is_empty() {
            return Ok(None);
        }
        let verb = Verb::ALL
            .into_iter()
            .find(|verb| verb.as_str() == command)
            .ok_or_else(|| bad(format!("unknown CNI_COMMAND: {command}")))?;

        let missing: Vec<&str> = verb.required().iter().copied().filter(|name| lookup(name).is_empty()).collect();
        if !missing.is_empty() {
            return Err(bad(format!("required env variables [{}] missing", missing.join(","))));
        }
        let mut invocation = Self {
            verb,
            container: String::new(),
            netns: PathBuf::new(),
            ifname: String::new(),
            args: String::new(),
            netns_override: false,
        };
        if verb.names_an_attachment() {
            let netns_override = text("CNI_NETNS_OVERRIDE");
            invocation.container = text("CNI_CONTAINERID");
            invocation.netns = PathBuf::from(lookup("CNI_NETNS"));
            invocation.ifname = text("CNI_IFNAME");
            invocation.args = text("CNI_ARGS");
            invocation.netns_override = netns_override == "1" || netns_override.eq_ignore_ascii_case("true");
            check_container(&invocation.container)?;
            check_ifname(&invocation.ifname)?;
        }
        Ok(Some(invocation))
    }
}

fn bad(msg: impl Into<String>) -> Error {
    Error::new(code::INVALID_ENVIRONMENT, msg)
}

/// Whether text is a container ID or a network name: `[a-zA-Z0-9][a-zA-Z0-9_.-]*`.
#[must_use]
pub fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Checks a container ID.
///
/// # Errors
/// [`code::UNKNOWN_CONTAINER`] if it is empty, [`code::INVALID_ENVIRONMENT`] if it has other characters.
pub fn check_container(id: &str) -> Result<(), Error> {
    if id.is_empty() {
        return Err(Error::new(code::UNKNOWN_CONTAINER, "missing containerID"));
    }
    if is_identifier(id) { Ok(()) } else { Err(bad("invalid characters in containerID").hint(id)) }
}

/// Checks an interface name by the kernel's rules.
///
/// # Errors
/// [`code::INVALID_ENVIRONMENT`].
pub fn check_ifname(name: &str) -> Result<(), Error> {
    const LONGEST: usize = 15;
    if name.is_empty() {
        return Err(bad("interface name is empty"));
    }
    if name.len() > LONGEST {
        let details = format!("interface name should be less than {} characters", LONGEST + 1);
        return Err(bad("interface name is too long").hint(details));
    }
    if name == "." || name == ".." {
        return Err(bad("interface name is . or .."));
    }
    if name.chars().any(|c| c == '/' || c == ':' || c.is_whitespace()) {
        return Err(bad("interface name contains / or : or whitespace characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHOLE: [(&str, &str); 6] = [
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/a"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin"),
        ("CNI_ARGS", "A=B"),
        ("CNI_NETNS_OVERRIDE", "TRUE"),
    ];

    /// Reads the whole environment with some variables replaced; an empty value is as good as none.
    fn read(verb: &str, replaced: &[(&str, &str)]) -> Result<Option<Invocation>, Error> {
        Invocation::read(|name| {
            let own = replaced.iter().chain(&WHOLE).find(|(key, _)| *key == name).map(|(_, value)| value.into());
            if name == "CNI_COMMAND" { Some(verb.into()) } else { own }
        })
    }

    #[test]
    fn no_command_means_a_person() {
        assert_eq!(Invocation::read(|_| None), Ok(None));
        assert_eq!(read("", &[]), Ok(None));
    }

    #[test]
    fn each_verb_requires_its_variables() {
        const ALL: &[&str] = &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"];
        for (verb, required) in [
            ("ADD", ALL),
            ("CHECK", ALL),
            ("DEL", &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"][..]),
            ("GC", &["CNI_PATH"]),
            ("STATUS", &["CNI_PATH"]),
            ("VERSION", &[]),
        ] {
            assert_eq!(read(verb, &[]).unwrap().unwrap().verb.as_str(), verb);
            for name in ALL {
                let outcome = read(verb, &[(name, "")]);
                if required.contains(name) {
                    let error = outcome.unwrap_err();
                    assert_eq!(error, bad(format!("required env variables [{name}] missing")), "{verb}");
                } else {
                    assert!(outcome.is_ok(), "{verb} does not need {name}");
                }
            }
            let nothing = Invocation::read(|name| (name == "CNI_COMMAND").then(|| verb.into()));
            match nothing {
                Ok(_) => assert_eq!(verb, "VERSION"),
                Err(error) => assert_eq!(error.msg, format!("required env variables [{}] missing", required.join(","))),
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said_as_the_go_library_says_it() {
        for (replaced, code, msg) in [
            (("CNI_CONTAINERID", "-x"), 4, "invalid characters in containerID"),
            (("CNI_CONTAINERID", "a/b"), 4, "invalid characters in containerID"),
            (("CNI_CONTAINERID", "a\n"), 4, "invalid characters in containerID"),
            (("CNI_IFNAME", "0123456789abcdef"), 4, "interface name is too long"),
            (("CNI_IFNAME", ".."), 4, "interface name is . or .."),
            (("CNI_IFNAME", "a/b"), 4, "interface name contains / or : or whitespace characters"),
            (("CNI_IFNAME", "a:b"), 4, "interface name contains / or : or whitespace characters"),
            (("CNI_IFNAME", "a\u{2003}b"), 4, "interface name contains / or : or whitespace characters"),
        ] {
            for verb in ["ADD", "DEL", "CHECK"] {
                let error = read(verb, &[replaced]).unwrap_err();
                assert_eq!((error.code, error.msg.as_str()), (code, msg), "{verb} {replaced:?}");
            }
            assert!(read("GC", &[replaced]).is_ok(), "GC does not look at {replaced:?}");
        }
        assert_eq!(read("PLEASE", &[]), Err(bad("unknown CNI_COMMAND: PLEASE")));
        assert_eq!(check_container("").unwrap_err().code, code::UNKNOWN_CONTAINER);
    }

    #[test]
    fn the_override_is_one_or_true() {
        for (value, expected) in
            [("1", true), ("true", true), ("TRUE", true), ("", false), ("0", false), ("yes", false)]
        {
            let invocation = read("ADD", &[("CNI_NETNS_OVERRIDE", value)]).unwrap().unwrap();
            assert_eq!(invocation.netns_override, expected, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn what_passes_is_safe_as_a_file_name(id in any::<String>(), ifname in any::<String>()) {
            if check_container(&id).is_ok() {
                prop_assert!(!id.starts_with('.') && !id.contains(['/', '\0']));
            }
            if check_ifname(&ifname).is_ok() {
                prop_assert!(ifname.len() < 16 && !ifname.contains('/') && ifname != "..");
            }
        }
    }
}
