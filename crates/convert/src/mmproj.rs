//! The encoder of pictures or of sound of a folder as an mmproj GGUF file, as llama.cpp names it.

use crate::{
    draft::{Draft, Planned},
    error::Result,
};
use lamina_arch::{
    sound::{SoundFamily, SoundSpec},
    spec::{Act, Ffn, Mixer},
    vision::{MmprojTensor, VisionEncoder, VisionFamily, VisionSource, VisionSpec, VisionWeights},
};
use lamina_store::{Checkpoint, Config, Kind, Metadata, Value};
use serde_json::{Map, json};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A folder's encoder, shared by its tensors.
enum FolderEncoder {
    Pictures(VisionSource, &'static VisionFamily, VisionSpec),
    Sounds(VisionSource, &'static SoundFamily, SoundSpec),
}

impl FolderEncoder {
    /// The encoder of the folder that was opened as `ck`; of pictures where it has both.
    fn of(ck: &Checkpoint) -> Result<Option<FolderEncoder>> {
        if let Some(source) = VisionSource::of_folder(ck)? {
            let family = VisionFamily::of(&source)?;
            let spec = family.spec(&source)?;
            return Ok(Some(FolderEncoder::Pictures(source, family, spec)));
        }
        let Some(source) = VisionSource::of_sound(ck)? else { return Ok(None) };
        let family = SoundFamily::of(&source)?;
        let spec = family.spec(&source)?;
        Ok(Some(FolderEncoder::Sounds(source, family, spec)))
    }

    fn weights(&self) -> VisionWeights<'_> {
        match self {
            FolderEncoder::Pictures(source, family, spec) => VisionWeights::new(source, family, spec),
            FolderEncoder::Sounds(source, family, spec) => family.weights(source, spec),
        }
    }
}

/// What other converters write for families whose pictures have any size.
const ANY_SIDE: usize = 224;
/// Lists longer than this are no settings of an encoder.
const LONGEST_LIST: usize = 64;

impl Draft {
    /// The mmproj file of the folder at `path`; none where it is no folder of a model that sees or hears.
    ///
    /// # Errors
    /// When there is no model, or its encoder is of no family that is known.
    pub fn mmproj(path: impl AsRef<Path>) -> Result<Option<Draft>> {
        let ck = Checkpoint::open(path)?;
        if ck.kind != Kind::HuggingFace {
            return Ok(None);
        }
        let Some(encoder) = FolderEncoder::of(&ck)? else { return Ok(None) };
        let folder = Arc::new(encoder);
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

fn planned(folder: &Arc<FolderEncoder>, tensor: MmprojTensor) -> Planned {
    let (name, dtype, shape) = (tensor.name.clone(), tensor.dtype, tensor.shape.clone());
    let folder = folder.clone();
    Planned::new(name, dtype, shape, move || Ok(folder.weights().mmproj_values(&tensor)?))
}

fn metadata(ck: &Checkpoint, encoder: &FolderEncoder) -> Metadata {
    let mut all = Metadata::new(ck.folder.join("mmproj"));
    all.insert("general.architecture", "clip");
    all.insert("general.type", "mmproj");
    if let Some(name) = ck.folder.file_name() {
        all.insert("general.name", name.to_string_lossy().into_owned());
    }
    match encoder {
        FolderEncoder::Pictures(source, family, spec) => of_pictures(&mut all, source, family, spec),
        FolderEncoder::Sounds(source, family, spec) => of_sounds(&mut all, source, family, spec),
    }
    all
}

fn of_sounds(all: &mut Metadata, source: &VisionSource, family: &SoundFamily, spec: &SoundSpec) {
    all.insert("clip.has_audio_encoder", true);
    all.insert("clip.projector_type", family.projectors.first().copied().unwrap_or_default());
    all.insert("clip.audio.projection_dim", Value::U32(spec.projector.out as u32));
    all.insert("clip.audio.num_mel_bins", Value::U32(spec.mel.mels as u32));
    for (key, value) in block_sizes(&spec.encoder) {
        all.insert(format!("clip.audio.{key}"), value);
    }
    all.insert(VisionSource::SOUND_CONFIG_KEY, settings(source, "audio_config").to_string());
}

fn of_pictures(all: &mut Metadata, source: &VisionSource, family: &VisionFamily, spec: &VisionSpec) {
    let projector = family.projectors.first().copied().unwrap_or_default();
    all.insert("clip.has_vision_encoder", true);
    // Tiles of LLaVA are told by their canvases.
    all.insert("clip.projector_type", projector.strip_suffix("_next").unwrap_or(projector));
    for (key, value) in sizes(&source.encoder, spec) {
        all.insert(format!("clip.vision.{key}"), value);
    }
    if let Some(canvases) = canvases(source) {
        all.insert("clip.vision.image_grid_pinpoints", canvases);
        all.insert("clip.vision.mm_patch_merge_type", "spatial_unpad");
    }
    let scaling = spec.pixels.scaling;
    // Where an encoder does more to samples than its processor does, files say what the processor does.
    for (key, own) in [("image_mean", scaling.mean), ("image_std", scaling.deviation)] {
        let said = source.processor.opt_f32_list(key).ok().flatten().filter(|said| said.len() == own.len());
        all.insert(format!("clip.vision.{key}"), said.unwrap_or_else(|| own.to_vec()));
    }
    if let Some(Ffn::Dense(d)) = spec.encoder.layers.first().map(|l| &l.ffn) {
        all.insert("clip.use_gelu", matches!(d.act, Act::Gelu | Act::GeluTanh));
        all.insert("clip.use_silu", d.act == Act::Silu);
    }
    all.insert(VisionSource::CONFIG_KEY, settings(source, "vision_config").to_string());
}

/// Sizes of the blocks, as both kinds of encoders say them.
fn block_sizes(encoder: &VisionEncoder) -> Vec<(&'static str, Value)> {
    let whole = |n: usize| Value::U32(u32::try_from(n).unwrap_or(u32::MAX));
    let mut sizes =
        vec![("embedding_length", whole(encoder.hidden)), ("block_count", whole(encoder.layers.len()))];
    if let Some(layer) = encoder.layers.first() {
        if let Ffn::Dense(d) = &layer.ffn {
            sizes.push(("feed_forward_length", whole(d.inner)));
        }
        if let Mixer::Gqa(g) = &layer.mixer {
            sizes.push(("attention.head_count", whole(g.heads)));
        }
        sizes.push(("attention.layer_norm_epsilon", Value::F32(layer.norm.eps)));
    }
    sizes
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
    ];
    sizes.extend(block_sizes(&spec.encoder));
    let side = encoder.opt_usize("image_size").ok().flatten();
    let side = side.or_else(|| encoder.opt_usize_list("image_size").ok().flatten()?.first().copied());
    // Readers want a number where the family has none.
    sizes.push(("image_size", whole(side.unwrap_or(ANY_SIDE))));
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
fn settings(source: &VisionSource, section: &str) -> serde_json::Value {
    let small = |value: &serde_json::Value| match value {
        serde_json::Value::Object(_) => false,
        serde_json::Value::Array(list) => list.len() <= LONGEST_LIST,
        _ => true,
    };
    let model: Map<String, serde_json::Value> =
        source.model.tree().iter().filter(|(_, v)| small(v)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let encoder = source.model.tree().get(section);
    json!({ "encoder": encoder, "model": model, "processor": source.processor.tree() })
}
