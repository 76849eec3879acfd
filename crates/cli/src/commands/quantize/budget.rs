//! `lamina quantize --budget-kl`: types that cost no more than a divergence.

use super::{QuantizeArgs, compared, loaded};
use crate::{
    error::{CliError, Result},
    input,
    output::{self, note},
    progress::spinner,
    stoppable::Stoppable,
    table::table,
    write,
};
use indicatif::DecimalBytes;
use lamina::{DType, Model, Prompt};
use lamina_convert::{BudgetChoice, Choice, Draft, LADDER, TypeGroup, Types, WriteOptions, spend_budget};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path};

/// What candidates are measured with.
struct BudgetJob<'a> {
    draft: &'a Draft,
    groups: &'a [TypeGroup],
    options: &'a WriteOptions<'a>,
    base: &'a Model,
    text: &'a Prompt,
    stop: &'a Stoppable,
}

impl QuantizeArgs {
    /// Writes the smallest file that is found to keep the budget.
    pub fn spend(&self, input: &Path, output: &Path, budget: f64) -> Result<()> {
        self.replace.check(output)?;
        if !(budget > 0.0 && budget.is_finite()) {
            return Err(CliError::usage("--budget-kl must be a number above 0, such as 0.01"));
        }
        let text = self.measure.as_deref().map(input::file_text).transpose()?.unwrap_or_default();
        let (text, imatrix, draft) = (Prompt::Text(text), self.choice.imatrix()?, Draft::open(input)?);
        let choice = Choice::new(Types::Keep);
        let options = write::options(choice, imatrix.as_ref(), self.choice.threads(), &self.split);
        let (stop, groups) = (Stoppable::new(), TypeGroup::all(&draft));
        let base = loaded(input, options.threads, &stop)?;
        let job = BudgetJob {
            draft: &draft,
            groups: &groups,
            options: &options,
            base: &base,
            text: &text,
            stop: &stop,
        };
        let found = job.search(output, budget)?;
        let report = write::file(&draft, output, &job.written_as(&found.levels), &stop)?;
        let written = report.files.first().map_or(output, |file| file.as_path());
        let figures = compared(&base, written, &text, options.threads, &stop, &mut |_, _| {})?.figures();
        let more = [("budget", object(budget, &groups, &found)), ("divergence", figures.json())];
        write::report(&report, self.json, &more)?;
        match self.json {
            true => Ok(()),
            false => output::text(&rows(budget, &groups, &found)),
        }
    }
}

impl<'a> BudgetJob<'a> {
    fn search(&self, output: &Path, budget: f64) -> Result<BudgetChoice> {
        let folder =
            output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = tempfile::Builder::new().prefix(".lamina-budget-").tempdir_in(folder)?;
        let candidate = folder.path().join("candidate.gguf");
        let (spinner, mut count) = (spinner(), 0);
        let mut measure = |levels: &[Option<usize>]| {
            count += 1;
            let probed = levels.iter().position(Option::is_some).filter(|_| levels.contains(&None));
            let what = probed.map_or("a choice".to_owned(), |i| self.groups[i].name.clone());
            spinner.set_message(format!("measuring {what} ({count})"));
            let options =
                WriteOptions { max_shard_bytes: None, max_shard_tensors: None, ..self.as_levels(levels) };
            self.stop.end(self.draft.write(&candidate, &options, &|_, _| self.stop.goes_on()))?;
            let threads = options.threads;
            let seen = compared(self.base, &candidate, self.text, threads, self.stop, &mut |_, _| {})?;
            Ok::<_, CliError>(seen.figures().kl.value)
        };
        let found = spend_budget(self.groups, budget, &mut measure)?;
        spinner.finish_and_clear();
        found.map_err(|kl| {
            let finest = LADDER[0];
            note(&format!(
                "nothing is written: {finest} for all tensors has a mean KL divergence of {kl:.6}"
            ));
            let text = format!("no types keep the budget of {budget}: give one above {kl:.6}");
            CliError::Model(lamina::Error::InvalidRequest(text))
        })
    }

    fn written_as(&self, levels: &[usize]) -> WriteOptions<'a> {
        self.as_levels(&levels.iter().copied().map(Some).collect::<Vec<_>>())
    }

    fn as_levels(&self, levels: &[Option<usize>]) -> WriteOptions<'a> {
        let of_group = |(group, level): (&'a TypeGroup, &Option<usize>)| {
            let dtype = level.map(|level| group.asked(level));
            group.tensors.iter().filter_map(move |&i| Some((self.draft.tensors[i].name.clone(), dtype?)))
        };
        let exact: BTreeMap<String, DType> = self.groups.iter().zip(levels).flat_map(of_group).collect();
        let choice = Choice { exact, ..Choice::new(Types::Keep) };
        WriteOptions { choice, ..self.options.clone() }
    }
}

fn object(budget: f64, groups: &[TypeGroup], found: &BudgetChoice) -> Value {
    let group = |((group, &level), probe): ((&TypeGroup, &usize), &f64)| {
        json!({
            "name": group.name,
            "tensors": group.tensors.len(),
            "type": group.dtype(level).name(),
            "bytes": group.bytes(level),
            "probe_kl": probe,
        })
    };
    let uniform =
        |(dtype, bytes, kl): &(DType, u64, f64)| json!({"type": dtype.name(), "bytes": bytes, "kl": kl});
    json!({
        "kl": budget,
        "measured_kl": found.kl,
        "choices": found.measured,
        "uniform": found.uniform.iter().map(uniform).collect::<Vec<_>>(),
        "groups": groups.iter().zip(&found.levels).zip(&found.probes).map(group).collect::<Vec<_>>(),
    })
}

fn rows(budget: f64, groups: &[TypeGroup], found: &BudgetChoice) -> String {
    let bytes = |level: usize, group: &TypeGroup| DecimalBytes(group.bytes(level)).to_string();
    let row = |((group, &level), probe): ((&TypeGroup, &usize), &f64)| {
        vec![
            group.name.clone(),
            format!("{probe:.2e}"),
            group.dtype(level).name().to_owned(),
            bytes(level, group),
        ]
    };
    let chosen = table(
        &["tensors", "alone in Q4_K", "type", "size"],
        &[1, 3],
        groups.iter().zip(&found.levels).zip(&found.probes).map(row),
    );
    let mut sizes: Vec<(String, u64, f64)> =
        found.uniform.iter().map(|(dtype, bytes, kl)| (format!("all {dtype}"), *bytes, *kl)).collect();
    let size = groups.iter().zip(&found.levels).map(|(group, &level)| group.bytes(level)).sum();
    sizes.push(("chosen".to_owned(), size, found.kl));
    let row = |(name, bytes, kl): &(String, u64, f64)| {
        vec![name.clone(), DecimalBytes(*bytes).to_string(), format!("{kl:.6}")]
    };
    let compared = table(&["types", "size of these", "mean KL"], &[1, 2], sizes.iter().map(row));
    let count = found.measured;
    format!(
        "\n{chosen}\n{compared}\nbudget {budget}, {:.6} measured; {count} choices were measured\n",
        found.kl
    )
}
