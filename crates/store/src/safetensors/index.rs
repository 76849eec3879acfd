//! Sharded sets: `model.safetensors.index.json` says which file of its folder holds which tensor.

use super::Safetensors;
use crate::{
    error::{At, FilePart, FormatError, Result, quoted},
    json::{self, describe},
};
use serde_json::{Map, Value};
use std::path::{Component, Path};

/// Opens all files that the index at `path` names, in the order in which it names them first.
///
/// # Errors
/// When the index is broken, names a file outside its folder or one that is missing, when a tensor is not in the file
/// where the index says it is, or when two files hold the same name.
pub fn open_sharded(path: impl AsRef<Path>) -> Result<Safetensors> {
    let path = path.as_ref();
    let at = At::new(path, FilePart::Index);
    let index = json::read_object(path)?;
    let map = match index.get("weight_map") {
        Some(Value::Object(map)) if !map.is_empty() => map,
        Some(Value::Object(_)) => return Err(at.corrupt("weight_map", "is empty")),
        Some(other) => {
            return Err(at.corrupt("weight_map", format!("should be an object, but is {}", describe(other))));
        }
        None => return Err(at.corrupt("weight_map", "is missing")),
    };
    let mut whole: Option<Safetensors> = None;
    for file in files(path, map)? {
        let shard_path = path.with_file_name(file);
        if !shard_path.exists() {
            let advice = format!("fetch it: {} lists it", path.display());
            return Err(FormatError::not_a_model(&shard_path, "this shard is missing", advice));
        }
        let shard = Safetensors::open(&shard_path)?;
        check_members(&shard, &shard_path, file, map)?;
        match &mut whole {
            None => whole = Some(shard),
            Some(whole) => join(whole, shard, &shard_path)?,
        }
    }
    whole.ok_or_else(|| at.corrupt("weight_map", "is empty"))
}

/// The distinct files of the index, each a plain name: an index must not reach outside its folder.
fn files<'a>(path: &Path, map: &'a Map<String, Value>) -> Result<Vec<&'a str>> {
    let mut files = indexmap::IndexSet::new();
    for (tensor, file) in map {
        let at = At::new(path, FilePart::Tensor(tensor));
        let Value::String(file) = file else {
            return Err(at.corrupt("file", format!("should be text, but is {}", describe(file))));
        };
        let mut parts = Path::new(file).components();
        let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
        if !plain || file.contains(['/', '\\']) {
            return Err(at.corrupt("file", format!("{} is not a plain file name", quoted(file))));
        }
        files.insert(file.as_str());
    }
    Ok(files.into_iter().collect())
}

fn check_members(shard: &Safetensors, path: &Path, file: &str, map: &Map<String, Value>) -> Result<()> {
    let mut members = map.iter().filter(|(_, f)| f.as_str() == Some(file)).map(|(tensor, _)| tensor);
    match members.find(|tensor| !shard.tensors.contains_key(*tensor)) {
        Some(tensor) => Err(FormatError::Missing {
            file: path.to_owned(),
            what: format!("tensor {}", quoted(tensor)),
            hint: ", though the index says it is there; fetch file and index again".to_owned(),
        }),
        None => Ok(()),
    }
}

pub(crate) fn join(whole: &mut Safetensors, shard: Safetensors, path: &Path) -> Result<()> {
    for (name, tensor) in shard.tensors {
        if whole.tensors.contains_key(&name) {
            return Err(
                At::new(path, FilePart::Tensor(&name)).corrupt("name", "stands in an earlier file too")
            );
        }
        whole.tensors.insert(name, tensor);
    }
    whole.files.extend(shard.files);
    Ok(())
}
