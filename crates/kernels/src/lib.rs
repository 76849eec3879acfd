//! Floor 4½: kernels of the CPU - loops over lanes, for each instruction set and each type of weights and caches.
//!
//! They are given slices, addresses and an instruction set, and know no plan, no threads and no memory of a machine.
//! Nothing public is generic over lanes or types: each kernel is compiled here, once, and chosen by a function of the
//! instruction set and the type. Tests are a binary of their own, so that kernels are not compiled again for them.

mod act;
mod attend;
mod block;
mod codec;
pub mod codes;
mod float;
mod format;
mod lane;
mod mix;
mod product;
mod read;
mod row_kernels;
mod rows;
mod super_block;

pub use act::{Act32, Act256, ActKind, ActKinds};
pub use attend::{CHUNK, LaneGroups, PanelMix, RowScores, ScoreBias, Visible};
pub use codec::{CacheRow, Codec, VALUE_BLOCK, Values};
pub use format::{Kernels, NATIVE, kernels, lanes};
pub use lane::LaneBytes;
pub use mix::{CHUNK_PAGES, ValueMix, ValuePages};
pub use product::{PREFETCH, PanelOperands, PanelSizes};
pub use read::{MemoryReader, RUN};
pub use row_kernels::RowKernels;
pub use rows::{Epilogue, EpilogueArgs, NormArgs, Outputs};
