//! A model file by its address.

use crate::{
    cache::{is_plain, make_folder, write_whole},
    client::{Checksum, HubQuestion, PartialFile, Transfer, text_digest},
    error::{HubError, Result},
    hub::Hub,
    name::{ModelName, is_inner_path},
    progress::{ModelPreview, PullWatch},
    pull_job::{PullMeter, attend},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use lamina_base::files::read_text;
use lamina_http::{HttpAddress, HttpRequest};
use std::path::{Path, PathBuf};

impl Hub {
    /// A file by its address; the same etag is not fetched again.
    pub(crate) fn url_model(&self, url: &str, watch: &dyn PullWatch) -> Result<PathBuf> {
        let shown = ModelName::Url(url.to_owned()).to_string();
        let wrong = |problem: &str| HubError::Answer { url: shown.clone(), problem: problem.to_owned() };
        let address = HttpAddress::parse(url).map_err(|e| wrong(&e.to_string()))?;
        let file = address.path().rsplit('/').next().filter(|n| is_inner_path(n) && is_plain(n));
        let file = file.ok_or_else(|| wrong("its path ends in no plain name of a file"))?.to_owned();
        let folder = self.settings.urls.join(&text_digest(url)[..16]);
        let path = folder.join(&file);
        if let Some(by) = self.settings.offline {
            let missing = HubError::NotHere { name: shown, missing: String::new(), why: by.why() };
            return if path.is_file() { Ok(path) } else { Err(missing) };
        }
        let meter = PullMeter::default();
        attend(watch, &meter, self.fetch_url(address, &folder, &file, &meter, watch))?;
        Ok(path)
    }

    async fn fetch_url(
        &self,
        address: HttpAddress,
        folder: &Path,
        file: &str,
        meter: &PullMeter,
        watch: &dyn PullWatch,
    ) -> Result<()> {
        let remote = self.remote()?;
        let asked = HubQuestion { repo: "", revision: "", file };
        let head = || remote.request(HttpRequest::head(address.clone()));
        let asked = self.pace.persist(async || Ok(remote.open(head(), asked).await?.1)).await;
        let (path, note) = (folder.join(file), folder.join("etag"));
        let facts = match asked {
            Ok(facts) => facts,
            Err(e) if e.is_transient() && path.is_file() => {
                watch.say(&format!("{e}: what was fetched before is used"));
                return Ok(());
            }
            // Some servers answer no questions for headers alone.
            Err(HubError::Status { status: 403 | 405 | 501, .. }) => Default::default(),
            Err(e) => return Err(e),
        };
        let etag = facts.etag.clone().unwrap_or_default();
        if path.is_file() && !etag.is_empty() && read_text(&note).is_ok_and(|old| old == etag) {
            return Ok(());
        }
        make_folder(folder)?;
        self.room(folder, facts.size.unwrap_or(0).saturating_sub(PartialFile::left(&path, facts.size)))?;
        let told = facts.sha256.as_ref().and_then(|sum| BASE64_STANDARD.decode(sum).ok());
        let sum = told
            .map_or(Checksum::None, |sum| Checksum::Sha256(sum.iter().map(|b| format!("{b:02x}")).collect()));
        let size = facts.size;
        let transfer = Transfer {
            file: file.to_owned(),
            repo: String::new(),
            sum,
            pace: self.pace.clone(),
            counter: meter.counter.clone(),
            remote,
            address,
            facts,
        };
        if size.is_some_and(|size| size > self.pace.preview) && file.ends_with(".gguf") {
            let beginning = transfer.beginning(self.pace.preview).await?;
            let unfit = |why| HubError::Unfit { name: file.to_owned(), why };
            watch.judge(&ModelPreview::Gguf(&beginning)).map_err(unfit)?;
        }
        meter.begin(file, &etag, size.unwrap_or(0));
        transfer.run(&path).await?;
        write_whole(&note, etag.as_bytes())
    }
}
