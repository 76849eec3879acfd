//! Split files: `name-00001-of-00003.gguf` and so on, as `llama-gguf-split` writes them. The first shard has all
//! metadata; each has its own tensor table, and three keys that say where it belongs.

use super::{Gguf, parse};
use crate::{
    ModelFile,
    error::{At, FilePart, FormatError, Result},
};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Number of this shard, from 0.
pub(super) const NUMBER: &str = "split.no";
/// Number of shards.
pub(super) const COUNT: &str = "split.count";
/// Number of tensors in all shards together.
pub(super) const TENSORS: &str = "split.tensors.count";

/// The name of a shard taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShardName {
    folder: PathBuf,
    prefix: OsString,
    /// From 0.
    pub number: usize,
    pub count: usize,
}

impl ShardName {
    /// Takes a path apart when its file name has the form of a shard.
    pub fn parse(path: &Path) -> Option<ShardName> {
        let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let digits = |s: &str| {
            if s.len() >= 5 && s.bytes().all(|b| b.is_ascii_digit()) { s.parse().ok() } else { None }
        };
        let (number, count): (usize, usize) = (digits(number)?, digits(count)?);
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        (1..=count).contains(&number).then(|| ShardName {
            folder,
            prefix: prefix.into(),
            number: number - 1,
            count,
        })
    }

    /// The path of shard `number`, from 0, of `count`.
    pub fn path(&self, number: usize) -> PathBuf {
        let mut name = self.prefix.clone();
        name.push(format!("-{:05}-of-{:05}.gguf", number + 1, self.count));
        self.folder.join(name)
    }

    /// Names for the shards of `path`, whose own name is that of the unsplit file.
    pub fn for_whole(path: &Path, count: usize) -> ShardName {
        let prefix = path.file_stem().unwrap_or_default().to_owned();
        ShardName { folder: path.parent().unwrap_or(Path::new("")).to_owned(), prefix, number: 0, count }
    }
}

pub(super) fn open(path: &Path) -> Result<Gguf> {
    let opened = open_one(path)?;
    let count = opened.metadata.find::<u32>(COUNT)?.unwrap_or(1) as usize;
    if count <= 1 {
        return Ok(opened);
    }
    let at = At::new(path, FilePart::Key(COUNT));
    let name = ShardName::parse(path).ok_or_else(|| {
        let advice = "give the shards back their names: NAME-00001-of-0000N.gguf";
        at.unsupported(format!("the file is one of {count} shards, but its name does not say which"), advice)
    })?;
    if name.count != count {
        return Err(at.corrupt("value", format!("is {count}, but the file's name says {}", name.count)));
    }
    let mut opened = Some(opened);
    let mut whole: Option<Gguf> = None;
    for number in 0..count {
        let path = name.path(number);
        let shard = match opened.take_if(|_| number == name.number) {
            Some(shard) => shard,
            None => open_shard(&path, &name)?,
        };
        check(&shard, &path, number, count)?;
        match &mut whole {
            None => whole = Some(shard),
            Some(whole) => join(whole, shard, &path)?,
        }
    }
    let whole = whole.ok_or_else(|| at.corrupt("value", "is 0"))?;
    check_total(&whole)?;
    Ok(whole)
}

fn open_one(path: &Path) -> Result<Gguf> {
    parse::parse_file(&ModelFile::open(path)?)
}

fn open_shard(path: &Path, name: &ShardName) -> Result<Gguf> {
    if path.exists() {
        return open_one(path);
    }
    let count = name.count;
    let advice = format!("put all {count} shards into one folder");
    Err(FormatError::not_a_model(path, format!("this shard of {count} is missing"), advice))
}

/// A shard has to say of itself what its name says: a copy under a wrong name would give the wrong tensors.
fn check(shard: &Gguf, path: &Path, number: usize, count: usize) -> Result<()> {
    for (key, name_says) in [(NUMBER, number), (COUNT, count)] {
        let says: usize = shard.metadata.need(key)?;
        if says != name_says {
            let problem = format!("is {says}, but by its name and place this shard's is {name_says}");
            return Err(At::new(path, FilePart::Key(key)).corrupt("value", problem));
        }
    }
    Ok(())
}

pub(super) fn join(whole: &mut Gguf, shard: Gguf, path: &Path) -> Result<()> {
    for (name, tensor) in shard.tensors {
        if whole.tensors.contains_key(&name) {
            let at = At::new(path, FilePart::Tensor(&name));
            return Err(at.corrupt("name", "stands in an earlier shard too"));
        }
        whole.tensors.insert(name, tensor);
    }
    whole.files.extend(shard.files);
    Ok(())
}

fn check_total(whole: &Gguf) -> Result<()> {
    let (says, have) = (whole.metadata.find::<usize>(TENSORS)?, whole.tensors.len());
    match says {
        Some(n) if n != have => {
            let at = At::new(whole.metadata.file(), FilePart::Key(TENSORS));
            Err(at.corrupt("value", format!("is {n}, but the shards hold {have} tensors")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_names_are_taken_apart_and_put_together() {
        let path = Path::new("dir/a-b-00002-of-00003.gguf");
        let name = ShardName::parse(path).expect("a shard's name");
        assert_eq!((name.number, name.count), (1, 3));
        assert_eq!(name.path(1), path);
        for bad in [
            "a.gguf",
            "a-1-of-3.gguf",
            "a-00004-of-00003.gguf",
            "a-00000-of-00003.gguf",
            "a-00001-of-0000x.gguf",
        ] {
            assert_eq!(ShardName::parse(Path::new(bad)), None, "{bad}");
        }
    }
}
