//! Who holds a lease: the content of its file.

/// Between container and interface in a lease file.
const LINE_BREAK: &str = "\r\n";

/// The holder of a lease: a container's interface, or in files of old versions just a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    content: String,
}

impl Owner {
    pub(crate) fn attachment(container: &str, ifname: &str) -> Self {
        Self { content: format!("{}{LINE_BREAK}{ifname}", container.trim()) }
    }

    /// The owner that old versions wrote for any interface of this container.
    pub(crate) fn container_only(container: &str) -> Self {
        Self { content: container.trim().to_owned() }
    }

    /// Reads a lease file. `None` if it is empty: then it is nobody's.
    pub(crate) fn parse(content: &[u8]) -> Option<Self> {
        let content = String::from_utf8_lossy(content).trim().to_owned();
        (!content.is_empty()).then_some(Self { content })
    }

    pub(crate) fn content(&self) -> &str {
        &self.content
    }

    /// Container and, but for old versions, interface.
    pub(crate) fn parts(&self) -> (&str, Option<&str>) {
        match self.content.split_once(LINE_BREAK) {
            Some((container, ifname)) => (container, Some(ifname)),
            None => (&self.content, None),
        }
    }

    /// FNV-1a, 128 bits wide: any good mixing will do, as what a hash finds is always compared with the file.
    pub(crate) fn hash(&self) -> u128 {
        const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        self.content.bytes().fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_what_host_local_writes() {
        assert_eq!(Owner::attachment("   dummy\n ", "eth0").content(), "dummy\r\neth0");
        assert_eq!(Owner::container_only(" dummy").content(), "dummy");
        assert_eq!(Owner::parse(b"dummy\r\neth0\n"), Some(Owner::attachment("dummy", "eth0")));
        assert_eq!(Owner::parse(b" \r\n"), None);
        assert_eq!(Owner::attachment("a", "b").parts(), ("a", Some("b")));
        assert_eq!(Owner::container_only("a").parts(), ("a", None));
    }

    #[test]
    fn the_hash_is_fnv1a() {
        assert_eq!(Owner::container_only("").hash(), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(Owner::container_only("a").hash(), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
