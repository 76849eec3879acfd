//! What is known of a model before it is fetched: the beginnings of its files are read by range.

use crate::{
    choice::is_model,
    error::{HubError, Result},
    hub::Hub,
    name::RepoName,
    progress::{BegunFile, BegunModel, FitAnswer, ModelPreview, PullWatch},
    pull_job::{CONFIG, PullJob, PullMeter, PullPlan, PulledFile, attend},
};
use lamina_base::files::open_regular;
use std::{io::Read, path::Path};

/// Files of weights whose headers are looked at: of more of them, sizes have to do.
const MOST_FILES: usize = 32;
/// What is read of a file of weights first that is not the first one: its header is a table of tensors.
const TABLE: u64 = 128 << 10;
/// Most bytes of a header, and of a configuration.
const MOST_HEADER: u64 = 64 << 20;
const MOST_CONFIG: u64 = 4 << 20;

impl Hub {
    /// Whether the model of a plan fits into memory, in words; none where that is not known. Headers alone are fetched.
    ///
    /// # Errors
    /// When `watch` finds the model unfit or gives up, or the hub cannot be reached.
    pub fn fit(&self, name: &RepoName, plan: &PullPlan, watch: &dyn PullWatch) -> Result<Option<String>> {
        let meter = PullMeter::default();
        attend(watch, &meter, async {
            let remote = self.remote()?;
            self.preview(PullJob { remote: &remote, name, plan, meter: &meter, watch }).await
        })
    }

    /// Shows the watch of a pull the beginnings of its files: it refuses the model, or says whether it fits.
    pub(crate) async fn preview(&self, job: PullJob<'_>) -> Result<Option<String>> {
        let unfit = |why| HubError::Unfit { name: format!("hf:{}", job.name), why };
        let mut model = BegunModel::default();
        if let Some(config) = job.plan.files.iter().find(|f| job.plan.is_folder() && f.path == CONFIG) {
            let text = self.beginning(job, config, MOST_CONFIG).await?;
            let text = String::from_utf8_lossy(&text).into_owned();
            job.watch.judge(&ModelPreview::Config(&text)).map_err(unfit)?;
            model.config = Some(text);
        }
        // Not those of an encoder beside the model.
        let is_weight = |f: &&PulledFile| match job.plan.is_folder() {
            true => f.path.ends_with(".safetensors"),
            false => is_model(&f.path),
        };
        let weights: Vec<_> = job.plan.files.iter().filter(is_weight).collect();
        // What is small is fetched as soon as it is looked at.
        let large = weights.iter().filter_map(|f| f.size).sum::<u64>() > self.pace.preview;
        if !large || weights.len() > MOST_FILES {
            return Ok(None);
        }
        for (i, file) in weights.iter().enumerate() {
            let first = i == 0 && !job.plan.is_folder();
            let bytes = self.beginning(job, file, if first { self.pace.preview } else { TABLE }).await?;
            if first {
                job.watch.judge(&ModelPreview::Gguf(&bytes)).map_err(unfit)?;
            }
            model.files.push(BegunFile { path: file.path.clone(), size: file.size.unwrap_or(0), bytes });
        }
        self.answer(job, &weights, model).await
    }

    /// Asks the watch until it has as much of every file as it wants.
    async fn answer(
        &self,
        job: PullJob<'_>,
        weights: &[&PulledFile],
        mut model: BegunModel,
    ) -> Result<Option<String>> {
        loop {
            match job.watch.fits(&model) {
                FitAnswer::Told(line) => return Ok(Some(line)),
                FitAnswer::Wants { file, bytes } if bytes <= MOST_HEADER => {
                    let Some((of, begun)) = weights.get(file).zip(model.files.get_mut(file)) else {
                        return Ok(None);
                    };
                    // Twice as much each time, so that there are few of them.
                    let bytes = bytes.max(2 * begun.bytes.len() as u64);
                    let more = self.beginning(job, of, bytes).await?;
                    if more.len() <= begun.bytes.len() {
                        return Ok(None);
                    }
                    begun.bytes = more;
                }
                FitAnswer::Wants { .. } | FitAnswer::Unknown => return Ok(None),
            }
        }
    }

    /// The first bytes of a file, wherever it is.
    async fn beginning(&self, job: PullJob<'_>, file: &PulledFile, len: u64) -> Result<Vec<u8>> {
        let repo = self.cache.repo(&job.name.repo);
        let here = match file.is_here {
            true => Some(repo.snapshot(&job.plan.commit).join(&file.path)),
            false => repo.blob(&file.etag).ok().filter(|blob| blob.is_file()),
        };
        match here {
            Some(path) => local(&path, len).map_err(HubError::file("read", &path)),
            None => {
                let len = file.size.map_or(len, |size| len.min(size));
                match len {
                    0 => Ok(vec![]),
                    _ => self.transfer(job, file)?.beginning(len).await,
                }
            }
        }
    }
}

fn local(path: &Path, len: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![];
    open_regular(path)?.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}
