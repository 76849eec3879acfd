//! Mixture of experts: routing, two products, the nonlinearity between them, a third product, and the weighted sum.

use super::{groups::ChosenRows, linear::EachProduct, rows::act_code, tensor::TilePairs};
use crate::{
    args::{ActArgs, CombineArgs, EachArgs, RouteArgs},
    device::{Bound, GpuDevice},
    graphs::bucket,
    half_rows::input_items,
    machine::{Enqueue, GpuMachine, unsupported},
    scratch::ExpertSpace,
};
use lamina_plan::{
    Batch, WeightId,
    backend::Result,
    op::{Experts, GroupScore, RouterScore, Routing},
};

/// A chunk of rows, and the pairs of rows and experts in it as tensor cores take them.
struct RowChunk<'a, B> {
    first: usize,
    rows: usize,
    pairs: TilePairs<'a, B>,
}

impl<D: GpuDevice> Enqueue<Experts> for GpuMachine<D> {
    fn enqueue(&mut self, b: &Batch, o: &Experts) -> Result<()> {
        let space = ExpertSpace::new(o, self.width(o.x), self.limits.rows, self.chunk);
        let all = bucket(b.rows());
        self.route(o, &space, all)?;
        let most = self.expert_rows(o, &space)?;
        for first in (0..all).step_by(most) {
            let rows = most.min(all - first);
            let chunk = RowChunk { first, rows, pairs: self.expert_pairs(o, &space, first, rows)? };
            self.inner_products(o, &space, &chunk)?;
            self.activate_experts(o, &space, &chunk)?;
            self.outer_product(o, &space, &chunk)?;
            self.combine(o, &space, &chunk)?;
        }
        Ok(())
    }
}

impl<D: GpuDevice> GpuMachine<D> {
    /// Routes the rows of a mixture, and waits for it; returns the experts that any of them has chosen, ascending.
    pub(crate) fn chosen_experts(&self, b: &Batch, o: &Experts) -> Result<Vec<usize>> {
        // Of the rows of this step: a guess chooses more experts of a row than the operators that there is room for.
        let rows = bucket(b.rows());
        let space = ExpertSpace::new(o, self.width(o.x), rows, self.chunk);
        if space.lists > self.scratch_bytes {
            return Err(unsupported::<D>(format!("routing {rows} rows to {} experts each", o.routing.top_k)));
        }
        self.route(o, &space, rows)?;
        let mut chosen = vec![0i32; b.count(self.kind(o.logits)) * o.routing.top_k];
        self.device.download(&self.scratch, space.chosen, bytemuck::cast_slice_mut(&mut chosen))?;
        // What was left out is below 0.
        let mut chosen: Vec<usize> = chosen.into_iter().filter_map(|e| usize::try_from(e).ok()).collect();
        chosen.sort_unstable();
        chosen.dedup();
        Ok(chosen)
    }

    fn part(&self, at: usize) -> Bound<'_, D::Buffer> {
        Bound::read(&self.scratch, at)
    }

    fn write_part(&self, at: usize) -> Bound<'_, D::Buffer> {
        Bound::write(&self.scratch, at)
    }

    fn route(&self, o: &Experts, space: &ExpertSpace, rows: usize) -> Result<()> {
        let (bias, has_bias) = self.optional(o.select_bias);
        let (groups, fewer, ranks) = (o.routing.groups, o.routing.fewer, o.routing.ranks.of(o.routing.top_k));
        // Softmax of the chosen is that of those that are kept.
        let renorm = o.routing.renorm || fewer.is_some() && o.routing.score == RouterScore::SoftmaxOfChosen;
        let args = RouteArgs {
            experts: o.routing.experts as i32,
            top_k: o.routing.top_k as i32,
            score: match o.routing.score {
                RouterScore::Softmax => 0,
                RouterScore::SoftmaxOfChosen => 1,
                RouterScore::Sigmoid => 2,
            },
            renorm: i32::from(renorm),
            groups: groups.map_or(1, |g| g.count as i32),
            keep: groups.map_or(1, |g| g.keep as i32),
            best_two: i32::from(groups.is_some_and(|g| g.by == GroupScore::BestTwo)),
            has_bias,
            least: fewer.map_or(o.routing.top_k, |f| f.least) as i32,
            first_rank: ranks.start as i32,
            end_rank: ranks.end as i32,
            scale: o.routing.scale,
            threshold: fewer.map_or(0.0, |f| f.threshold),
        };
        let scratch = [space.scores, space.marks, space.groups, space.chosen, space.weights];
        let [scores, marks, groups, chosen, weights] = scratch.map(|at| self.write_part(at));
        let bound = [self.step(), self.read_slot(o.logits), bias, scores, marks, groups, chosen, weights];
        self.launch("route", [rows.div_ceil(32), 1, 1], &bound, &args)
    }

    /// True where any of the products is one of tensor cores.
    fn on_tensor_cores(&self, o: &Experts) -> bool {
        [o.gate, o.up, o.down].iter().any(|w| self.weight(*w).tensor.is_some())
    }

    /// Rows of a chunk: as many as intermediate numbers have room for, and inputs of products on tensor cores.
    fn expert_rows(&self, o: &Experts, space: &ExpertSpace) -> Result<usize> {
        let products = [(o.gate, input_items(o)), (o.up, input_items(o)), (o.down, o.routing.top_k)];
        let all = products.iter().map(|(w, items)| (self.weight(*w), items));
        all.filter(|(w, _)| w.tensor.is_some()).try_fold(space.rows, |rows, (matrix, items)| {
            Ok(rows.min(self.rows_in_half(matrix.cols, *items)?))
        })
    }

    fn expert_pairs(
        &self,
        o: &Experts,
        space: &ExpertSpace,
        first: usize,
        rows: usize,
    ) -> Result<TilePairs<'_, D::Buffer>> {
        let chosen = self.part(space.chosen);
        if !self.on_tensor_cores(o) {
            return Ok(TilePairs::Row(chosen));
        }
        let Routing { top_k, experts, .. } = o.routing;
        self.group(ChosenRows { first, rows, top_k, experts }, chosen, space.lists)
    }

    /// Inputs times the gate and the up matrix of each chosen expert.
    fn inner_products(
        &self,
        o: &Experts,
        space: &ExpertSpace,
        chunk: &RowChunk<'_, D::Buffer>,
    ) -> Result<()> {
        let args = EachArgs {
            first_row: chunk.first as i32,
            outputs: o.inner as i32,
            items: o.routing.top_k as i32,
            y_from: chunk.first as i32,
            x_row: self.width(o.x) as i32,
            y_row: (o.routing.top_k * o.inner) as i32,
            y_item: o.inner as i32,
            ..EachArgs::default()
        };
        let product = |weight, bias: Option<WeightId>, to| EachProduct {
            weight,
            bias,
            x: self.read_slot(o.x),
            chosen: Some(self.part(space.chosen)),
            strength: o.routing.weight_input.then(|| self.part(space.weights)),
            y: self.write_part(to),
            rows: chunk.rows,
        };
        let gate = product(o.gate, o.biases.map(|b| b.gate), space.gate);
        let up = product(o.up, o.biases.map(|b| b.up), space.up);
        self.products_each(&[gate, up], &chunk.pairs, args)
    }

    fn activate_experts(
        &self,
        o: &Experts,
        space: &ExpertSpace,
        chunk: &RowChunk<'_, D::Buffer>,
    ) -> Result<()> {
        let width = o.routing.top_k * o.inner;
        let (code, p) = act_code(o.act);
        let args = ActArgs {
            width: width as i32,
            first_row: chunk.first as i32,
            count: width as i32,
            gated: 1,
            code,
            p,
            ..ActArgs::default()
        };
        let bound = [self.step(), self.part(space.gate), self.part(space.up), self.write_part(space.gate)];
        self.launch("row_activate", [width.div_ceil(256), chunk.rows, 1], &bound, &args)
    }

    fn outer_product(&self, o: &Experts, space: &ExpertSpace, chunk: &RowChunk<'_, D::Buffer>) -> Result<()> {
        let hidden = self.width(o.x);
        let args = EachArgs {
            first_row: chunk.first as i32,
            outputs: hidden as i32,
            items: o.routing.top_k as i32,
            x_from: chunk.first as i32,
            y_from: chunk.first as i32,
            x_row: (o.routing.top_k * o.inner) as i32,
            x_item: o.inner as i32,
            y_row: (o.routing.top_k * hidden) as i32,
            y_item: hidden as i32,
            ..EachArgs::default()
        };
        let chosen = Some(self.part(space.chosen));
        let (x, y, bias) = (self.part(space.gate), self.write_part(space.down), o.biases.map(|b| b.down));
        let product = EachProduct { weight: o.down, bias, x, chosen, strength: None, y, rows: chunk.rows };
        self.products_each(&[product], &chunk.pairs, args)
    }

    fn combine(&self, o: &Experts, space: &ExpertSpace, chunk: &RowChunk<'_, D::Buffer>) -> Result<()> {
        let hidden = self.width(o.out);
        let args = CombineArgs {
            first_row: chunk.first as i32,
            width: hidden as i32,
            top_k: o.routing.top_k as i32,
            weighted: i32::from(!o.routing.weight_input),
        };
        let [values, chosen, weights] = [space.down, space.chosen, space.weights].map(|at| self.part(at));
        let bound = [self.step(), values, chosen, weights, self.write_slot(o.out)];
        self.launch("combine", [hidden.div_ceil(256), chunk.rows, 1], &bound, &args)
    }
}
