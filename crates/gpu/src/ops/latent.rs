//! Latent attention in absorbed form: queries go to the latents, attention reads latents once as keys and as values, and the
//! mixed latents go to the values of their heads.

use super::{attention::AttendRun, linear::EachProduct};
use crate::{
    args::{AttendArgs, EachArgs, QueryPart},
    device::{Bound, GpuDevice},
    graphs::bucket,
    machine::{Enqueue, GpuMachine},
    scratch::LatentSpace,
    tensor_pages::TensorPages,
};
use lamina_plan::{
    Batch,
    backend::Result,
    op::{LatentAttend, Mask},
};
use std::ops::Range;

impl<D: GpuDevice> Enqueue<LatentAttend> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &LatentAttend) -> Result<()> {
        let (_, pages) = self.pages(o.kv)?;
        self.store_part(b, o.latent, o.kv, pages.key)?;
        self.store_part(b, o.k_rope, o.kv, pages.rope)?;
        let space = LatentSpace::new(o, self.width(o.latent), self.limits.rows, self.chunk);
        let rows = bucket(b.rows());
        for first in (0..rows).step_by(space.rows) {
            let n = space.rows.min(rows - first);
            self.absorb(o, first, n)?;
            self.attend_latents(b, o, space, first..first + n)?;
            self.expand(o, space, first, n)?;
        }
        Ok(())
    }
}

impl<D: GpuDevice> GpuMachine<D> {
    /// Queries without positions times the key part of the up-projection.
    fn absorb(&self, o: &LatentAttend, first: usize, rows: usize) -> Result<()> {
        let (rank, head) = (self.width(o.latent) as i32, (o.nope + o.rope) as i32);
        let args = EachArgs {
            first_row: first as i32,
            outputs: rank,
            items: o.heads as i32,
            y_from: first as i32,
            x_row: head * o.heads as i32,
            x_item: head,
            y_row: rank * o.heads as i32,
            y_item: rank,
            ..EachArgs::default()
        };
        let (x, y) = (self.read_slot(o.q), Bound::write(&self.scratch, 0));
        self.product_each(
            EachProduct { weight: o.w_k, bias: None, x, chosen: None, strength: None, y, rows },
            args,
        )
    }

    fn attend_latents(
        &self,
        b: &Batch,
        o: &LatentAttend,
        space: LatentSpace,
        rows: Range<usize>,
    ) -> Result<()> {
        let (rank, head, first) = (self.width(o.latent) as i32, (o.nope + o.rope) as i32, rows.start as i32);
        let args = AttendArgs {
            first_row: first,
            heads: o.heads as i32,
            q: QueryPart { from: first, row: rank * o.heads as i32, head: rank, at: 0 },
            q_rope: QueryPart { from: 0, row: head * o.heads as i32, head, at: o.nope as i32 },
            out_from: first,
            out_row: rank * o.heads as i32,
            slopes: -1,
            scale: o.scale,
            ..AttendArgs::default()
        };
        let run = AttendRun {
            kv: o.kv,
            q: Bound::read(&self.scratch, 0),
            q_rope: self.read_slot(o.q),
            sinks: self.optional(None).0,
            out: Bound::write(&self.scratch, space.mixed),
            rows: rows.len(),
            // Few rows are one chunk.
            side: self.side_by_side(b) && rows.start == 0,
            parts: space.bytes,
            cells: self.most_cells(o.kv, Mask::Causal),
            tensor: self.tensor_pages(o.kv, TensorPages::of_latents)?,
        };
        self.attend(run, args)
    }

    /// Mixed latents times the value part of the up-projection.
    fn expand(&self, o: &LatentAttend, space: LatentSpace, first: usize, rows: usize) -> Result<()> {
        let rank = self.width(o.latent) as i32;
        let args = EachArgs {
            first_row: first as i32,
            outputs: o.v_dim as i32,
            items: o.heads as i32,
            x_from: first as i32,
            x_row: rank * o.heads as i32,
            x_item: rank,
            y_row: (o.v_dim * o.heads) as i32,
            y_item: o.v_dim as i32,
            ..EachArgs::default()
        };
        let (x, y) = (Bound::read(&self.scratch, space.mixed), self.write_slot(o.out));
        let product = EachProduct { weight: o.w_v, bias: None, x, chosen: None, strength: None, y, rows };
        self.product_each(product, args)
    }
}
