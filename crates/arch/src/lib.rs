//! Floor 3: what a model is, as data, and one small file per family.
#![forbid(unsafe_code)]

mod bert_like;
mod cut;
mod edit;
mod error;
pub mod families;
mod family;
mod gemma_like;
mod head_folder;
mod head_style;
mod heads;
mod hybrid;
mod latent;
mod llama_like;
mod lookup;
mod mamba;
pub mod names;
mod packed;
mod pairing;
mod rope;
mod routing;
mod senses;
pub mod sound;
pub mod spec;
mod tensor;
mod validate;
pub mod vision;
pub mod weights;

pub use cut::Cut;
pub use error::{ArchError, Result};
pub use family::{Family, has_ending};
pub use head_folder::{HeadFolder, HeadKind, is_head_folder};
pub use head_style::HeadStyle;
pub use llama_like::{act, gqa, layer_norm, llama_like, moe, norm, plain_ffn, tied};
pub use packed::{Keep, packings};
pub use rope::{grows_with_the_text, plain_rope, rope, yarn_mscale};
pub use senses::{SECTIONS as SENSE_SECTIONS, is_sense};
pub use spec::ModelSpec;
pub use weights::{StoredWeight, Weights};
