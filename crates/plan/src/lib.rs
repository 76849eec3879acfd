//! Floor 4: from a [`lamina_arch::ModelSpec`] to operators over slots, and the contract of a backend.
#![forbid(unsafe_code)]

mod adapt;
pub mod backend;
pub mod batch;
mod emit;
pub mod kv;
pub mod op;
mod plan;
mod profile;
mod runner;
mod slot;
mod walk;

pub use adapt::{LORA, adapt};
pub use backend::{About, Backend, BackendError, Limits, Memory, Ops};
pub use batch::{Batch, BatchSeq, EMPTY, Input, NO_PAGE, Select, SeqPlace, Tap, View, Wants};
pub use emit::emit;
pub use kv::{GroupSpec, KvLayout, KvType, KvTypes, LayerState, PAGE_LEN, Reach, UnknownKvType};
pub use plan::{Mark, Plan, WeightKind, WeightSpec};
pub use profile::Profile;
pub use runner::{Runner, Step};
pub use slot::{Arena, Rows, Slot, SlotSpec, W};
pub use walk::walk;
