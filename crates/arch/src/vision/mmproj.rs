//! An mmproj GGUF file (`general.architecture` is `clip`) as a source: its keys under the names of folders, its tensors
//! under canonical names.
//!
//! The keys are those of llama.cpp's `clip.cpp`. What the file does not say (filter, crop, tile rule) the family's own
//! defaults say; files that Lamina wrote have it all as the text of a JSON object under [`VisionSource::CONFIG_KEY`].

use super::{VisionSource, folder_settings::FolderSettings};
use crate::error::{ArchError, Result};
use lamina_store::{Checkpoint, Kind, Metadata, Tensors};
use serde_json::{Value, json};

/// The architecture's name in such files.
const ARCHITECTURE: &str = "clip";

/// Keys behind `clip.vision.` and where a folder has them: `e.` of the encoder, `m.` of the model, `p.` of the processor.
const KEYS: &[(&str, &[&str])] = &[
    ("embedding_length", &["e.hidden_size", "e.embed_dim"]),
    ("attention.head_count", &["e.num_attention_heads", "e.num_heads"]),
    ("attention.layer_norm_epsilon", &["e.layer_norm_eps", "e.rms_norm_eps", "e.norm_eps"]),
    ("block_count", &["e.num_hidden_layers", "e.depth"]),
    ("image_size", &["e.image_size"]),
    ("patch_size", &["e.patch_size"]),
    ("spatial_merge_size", &["e.spatial_merge_size", "m.spatial_merge_size"]),
    ("window_size", &["e.window_size"]),
    ("projection_dim", &["m.hidden_size", "e.out_hidden_size"]),
    ("image_mean", &["p.image_mean"]),
    ("image_std", &["p.image_std"]),
    ("image_min_pixels", &["p.min_pixels"]),
    ("image_max_pixels", &["p.max_pixels"]),
    ("preproc_min_tiles", &["p.min_patches"]),
    ("preproc_max_tiles", &["p.max_patches"]),
];

impl VisionSource {
    /// Metadata key of files that Lamina wrote: the text of a JSON object with the settings of `encoder`, `model` and
    /// `processor` as a folder has them.
    pub const CONFIG_KEY: &str = "lamina.vision.config";

    /// True for an mmproj file.
    pub fn is_mmproj(ck: &Checkpoint) -> bool {
        ck.kind == Kind::Gguf && ck.architecture == ARCHITECTURE
    }

    /// True for an mmproj file with an encoder of pictures; the first ones do not say so.
    ///
    /// # Errors
    /// The key that says so is no truth value.
    pub fn sees(ck: &Checkpoint) -> Result<bool> {
        let said = ck.metadata.find::<bool>("clip.has_vision_encoder")?;
        Ok(Self::is_mmproj(ck) && said.unwrap_or(!Self::hears(ck)?))
    }

    /// The encoder of pictures of an mmproj file.
    ///
    /// # Errors
    /// The file is something else, has no encoder of pictures, or a key of it has another type.
    pub fn of_mmproj(ck: &Checkpoint) -> Result<VisionSource> {
        let file = ck.metadata.file().display().to_string();
        if !Self::is_mmproj(ck) {
            let found = format!("of architecture {}", ck.architecture);
            return Err(ArchError::value(&file, found, "an mmproj file, of architecture clip"));
        }
        if !Self::sees(ck)? {
            return Err(ArchError::value("clip.has_vision_encoder", "false", "true: this file hears only"));
        }
        let tensors = straight(ck);
        let name = projector(&ck.metadata)?;
        let mut settings = FolderSettings::default();
        settings.translate(&ck.metadata, "clip.vision.", KEYS);
        settings.measure(&tensors);
        settings.derive(&name, &ck.metadata, &tensors)?;
        settings.source(ck, VisionSource::CONFIG_KEY, (name, tensors))
    }
}

/// The projector's type; the first files of LLaVA do not say it.
fn projector(metadata: &Metadata) -> Result<String> {
    let named = match metadata.find::<&str>("clip.vision.projector_type")? {
        None => metadata.find::<&str>("clip.projector_type")?,
        named => named,
    };
    let llava = metadata.find::<bool>("clip.has_llava_projector")?.unwrap_or(false);
    let name = named.or(llava.then_some("mlp"));
    let name =
        name.ok_or_else(|| ArchError::value("clip.projector_type", "missing", "the projector's type"))?;
    let tiles = name == "mlp" && metadata.get("clip.vision.image_grid_pinpoints").is_some();
    Ok(if tiles { "mlp_next".to_owned() } else { name.to_owned() })
}

/// The tensors, with both matrices of a feed-forward part under their right names: older converters swapped them. Where the
/// width is the same inside, nothing tells, and the names count.
fn straight(ck: &Checkpoint) -> Tensors {
    let mut tensors = ck.tensors.clone();
    let blocks = (0..).take_while(|i| tensors.contains_key(&format!("v.blk.{i}.ln1.weight"))).count();
    for i in 0..blocks {
        let [up, down] = ["up", "down"].map(|part| format!("v.blk.{i}.ffn_{part}"));
        let cols = |name: &str| tensors.get(&format!("{name}.weight")).map(|t| t.cols());
        let width = tensors.get(&format!("v.blk.{i}.ln1.weight")).map(|t| t.elements());
        if cols(&up) == width || cols(&down) != width {
            continue;
        }
        for suffix in ["weight", "bias"] {
            let [a, b] = [&up, &down].map(|name| format!("{name}.{suffix}"));
            if let (Some(mut first), Some(mut second)) = (tensors.get(&a).cloned(), tensors.get(&b).cloned())
            {
                (first.name, second.name) = (b.clone(), a.clone());
                tensors.insert(b, first);
                tensors.insert(a, second);
            }
        }
    }
    tensors
}

impl FolderSettings {
    fn number(&self, key: &str) -> Option<usize> {
        self.encoder.get(key).and_then(Value::as_u64).map(|n| n as usize)
    }

    /// What tensors say better than keys, or alone.
    fn measure(&mut self, tensors: &Tensors) {
        let rows = |name: &str| tensors.get(name).map(|t| t.elements() / t.cols().max(1));
        let hidden = self.number("hidden_size").unwrap_or(0).max(1);
        if let Some(inner) = rows("v.blk.0.ffn_up.weight") {
            self.put("e.intermediate_size", inner);
            self.put("e.mlp_ratio", inner as f64 / hidden as f64);
        }
        if let Some(places) = rows("v.position_embd.weight") {
            self.put("e.num_position_embeddings", places);
        }
        let frames = if tensors.contains_key("v.patch_embd.weight.1") { 2 } else { 1 };
        self.put("e.temporal_patch_size", frames);
        let clip = tensors.contains_key("v.class_embd");
        self.put("e.model_type", if clip { "clip_vision_model" } else { "siglip_vision_model" });
        let blocks = (0..).take_while(|i| tensors.contains_key(&format!("v.blk.{i}.ln1.weight"))).count();
        let said = self.number("num_hidden_layers").unwrap_or(blocks);
        if blocks > 0 {
            self.put("e.num_hidden_layers", said.min(blocks));
            self.put("e.depth", said.min(blocks));
        }
    }

    /// What the projector's type makes of the other keys.
    fn derive(&mut self, projector: &str, metadata: &Metadata, tensors: &Tensors) -> Result<()> {
        let flag = |key: &str| metadata.find::<bool>(key).map(|v| v.unwrap_or(false));
        let (gelu, silu) = (flag("clip.use_gelu")?, flag("clip.use_silu")?);
        if silu {
            self.put("e.hidden_act", "silu");
        }
        let factor = metadata.find::<usize>("clip.vision.projector.scale_factor")?.filter(|&n| n > 0);
        let rows = |name: &str| tensors.get(name).map(|t| t.elements() / t.cols().max(1));
        let (size, patch) =
            (self.number("image_size").unwrap_or(0), self.number("patch_size").unwrap_or(1).max(1));
        match projector {
            "mlp" | "mlp_next" => self.llava(metadata, gelu, silu)?,
            "gemma3" => {
                let side = (size / patch) / factor.unwrap_or(4);
                self.put("m.mm_tokens_per_image", side * side);
            }
            "gemma4v" => {
                let places = self.number("num_position_embeddings").unwrap_or(0);
                self.put("e.position_embedding_size", places / 2);
                self.put("e.standardize", tensors.contains_key("v.std_bias"));
            }
            "idefics3" => {
                self.put("m.scale_factor", factor.unwrap_or(2));
                self.put("p.max_image_size", json!({"longest_edge": size}));
                if let Some(longest) = metadata.get("clip.vision.preproc_image_size") {
                    self.put("p.size", json!({"longest_edge": longest.to_json()}));
                }
            }
            "internvl" => {
                self.put("m.downsample_ratio", 1.0 / factor.unwrap_or(2) as f64);
                self.put("e.use_qk_norm", tensors.contains_key("v.blk.0.attn_q_norm.weight"));
                self.put("e.use_mean_pooling", !tensors.contains_key("v.post_ln.weight"));
                let plain = tensors.contains_key("v.blk.0.ln1.bias");
                self.put("e.norm_type", if plain { "layer_norm" } else { "rms_norm" });
            }
            "llama4" => {
                self.put("e.pixel_shuffle_ratio", 1.0 / factor.unwrap_or(2) as f64);
                for (key, tensor) in [("input", "mm.model.mlp.1.weight"), ("output", "mm.model.mlp.2.weight")]
                {
                    rows(tensor).into_iter().for_each(|n| self.put(&format!("e.projector_{key}_dim"), n));
                }
            }
            "glm4v" => rows("mm.gate.weight").into_iter().for_each(|n| self.put("e.intermediate_size", n)),
            "pixtral" => self.put("e.model_type", "pixtral"),
            "qwen2.5vl_merger" => self.windows(metadata)?,
            "qwen3vl_merger" => self.deep(metadata),
            "minicpmv4_6" => {
                let side = self.number("num_position_embeddings").unwrap_or(0).isqrt();
                self.put("e.image_size", side * patch);
                self.put("p.scale_resolution", size);
                let after = metadata.get("clip.vision.wa_layer_indexes").map(lamina_store::Value::to_json);
                if let Some(first) = after.as_ref().and_then(|list| list.get(0)) {
                    self.put("e.insert_layer_id", first.clone());
                    self.put("m.insert_layer_id", first.clone());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// LLaVA: the converter leaves blocks behind the feature layer out, so all that there are count unless a key says more.
    fn llava(&mut self, metadata: &Metadata, gelu: bool, silu: bool) -> Result<()> {
        let clip = self.encoder.get("model_type").is_some_and(|t| t == "clip_vision_model");
        match (gelu, silu, clip) {
            (_, true, _) => {}
            (true, _, true) => self.put("e.hidden_act", "gelu"),
            (true, _, false) => self.put("e.hidden_act", "gelu_pytorch_tanh"),
            (false, ..) => self.put("e.hidden_act", "quick_gelu"),
        }
        self.put("m.vision_feature_layer", -1);
        if let Some(layers) = metadata.get("clip.vision.feature_layer").map(lamina_store::Value::to_json) {
            match layers.as_array().map(Vec::as_slice) {
                Some([one]) => self.put("m.vision_feature_layer", one.clone()),
                _ => return Err(ArchError::value("clip.vision.feature_layer", layers, "one layer")),
            }
        }
        let pinpoints = metadata.get("clip.vision.image_grid_pinpoints").map(lamina_store::Value::to_json);
        if let Some(Value::Array(flat)) = pinpoints {
            let pairs: Vec<Value> = flat.chunks_exact(2).map(|pair| json!(pair)).collect();
            self.put("p.image_grid_pinpoints", pairs);
        }
        Ok(())
    }

    /// Blocks that see the whole picture: a list, or every n-th.
    fn windows(&mut self, metadata: &Metadata) -> Result<()> {
        let blocks = self.number("depth").unwrap_or(0);
        let every = metadata.find::<usize>("clip.vision.n_wa_pattern")?.filter(|&n| n > 0);
        let full: Vec<usize> = match (metadata.get("clip.vision.wa_layer_indexes"), every) {
            (Some(list), _) => {
                self.put("e.fullatt_block_indexes", list.to_json());
                return Ok(());
            }
            (None, Some(n)) => (0..blocks).filter(|i| (i + 1).is_multiple_of(n)).collect(),
            // Without a pattern every block sees the whole.
            (None, None) => (0..blocks).collect(),
        };
        self.put("e.fullatt_block_indexes", full);
        Ok(())
    }

    /// Blocks whose rows are taken for the first layers of the text.
    fn deep(&mut self, metadata: &Metadata) {
        let marks = metadata.get("clip.vision.is_deepstack_layers").map(lamina_store::Value::to_json);
        let marks = marks.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let deep: Vec<usize> = (0..marks.len()).filter(|&i| marks[i] == true || marks[i] == 1).collect();
        self.put("e.deepstack_visual_indexes", deep);
    }
}
