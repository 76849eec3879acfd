//! What a machine does: the operators of the list, and what a step needs around them.

use super::*;
use crate::{
    batch::Batch,
    error::{BackendError, Result},
    slot::{Slot, WeightId},
    staging::SentWeight,
    stream_counts::StreamCounts,
};
use lamina_base::{Bytes, PageBuffer};
use std::{ops::Range, time::Duration};

/// What a step needs around its operators. Slots, weights and cache belong to the machine: nothing here assumes that
/// the host can see its memory.
pub trait Queue: Send + Sync {
    /// Begins a step, once before its first operator: makes [`Batch::copies`] in their order, and takes what the
    /// operators need of the batch.
    ///
    /// # Errors
    /// When the device fails.
    fn begin(&mut self, b: &Batch) -> Result<()>;

    /// True where operators are computed before their calls return, as on a CPU; a device queues them.
    fn eager(&self) -> bool {
        true
    }

    /// Runs a recording of `ops` over a batch of this shape, if there is one. After `false` the caller runs the
    /// operators itself, and a backend may record them until [`Queue::recorded`].
    ///
    /// What makes two steps alike is the machine's own affair: rows of each kind, which operators, whether a sequence
    /// is adapted. One that has to see every operator, or reads between them, returns false.
    ///
    /// # Errors
    /// When the device fails.
    fn replay(&mut self, _b: &Batch, _ops: &[Op]) -> Result<bool> {
        Ok(false)
    }

    /// Ends what [`Queue::replay`] began; `whole` is false when an operator failed.
    ///
    /// # Errors
    /// When the device fails.
    fn recorded(&mut self, _whole: bool) -> Result<()> {
        Ok(())
    }

    /// Returns when everything that was asked for is done; operators of a device may return before.
    ///
    /// # Errors
    /// When the device fails.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns when the operator that was asked for last is done: what it read may change then. Others before it may be
    /// under way where several devices run them.
    ///
    /// # Errors
    /// When the device fails.
    fn finish(&mut self) -> Result<()> {
        self.wait()
    }

    /// Has the machine's own clock note when all that was asked for before is done, as time stamp `at` of this step, counted
    /// from 0; false where it has no such clock: how long an operator takes is known by waiting for it. Wrappers wait, since
    /// they work on the host between operators.
    ///
    /// # Errors
    /// When the device fails.
    fn stamp(&mut self, _at: usize) -> Result<bool> {
        Ok(false)
    }

    /// Times from stamp 0 to each of the first `count` stamps, which have come: [`Queue::wait`] was called behind them.
    ///
    /// # Errors
    /// When the device fails.
    fn stamps(&self, _count: usize, out: &mut Vec<Duration>) -> Result<()> {
        out.clear();
        Ok(())
    }

    /// Copies `rows` of a slot into `out`, which holds nothing else afterwards. Waits for what writes them.
    ///
    /// # Errors
    /// When the device fails.
    fn read(&self, slot: Slot, rows: Range<usize>, out: &mut Vec<f32>) -> Result<()>;

    /// Writes `rows` of a slot: a tier or a test brings rows that another machine has computed.
    ///
    /// # Errors
    /// When the device fails.
    fn write(&mut self, slot: Slot, rows: Range<usize>, numbers: &[f32]) -> Result<()>;

    /// Has `f` look at `rows` of a slot and change them, in place where the host can: a rank sends columns that it has computed,
    /// and puts in those of others. Waits for what writes them.
    ///
    /// # Errors
    /// When the device fails.
    fn with_rows(&mut self, slot: Slot, rows: Range<usize>, f: &mut dyn FnMut(&mut [f32])) -> Result<()> {
        let mut numbers = vec![];
        self.read(slot, rows.clone(), &mut numbers)?;
        f(&mut numbers);
        self.write(slot, rows, &numbers)
    }

    /// The `n` largest numbers of a row of a slot with their columns: larger ones first, of equal ones the lower
    /// column. NaN counts as the largest.
    ///
    /// # Errors
    /// When the device fails.
    fn front(&self, slot: Slot, row: usize, n: usize) -> Result<Vec<(u32, f32)>> {
        let mut numbers = vec![];
        self.read(slot, row..row + 1, &mut numbers)?;
        Ok(front(&numbers, n))
    }

    /// A page of every layer of a group as bytes.
    ///
    /// # Errors
    /// When the device fails.
    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>>;

    /// Puts back what [`Queue::export_page`] gave, into any page of the group.
    ///
    /// # Errors
    /// When the bytes are not those of a page, or the device fails.
    fn import_page(&mut self, group: usize, page: u32, bytes: &[u8]) -> Result<()>;

    /// A recurrent state of every layer as bytes.
    ///
    /// # Errors
    /// When the device fails.
    fn export_state(&self, state: u32) -> Result<Vec<u8>>;

    /// Puts back what [`Queue::export_state`] gave, into any state.
    ///
    /// # Errors
    /// When the bytes are not those of a state, or the device fails.
    fn import_state(&mut self, state: u32, bytes: &[u8]) -> Result<()>;

    /// Kernels read piece `piece` of a weight there from now on: a matrix, or one of a stack, in the form that
    /// [`Panels::layout`] describes. Without bytes it cannot be multiplied with until it is bound again.
    ///
    /// # Errors
    /// When the machine cannot bind, or the bytes are not as many as the piece has.
    ///
    /// [`Panels::layout`]: crate::Panels::layout
    fn bind(&mut self, _weight: WeightId, _piece: usize, bytes: Option<Bytes>) -> Result<()> {
        let what = format!("weights of {} bytes that lie elsewhere", bytes.map_or(0, |b| b.len()));
        Err(BackendError::Unsupported { backend: "the machine", what })
    }

    /// Pages of a layer of [`KvLayout::bound`] are in `pages` from now on, each at its number times
    /// [`bound_stride`](crate::bound_stride); without memory the layer cannot be used until it is bound again. Returns the
    /// memory that was bound before. Copies, exports and imports leave such layers out, bound or not.
    ///
    /// # Errors
    /// When the machine cannot bind, the layer has memory of its own, or the memory has no room for all pages.
    ///
    /// [`KvLayout::bound`]: crate::KvLayout::bound
    fn bind_cache(&mut self, layer: usize, _pages: Option<PageBuffer>) -> Result<Option<PageBuffer>> {
        let what = format!("layer {layer} of a cache that lies elsewhere");
        Err(BackendError::Unsupported { backend: "the machine", what })
    }

    /// Takes memory for `slots` staging slots of `bytes` bytes each, once and before the first step: for weights that are on
    /// the machine only while an operator multiplies with them. One whose kernels read weights where the host has them
    /// needs none.
    ///
    /// # Errors
    /// When memory does not suffice, or the machine multiplies only with weights of its own.
    fn stage(&mut self, _slots: usize, _bytes: usize) -> Result<()> {
        Ok(())
    }

    /// Memory of the host that [`Queue::send`] will copy from while the machine lives: a device may pin it, so that it reads it
    /// on its own and without a copy in between. One that cannot copies as well, only slower.
    fn pin(&mut self, _bytes: &Bytes) {}

    /// Begins to copy unbound weights to a staging slot, one behind the other, beside the operators that are under way. What
    /// is there has been released, or nobody wants it any more; where it is some matrices of the same weights, it stays,
    /// and these come beside it.
    ///
    /// # Errors
    /// When they do not fit into the slot, or the device fails.
    fn send(&mut self, _slot: usize, weights: &[SentWeight]) -> Result<()> {
        for sent in weights {
            sent.matrices().try_for_each(|(piece, bytes)| self.bind(sent.weight, piece, Some(bytes)))?;
        }
        Ok(())
    }

    /// Returns when all that was sent to a slot is there: the machine holds no bytes of the host any more that it was sent
    /// from. One whose kernels read weights where the host has them holds them until they are bound again.
    ///
    /// # Errors
    /// When the device fails.
    fn settle(&mut self, _slot: usize) -> Result<()> {
        Ok(())
    }

    /// Operators from now on multiply with what was sent to a slot, and wait for it.
    ///
    /// # Errors
    /// When the device fails.
    fn arrive(&mut self, _slot: usize) -> Result<()> {
        Ok(())
    }

    /// No operator from now on multiplies with what is in a slot; those before may be under way.
    ///
    /// # Errors
    /// When the device fails.
    fn release(&mut self, _slot: usize) -> Result<()> {
        Ok(())
    }

    /// Routes the rows of a mixture of experts, and returns the experts that have any rows, ascending: the first of three
    /// steps that stand for the operator where its experts are not in memory at once, or what tells which of them the
    /// operator will multiply with.
    ///
    /// # Errors
    /// When the machine runs experts all at once only.
    fn route_experts(&mut self, _b: &Batch, _o: &Experts) -> Result<Vec<usize>> {
        Err(BackendError::Unsupported { backend: "the machine", what: "experts in parts".into() })
    }

    /// Computes experts `which` of those that [`Queue::route_experts`] returned, which are bound. The order of such calls
    /// changes no bit.
    ///
    /// # Errors
    /// When one of them is not bound.
    fn some_experts(&mut self, _b: &Batch, _o: &Experts, _which: Range<usize>) -> Result<()> {
        Err(BackendError::Unsupported { backend: "the machine", what: "experts in parts".into() })
    }

    /// Sums what the experts have computed, once all of them have.
    ///
    /// # Errors
    /// When the machine runs experts all at once only.
    fn sum_experts(&mut self, _b: &Batch, _o: &Experts) -> Result<()> {
        Err(BackendError::Unsupported { backend: "the machine", what: "experts in parts".into() })
    }

    /// Copies what experts `which` have computed since [`Queue::route_experts`] into `out`, a row as wide as the result for each
    /// of their rows: by expert, and then by row. A machine of which others compute other experts tells them.
    ///
    /// # Errors
    /// When the machine runs experts all at once only.
    fn expert_rows(&self, _o: &Experts, _which: Range<usize>, _out: &mut Vec<f32>) -> Result<()> {
        Err(BackendError::Unsupported { backend: "the machine", what: "experts on several machines".into() })
    }

    /// Puts what another machine's [`Queue::expert_rows`] gave for experts `which` in.
    ///
    /// # Errors
    /// When there are not as many rows as these experts have, or the machine runs experts all at once only.
    fn put_expert_rows(&mut self, _o: &Experts, _which: Range<usize>, _rows: &[f32]) -> Result<()> {
        Err(BackendError::Unsupported { backend: "the machine", what: "experts on several machines".into() })
    }

    /// Experts of each row with their weights, as the operator `o` has just chosen them: `routing.top_k` places for each row, of
    /// which those that add nothing have number [`u32::MAX`]. False where the machine cannot tell.
    ///
    /// # Errors
    /// When the device fails.
    fn chosen_experts(&self, b: &Batch, o: &Experts, out: &mut Vec<(u32, f32)>) -> Result<bool> {
        if o.select_bias.is_some() {
            return Ok(false);
        }
        let mut logits = vec![];
        self.read(o.logits, 0..b.rows(), &mut logits)?;
        out.clear();
        for row in logits.chunks_exact(o.routing.experts) {
            let end = out.len() + o.routing.top_k;
            out.extend(o.routing.choose(row, None).into_iter().map(|(e, weight)| (e as u32, weight)));
            out.resize(end, (u32::MAX, 0.0));
        }
        Ok(true)
    }

    /// True where an operator of the plan may run again in the same step, or a plain one by itself: false where weights come
    /// and go by the order of the plan.
    fn repeats(&self) -> bool {
        true
    }

    /// What was streamed since the machine was built.
    fn streamed(&self) -> StreamCounts {
        StreamCounts::default()
    }

    /// Runs `task` for 0 up to `tasks` on the backend's host threads.
    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..tasks).for_each(task);
    }
}

macro_rules! ops {
    (
        plain { $($(#[$plain_doc:meta])* $plain:ident $Plain:ident,)* }
        fused { $($(#[$fused_doc:meta])* $fused:ident $Fused:ident,)* }
    ) => {
        /// The operators; the batch says which rows there are. A fused one has a default body that is its meaning.
        ///
        /// Each fails when the machine cannot run it with these sizes and types, or the device fails.
        #[allow(clippy::missing_errors_doc)] // stated above for all
        pub trait Ops: Queue {
            $($(#[$plain_doc])* fn $plain(&mut self, b: &Batch, o: &$Plain) -> Result<()>;)*
            $($(#[$fused_doc])* fn $fused(&mut self, b: &Batch, o: &$Fused) -> Result<()> { o.meaning(self, b) })*
        }

        impl<W: Wrapper> Ops for W {
            $(fn $plain(&mut self, b: &Batch, o: &$Plain) -> Result<()> { self.operator(b, OpRef::$Plain(o)) })*
            $(fn $fused(&mut self, b: &Batch, o: &$Fused) -> Result<()> {
                if W::FUSED { self.operator(b, OpRef::$Fused(o)) } else { o.meaning(self, b) }
            })*
        }
    };
}

crate::for_each_op!(ops);
