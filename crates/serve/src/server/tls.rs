//! TLS from files in PEM.

use crate::options::ServeOptions;
use lamina::files::{MOST_TEXT, read_regular};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};
use tokio_rustls::{TlsAcceptor, rustls};

/// A certificate with its key, which can be read again.
pub(super) struct Tls(RwLock<TlsAcceptor>);

impl Tls {
    /// The certificate of the options; none: plain HTTP.
    ///
    /// # Errors
    /// When a file is missing or broken, or certificate and key do not belong together.
    pub fn read(options: &ServeOptions) -> Result<Option<Tls>, String> {
        Ok(acceptor(options)?.map(|a| Tls(RwLock::new(a))))
    }

    /// Reads the files again; connections that are open keep what they have.
    ///
    /// # Errors
    /// As for [`Tls::read`]; then the old certificate stays.
    pub fn reload(&self, options: &ServeOptions) -> Result<(), String> {
        if let Some(new) = acceptor(options)? {
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
        }
        Ok(())
    }

    /// What shakes hands now.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn acceptor(options: &ServeOptions) -> Result<Option<TlsAcceptor>, String> {
    let (cert, key) = match (&options.tls_cert, &options.tls_key) {
        (None, None) => return Ok(None),
        (Some(cert), Some(key)) => (cert, key),
        _ => return Err("tls_cert and tls_key belong together: give both".into()),
    };
    let told = |path: &Path, what: String| format!("{}: {what}", path.display());
    let read = |path: &Path| read_regular(path, MOST_TEXT).map_err(|e| told(path, e.to_string()));
    let chain = CertificateDer::pem_slice_iter(&read(cert)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| told(cert, format!("no certificate in PEM: {e}")))?;
    if chain.is_empty() {
        return Err(told(cert, "there is no certificate in it".into()));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|e| told(key, format!("no private key in PEM: {e}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, private);
    let mut config = config.map_err(|e| told(cert, format!("not usable with its key: {e}")))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}
