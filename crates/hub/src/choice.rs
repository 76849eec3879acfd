//! Which files of a repository are the model that was asked for.

use crate::name::RepoPart;
use lamina_base::{DType, mmproj_rank};
use std::{cmp::Reverse, collections::BTreeMap};

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoFile {
    /// Inside of the repository, with `/`.
    pub path: String,
    /// Bytes, where they are known.
    pub size: Option<u64>,
}

/// The files that are a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenFiles {
    /// All of them; the first is what a GGUF model is opened by.
    pub files: Vec<RepoFile>,
    /// The model is the folder that they lie in.
    pub is_folder: bool,
    /// What else could have been meant; empty where that is clear.
    pub others: Vec<String>,
}

/// What nobody can run, and files that only look like models: pictures' encoders, importance matrices.
const ASIDE: &[&str] = &["mmproj", "imatrix"];
/// Endings of the files of a folder that say what a model is; never pickles, which are programs.
const FOLDER_FILES: &[&str] = &["json", "safetensors", "model", "txt", "tiktoken", "jinja"];
/// Folders of a repository that belong to its model.
const FOLDERS: &[&str] = &["1_Pooling", "2_Dense", "3_Dense"];
/// The type that is taken where nobody says which: small, and hardly worse.
const USUAL: &str = "Q4_K_M";

/// The files of `part`.
///
/// # Errors
/// What is wrong with it, and the names that there are.
pub fn choose(files: &[RepoFile], part: &RepoPart) -> Result<ChosenFiles, (String, Vec<String>)> {
    let sets = gguf_sets(files);
    let names = |sets: &[Vec<RepoFile>]| sets.iter().map(|set| line(set)).collect::<Vec<_>>();
    let one = |set: &[RepoFile]| ChosenFiles { files: set.to_vec(), is_folder: false, others: vec![] };
    match part {
        RepoPart::File(path) => by_path(files, &sets, path).ok_or_else(|| {
            (format!("there is no file {path}"), files.iter().map(|f| f.path.clone()).collect())
        }),
        RepoPart::Tag(tag) => {
            let found: Vec<_> = sets.iter().filter(|set| ends_in(&set[0].path, tag)).cloned().collect();
            match &found[..] {
                [set] => Ok(one(set)),
                [] => Err((format!("no GGUF file's name ends in {tag}"), names(&sets))),
                _ => Err((format!("{tag} ends the names of several files"), names(&found))),
            }
        }
        RepoPart::Default => match &sets[..] {
            [] => folder(files),
            [set] => Ok(one(set)),
            _ => Ok(ChosenFiles { others: others(&sets), ..one(usual(&sets)) }),
        },
    }
}

/// The encoder of pictures or sound (mmproj) that belongs to the GGUF file at `model`: of several in its folder, or else at the
/// top, the one of the usual type.
#[cfg(any(feature = "client", test))]
pub fn encoder_beside<'a>(files: &'a [RepoFile], model: &str) -> Option<&'a RepoFile> {
    let folder_of = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let best = |folder: &str| {
        let here = files.iter().filter(|file| folder_of(&file.path) == folder);
        let ranked = here.filter_map(|file| Some((mmproj_rank(base_name(&file.path))?, &file.path, file)));
        ranked.min_by_key(|(rank, path, _)| (*rank, *path)).map(|(_, _, file)| file)
    };
    best(&folder_of(model)).or_else(|| best(""))
}

/// True for the path of an encoder's GGUF file.
pub fn is_encoder(path: &str) -> bool {
    mmproj_rank(base_name(path)).is_some()
}

/// True for the path of a GGUF file that is no part beside one.
pub fn is_model(path: &str) -> bool {
    let name = path.to_ascii_lowercase();
    name.ends_with(".gguf") && !ASIDE.iter().any(|word| base_name(&name).contains(word))
}

/// GGUF files; shards of one model together, in their order.
fn gguf_sets(files: &[RepoFile]) -> Vec<Vec<RepoFile>> {
    let mut sets: BTreeMap<String, Vec<RepoFile>> = BTreeMap::new();
    for file in files {
        if is_model(&file.path) {
            sets.entry(stem(&file.path)).or_default().push(file.clone());
        }
    }
    sets.values_mut().for_each(|set| set.sort_by(|a, b| a.path.cmp(&b.path)));
    sets.into_values().collect()
}

/// A GGUF file's path without its ending and without the number of a shard.
pub fn stem(path: &str) -> String {
    let bare = path.len().checked_sub(".gguf".len()).and_then(|end| path.get(..end)).unwrap_or(path);
    let shard = bare.rsplit_once("-of-").and_then(|(first, _)| first.rsplit_once('-'));
    let number = |(_, n): &(&str, &str)| n.len() >= 5 && n.bytes().all(|b| b.is_ascii_digit());
    shard.filter(number).map_or(bare, |(stem, _)| stem).to_owned()
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// True where the name of a GGUF file ends in `tag`, case apart, and something divides the two.
fn ends_in(path: &str, tag: &str) -> bool {
    let (name, tag) = (stem(path).to_lowercase(), tag.to_lowercase());
    let before = name.strip_suffix(tag.trim_end_matches(".gguf"));
    before.is_some_and(|rest| rest.is_empty() || rest.ends_with(['-', '.', '_', '/']))
}

/// A file by its path, with the other shards of its set.
fn by_path(files: &[RepoFile], sets: &[Vec<RepoFile>], path: &str) -> Option<ChosenFiles> {
    let set = sets.iter().find(|set| set.iter().any(|f| f.path == path)).cloned();
    let files = set.or_else(|| Some(vec![files.iter().find(|f| f.path == path)?.clone()]))?;
    Some(ChosenFiles { files, is_folder: false, others: vec![] })
}

/// The usual type, or else the nearest to it by its bits.
fn usual(sets: &[Vec<RepoFile>]) -> &[RepoFile] {
    let wanted = bits("Q4_K");
    let distance = |set: &&Vec<RepoFile>| {
        let name = stem(&set[0].path);
        let bits = bits_of_name(&name);
        let far = bits.zip(wanted).map_or(u32::MAX, |(a, b)| (1000.0 * (a - b).abs()) as u32);
        // Of several of one type the middle one; of types as far away the finer one.
        let exact = ends_in(&set[0].path, USUAL);
        (
            !exact,
            far,
            !name.to_uppercase().ends_with("_M"),
            Reverse(set.iter().filter_map(|f| f.size).sum::<u64>()),
        )
    };
    sets.iter().min_by_key(distance).map_or(&[], |set| set)
}

/// Bits of the type that a file's name ends in: `model-IQ4_XS`, `model.Q5_K_S`.
fn bits_of_name(name: &str) -> Option<f32> {
    let word = base_name(name).rsplit(['-', '.']).next()?.to_uppercase();
    let coarse = word.rsplit_once('_').map_or(word.as_str(), |(coarse, _)| coarse);
    bits(&word).or_else(|| bits(coarse))
}

fn bits(name: &str) -> Option<f32> {
    name.parse::<DType>().ok().map(DType::bits)
}

fn others(sets: &[Vec<RepoFile>]) -> Vec<String> {
    sets.iter().map(|set| line(set)).collect()
}

fn line(set: &[RepoFile]) -> String {
    let bytes: Option<u64> = set.iter().map(|f| f.size).sum();
    let size = bytes.map_or(String::new(), |bytes| format!(" ({})", lamina_base::human_bytes(bytes)));
    format!("{}{size}", set[0].path)
}

/// The safetensors of a repository with what belongs to them.
fn folder(files: &[RepoFile]) -> Result<ChosenFiles, (String, Vec<String>)> {
    let has = |name: &str| files.iter().any(|f| f.path == name);
    let named = has("model.safetensors") || has("model.safetensors.index.json");
    let belongs = |f: &&RepoFile| {
        let (folder, name) = f.path.rsplit_once('/').unwrap_or(("", &f.path));
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        // Mistral's own form of the same weights stands beside the usual one.
        let twice = named && name.starts_with("consolidated");
        (folder.is_empty() || FOLDERS.contains(&folder)) && FOLDER_FILES.contains(&ending) && !twice
    };
    let chosen: Vec<_> = files.iter().filter(belongs).cloned().collect();
    if chosen.iter().any(|f| f.path.ends_with(".safetensors")) {
        return Ok(ChosenFiles { files: chosen, is_folder: true, others: vec![] });
    }
    let all = files.iter().map(|f| f.path.clone()).collect();
    Err(("it has neither GGUF files nor safetensors, which are what can be run".to_owned(), all))
}
