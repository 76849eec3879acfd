//! Pictures at addresses, from hosts that the user allows.

use crate::error::{Result, invalid};
use lamina::{Error, HostPattern, UrlError, UrlReader};
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
    pub fn read(&self, url: &str, most: usize) -> lamina::Result<Vec<u8>> {
        let nobody = || Error::InvalidRequest("no host may be asked, or this build fetches nothing".into());
        self.0.read_waiting(url, most).ok_or_else(nobody)?.map_err(|e| match e {
            UrlError::Refused(why) | UrlError::TooLarge(why) => Error::InvalidRequest(why),
        })
    }
}
