//! `resolv.conf`, as far as CNI results have a place for it.

use crate::cni::Dns;

/// Reads the text of a `resolv.conf`. Lines that mean nothing to CNI are passed over, as resolvers do.
#[must_use]
pub fn parse(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines().map(str::trim) {
        if line.starts_with(['#', ';']) {
            continue;
        }
        let mut words = line.split_ascii_whitespace().map(str::to_owned);
        match words.next().as_deref() {
            Some("nameserver") => dns.nameservers.extend(words.next()),
            Some("domain") => dns.domain = words.next().unwrap_or(dns.domain),
            Some("search") => dns.search.extend(words),
            Some("options") => dns.options.extend(words),
            _ => {}
        }
    }
    dns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file() {
        let dns = parse(
            "# comment\n; another\nnameserver 192.0.2.1 ignored\nnameserver 192.0.2.2\n\ndomain a.example\n\
             domain b.example\nsearch one two\nsearch three\noptions ndots:2\n\toptions rotate edns0\nsortlist x\n\
             nameserver\ndomain\n",
        );
        assert_eq!(dns.nameservers, ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(dns.domain, "b.example");
        assert_eq!(dns.search, ["one", "two", "three"]);
        assert_eq!(dns.options, ["ndots:2", "rotate", "edns0"]);
    }

    #[test]
    fn nothing_is_nothing() {
        assert!(parse("").is_empty());
        assert!(parse("#nameserver 192.0.2.1\nnameserverx 192.0.2.1\n").is_empty());
    }
}
