//! What an adapter under Hugging Face names changes, under the names and in the layout of GGUF: the adapter stands for a
//! folder that has only those weights.

use super::{Folder, family, tensors};
use crate::{
    draft::{Draft, Planned},
    error::{ConvertError, Result},
    lora::Adapter,
};
use lamina_arch::{
    Family,
    spec::{Mixer, ModelSpec, Pairs},
};
use lamina_base::{Bytes, DType, HostTensor};
use lamina_store::{Checkpoint, Kind, Metadata, Tensors};
use std::sync::Arc;

/// The changes that `adapter` makes to `draft`.
pub(crate) fn changes(draft: &Draft, adapter: &Adapter) -> Result<Vec<Planned>> {
    let source = &draft.source;
    let family = Family::of(source)?;
    let mut spec = family.spec(source)?;
    let (architecture, reader) = match source.kind {
        Kind::HuggingFace => family::in_gguf(family)?,
        Kind::Gguf => {
            spec = with_pairs(spec, family.pairs[0]);
            let name = family.gguf.iter().find(|name| **name == draft.architecture);
            (name.copied().ok_or(ConvertError::NoGgufForm { family: family.name })?, family)
        }
    };
    let header = adapter.header().map(|(name, shape)| HostTensor {
        name: name.clone(),
        dtype: DType::F32,
        shape,
        bytes: Bytes::from(vec![]),
    });
    let ck = Arc::new(alike(source, Kind::HuggingFace, header.collect()));
    let (kept, from) = (adapter.clone(), source.clone());
    let fill = move |names: &[String]| alike(&from, Kind::HuggingFace, kept.stored(names.iter()));
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

/// A checkpoint with the settings of `source` and these tensors, under the names of `kind`.
pub(crate) fn alike(source: &Checkpoint, kind: Kind, tensors: Vec<HostTensor>) -> Checkpoint {
    Checkpoint {
        kind,
        architecture: source.architecture.clone(),
        config: source.config.clone(),
        tensors: tensors.into_iter().map(|t| (t.name.clone(), t)).collect::<Tensors>(),
        metadata: Metadata::default(),
        folder: source.folder.clone(),
        files: vec![],
        generation_config: None,
        tokenizer_config: None,
    }
}

/// Adapters were trained on Hugging Face's order of rotary pairs, whatever the order of the file.
pub(crate) fn with_pairs(spec: ModelSpec, pairs: Pairs) -> ModelSpec {
    spec.each(|_, l| match &mut l.mixer {
        Mixer::Gqa(g) => g.rope.iter_mut().for_each(|r| r.pairs = pairs),
        Mixer::Mla(m) => m.rope.pairs = pairs,
        _ => {}
    })
}
