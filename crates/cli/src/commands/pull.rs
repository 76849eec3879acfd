//! `lamina pull`: fetches a model.

use super::Execute;
use crate::{
    args::FetchArgs,
    error::{CliError, Result},
    exit::FAILED,
    model_path::fetching,
    output,
    table::table,
};
use indicatif::DecimalBytes;
use lamina::{
    ModelJudge,
    hub::{Hub, ModelName, PullPlan, RepoName},
};
use serde_json::{Value, json};

/// Fetch a model by its name into the cache that it shares with other programs, and write its path
///
/// What breaks off goes on where it was, the next time too. Commands that take MODEL fetch by themselves.
#[derive(clap::Args)]
pub struct PullArgs {
    /// hf:org/repo[:TAG|/FILE][@REVISION], or the address of a GGUF file
    name: String,
    /// Branch, tag or commit [default: main]
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,
    /// Read all of it again, compare it with the hub's checksums, and delete what is damaged
    #[arg(long)]
    verify: bool,
    /// Only say what would be fetched
    #[arg(long, conflicts_with = "verify")]
    dry_run: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fetch: FetchArgs,
}

impl Execute for PullArgs {
    const NAME: &'static str = "pull";

    fn execute(self) -> Result<()> {
        let (options, name) = (self.fetch.options(), self.named()?);
        let hub = lamina::hub_for(&options);
        let repo = if let ModelName::Hub(repo) = &name { Some(repo) } else { None };
        match repo {
            Some(repo) if self.dry_run => {
                let (plan, fit) = fetching(|line| {
                    let judge = ModelJudge { watch: line, options: &options };
                    let plan = hub.plan(repo, line).map_err(lamina::name_error)?;
                    let fit = hub.fit(repo, &plan, &judge).map_err(lamina::name_error)?;
                    Ok((plan, fit))
                })?;
                return match self.json {
                    true => output::json(&object(&name, &plan, fit)),
                    false => {
                        output::text(&(rows(&plan) + &fit.map_or(String::new(), |fit| format!("{fit}\n"))))
                    }
                };
            }
            None if self.dry_run || self.verify => {
                return Err(CliError::usage("--dry-run and --verify are for names of the hub"));
            }
            _ => {}
        }
        let path = fetching(|line| {
            let judge = ModelJudge { watch: line, options: &options };
            hub.locate(&name, &judge).map_err(lamina::name_error)
        })?;
        let damaged = repo.filter(|_| self.verify).map(|repo| verified(&hub, repo)).transpose()?;
        match self.json {
            true => output::json(&json!({ "name": name.to_string(), "path": path, "damaged": damaged }))?,
            false => output::text(&format!("{}\n", path.display()))?,
        }
        // Each was told.
        if damaged.is_none_or(|files| files.is_empty()) { Ok(()) } else { Err(CliError::Reported(FAILED)) }
    }
}

impl PullArgs {
    /// Here a bare `org/name` is a name: who says pull has asked.
    fn named(&self) -> Result<ModelName> {
        let named = ModelName::parse(&self.name).map_err(lamina::name_error)?;
        let mut name = match named.or_else(|| ModelName::meant(&self.name)) {
            Some(name) => name,
            None => return Err(CliError::usage(&format!("`{}` is no name such as hf:org/repo", self.name))),
        };
        match (&mut name, &self.revision) {
            (_, None) => {}
            (ModelName::Hub(repo), Some(revision)) => {
                let with = format!("hf:{}@{revision}", RepoName { revision: None, ..repo.clone() });
                return Ok(ModelName::parse(&with).map_err(lamina::name_error)?.unwrap_or(name));
            }
            _ => return Err(CliError::usage("--revision is for names of the hub")),
        }
        Ok(name)
    }
}

fn verified(hub: &Hub, repo: &RepoName) -> Result<Vec<String>> {
    fetching(|line| hub.verify(repo, line).map_err(lamina::name_error))
}

fn object(name: &ModelName, plan: &PullPlan, fit: Option<String>) -> Value {
    let (bytes, later) = plan.bytes();
    let file = |f: &lamina::hub::PulledFile| json!({ "path": f.path, "bytes": f.size, "here": f.is_here });
    json!({
        "name": name.to_string(),
        "commit": plan.commit,
        "path": plan.path,
        "bytes": bytes,
        "bytes_to_come": later,
        "fit": fit,
        "files": plan.files.iter().map(file).collect::<Vec<_>>(),
    })
}

fn rows(plan: &PullPlan) -> String {
    let row = |f: &lamina::hub::PulledFile| {
        let size = f.size.map_or("unknown".to_owned(), |size| DecimalBytes(size).to_string());
        vec![f.path.clone(), size, if f.is_here { "here" } else { "to come" }.to_owned()]
    };
    let (bytes, later) = plan.bytes();
    let sum = vec![
        format!("commit {}", plan.commit),
        DecimalBytes(bytes).to_string(),
        format!("{} to come", DecimalBytes(later)),
    ];
    table(&["file", "size", ""], &[1], plan.files.iter().map(row).chain([sum]))
}
