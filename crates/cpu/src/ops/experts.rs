//! Mixture of experts: rows are sorted by expert, so that each expert's weights are read once for all of its rows.

use super::linear::{Acts, Product};
use crate::{
    expert_rows::{LEFT_OUT, Ranking, RoutedRows},
    machine::{Machine, Operate, RowsOf},
    matrix::Matrix,
};
use lamina_kernels::{ActKind, ActKinds, Epilogue};
use lamina_plan::{
    BackendError, Batch, WeightId,
    backend::Result,
    op::{ExpertRanks, Experts, GroupScore, RouterScore, Routing},
};
use std::{ops::Range, sync::PoisonError};

impl Operate<Experts> for Machine {
    fn run(&mut self, b: &Batch, o: &Experts) -> Result<()> {
        let mut routing = self.experts.routing.lock().unwrap_or_else(PoisonError::into_inner);
        routing.route(&o.routing, self.slot(b, o.logits), o.select_bias.map(|w| self.vector(w)));
        self.expert_part(b, o, &routing.part(0..routing.runs.len()))?;
        self.combine_experts(b, o, &routing);
        Ok(())
    }
}

/// Assignments of some experts that follow one another.
struct ExpertPart<'a> {
    /// Expert and weight of each row.
    chosen: &'a [(u32, f32)],
    /// Indices into `chosen`.
    order: &'a [u32],
    /// Expert, first place and number of rows of each expert; places count from the beginning of all assignments.
    runs: &'a [(usize, usize, usize)],
    /// Place of the first assignment.
    first: usize,
}

impl RoutedRows {
    /// Experts `runs` of those that have any rows.
    fn part(&self, runs: Range<usize>) -> ExpertPart<'_> {
        let runs = &self.runs[runs];
        let first = runs.first().map_or(0, |r| r.1);
        let end = runs.last().map_or(first, |r| r.1 + r.2);
        ExpertPart { chosen: &self.chosen, order: &self.order[first..end], runs, first }
    }
}

impl Machine {
    /// Routes the rows of an operator, for [`Machine::some_experts`]; returns the experts that have any rows, ascending.
    pub(crate) fn route_experts(&self, b: &Batch, o: &Experts) -> Vec<usize> {
        let mut routing = self.experts.routing.lock().unwrap_or_else(PoisonError::into_inner);
        routing.route(&o.routing, self.slot(b, o.logits), o.select_bias.map(|w| self.vector(w)));
        routing.runs.iter().map(|r| r.0).collect()
    }

    /// Computes experts `which` of the routed ones.
    ///
    /// # Errors
    /// When one of them is not bound.
    pub(crate) fn some_experts(&self, b: &Batch, o: &Experts, which: Range<usize>) -> Result<()> {
        let routing = self.experts.routing.lock().unwrap_or_else(PoisonError::into_inner);
        self.expert_part(b, o, &routing.part(which))
    }

    /// Sums what all routed experts have computed.
    pub(crate) fn sum_experts(&self, b: &Batch, o: &Experts) {
        let routing = self.experts.routing.lock().unwrap_or_else(PoisonError::into_inner);
        self.combine_experts(b, o, &routing);
    }

    /// Copies what the last operator has chosen, where that are so many places.
    pub(crate) fn routed(&self, places: usize, out: &mut Vec<(u32, f32)>) -> bool {
        let routing = self.experts.routing.lock().unwrap_or_else(PoisonError::into_inner);
        out.clear();
        out.extend_from_slice(&routing.chosen);
        out.len() == places
    }

    /// The first of the numbers that experts `which` compute, and how many there are: their places follow one another.
    fn expert_results(&self, o: &Experts, which: &Range<usize>) -> (usize, usize) {
        let routing = self.experts.routing.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = routing.runs.iter().filter(|run| which.contains(&run.0));
        let rows = runs.clone().map(|run| run.2).sum::<usize>();
        let (first, width) =
            (runs.map(|run| run.1).next().unwrap_or(0), self.some_rows(o.out, &(0..0)).width);
        (first * width, rows * width)
    }

    /// Copies what experts `which` have computed.
    pub(crate) fn expert_rows(&self, o: &Experts, which: &Range<usize>, out: &mut Vec<f32>) {
        let (first, count) = self.expert_results(o, which);
        out.clear();
        // SAFETY: results of all routed rows lie there, and no operator runs.
        out.extend_from_slice(unsafe {
            std::slice::from_raw_parts(self.experts.results.ptr_mut().cast::<f32>().add(first), count)
        });
    }

    /// Puts in what experts `which` have computed elsewhere; false where it is not as much as they have rows.
    pub(crate) fn put_expert_rows(&mut self, o: &Experts, which: &Range<usize>, rows: &[f32]) -> bool {
        let (first, count) = self.expert_results(o, which);
        if rows.len() != count {
            return false;
        }
        // SAFETY: there is room for the results of all routed rows, and nobody else uses it while the machine is borrowed.
        unsafe {
            self.experts
                .results
                .ptr_mut()
                .cast::<f32>()
                .add(first)
                .copy_from_nonoverlapping(rows.as_ptr(), count);
        }
        true
    }

    fn combine_experts(&self, b: &Batch, o: &Experts, r: &RoutedRows) {
        let (out, rows) = (self.slot(b, o.out), r.order.len());
        let results = RowsOf { ptr: self.experts.results.ptr_mut().cast(), rows, width: out.width };
        self.combine(&o.routing, r, results, out);
    }

    /// Results of the assignments of some experts, each in its own place.
    fn expert_part(&self, b: &Batch, o: &Experts, r: &ExpertPart<'_>) -> Result<()> {
        if r.runs.is_empty() {
            return Ok(());
        }
        let x = self.slot(b, o.x);
        let [gate, up, down] = [o.gate, o.up, o.down].map(|w| self.matrix(w));
        for &(expert, ..) in r.runs {
            let held = o.held.range(o.routing.experts);
            let here = |m: &&Matrix| m.is_bound(expert - held.start);
            if !held.contains(&expert) || ![gate, up, down].iter().all(here) {
                let what = format!("expert {expert} of weight {}, which is not bound", o.gate.0);
                return Err(BackendError::Unsupported { backend: "cpu", what });
            }
        }
        let rows = r.order.len();
        let results = self.experts.results.ptr_mut().cast::<f32>().wrapping_add(r.first * x.width);
        let hidden = RowsOf { ptr: results, rows, width: x.width };
        let inner = RowsOf { ptr: self.experts.inner.ptr_mut().cast(), rows, width: o.inner };

        let input = self.expert_inputs(o, r, x, gate);
        self.expert_halves(o, r, (gate, up), input, inner);
        self.quantize_rows(inner, down.kernels.act());
        // SAFETY: the inner rows are complete, and nothing is prepared before their products have ended.
        let acts = unsafe { self.acts_of(down.kernels.act(), inner, false) };
        self.products(r.runs.len(), |i| {
            let (expert, first, n) = r.runs[i];
            let bias = o.biases.map(|b| self.row_of(b.down, expert, down.rows));
            let first = first - r.first;
            let index = expert - o.held.range(o.routing.experts).start;
            self.expert_product(down, index, acts, first, n, hidden, (bias, None), Epilogue::Store)
        });
        Ok(())
    }

    /// Inputs of all assignments in the order of experts, as activations.
    fn expert_inputs(&self, o: &Experts, r: &ExpertPart<'_>, x: RowsOf, gate: &Matrix) -> Acts<'_> {
        let kind = gate.kernels.act();
        let rows = r.order.len();
        // One row that goes to all experts unscaled is prepared once: a stride of zero rows serves them all.
        let top_k = o.routing.top_k;
        let to = RowsOf { ptr: self.experts.inner.ptr_mut().cast(), rows, width: x.width };
        if kind == ActKind::F32 || o.routing.weight_input {
            self.each_row(rows, x.width, |place, _| {
                let index = r.order[place] as usize;
                let factor = if o.routing.weight_input { r.chosen[index].1 } else { 1.0 };
                // SAFETY: this task alone writes this row.
                let row = unsafe { std::slice::from_raw_parts_mut(to.at(place), x.width) };
                // SAFETY: the inputs go to memory of the experts, and no slot is written meanwhile.
                let from = unsafe { x.row(index / top_k) };
                row.iter_mut().zip(from).for_each(|(t, v)| *t = v * factor);
            });
        }
        if kind == ActKind::F32 {
            // The inner rows are written into the same memory later: inputs move to the activation buffer.
            let bytes = 4 * rows * x.width;
            // SAFETY: both buffers hold all assignments.
            unsafe { std::ptr::copy_nonoverlapping(to.ptr.cast::<u8>(), self.acts[0].ptr_mut(), bytes) };
            // SAFETY: nothing is prepared before the products of these inputs have ended.
            return Acts { bytes: unsafe { self.acts[0].bytes() }, stride: x.width };
        }
        self.each_row(rows, 2 * x.width, |place, _| {
            let row = if o.routing.weight_input {
                to.at(place).cast_const()
            } else {
                x.at(r.order[place] as usize / top_k)
            };
            self.quantize_row(row, x.width, place, rows, ActKinds::default().with(kind));
        });
        // SAFETY: nothing is prepared before the products of these inputs have ended.
        unsafe { self.acts_of(kind, to, false) }
    }

    /// `act(gate x) * up x` for all assignments.
    fn expert_halves(
        &self,
        o: &Experts,
        r: &ExpertPart<'_>,
        (gate, up): (&Matrix, &Matrix),
        acts: Acts<'_>,
        inner: RowsOf,
    ) {
        let bias = |w: Option<WeightId>, expert| w.map(|w| self.row_of(w, expert, gate.rows));
        self.products(r.runs.len(), |i| {
            let (expert, first, n) = r.runs[i];
            let first = first - r.first;
            let biases = (bias(o.biases.map(|b| b.gate), expert), bias(o.biases.map(|b| b.up), expert));
            let epilogue = Epilogue::Glu(o.act);
            let index = expert - o.held.range(o.routing.experts).start;
            let mut p = self.expert_product(gate, index, acts, first, n, inner, biases, epilogue);
            p.up = Some(up);
            p
        });
    }

    #[allow(clippy::too_many_arguments)] // one product has this many parts, and a struct for one caller would hide them
    fn expert_product<'a>(
        &self,
        m: &'a Matrix,
        index: usize,
        acts: Acts<'a>,
        first: usize,
        rows: usize,
        to: RowsOf,
        (bias, up_bias): (Option<&'a [f32]>, Option<&'a [f32]>),
        epilogue: Epilogue,
    ) -> Product<'a> {
        Product {
            matrix: m,
            index,
            up: None,
            acts: acts.from(first, m.kernels.act()),
            rows,
            to: to.at(first),
            stride: to.width,
            bias,
            up_bias,
            epilogue,
        }
    }

    fn row_of(&self, w: WeightId, row: usize, width: usize) -> &[f32] {
        &self.vector(w)[row * width..(row + 1) * width]
    }

    /// Quantizes all rows for the second half; float32 rows are used where they are.
    fn quantize_rows(&self, x: RowsOf, kind: ActKind) {
        if kind != ActKind::F32 {
            self.each_row(x.rows, 2 * x.width, |r, _| {
                self.quantize_row(x.at(r), x.width, r, x.rows, ActKinds::default().with(kind))
            });
        }
    }

    /// Sums the results of each row in the order of its choice.
    fn combine(&self, rule: &Routing, r: &RoutedRows, results: RowsOf, out: RowsOf) {
        self.each_row(out.rows, out.width * rule.top_k, |row, _| {
            let to = out.at(row);
            // SAFETY: this task alone writes this row.
            unsafe { to.write_bytes(0, out.width) };
            let chosen = row * rule.top_k..(row + 1) * rule.top_k;
            for i in chosen.filter(|&i| r.chosen[i].0 != LEFT_OUT) {
                let weight = if rule.weight_input { 1.0 } else { r.chosen[i].1 };
                // SAFETY: both rows have this width.
                unsafe { (self.kernels.add)(results.at(r.place[i] as usize), out.width, weight, to) };
            }
        });
    }
}

impl RoutedRows {
    /// Chooses experts for every row and sorts the assignments.
    fn route(&mut self, rule: &Routing, logits: RowsOf, select_bias: Option<&[f32]>) {
        self.chosen.clear();
        for r in 0..logits.rows {
            // SAFETY: routing writes no slot.
            choose(rule, unsafe { logits.row(r) }, select_bias, &mut self.ranking, &mut self.chosen);
        }
        self.order.clear();
        let chosen = &self.chosen;
        self.order.extend((0..chosen.len() as u32).filter(|&i| chosen[i as usize].0 != LEFT_OUT));
        self.order.sort_unstable_by_key(|&i| (chosen[i as usize].0, i));
        self.place.resize(chosen.len(), 0);
        self.runs.clear();
        for (place, &i) in self.order.iter().enumerate() {
            self.place[i as usize] = place as u32;
            let expert = self.chosen[i as usize].0 as usize;
            match self.runs.last_mut() {
                Some((e, _, n)) if *e == expert => *n += 1,
                _ => self.runs.push((expert, place, 1)),
            }
        }
    }
}

/// Appends the experts of one row with their weights, best first; equal scores go to the lower index. There are always
/// `top_k`; [`LEFT_OUT`] stands for those that are not computed.
fn choose(
    rule: &Routing,
    logits: &[f32],
    select_bias: Option<&[f32]>,
    space: &mut Ranking,
    out: &mut Vec<(u32, f32)>,
) {
    let Ranking { scores, ranked, groups, order } = space;
    score(rule.score, logits, scores);
    ranked.clone_from(scores);
    if let Some(bias) = select_bias {
        ranked.iter_mut().zip(bias).for_each(|(s, b)| *s += b);
    }
    keep_best_groups(rule, ranked, groups, order);
    let first = out.len();
    out.extend(best(ranked, rule.top_k, order).iter().map(|&e| (e as u32, scores[e])));
    let chosen = &mut out[first..];
    if rule.score == RouterScore::SoftmaxOfChosen {
        let top = chosen.iter().map(|c| c.1).fold(f32::NEG_INFINITY, f32::max);
        chosen.iter_mut().for_each(|c| c.1 = (c.1 - top).exp());
    }
    if let Some(fewer) = rule.fewer {
        let bar = fewer.threshold * chosen.iter().map(|c| c.1).fold(0.0, f32::max);
        leave_out(chosen, |rank, weight| rank >= fewer.least && weight < bar);
    }
    let sum: f32 = chosen.iter().filter(|c| c.0 != LEFT_OUT).map(|c| c.1).sum();
    if rule.ranks != ExpertRanks::All {
        let ranks = rule.ranks.of(rule.top_k);
        leave_out(chosen, |rank, _| !ranks.contains(&rank));
    }
    let normed = rule.score == RouterScore::SoftmaxOfChosen || rule.renorm;
    // Routers of DeepSeek V3 add this to the sum; it cannot change a sum of softmax weights.
    let sum = if rule.score == RouterScore::Sigmoid { sum + 1e-20 } else { sum };
    let factor = rule.scale / if normed { sum } else { 1.0 };
    chosen.iter_mut().for_each(|c| c.1 *= factor);
}

/// Leaves out chosen experts by the rank of their weight and by the weight: the rank is the number of those with a larger
/// one, or the same one and chosen before. Weights stay as they are, so that ranks do.
fn leave_out(chosen: &mut [(u32, f32)], is: impl Fn(usize, f32) -> bool) {
    for i in 0..chosen.len() {
        let weight = chosen[i].1;
        let before = |&(j, other): &(usize, &(u32, f32))| other.1 > weight || other.1 == weight && j < i;
        if is(chosen.iter().enumerate().filter(before).count(), weight) {
            chosen[i].0 = LEFT_OUT;
        }
    }
}

/// Scores of all experts from their logits.
fn score(score: RouterScore, logits: &[f32], out: &mut Vec<f32>) {
    out.clear();
    out.extend_from_slice(logits);
    match score {
        RouterScore::SoftmaxOfChosen => {}
        RouterScore::Sigmoid => out.iter_mut().for_each(|l| *l = 1.0 / (1.0 + (-*l).exp())),
        RouterScore::Softmax => {
            let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            out.iter_mut().for_each(|l| *l = (*l - top).exp());
            let sum: f32 = out.iter().sum();
            out.iter_mut().for_each(|w| *w /= sum);
        }
    }
}

/// Experts outside the best groups cannot be chosen.
fn keep_best_groups(rule: &Routing, ranked: &mut [f32], scores: &mut Vec<f32>, order: &mut Vec<usize>) {
    let Some(groups) = rule.groups else { return };
    let size = ranked.len() / groups.count;
    scores.clear();
    for group in ranked.chunks_exact(size) {
        scores.push(match groups.by {
            GroupScore::Best => group.iter().copied().fold(f32::NEG_INFINITY, f32::max),
            GroupScore::BestTwo => best(group, 2, order).iter().map(|&i| group[i]).sum(),
        });
    }
    let kept = best(scores, groups.keep, order);
    for (g, group) in ranked.chunks_exact_mut(size).enumerate() {
        if !kept.contains(&g) {
            group.fill(f32::NEG_INFINITY);
        }
    }
}

/// Indices of the `n` largest values, largest first, lower index first among equals.
fn best<'a>(values: &[f32], n: usize, order: &'a mut Vec<usize>) -> &'a [usize] {
    order.clear();
    order.extend(0..values.len());
    let by_value = |&a: &usize, &b: &usize| values[b].total_cmp(&values[a]).then(a.cmp(&b));
    let n = n.min(order.len());
    if n < order.len() {
        order.select_nth_unstable_by(n, by_value);
    }
    order.truncate(n);
    // No two indices are equal, so this is the order of a stable sort, which would allocate.
    order.sort_unstable_by(by_value);
    order
}
