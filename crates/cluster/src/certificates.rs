//! A certificate authority of the cluster's own, in files, because that is how every daemon here wants them.
//!
//! Real certificates rather than `insecure-skip-tls-verify`: Berth's client verifies, so its tests must let it. Nodes
//! and controllers are told apart by client certificates; the administrator has a token, which is easier to carry.

use crate::error::{Context, Error, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use std::fs::{self, File};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Signs for one cluster.
pub(crate) struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    /// A new one, whose files go to a directory.
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).context(|| format!("cannot make {}", dir.display()))?;
        let key = KeyPair::generate().map_err(refused)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name("berth test cluster", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).map_err(refused)?;
        let authority = Self { dir: dir.to_owned(), issuer: Issuer::new(params, key) };
        crate::error::write(&authority.file(), certificate.pem())?;
        Ok(authority)
    }

    /// Its own certificate.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// A server's pair, for the names the API server goes by and these addresses.
    pub(crate) fn server(&self, addresses: &[IpAddr]) -> Result<Pair> {
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut params = CertificateParams::new(names.map(str::to_owned)).map_err(refused)?;
        params.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
        params.distinguished_name = name("kube-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign("apiserver", params)
    }

    /// A client's pair: its user, and the group that user is in.
    pub(crate) fn client(&self, file: &str, user: &str, group: Option<&str>) -> Result<Pair> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(file, params)
    }

    /// Only a key, and its public half where the certificate would be: service account tokens need no more.
    pub(crate) fn signing_key(&self) -> Result<Pair> {
        let key = KeyPair::generate().map_err(refused)?;
        let pair =
            Pair { certificate: self.dir.join("service-accounts.pub"), key: self.dir.join("service-accounts.key") };
        secret(&pair.key, &key.serialize_pem())?;
        crate::error::write(&pair.certificate, key.public_key_pem())?;
        Ok(pair)
    }

    fn sign(&self, file: &str, mut params: CertificateParams) -> Result<Pair> {
        let key = KeyPair::generate().map_err(refused)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(refused)?;
        let pair =
            Pair { certificate: self.dir.join(format!("{file}.crt")), key: self.dir.join(format!("{file}.key")) };
        secret(&pair.key, &key.serialize_pem())?;
        crate::error::write(&pair.certificate, certificate.pem())?;
        Ok(pair)
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authority({})", self.dir.display())
    }
}

/// Writes a file that only its owner may read.
pub(crate) fn secret(path: &Path, text: &str) -> Result<()> {
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).context(|| format!("cannot write {}", path.display()))
}

fn name(common: &str, organisation: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organisation) = organisation {
        name.push(DnType::OrganizationName, organisation);
    }
    name.push(DnType::CommonName, common);
    name
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
fn refused(error: rcgen::Error) -> Error {
    Error::Invalid(format!("cannot make a certificate: {error}"))
}
