//! Models that see: an encoder and a projector beside the language model, as data.
//!
//! A picture becomes rows of numbers that stand in a prompt like tokens. [`VisionSpec`] says all of it: which pixels
//! ([`Pixels`], a rule of `lamina-image`), which encoder ([`VisionEncoder`]), which projector ([`Projector`]), and what stands
//! around the rows in a prompt ([`PromptRule`]). It names no tensors; they are found under the names that mmproj GGUF
//! files have (`v.*`, `mm.*`), to which a Hugging Face folder's are renamed by rules, as for text: a folder and an mmproj
//! of the same weights give equal bits.
//!
//! # What is built on it
//! | where | what |
//! |---|---|
//! | [`VisionSource`] | the settings of an encoder and its processor, under the names of folders; an mmproj is translated to them |
//! | [`VisionFamily::of`], [`VisionFamily::spec`] | from a source to a [`VisionSpec`] |
//! | [`VisionWeights`] | the tensor of a canonical name as `rows x cols` |
//! | `lamina_load::vision::Eyes` | the chain of plans on a backend: `open(&VisionSource, &dyn Backend)`, then `encode(&[Picture]) -> Vec<PictureRows>` |
//! | [`VisionSpec::layout`] | size of a picture -> [`PictureLayout`]: tiles, cells and rows, without a pixel |
//! | [`PromptRule::expand`] | [`PictureLayout`] -> the text that takes the place of a marker; its soft tokens are the rows |
//!
//! # Canonical tensors
//! `v.patch_embd.weight` (and `.weight.1` for a second frame), `.bias`; `v.class_embd`; `v.position_embd.weight`; `v.pre_ln`,
//! `v.post_ln`; `v.blk.N.{attn_q, attn_k, attn_v | attn_qkv, attn_out, attn_q_norm, attn_k_norm, ln1, ln2, attn_post_norm,
//! ffn_post_norm, ls1, ls2, ffn_up, ffn_gate, ffn_down}`; `v.deepstack.N.{norm, fc1, fc2}`; `v.image_newline`; `v.vit_merger.*`;
//! `mm.0`, `mm.1`, `mm.2`, `mm.model.fc`, `mm.model.mlp.N`, `mm.input_projection`, `mm.soft_emb_norm`, `mm.input_norm`,
//! `mm.patch_merger`, `mm.post_norm`, `mm.gate`, `mm.up`, `mm.down`.

mod budget;
mod channels;
mod clips;
mod expansion;
mod families;
mod family;
mod folder_settings;
mod layout;
mod lookup;
mod mmproj;
mod mmproj_tensor;
mod parts;
mod prompt;
mod qwen_like;
mod source;
mod spec;
pub(crate) mod vit;
mod weights;

pub use family::VisionFamily;
pub(crate) use folder_settings::FolderSettings;
pub use layout::{CellGrid, PictureLayout};
pub use mmproj_tensor::MmprojTensor;
pub use prompt::{PictureText, PromptRule, TileText};
pub use source::VisionSource;
pub use spec::*;
pub(crate) use weights::TensorNames;
pub use weights::VisionWeights;
