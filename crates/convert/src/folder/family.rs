//! Under which name GGUF knows a family.

use crate::error::{ConvertError, Result};
use lamina_arch::{Family, families};

/// Families whose files go by the name of a relative.
const RELATIVES: &[(&str, &str)] =
    &[("mistral", "llama"), ("mixtral", "llama"), ("olmo3", "olmo2"), ("deepseek-v3", "deepseek2")];

/// Architecture of the GGUF files of `family`; none where llama.cpp's format has no such family.
pub fn gguf_name(family: &'static Family) -> Option<&'static str> {
    in_gguf(family).ok().map(|(name, _)| name)
}

/// The architecture's name in the file, and the family that reads it. Models with images become their language model.
pub fn in_gguf(family: &'static Family) -> Result<(&'static str, &'static Family)> {
    let relative = RELATIVES.iter().find(|(name, _)| *name == family.name).map(|r| r.1);
    let name = relative.or(family.gguf.first().copied());
    let name = name.ok_or(ConvertError::NoGgufForm { family: family.name })?;
    let reader = families::ALL.iter().find(|f| f.gguf.contains(&name)).copied();
    Ok((name, reader.unwrap_or(family)))
}
