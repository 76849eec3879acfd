//! What experts see: the rows that chose them, and what their first half makes of these.

use lamina_arch::weights::Tensor;
use lamina_base::on_threads;
use lamina_plan::op::Experts;
use std::thread;

/// Input rows and middle rows of one expert.
pub(super) struct Seen {
    pub expert: usize,
    pub input: Vec<f32>,
    pub middle: Vec<f32>,
}

/// Weights of a layer's experts as they lie in the file, which the backend does not hand out again.
pub(super) struct Halves<'a> {
    pub gate: &'a Tensor,
    pub up: &'a Tensor,
    pub gate_bias: Option<&'a [f32]>,
    pub up_bias: Option<&'a [f32]>,
    pub select_bias: Option<&'a [f32]>,
}

/// Everything that the experts of `o` see for the rows `x` with their router's `logits`.
pub(super) fn seen(o: &Experts, halves: &Halves<'_>, x: &[f32], logits: &[f32], hidden: usize) -> Vec<Seen> {
    let mut all: Vec<Seen> =
        (0..o.routing.experts).map(|expert| Seen { expert, input: vec![], middle: vec![] }).collect();
    for (x, logits) in x.chunks_exact(hidden).zip(logits.chunks_exact(o.routing.experts)) {
        for (expert, weight) in o.routing.choose(logits, halves.select_bias) {
            let factor = if o.routing.weight_input { weight } else { 1.0 };
            all[expert].input.extend(x.iter().map(|v| v * factor));
        }
    }
    all.retain(|s| !s.input.is_empty());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let each = all.len().div_ceil(threads).max(1);
    on_threads(all.chunks_mut(each), |part| {
        part.iter_mut().for_each(|s| s.middle = middle(o, halves, s, hidden));
    });
    all
}

fn middle(o: &Experts, halves: &Halves<'_>, seen: &Seen, hidden: usize) -> Vec<f32> {
    let inner = o.inner;
    let rows = seen.input.len() / hidden;
    let half = |w: &Tensor, bias: Option<&[f32]>| {
        let (mut out, mut row) = (vec![0f32; rows * inner], vec![0f32; hidden]);
        let mut stored = vec![0; w.row_bytes()];
        for i in 0..inner {
            let at = seen.expert * inner + i;
            // A file that has changed meanwhile: sums that are no numbers are refused where they are used.
            if read(w, at, &mut stored, &mut row).is_none() {
                row.fill(f32::NAN);
            }
            let bias = bias.map_or(0.0, |b| b[at]);
            for (r, x) in seen.input.chunks_exact(hidden).enumerate() {
                out[r * inner + i] = bias + x.iter().zip(&row).map(|(a, b)| a * b).sum::<f32>();
            }
        }
        out
    };
    let (gate, up) = (half(halves.gate, halves.gate_bias), half(halves.up, halves.up_bias));
    gate.iter().zip(&up).map(|(&g, &u)| o.act.apply(g, Some(u))).collect()
}

fn read(w: &Tensor, row: usize, stored: &mut [u8], out: &mut [f32]) -> Option<()> {
    w.read(row..row + 1, stored).ok()?;
    lamina_quant::decode(w.dtype, stored, out).ok()
}
