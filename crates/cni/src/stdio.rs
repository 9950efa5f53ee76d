//! Reading stdin and writing the answer with as few system calls as possible.

use berth_wire::cni::{Error, code};
use berth_wire::config::MAX_LEN;
use rustix::buffer::spare_capacity;
use rustix::fd::BorrowedFd;
use rustix::io::{Errno, retry_on_intr};

/// Reads the whole configuration from stdin.
///
/// # Errors
/// [`code::IO_FAILURE`] if it cannot be read, [`code::INVALID_CONFIG`] if it is longer than [`MAX_LEN`].
pub(crate) fn read_config() -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(16 << 10);
    loop {
        let read = retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), spare_capacity(&mut bytes)))
            .map_err(|error| Error::new(code::IO_FAILURE, format!("error reading from stdin: {error}")))?;
        if bytes.len() > MAX_LEN {
            let msg = format!("network config on stdin is longer than {MAX_LEN} bytes");
            return Err(Error::new(code::INVALID_CONFIG, msg));
        }
        if read == 0 {
            return Ok(bytes);
        }
        if bytes.len() == bytes.capacity() {
            bytes.reserve(bytes.len());
        }
    }
}

/// Writes all of it; a short text with one call.
///
/// # Errors
/// What the kernel says.
pub(crate) fn write(stream: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| rustix::io::write(stream, bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}
