//! What a container runtime hands to the plugin: the configuration on standard input, and `CNI_ARGS`.

use berth_wire::args::Args;
use berth_wire::config::NetConf;
use berth_wire::protocol;
use berth_wire::result;

/// A network configuration: everything the plugin may ask of it, answered or refused.
pub fn config(data: &[u8]) {
    let Ok(conf) = NetConf::parse(data) else { return };
    assert!(!conf.name.is_empty(), "a configuration without a name was taken");
    let _ = conf.ipam_type();
    let _ = conf.socket();
    let _ = conf.ipam();
    let _ = conf.requested();
    let _ = conf.prev_result();
    let _ = conf.valid_attachments();
}

/// `CNI_ARGS`.
pub fn args(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Args::parse(text);
    }
}

/// A frame of the socket, and a result of an earlier ADD.
pub fn frame(data: &[u8]) {
    let mut rest = data;
    while let Ok(request) = protocol::read_frame::<protocol::Request>(&mut rest) {
        let bytes = protocol::encode(&request).expect("what was read can be written");
        let again: protocol::Request = protocol::read_frame(&mut bytes.as_slice()).expect("and read again");
        assert_eq!(again, request);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = result::parse(text);
    }
}
