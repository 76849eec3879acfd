//! What an adapter under Hugging Face names changes, under the names and in the layout of GGUF: the adapter stands for a
//! folder that has only those weights.

use super::{Folder, in_gguf, tensors};
use crate::{
    draft::{Draft, Planned},
    error::{ConvertError, Result},
};
use lamina_arch::Family;
use lamina_base::{DType, HostTensor};
use lamina_lora::Adapter;
use lamina_store::Kind;
use std::sync::Arc;

/// The changes that `adapter` makes to `draft`.
pub(crate) fn changes(draft: &Draft, adapter: &Adapter) -> Result<Vec<Planned>> {
    let source = &draft.source;
    let family = Family::of(source)?;
    let mut spec = family.spec(source)?;
    let (architecture, reader) = match source.kind {
        Kind::HuggingFace => in_gguf(family, &spec)?,
        Kind::Gguf => {
            // Adapters were trained on Hugging Face's order of rotary pairs, whatever the order of the file.
            spec = spec.with_pairs(family.pairs[0]);
            let name = family.gguf.iter().find(|name| **name == draft.architecture);
            (name.copied().ok_or(ConvertError::NoGgufForm { family: family.name })?, family)
        }
    };
    let header = adapter.header().map(|(name, shape)| HostTensor {
        name: name.clone(),
        dtype: DType::F32,
        shape,
        bytes: vec![].into(),
    });
    let ck = Arc::new(source.with_tensors(Kind::HuggingFace, header.collect()));
    let (kept, from) = (adapter.clone(), source.clone());
    let fill = move |names: &[String]| from.with_tensors(Kind::HuggingFace, kept.stored(names.iter()));
    let folder = Folder { ck, family, spec, architecture, reader, fill: Some(Arc::new(fill)) };
    let (planned, unused) = tensors::plan(&Arc::new(folder))?;
    match unused.first() {
        None => Ok(planned),
        Some(name) => Err(ConvertError::file(
            &adapter.path,
            format!("changes `{name}`, which {} models do not have, or only as part of others", family.name),
        )),
    }
}
