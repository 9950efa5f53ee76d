//! Container images without a builder: some files, in the archive format that `docker save` writes.
//!
//! containerd, podman and docker all import it. No registry can be assumed where tests run, and Berth's own image is
//! two static files, so a layer of them and three small JSON documents is the whole of it. The same files give the same
//! bytes: no times, no owners.

use crate::error::{Context, Error, Result};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// What goes into an image.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// Its name and tag, such as `berth.test/busybox:1`. With a domain in it, it is called that everywhere.
    pub name: String,
    /// What is executed.
    pub entrypoint: Vec<String>,
    /// Arguments to that, which a pod may replace.
    pub command: Vec<String>,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
enum Entry {
    File { path: String, from: PathBuf, mode: u32 },
    Link { path: String, to: String },
}

impl Entry {
    fn path(&self) -> &Path {
        match self {
            Self::File { path, .. } | Self::Link { path, .. } => Path::new(path),
        }
    }
}

impl Image {
    /// An empty one.
    #[must_use]
    pub fn new(name: &str, entrypoint: &[&str]) -> Self {
        let entrypoint = entrypoint.iter().map(|&word| word.to_owned()).collect();
        Self { name: name.to_owned(), entrypoint, ..Self::default() }
    }

    /// With a file of this machine at a path in the image.
    #[must_use]
    pub fn file(mut self, path: &str, from: &Path, mode: u32) -> Self {
        self.entries.push(Entry::File { path: relative(path), from: from.to_owned(), mode });
        self
    }

    /// With a symbolic link.
    #[must_use]
    pub fn link(mut self, path: &str, to: &str) -> Self {
        self.entries.push(Entry::Link { path: relative(path), to: to.to_owned() });
        self
    }

    /// Writes the archive.
    ///
    /// # Errors
    /// If a file cannot be read, or the archive not written.
    pub fn write(&self, archive: &Path) -> Result<()> {
        let what = || format!("cannot write the image {} to {}", self.name, archive.display());
        let layer = self.layer()?;
        let config = json!({
            "architecture": architecture()?,
            "os": "linux",
            "config": {
                "Entrypoint": self.entrypoint,
                "Cmd": self.command,
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "WorkingDir": "/",
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))] },
        });
        let config = config.to_string();
        let config_name = format!("{}.json", sha256(config.as_bytes()));
        let manifest = json!([{ "Config": config_name, "RepoTags": [self.name], "Layers": ["layer.tar"] }]).to_string();
        // Beside it and renamed: whoever imports it sees all of it or nothing.
        let half = archive.with_extension("part");
        let mut tar = Builder::new(File::create(&half).context(what)?);
        for (name, bytes) in
            [(&*config_name, config.as_bytes()), ("layer.tar", &layer), ("manifest.json", manifest.as_bytes())]
        {
            append(&mut tar, name, bytes, 0o644).context(what)?;
        }
        tar.into_inner().and_then(|file| file.sync_all()).context(what)?;
        fs::rename(&half, archive).context(what)
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let what = || format!("cannot make the layer of {}", self.name);
        let mut tar = Builder::new(Vec::new());
        let paths = self.entries.iter().map(Entry::path);
        let dirs = paths.flat_map(|path| path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()));
        // Parents come before what is in them, which is also the order of the names.
        for dir in dirs.collect::<BTreeSet<_>>() {
            let mut header = header(EntryType::Directory, 0o755, 0);
            tar.append_data(&mut header, dir, std::io::empty()).context(what)?;
        }
        for entry in &self.entries {
            match entry {
                Entry::File { path, from, mode } => {
                    let bytes = fs::read(from).context(|| format!("cannot read {}", from.display()))?;
                    append(&mut tar, path, &bytes, *mode).context(what)?;
                }
                Entry::Link { path, to } => {
                    tar.append_link(&mut header(EntryType::Symlink, 0o777, 0), path, to).context(what)?;
                }
            }
        }
        tar.into_inner().context(what)
    }
}

/// An image with the machine's static busybox as every program that test pods use; it sleeps if told nothing else.
///
/// # Errors
/// [`Error::Missing`] if there is no busybox, or only one that wants libraries.
pub fn busybox(name: &str) -> Result<Image> {
    let path = ["/bin/busybox", "/usr/bin/busybox"].iter().map(Path::new).find(|path| path.exists());
    let path = path.ok_or_else(|| Error::Missing("busybox is missing (apt-get install busybox-static)".to_owned()))?;
    let mut image = Image::new(name, &[]).file("/bin/busybox", path, 0o755);
    for program in
        ["sh", "sleep", "ip", "ping", "ping6", "cat", "ls", "wget", "nc", "httpd", "hostname", "true", "false"]
    {
        image = image.link(&format!("/bin/{program}"), "busybox");
    }
    image.command = ["/bin/sleep", "1000000000"].map(str::to_owned).to_vec();
    Ok(image)
}

fn append<W: std::io::Write>(tar: &mut Builder<W>, path: &str, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    tar.append_data(&mut header(EntryType::Regular, mode, bytes.len() as u64), path, bytes)
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn relative(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// This machine's architecture, as images call it.
fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => Err(Error::Missing(format!("no images for {other} yet"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn an_archive_has_parents_first_and_the_same_bytes_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        fs::write(&file, "#!/bin/sh\n").unwrap();
        let image = Image::new("berth.test/x:1", &["/usr/bin/x"]).file("/usr/bin/x", &file, 0o755).link("/bin/y", "x");
        let archives = ["a.tar", "b.tar"].map(|name| dir.path().join(name));
        archives.iter().for_each(|archive| image.write(archive).unwrap());
        assert_eq!(fs::read(&archives[0]).unwrap(), fs::read(&archives[1]).unwrap());

        let mut layer = Vec::new();
        let mut names = Vec::new();
        for entry in tar::Archive::new(File::open(&archives[0]).unwrap()).entries().unwrap() {
            let mut entry = entry.unwrap();
            names.push(entry.path().unwrap().to_string_lossy().into_owned());
            if names.last().unwrap() == "layer.tar" {
                entry.read_to_end(&mut layer).unwrap();
            }
        }
        assert_eq!(names[1..], ["layer.tar", "manifest.json"]);
        let mut archive = tar::Archive::new(&*layer);
        let inside =
            archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().to_string_lossy().into_owned());
        assert_eq!(inside.collect::<Vec<_>>(), ["bin", "usr", "usr/bin", "usr/bin/x", "bin/y"]);
    }
}
