//! A machine around another one, some of whose weights are read from disk while they are used.

use crate::{experts::ExpertCache, prefetch::Prefetcher};
use lamina_base::Bytes;
use lamina_disk::{DiskReader, Extent};
use lamina_plan::{
    Batch, Ops, Plan, RowKind, StreamCounts, WeightId, Wrapper,
    backend::Result,
    op::{Op, OpRef},
};
use std::{ops::Range, sync::Arc};

/// What is read before an operator, and where its matrices are in it.
pub struct StreamExtent {
    /// What is read.
    pub extent: Arc<Extent>,
    /// Weights of the plan, each with the place of its panels in what was read.
    pub weights: Vec<(WeightId, Range<usize>)>,
    /// Rows that the operator computes.
    pub rows: RowKind,
}

/// Weights that a machine reads from disk while it uses them. It has them as [`Panels::unbound`](lamina_plan::Panels::unbound)
/// gives them.
pub struct StreamedWeights {
    /// In the order of the plan.
    pub extents: Vec<StreamExtent>,
    /// Reads them.
    pub reader: DiskReader,
    /// Buffers that extents are read into.
    pub buffers: usize,
    /// Experts that are not in memory at once, if any.
    pub experts: Option<ExpertCache>,
}

/// A machine that binds weights to what was read ahead, before each operator that multiplies with them.
pub struct StreamedMachine {
    inner: Box<dyn Ops>,
    prefetcher: Prefetcher,
    extents: Vec<StreamExtent>,
    /// The extent that a weight is in.
    extent_of: Vec<Option<usize>>,
    /// An extent that is bound before its turn.
    bound_ahead: Option<(usize, Bytes)>,
    experts: Option<ExpertCache>,
}

impl StreamedMachine {
    /// Has `inner`, the machine of `plan`, read these weights.
    pub fn new(inner: Box<dyn Ops>, plan: &Plan, weights: StreamedWeights) -> StreamedMachine {
        let StreamedWeights { extents, reader, buffers, experts } = weights;
        let mut extent_of = vec![None; plan.weights.len()];
        for (i, e) in extents.iter().enumerate() {
            e.weights.iter().for_each(|(w, _)| extent_of[w.0 as usize] = Some(i));
        }
        let read = extents.iter().map(|e| e.extent.clone()).collect();
        let prefetcher = Prefetcher::new(read, reader, buffers);
        StreamedMachine { inner, prefetcher, extents, extent_of, bound_ahead: None, experts }
    }

    /// The bytes of extent `i`, which is bound then.
    fn fetch(&mut self, i: usize) -> Result<Bytes> {
        match self.bound_ahead.take() {
            Some((next, bytes)) if next == i => {
                self.prefetcher.used(i);
                return Ok(bytes);
            }
            Some((other, _)) => self.bind(other, None)?,
            None => {}
        }
        let bytes = self.prefetcher.fetch(i)?;
        self.bind(i, Some(&bytes)).map(|()| bytes)
    }

    /// Binds the extent behind extent `i`, if it is there: a machine may send it to a device while `i` is multiplied with.
    fn bind_behind(&mut self, i: usize) -> Result<()> {
        let Some((next, bytes)) = self.prefetcher.fetch_behind(i)? else { return Ok(()) };
        self.bind(next, Some(&bytes))?;
        self.bound_ahead = Some((next, bytes));
        Ok(())
    }

    /// Tells the machine where the weights of an extent are.
    fn bind(&mut self, i: usize, bytes: Option<&Bytes>) -> Result<()> {
        let mut weights = self.extents[i].weights.iter();
        weights.try_for_each(|(weight, range)| {
            self.inner.bind(*weight, 0, bytes.and_then(|bytes| bytes.slice(range.clone())))
        })
    }
}

/// One of the matrices that an operator multiplies with: those of one operator are read together.
fn first_matrix(op: OpRef<'_>) -> Option<WeightId> {
    match op {
        OpRef::Linear(o) => Some(o.part.weight),
        OpRef::LinearAdd(o) => Some(o.weight),
        OpRef::Project(o) => o.parts.first().map(|p| p.weight),
        OpRef::Glu(o) => o.project.parts.first().map(|p| p.weight),
        _ => None,
    }
}

impl Wrapper for StreamedMachine {
    const FUSED: bool = true;

    fn inner(&self) -> &dyn Ops {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Ops {
        &mut *self.inner
    }

    fn begin(&mut self, b: &Batch) -> Result<()> {
        if b.rows() > 0 {
            self.prefetcher.begin(self.extents.iter().map(|e| b.count(e.rows) == 0));
        }
        self.inner.begin(b)
    }

    fn operator(&mut self, b: &Batch, op: OpRef<'_>) -> Result<()> {
        if let Some(cache) = &mut self.experts {
            if cache.skips(b, op) {
                return Ok(());
            }
            if let OpRef::Experts(o) = op
                && let Some(stack) = cache.stack(o)
            {
                return cache.run(&mut *self.inner, b, o, stack);
            }
        }
        let extent = first_matrix(op).and_then(|w| self.extent_of[w.0 as usize]);
        let Some(i) = extent else { return op.run(&mut *self.inner, b) };
        if b.count(self.extents[i].rows) == 0 {
            return Ok(());
        }
        let bytes = self.fetch(i)?;
        let ahead = self.bind_behind(i);
        let done = ahead.and_then(|()| op.run(&mut *self.inner, b)).and_then(|()| self.inner.finish());
        self.bind(i, None)?;
        drop(bytes);
        self.prefetcher.ask();
        done
    }

    /// Weights move between steps: what was recorded would read them where they were.
    fn replay(&mut self, _: &Batch, _: &[Op]) -> Result<bool> {
        Ok(false)
    }

    /// Weights come by the order of the plan.
    fn repeats(&self) -> bool {
        false
    }

    fn streamed(&self) -> StreamCounts {
        let experts = self.experts.as_ref().map(ExpertCache::counts).unwrap_or_default();
        self.prefetcher.counts() + experts + self.inner.streamed()
    }
}
