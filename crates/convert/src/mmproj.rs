//! The encoder of pictures of a folder as an mmproj GGUF file, as llama.cpp names it.

use crate::{
    draft::{Draft, Planned},
    error::Result,
};
use lamina_arch::{
    spec::{Act, Ffn, Mixer},
    vision::{MmprojTensor, VisionFamily, VisionSource, VisionSpec, VisionWeights},
};
use lamina_store::{Checkpoint, Config, Kind, Metadata, Value};
use serde_json::{Map, json};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A folder's encoder, shared by its tensors.
struct VisionFolder {
    source: VisionSource,
    family: &'static VisionFamily,
    spec: VisionSpec,
}

impl VisionFolder {
    fn weights(&self) -> VisionWeights<'_> {
        VisionWeights::new(&self.source, self.family, &self.spec)
    }
}

/// Lists longer than this are no settings of an encoder.
const LONGEST_LIST: usize = 64;

impl Draft {
    /// The mmproj file of the folder at `path`; none where it is no folder of a model that sees.
    ///
    /// # Errors
    /// When there is no model, or its encoder is of no family that is known.
    pub fn mmproj(path: impl AsRef<Path>) -> Result<Option<Draft>> {
        let ck = Checkpoint::open(path)?;
        if ck.kind != Kind::HuggingFace {
            return Ok(None);
        }
        let Some(source) = VisionSource::of_folder(&ck)? else { return Ok(None) };
        let family = VisionFamily::of(&source)?;
        let spec = family.spec(&source)?;
        let folder = Arc::new(VisionFolder { source, family, spec });
        let listed = folder.weights().mmproj_tensors()?;
        let tensors = listed.into_iter().map(|tensor| planned(&folder, tensor)).collect();
        let metadata = metadata(&ck, &folder);
        let architecture = "clip".to_owned();
        Ok(Some(Draft { architecture, metadata, tensors, source: Arc::new(ck), notes: vec![] }))
    }
}

/// Where the mmproj file of `model` goes: `mmproj-` before its name.
pub fn mmproj_path(model: &Path) -> PathBuf {
    let name = model.file_name().unwrap_or_default().to_string_lossy();
    model.with_file_name(format!("mmproj-{name}"))
}

fn planned(folder: &Arc<VisionFolder>, tensor: MmprojTensor) -> Planned {
    let (name, dtype, shape) = (tensor.name.clone(), tensor.dtype, tensor.shape.clone());
    let folder = folder.clone();
    Planned::new(name, dtype, shape, move || Ok(folder.weights().mmproj_values(&tensor)?))
}

fn metadata(ck: &Checkpoint, folder: &VisionFolder) -> Metadata {
    let mut all = Metadata::new(ck.folder.join("mmproj"));
    let spec = &folder.spec;
    all.insert("general.architecture", "clip");
    all.insert("general.type", "mmproj");
    if let Some(name) = ck.folder.file_name() {
        all.insert("general.name", name.to_string_lossy().into_owned());
    }
    let projector = folder.family.projectors.first().copied().unwrap_or_default();
    all.insert("clip.has_vision_encoder", true);
    // Tiles of LLaVA are told by their canvases.
    all.insert("clip.projector_type", projector.strip_suffix("_next").unwrap_or(projector));
    for (key, value) in sizes(&folder.source.encoder, spec) {
        all.insert(format!("clip.vision.{key}"), value);
    }
    if let Some(canvases) = canvases(&folder.source) {
        all.insert("clip.vision.image_grid_pinpoints", canvases);
        all.insert("clip.vision.mm_patch_merge_type", "spatial_unpad");
    }
    let scaling = spec.pixels.scaling;
    all.insert("clip.vision.image_mean", scaling.mean.to_vec());
    all.insert("clip.vision.image_std", scaling.deviation.to_vec());
    if let Some(Ffn::Dense(d)) = spec.encoder.layers.first().map(|l| &l.ffn) {
        all.insert("clip.use_gelu", matches!(d.act, Act::Gelu | Act::GeluTanh));
        all.insert("clip.use_silu", d.act == Act::Silu);
    }
    all.insert(VisionSource::CONFIG_KEY, settings(&folder.source).to_string());
    all
}

/// Canvases of LLaVA's tiles, height and width in turn.
fn canvases(source: &VisionSource) -> Option<Vec<u32>> {
    let key = "image_grid_pinpoints";
    let pairs = source.processor.value(key).or(source.model.value(key))?.as_array()?;
    let sides = pairs.iter().filter_map(serde_json::Value::as_array).flatten();
    Some(sides.filter_map(|n| u32::try_from(n.as_u64()?).ok()).collect())
}

fn sizes(encoder: &Config, spec: &VisionSpec) -> Vec<(&'static str, Value)> {
    let whole = |n: usize| Value::U32(u32::try_from(n).unwrap_or(u32::MAX));
    let mut sizes = vec![
        ("projection_dim", whole(spec.projector.out)),
        ("patch_size", Value::U32(spec.pixels.patches.side)),
        ("embedding_length", whole(spec.encoder.hidden)),
        ("block_count", whole(spec.encoder.layers.len())),
    ];
    let side = encoder.opt_usize("image_size").ok().flatten();
    let side = side.or_else(|| encoder.opt_usize_list("image_size").ok().flatten()?.first().copied());
    sizes.extend(side.map(|n| ("image_size", whole(n))));
    if let Some(layer) = spec.encoder.layers.first() {
        if let Ffn::Dense(d) = &layer.ffn {
            sizes.push(("feed_forward_length", whole(d.inner)));
        }
        if let Mixer::Gqa(g) = &layer.mixer {
            sizes.push(("attention.head_count", whole(g.heads)));
        }
        sizes.push(("attention.layer_norm_epsilon", Value::F32(layer.norm.eps)));
    }
    if !spec.encoder.deep.is_empty() {
        let marks =
            (0..spec.encoder.layers.len()).map(|i| spec.encoder.deep.contains(&i)).collect::<Vec<bool>>();
        sizes.push(("is_deepstack_layers", marks.into()));
    }
    if let Some(windows) = &spec.encoder.windows {
        let period = windows.full.first().map_or(0, |first| first + 1);
        sizes.push(("n_wa_pattern", whole(period)));
    }
    let merge = spec.projector.steps.iter().find_map(|step| match step {
        lamina_arch::vision::ProjectorStep::Merge { side, .. }
        | lamina_arch::vision::ProjectorStep::Pool { side } => Some(*side),
        _ => None,
    });
    for key in ["projector.scale_factor", "spatial_merge_size"] {
        sizes.extend(merge.map(|side| (key, whole(side))));
    }
    sizes
}

/// All settings as the folder has them, so that nothing has to be guessed from a table.
fn settings(source: &VisionSource) -> serde_json::Value {
    let small = |value: &serde_json::Value| match value {
        serde_json::Value::Object(_) => false,
        serde_json::Value::Array(list) => list.len() <= LONGEST_LIST,
        _ => true,
    };
    let model: Map<String, serde_json::Value> =
        source.model.tree().iter().filter(|(_, v)| small(v)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let encoder = source.model.tree().get("vision_config");
    json!({ "encoder": encoder, "model": model, "processor": source.processor.tree() })
}
