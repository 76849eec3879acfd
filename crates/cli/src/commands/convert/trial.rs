//! A model that is written to be measured, in a folder beside its place that vanishes with it.

use crate::{
    error::{CliError, Result},
    progress::Bar,
    stoppable::Stoppable,
    write,
};
use lamina::{LoadOptions, Model, Prompt};
use lamina_convert::{Draft, WriteOptions, WriteReport};
use lamina_tools::{Perplexity, PerplexityOptions};
use std::{fs, path::Path};
use tempfile::TempDir;

/// The files of a model that nobody may need.
pub struct Trial {
    folder: TempDir,
    report: WriteReport,
}

impl Trial {
    /// Writes `draft` beside `output`, on the same disk.
    pub fn write(
        draft: &Draft,
        output: &Path,
        options: &WriteOptions<'_>,
        stop: &Stoppable,
    ) -> Result<Trial> {
        let beside = folder_of(output);
        let failed = |source| CliError::File { action: "write", path: beside.to_owned(), source };
        let folder = tempfile::Builder::new().prefix(".lamina-").tempdir_in(beside).map_err(failed)?;
        let name = output.file_name().unwrap_or(output.as_os_str());
        let report = write::file(draft, &folder.path().join(name), options, stop)?;
        Ok(Trial { folder, report })
    }

    /// Its first file.
    pub fn model(&self) -> Option<&Path> {
        self.report.files.first().map(|f| f.as_path())
    }

    /// Moves the files to where they belong.
    pub fn keep(mut self, output: &Path) -> Result<WriteReport> {
        for file in &mut self.report.files {
            let Some(name) = file.file_name() else { continue };
            let to = folder_of(output).join(name);
            let failed = |source| CliError::File { action: "write", path: to.clone(), source };
            fs::rename(&file, &to).map_err(failed)?;
            *file = to;
        }
        // Empty by now; what cannot be removed harms nobody.
        let _ = self.folder.close();
        Ok(self.report)
    }
}

fn folder_of(output: &Path) -> &Path {
    output.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// How well the model of `trial` predicts `text`, read in windows of `context` tokens.
pub fn perplexity(
    trial: &Trial,
    text: &str,
    context: usize,
    threads: usize,
    stop: &Stoppable,
) -> Result<Perplexity> {
    let options = LoadOptions { context: Some(context), threads: Some(threads), ..LoadOptions::default() };
    let model = stop.end(Model::load_with(trial.model(), &options, &|_, _| stop.goes_on()))?;
    let bar = Bar::steps("perplexity");
    let mut progress = |done: usize, all: usize| {
        bar.at(done as u64, all as u64);
        stop.goes_on()
    };
    let windows = PerplexityOptions { context, stride: context, skip: 0 };
    stop.end(lamina_tools::perplexity(&model, &Prompt::Text(text.to_owned()), windows, &mut progress))
}
