//! Names of models: `hf:org/repo:Q4_K_M`, `ollama:llama3.2`, `lmstudio:org/repo`, `https://host/model.gguf`.

use crate::error::{HubError, Result};
use std::fmt;

/// What stands before a name of the hub.
const HUB: &str = "hf:";
const OLLAMA: &str = "ollama:";
const LM_STUDIO: &str = "lmstudio:";
/// Hosts whose pages of repositories are names, too.
const HUB_HOSTS: &[&str] = &["huggingface.co", "www.huggingface.co", "hf.co"];
/// The revision where none is named.
pub const MAIN: &str = "main";
/// Longest part of a name, as the hub has it.
const MOST_CHARS: usize = 96;

/// A model by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelName {
    /// Of the hub, or of its cache.
    Hub(RepoName),
    /// Of Ollama's store: `name[:tag]`, `namespace/name[:tag]` or `host/namespace/name[:tag]`.
    Ollama(String),
    /// Of LM Studio's folder.
    LmStudio(RepoName),
    /// A file by its address.
    Url(String),
}

/// A repository, and what of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoName {
    /// `org/name`; a few old ones are one word.
    pub repo: String,
    /// Which of its files.
    pub part: RepoPart,
    /// A branch, tag or commit; none is [`MAIN`].
    pub revision: Option<String>,
}

/// What of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepoPart {
    /// The usual file, or the folder.
    Default,
    /// The GGUF file whose name ends so.
    Tag(String),
    /// A file by its path.
    File(String),
}

impl ModelName {
    /// The name that `text` is; none where it is a path.
    ///
    /// # Errors
    /// When it begins like a name and cannot be one.
    pub fn parse(text: &str) -> Result<Option<ModelName>> {
        let wrong = |problem| HubError::Name { text: text.to_owned(), problem };
        let name = if let Some(rest) = text.strip_prefix(HUB) {
            ModelName::Hub(repo_name(rest.trim_start_matches("//")).map_err(wrong)?)
        } else if let Some(rest) = text.strip_prefix(LM_STUDIO) {
            ModelName::LmStudio(repo_name(rest).map_err(wrong)?)
        } else if let Some(rest) = text.strip_prefix(OLLAMA) {
            ModelName::Ollama(ollama(rest).map_err(wrong)?)
        } else if let Some((_, rest)) = text.split_once("://").filter(|(scheme, _)| is_http(scheme)) {
            by_page(rest).map_err(wrong)?.map_or_else(|| ModelName::Url(text.to_owned()), ModelName::Hub)
        } else {
            return Ok(None);
        };
        Ok(Some(name))
    }

    /// What `text` would be on the hub where it is no path: `org/name[:TAG]`.
    pub fn meant(text: &str) -> Option<ModelName> {
        let found = repo_name(text).ok().filter(|name| name.repo.contains('/'))?;
        (!matches!(found.part, RepoPart::File(_))).then_some(ModelName::Hub(found))
    }
}

impl RepoName {
    /// The revision to look for.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(MAIN)
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelName::Hub(name) => write!(f, "{HUB}{name}"),
            ModelName::Ollama(name) => write!(f, "{OLLAMA}{name}"),
            ModelName::LmStudio(name) => write!(f, "{LM_STUDIO}{name}"),
            // What stands behind the path may be a secret.
            ModelName::Url(url) => f.write_str(url.split(['?', '#']).next().unwrap_or(url)),
        }
    }
}

impl fmt::Display for RepoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            RepoPart::Default => f.write_str(&self.repo)?,
            RepoPart::Tag(tag) => write!(f, "{}:{tag}", self.repo)?,
            RepoPart::File(file) => write!(f, "{}/{file}", self.repo)?,
        }
        self.revision.iter().try_for_each(|revision| write!(f, "@{revision}"))
    }
}

/// True for a path inside a folder, as a repository lists it: no way out of the folder, nothing that a system reads in its
/// own way.
pub fn is_inner_path(path: &str) -> bool {
    let part = |p: &str| !matches!(p, "" | "." | "..") && !p.ends_with(['.', ' ']);
    let odd = |c: char| c.is_control() || matches!(c, '\\' | ':' | '<' | '>' | '"' | '|' | '?' | '*');
    !path.contains(odd) && path.split('/').all(part)
}

fn is_http(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
}

fn repo_name(text: &str) -> std::result::Result<RepoName, &'static str> {
    let (text, revision) = match text.rsplit_once('@') {
        Some((text, revision)) => (text, Some(revision.to_owned())),
        None => (text, None),
    };
    if revision.as_ref().is_some_and(|r| !is_inner_path(r) || r.contains(' ')) {
        return Err("behind @ stands a branch, a tag or a commit");
    }
    let (org, rest) = text.split_once('/').map_or((None, text), |(org, rest)| (Some(org), rest));
    let (name, file) = rest.split_once('/').map_or((rest, None), |(name, file)| (name, Some(file)));
    let (name, tag) = name.split_once(':').map_or((name, None), |(name, tag)| (name, Some(tag)));
    if !org.into_iter().chain([name]).all(is_repo_word) {
        return Err("a repository is org/name, of letters, digits, `-`, `_` and `.`");
    }
    let part = match (tag, file) {
        (Some(_), Some(_)) => return Err("behind a repository stands :TAG or /FILE, not both"),
        (Some(tag), None) if tag.eq_ignore_ascii_case("latest") => RepoPart::Default,
        (Some(tag), None) if is_inner_path(tag) => RepoPart::Tag(tag.to_owned()),
        (Some(_), None) => return Err("a tag is what a file's name ends in, such as Q4_K_M"),
        (None, Some(file)) if is_inner_path(file) => RepoPart::File(file.to_owned()),
        (None, Some(_)) => return Err("its file is no path inside a repository"),
        (None, None) => RepoPart::Default,
    };
    let repo = org.map_or_else(|| name.to_owned(), |org| format!("{org}/{name}"));
    Ok(RepoName { repo, part, revision })
}

fn is_repo_word(word: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let edge = |c: char| "-.".contains(c);
    let sound = !word.is_empty() && word.len() <= MOST_CHARS && word.chars().all(letters);
    sound && !word.starts_with(edge) && !word.ends_with(edge) && !word.contains("--") && !word.contains("..")
}

fn ollama(text: &str) -> std::result::Result<String, &'static str> {
    let word = |w: &str| is_inner_path(w) && !w.starts_with('.') && w.chars().all(|c| c.is_ascii_graphic());
    let (path, tag) = text.rsplit_once(':').unwrap_or((text, "latest"));
    // A host may have a port.
    let sound = path.split('/').count() <= 3 && path.replace(':', "").split('/').all(word) && word(tag);
    if sound { Ok(text.to_owned()) } else { Err("Ollama's names are name:tag or namespace/name:tag") }
}

/// The repository whose page, or whose file, an address of the hub shows.
fn by_page(rest: &str) -> std::result::Result<Option<RepoName>, &'static str> {
    let rest = rest.split(['?', '#']).next().unwrap_or(rest).trim_end_matches('/');
    let Some((host, path)) = rest.split_once('/') else { return Ok(None) };
    if !HUB_HOSTS.contains(&host.to_ascii_lowercase().as_str()) {
        return Ok(None);
    }
    let words: Vec<&str> = path.splitn(5, '/').collect();
    let whole = |org: &str, name: &str| repo_name(&format!("{org}/{name}"));
    match words[..] {
        [org, name] => whole(org, name).map(Some),
        [org, name, "tree", revision] => {
            Ok(Some(RepoName { revision: Some(revision.to_owned()), ..whole(org, name)? }))
        }
        [org, name, "resolve" | "blob" | "raw", revision, file] if is_inner_path(file) => {
            Ok(Some(RepoName {
                part: RepoPart::File(file.to_owned()),
                revision: Some(revision.to_owned()),
                ..whole(org, name)?
            }))
        }
        _ => Err("this page of the hub shows no model"),
    }
}
