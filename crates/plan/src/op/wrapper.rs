//! A machine around another one.

use super::*;
use crate::{staging::SentWeight, stream_counts::StreamCounts};
use lamina_base::{Bytes, PageBuffer};

/// Makes [`Wrapper`] of the methods of [`Queue`], and hands these on to it.
macro_rules! wrapper {
    (
        shared { $(fn $get:ident($($g:ident: $G:ty),*) -> $Got:ty;)* }
        exclusive { $(fn $set:ident($($s:ident: $S:ty),*) -> $Done:ty;)* }
    ) => {
        /// A machine around another one. What is asked of it goes to the machine inside: a wrapper writes out the methods in
        /// which it does something else. They mean what those of [`Queue`] of the same name do, and fail for the same reasons.
        #[allow(clippy::missing_errors_doc)] // stated above for all
        pub trait Wrapper: Send + Sync {
            /// Fused operators are handed on as such; else they fall into their meaning, and come by as plain ones.
            const FUSED: bool;

            /// The machine inside.
            fn inner(&self) -> &dyn Ops;

            /// The machine inside.
            fn inner_mut(&mut self) -> &mut dyn Ops;

            /// Runs an operator: every one of them comes by here.
            fn operator(&mut self, b: &Batch, op: OpRef<'_>) -> Result<()> {
                op.run(self.inner_mut(), b)
            }

            $(
                #[doc = concat!("As [`Queue::", stringify!($get), "`].")]
                fn $get(&self, $($g: $G),*) -> $Got { self.inner().$get($($g),*) }
            )*
            $(
                #[doc = concat!("As [`Queue::", stringify!($set), "`].")]
                fn $set(&mut self, $($s: $S),*) -> $Done { self.inner_mut().$set($($s),*) }
            )*
        }

        impl<W: Wrapper> Queue for W {
            $(fn $get(&self, $($g: $G),*) -> $Got { Wrapper::$get(self, $($g),*) })*
            $(fn $set(&mut self, $($s: $S),*) -> $Done { Wrapper::$set(self, $($s),*) })*
        }
    };
}

wrapper! {
    shared {
        fn eager() -> bool;
        fn read(slot: Slot, rows: Range<usize>, out: &mut Vec<f32>) -> Result<()>;
        fn front(slot: Slot, row: usize, n: usize) -> Result<Vec<(u32, f32)>>;
        fn export_page(group: usize, page: u32) -> Result<Vec<u8>>;
        fn export_state(state: u32) -> Result<Vec<u8>>;
        fn streamed() -> StreamCounts;
        fn chosen_experts(b: &Batch, o: &Experts, out: &mut Vec<(u32, f32)>) -> Result<bool>;
        fn expert_rows(o: &Experts, which: Range<usize>, out: &mut Vec<f32>) -> Result<()>;
        fn repeats() -> bool;
        fn spread(tasks: usize, task: &(dyn Fn(usize) + Sync)) -> ();
    }
    exclusive {
        fn begin(b: &Batch) -> Result<()>;
        fn replay(b: &Batch, ops: &[Op]) -> Result<bool>;
        fn recorded(whole: bool) -> Result<()>;
        fn wait() -> Result<()>;
        fn finish() -> Result<()>;
        fn write(slot: Slot, rows: Range<usize>, numbers: &[f32]) -> Result<()>;
        fn with_rows(slot: Slot, rows: Range<usize>, f: &mut dyn FnMut(&mut [f32])) -> Result<()>;
        fn import_page(group: usize, page: u32, bytes: &[u8]) -> Result<()>;
        fn import_state(state: u32, bytes: &[u8]) -> Result<()>;
        fn bind(weight: WeightId, piece: usize, bytes: Option<Bytes>) -> Result<()>;
        fn bind_cache(layer: usize, pages: Option<PageBuffer>) -> Result<Option<PageBuffer>>;
        fn stage(slots: usize, bytes: usize) -> Result<()>;
        fn pin(bytes: &Bytes) -> ();
        fn send(slot: usize, weights: &[SentWeight]) -> Result<()>;
        fn settle(slot: usize) -> Result<()>;
        fn arrive(slot: usize) -> Result<()>;
        fn release(slot: usize) -> Result<()>;
        fn route_experts(b: &Batch, o: &Experts) -> Result<Vec<usize>>;
        fn some_experts(b: &Batch, o: &Experts, which: Range<usize>) -> Result<()>;
        fn sum_experts(b: &Batch, o: &Experts) -> Result<()>;
        fn put_expert_rows(o: &Experts, which: Range<usize>, rows: &[f32]) -> Result<()>;
    }
}
