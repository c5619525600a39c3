//! Which servers vk's HTTP clients trust.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Which certificates of servers are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust<'p> {
    /// Those of the host's roots and of each of these PEM texts.
    Roots(&'p [String]),
    /// Any: for servers that the operator lists as insecure.
    Any,
}

/// Why there is no TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The given certificates are none.
    #[error("{0}")]
    Certificates(String),
    /// The cryptography does not do what TLS 1.2 and 1.3 need.
    #[error("{0}")]
    Setup(String),
}

/// TLS 1.2 or newer for clients.
///
/// # Errors
///
/// If the certificates to trust cannot be read.
pub fn tls(trust: Trust<'_>) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Setup(error.to_string()))?;
    Ok(match trust {
        Trust::Roots(pems) => builder
            .with_root_certificates(roots(pems).map_err(TlsError::Certificates)?)
            .with_no_client_auth(),
        Trust::Any => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth(),
    })
}

/// The host's roots and the certificates of each of `pems`.
fn roots(pems: &[String]) -> Result<RootCertStore, String> {
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

/// Takes every certificate; what the server signs with it is checked.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether `host`, with or without a port, is this machine by name or address. An IPv6 address is in brackets, as in
/// URLs.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name == "localhost"
        || name
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_that_are_none_are_refused() {
        let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for pem in [bad, "no PEM", ""] {
            let error = tls(Trust::Roots(&[pem.to_owned()])).unwrap_err();
            assert!(matches!(error, TlsError::Certificates(_)), "{pem}: {error}");
        }
        assert!(tls(Trust::Roots(&[])).is_ok());
        assert!(tls(Trust::Any).is_ok());
    }

    #[test]
    fn loopback_is_known_by_name_and_address_and_nothing_else_is() {
        for host in [
            "localhost",
            "localhost:5000",
            "127.0.0.1:1",
            "127.8.9.1",
            "[::1]",
            "[::1]:5000",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "example.com",
            "localhost.example.com:1",
            "10.0.0.1",
            "[2001:db8::1]:1",
            "128.0.0.1",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
