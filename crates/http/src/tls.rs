//! TLS that trusts what the system trusts.

use super::stream::Duplex;
use rustls::{ClientConfig, crypto::ring, pki_types::ServerName};
use rustls_platform_verifier::Verifier;
use std::sync::{Arc, OnceLock};
use tokio_rustls::TlsConnector;

/// Begins secure connections. The certificates of the system (on Linux also of `SSL_CERT_FILE` and `SSL_CERT_DIR`) are read
/// for the first one: machines without any reach servers over http all the same.
#[derive(Debug, Default)]
pub struct TlsClient(OnceLock<Result<Arc<ClientConfig>, String>>);

impl TlsClient {
    /// Agrees on keys with `host` and checks its certificate.
    ///
    /// # Errors
    /// What failed, in words.
    pub async fn secure(&self, io: impl Duplex + 'static, host: &str) -> Result<Box<dyn Duplex>, String> {
        let config = self.0.get_or_init(|| config().map_err(|e| e.to_string())).clone()?;
        let name = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name).map_err(|_| format!("{host} is no name for a certificate"))?;
        let secured = TlsConnector::from(config).connect(name, io).await;
        Ok(Box::new(secured.map_err(|e| e.to_string())?))
    }
}

fn config() -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Verifier::new(provider.clone())?);
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
impl From<ClientConfig> for TlsClient {
    fn from(config: ClientConfig) -> TlsClient {
        TlsClient(OnceLock::from(Ok(Arc::new(config))))
    }
}
