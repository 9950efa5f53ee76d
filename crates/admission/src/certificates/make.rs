//! Keys and certificates, ECDSA on P-256.

use super::{Authority, Life, MakeError, Pair, Seconds, Serving, Terms};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::OffsetDateTime;

pub(super) fn authority(number: u64, now: Seconds, terms: &Terms) -> Result<Authority, MakeError> {
    let life = Life { from: now.saturating_sub(terms.skew), made: now, until: now + terms.authority };
    let key = KeyPair::generate().map_err(refused)?;
    let certificate = authority_params(number, life)?.self_signed(&key).map_err(refused)?;
    let pair = Pair { certificate: certificate.pem(), key: key.serialize_pem() };
    Ok(Authority { number, pair, life, published: None, signing: None })
}

/// The same for the same authority, so that what it signs later names it as its own certificate does.
fn authority_params(number: u64, life: Life) -> Result<CertificateParams, MakeError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(&format!("berth admission {number}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    (params.not_before, params.not_after) = span(life)?;
    Ok(params)
}

pub(super) fn serving(by: &Authority, names: &[String], now: Seconds, terms: &Terms) -> Result<Serving, MakeError> {
    // Never longer than its authority's, on either side.
    let from = now.saturating_sub(terms.skew).max(by.life.from);
    let life = Life { from, made: now, until: (now + terms.serving).min(by.life.until) };
    let authority_key = KeyPair::from_pem(&by.pair.key).map_err(refused)?;
    let issuer = Issuer::new(authority_params(by.number, by.life)?, authority_key);
    // Names that are addresses become addresses.
    let mut params = CertificateParams::new(names.to_vec()).map_err(refused)?;
    params.distinguished_name = name("berth admission");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = span(life)?;
    let key = KeyPair::generate().map_err(refused)?;
    let certificate = params.signed_by(&key, &issuer).map_err(refused)?;
    let pair = Pair { certificate: certificate.pem(), key: key.serialize_pem() };
    Ok(Serving { by: by.number, names: names.to_vec(), pair, life })
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn span(life: Life) -> Result<(OffsetDateTime, OffsetDateTime), MakeError> {
    let instant = |seconds: Seconds| {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        OffsetDateTime::from_unix_timestamp(seconds).map_err(|error| MakeError(error.to_string()))
    };
    Ok((instant(life.from)?, instant(life.until)?))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
fn refused(error: rcgen::Error) -> MakeError {
    MakeError(error.to_string())
}
