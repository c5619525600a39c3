//! Which servers vk's HTTP clients trust.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The host's roots and the certificates of each of `pems`.
///
/// # Errors
///
/// A text that says which certificates are none.
pub fn roots<'p>(pems: impl IntoIterator<Item = &'p str>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let host = rustls_native_certs::load_native_certs();
    for error in &host.errors {
        tracing::debug!(%error, "cannot read all of the host's certificates");
    }
    roots.add_parsable_certificates(host.certs);
    for pem in pems {
        let mut count = 0;
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
            count += 1;
        }
        if count == 0 {
            return Err("no certificate in PEM form".to_owned());
        }
    }
    Ok(roots)
}
