//! The container image: Berth's two static binaries and nothing else.

use crate::{dist, sh};
use anyhow::{Result, ensure};
use berth_cluster::Image;
use berth_cluster::berth::IMAGE as NAME;
use std::fs;
use std::path::PathBuf;

/// Writes the image to target/dist and says what is in it.
pub(crate) fn run() -> Result<()> {
    let archive = build()?;
    println!("{} ({} KiB): {NAME}", archive.display(), fs::metadata(&archive)?.len() / 1024);
    println!("import it with: podman load -i {0}, or: ctr -n k8s.io images import {0}", archive.display());
    Ok(())
}

/// Builds both binaries and writes the archive.
pub(crate) fn build() -> Result<PathBuf> {
    let (daemon, plugin) = (dist::static_daemon()?, dist::plugin()?);
    for binary in [&daemon, &plugin] {
        let read = crate::elf::Binary::read(binary)?;
        ensure!(read.is_static, "{} asks for a dynamic loader, and the image has none", binary.display());
    }
    let archive = sh::target_dir().join("dist/berth-image.tar");
    let image = Image::new(NAME, &["/berth"]).file("/berth", &daemon, 0o755).file("/berth-cni", &plugin, 0o755);
    image.write(&archive)?;
    Ok(archive)
}
