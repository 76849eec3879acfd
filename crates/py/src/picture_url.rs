//! Pictures at addresses, from hosts that the user allows.

use crate::error::{Result, invalid};
use lamina::{HostPattern, UrlReader};
use pyo3::prelude::*;

/// Reads from some hosts, or from none.
#[pyclass(frozen, name = "UrlReader", module = "lamina._lamina")]
pub struct PyUrlReader(UrlReader);

#[pymethods]
impl PyUrlReader {
    #[new]
    fn new(hosts: Vec<String>) -> Result<PyUrlReader> {
        let host = |text: &String| {
            let wrong = |why| invalid(format!("allow_urls has {text:?}, but each of them {why}"));
            text.parse::<HostPattern>().map_err(wrong)
        };
        let hosts = hosts.iter().map(host).collect::<Result<_>>()?;
        Ok(PyUrlReader(UrlReader::new(hosts, false)))
    }
}

impl PyUrlReader {
    /// The bytes at `url`, of which there may be `most`. It waits for them.
    #[cfg(feature = "client")]
    pub fn read(&self, url: &str, most: usize) -> lamina::Result<Vec<u8>> {
        use lamina::{Error, UrlError};
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Error::Runtime(format!("nothing can be fetched: {e}")))?;
        match runtime.block_on(self.0.read(url, most)) {
            Some(read) => read.map_err(|e| match e {
                UrlError::Refused(why) | UrlError::TooLarge(why) => Error::InvalidRequest(why),
            }),
            None => Err(Error::InvalidRequest("no host may be asked".into())),
        }
    }

    /// This build asks nobody.
    #[cfg(not(feature = "client"))]
    pub fn read(&self, _: &str, _: usize) -> lamina::Result<Vec<u8>> {
        Err(lamina::Error::Unsupported("this build fetches nothing".into()))
    }
}
