//! A backend whose memory the host cannot see: bytes that only `begin`, reads, writes, imports and exports cross.
//!
//! Operators are put into a queue and run when something is read, on what `begin` has sent of the batch; steps of a
//! known shape are replayed from a recording. It has plain operators of attention models only, and refuses the rest.

use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_oracle::reference::{dot, freqs, norm, slopes, softcap, softmax, turn};
use lamina_plan::{
    Backend, BackendWeight, Batch, Capabilities, Input, KvLayout, KvTypes, LayerState, Limits, Ops, PAGE_LEN,
    Plan, Queue, Reports, RowKind, Sizes, Slot, View, WeightId, WeightSpec, backend::Result,
    batch::Copy as PageCopy, op::*,
};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Operators that it does not have.
const MISSING: [&str; 10] = [
    "Feature",
    "Concat",
    "Positions",
    "Gate",
    "LatentAttend",
    "Experts",
    "Conv",
    "DeltaRule",
    "Scan",
    "GatedNorm",
];

pub struct Toy;

/// What makes two steps alike: rows of each kind, whether a sequence is adapted, and the operators.
type Shape = ([usize; 3], bool, Vec<Op>);

pub struct Machine {
    device: Mutex<Device>,
    recordings: Vec<(Shape, Vec<Op>)>,
    recording: Option<(Shape, Vec<Op>)>,
}

impl Reports for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }
}

impl Sizes for Toy {
    fn page_bytes(&self, layout: &KvLayout, group: usize, _types: KvTypes) -> usize {
        layout.numbers_per_token(group) * PAGE_LEN * size_of::<f32>()
    }
}

impl Backend for Toy {
    fn capabilities(&self) -> Capabilities {
        let ops = Op::PLAIN.iter().copied().filter(|name| !MISSING.contains(name)).collect();
        Capabilities::new(DType::ALL.to_vec(), ops)
    }

    fn refuses(&self, plan: &Plan) -> Option<String> {
        let missing = plan.ops.iter().map(Op::name).find(|n| MISSING.contains(n));
        let sparse = || plan.is_sparse().then(|| "sparse attention".to_owned());
        missing.map(|n| format!("the operator {n}")).or_else(sparse)
    }

    fn upload(&self, _spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight> {
        Ok(BackendWeight::new(tensor.to_f32()?))
    }

    fn machine(
        self: Box<Self>,
        plan: &Plan,
        weights: Vec<BackendWeight>,
        limits: &Limits,
    ) -> Result<Box<dyn Ops>> {
        let weights: Vec<Vec<f32>> = BackendWeight::own(weights, self.name())?;
        let device = Mutex::new(Device::new(plan, &weights, limits));
        Ok(Box::new(Machine { device, recordings: vec![], recording: None }))
    }
}

impl Machine {
    fn device(&self) -> MutexGuard<'_, Device> {
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        device.drain();
        device
    }

    fn launch(&mut self, op: Op) -> Result<()> {
        if let Some((_, launched)) = &mut self.recording {
            launched.push(op.clone());
        }
        self.device.get_mut().unwrap_or_else(PoisonError::into_inner).queue.push(op);
        Ok(())
    }
}

impl Queue for Machine {
    fn begin(&mut self, b: &Batch) -> Result<()> {
        let mut device = self.device();
        device.copies(&b.copies);
        device.table = b.clone();
        Ok(())
    }

    fn replay(&mut self, b: &Batch, ops: &[Op]) -> Result<bool> {
        let rows = [RowKind::All, RowKind::Selected, RowKind::Logits].map(|kind| b.count(kind));
        let shape = (rows, b.seqs.iter().any(|s| s.adapted()), ops.to_vec());
        let Some((_, launched)) = self.recordings.iter().find(|(known, _)| *known == shape) else {
            self.recording = Some((shape, vec![]));
            return Ok(false);
        };
        let launched = launched.clone();
        self.device.get_mut().unwrap_or_else(PoisonError::into_inner).queue.extend(launched);
        Ok(true)
    }

    fn recorded(&mut self, whole: bool) -> Result<()> {
        self.recordings.extend(self.recording.take().filter(|_| whole));
        Ok(())
    }

    fn read(&self, slot: Slot, rows: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        let device = self.device();
        out.clear();
        out.extend(rows.flat_map(|r| device.row(slot, r)));
        Ok(())
    }

    fn write(&mut self, slot: Slot, rows: Range<usize>, numbers: &[f32]) -> Result<()> {
        let mut device = self.device();
        for (r, row) in rows.clone().zip(numbers.chunks_exact(numbers.len() / rows.len().max(1))) {
            device.set_row(slot, r, row);
        }
        Ok(())
    }

    fn export_page(&self, group: usize, page: u32) -> Result<Vec<u8>> {
        let device = self.device();
        Ok(device.pages(group, page).into_iter().flat_map(|place| device.bytes[place].to_vec()).collect())
    }

    fn import_page(&mut self, group: usize, page: u32, mut bytes: &[u8]) -> Result<()> {
        let mut device = self.device();
        let places = device.pages(group, page);
        for place in places {
            let (piece, rest) = bytes.split_at(place.len());
            device.bytes[place].copy_from_slice(piece);
            bytes = rest;
        }
        Ok(())
    }

    fn export_state(&self, _state: u32) -> Result<Vec<u8>> {
        Ok(vec![])
    }

    fn import_state(&mut self, _state: u32, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// Every plain operator is a launch, with its struct as the arguments.
macro_rules! launches {
    (plain { $($(#[$_doc:meta])* $plain:ident $Plain:ident,)* } fused { $($fused:tt)* }) => {
        impl Ops for Machine {
            $(fn $plain(&mut self, _: &Batch, o: &$Plain) -> Result<()> {
                self.launch(Op::from(o.clone()))
            })*
        }
    };
}

lamina_plan::for_each_op!(launches);

/// The other side: bytes, a queue, and the batch that `begin` has sent.
struct Device {
    bytes: Vec<u8>,
    queue: Vec<Op>,
    /// The batch of the running step.
    table: Batch,
    plan: Plan,
    /// First byte of each slot, weight and layer.
    slots: Vec<usize>,
    weights: Vec<usize>,
    layers: Vec<usize>,
}

/// Group, numbers of a head and of a stored row of keys or values, bytes of a page of keys and then values.
fn sizes(layer: &LayerState) -> (usize, usize, usize, usize) {
    match *layer {
        LayerState::Paged { group, kv_heads, dim } => {
            (group, dim, kv_heads * dim, 8 * PAGE_LEN * kv_heads * dim)
        }
        _ => (usize::MAX, 0, 0, 0),
    }
}

impl Device {
    fn new(plan: &Plan, weights: &[Vec<f32>], limits: &Limits) -> Device {
        let mut bytes: Vec<u8> = vec![];
        let mut room = |n: usize| {
            bytes.resize(bytes.len() + n, 0);
            bytes.len() - n
        };
        let slots = plan.slots.iter().map(|s| room(4 * s.width * limits.of(s.rows))).collect();
        let pages = |l: &LayerState| limits.pages.get(sizes(l).0).copied().unwrap_or(0);
        let layers = plan.kv.layers.iter().map(|l| room(sizes(l).3 * pages(l))).collect();
        let places: Vec<usize> = weights.iter().map(|w| room(4 * w.len())).collect();
        let (table, plan, queue) = (Batch::default(), plan.clone(), vec![]);
        let mut device = Device { bytes, queue, table, plan, slots, weights: places.clone(), layers };
        places.into_iter().zip(weights).for_each(|(at, w)| device.put(at, w));
        device
    }

    fn get(&self, at: usize, n: usize) -> Vec<f32> {
        self.bytes[at..at + 4 * n].as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }

    fn put(&mut self, at: usize, numbers: &[f32]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
    }

    fn row(&self, slot: Slot, row: usize) -> Vec<f32> {
        let width = self.plan.width(slot);
        self.get(self.slots[slot.0 as usize] + 4 * row * width, width)
    }

    fn set_row(&mut self, slot: Slot, row: usize, numbers: &[f32]) {
        self.put(self.slots[slot.0 as usize] + 4 * row * self.plan.width(slot), numbers);
    }

    fn weight(&self, w: WeightId) -> Vec<f32> {
        let (rows, cols) = self.plan.weight(w).kind.shape();
        self.get(self.weights[w.0 as usize], rows * cols)
    }

    /// Where a page is in each layer of a group.
    fn pages(&self, group: usize, page: u32) -> Vec<Range<usize>> {
        let layers = self.plan.kv.layers.iter().map(sizes).zip(&self.layers);
        let of_group =
            layers.filter(|((g, ..), _)| *g == group).map(|((.., n), at)| (at + page as usize * n, n));
        of_group.map(|(at, n)| at..at + n).collect()
    }

    fn copies(&mut self, copies: &[PageCopy]) {
        for copy in copies {
            let PageCopy::Page { group, from, to } = *copy else { continue };
            let pairs = self.pages(group as usize, from).into_iter().zip(self.pages(group as usize, to));
            pairs.for_each(|(from, to)| self.bytes.copy_within(from, to.start));
        }
    }

    /// First byte of what is stored for a cell of the sequence of `row`: its key, or behind it its value.
    fn cell(&self, kv: usize, row: usize, cell: usize, value: bool) -> usize {
        let (group, _, width, bytes) = sizes(&self.plan.kv.layers[kv]);
        let (page, place) = self.table.locate(self.table.seq(row), group, cell);
        self.layers[kv] + page * bytes + 4 * width * (place + if value { PAGE_LEN } else { 0 })
    }

    fn drain(&mut self) {
        std::mem::take(&mut self.queue).iter().for_each(|op| self.run(op));
    }

    /// `out = f(row, x)` for every row.
    fn each(&mut self, x: Slot, out: Slot, f: impl Fn(&Device, usize, Vec<f32>) -> Vec<f32>) {
        for r in 0..self.table.count(self.plan.kind(out)) {
            let row = f(self, r, self.row(x, r));
            self.set_row(out, r, &row);
        }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Embed(o) => self.embed(o),
            Op::Normalize(o) => self.each(o.x, o.out, |d, _, x| d.norm(&o.norm, &x, 1, false)),
            Op::HeadNorm(o) => self.each(o.x, o.x, |d, _, x| d.norm(&o.norm, &x, o.heads, o.weight_per_head)),
            Op::Linear(o) => {
                let (weight, bias) = (self.weight(o.part.weight), o.part.bias.map(|w| self.weight(w)));
                self.each(o.x, o.part.out, |d, r, x| {
                    let mut out = d.row(o.part.out, r);
                    let columns = o.part.columns.range(out.len());
                    for (i, w) in columns.zip(weight.chunks_exact(x.len())) {
                        out[i] = dot(w, &x) as f32 + bias.as_ref().map_or(0.0, |b| b[i]);
                    }
                    out
                });
            }
            Op::Add(o) => self.each(o.x, o.into, |d, r, x| {
                let mut into = d.row(o.into, r);
                o.columns.range(x.len()).for_each(|i| into[i] += o.scale * x[i]);
                into
            }),
            Op::Copy(o) => self.each(o.x, o.out, |_, _, x| x),
            Op::Activate(o) => self.each(o.gate, o.out, |d, r, gate| {
                let (up, mut out) = (o.up.map(|up| d.row(up, r)), d.row(o.out, r));
                for i in o.columns.range(gate.len()) {
                    out[i] = o.act.apply(gate[i], up.as_ref().map(|u| u[i]));
                }
                out
            }),
            Op::Apply(o) => self.each(o.x, o.x, |d, r, x| d.apply(o.map, d.batch_row(o.x, r), x)),
            Op::Rotate(o) => self.each(o.x, o.x, |d, r, x| d.rotate(o, d.batch_row(o.x, r), x)),
            Op::Store(o) => self.store(o),
            Op::Attention(o) => self.each(o.q, o.out, |d, r, q| d.attend(o, r, &q)),
            Op::Adapt(o) => self.each(o.x, o.x, |d, r, mut x| {
                let seq = d.table.seq(d.batch_row(o.x, r));
                for p in o.pieces.iter() {
                    let scale = seq.scale(p.lora);
                    let scaled = |v: &mut f32| *v = if scale == 0.0 { 0.0 } else { *v * scale };
                    x[p.start..p.start + p.len].iter_mut().for_each(scaled);
                }
                x
            }),
            Op::AddAdapted(o) => self.each(o.x, o.into, |d, r, x| {
                let (into, used) = (d.row(o.into, r), d.table.seq(d.batch_row(o.into, r)).adapted());
                let one = |(into, x): (&f32, f32)| if used { into + o.scale * x } else { *into };
                into.iter().zip(x).map(one).collect()
            }),
            Op::Select(o) => {
                let picked = self.table.picked(self.plan.kind(o.x), self.plan.kind(o.out)).to_vec();
                for (i, r) in picked.into_iter().enumerate() {
                    self.set_row(o.out, i, &self.row(o.x, r as usize));
                }
            }
            other => unreachable!("{} was refused", other.name()),
        }
    }

    fn batch_row(&self, slot: Slot, r: usize) -> usize {
        self.table.row_of(self.plan.kind(slot), r)
    }

    fn embed(&mut self, o: &Embed) {
        let (table, width) = (self.weight(o.table), self.plan.width(o.out));
        for r in 0..self.table.rows() {
            let row: Vec<f32> = match self.table.inputs[r] {
                Input::Token(t) => table[t as usize * width..][..width].iter().map(|v| v * o.scale).collect(),
                Input::Row(i) => self.table.numbers[i as usize * width..][..width].to_vec(),
            };
            self.set_row(o.out, r, &row);
        }
    }

    fn norm(&self, n: &NormOp, x: &[f32], pieces: usize, own_weight: bool) -> Vec<f32> {
        let (width, [weight, bias]) =
            (x.len() / pieces, [n.weight, n.bias].map(|w| w.map(|w| self.weight(w))));
        let piece = |(i, piece): (usize, &[f32])| {
            let at = if own_weight { i * width } else { 0 };
            let of = |w: &Option<Vec<f32>>| w.as_ref().map(|w| w[at..at + width].to_vec());
            norm(n, piece, of(&weight).as_deref(), of(&bias).as_deref())
        };
        x.chunks_exact(width).enumerate().flat_map(piece).collect()
    }

    fn apply(&self, map: Map, row: usize, x: Vec<f32>) -> Vec<f32> {
        let position = self.table.positions[row][0] as f32;
        let one = |v: f32| match map {
            Map::Scale(s) => v * s,
            Map::Softcap(cap) => softcap(v, cap),
            Map::Clip { low, high } => v.clamp(low, high),
            Map::Temperature(t) => v * (1.0 + t.scale * ((position + t.offset) / t.floor).floor().ln_1p()),
        };
        x.into_iter().map(one).collect()
    }

    fn rotate(&self, o: &Rotate, row: usize, mut x: Vec<f32>) -> Vec<f32> {
        let (rope, position) = (&self.plan.ropes[o.rope], self.table.positions[row]);
        let freqs = freqs(rope, position[0], self.table.seq(row).prompt_len);
        for head in x.chunks_exact_mut(self.plan.width(o.x) / o.heads) {
            turn(&mut head[o.start..o.start + rope.dim], freqs, position, rope);
        }
        x
    }

    fn store(&mut self, o: &Store) {
        for r in 0..self.table.rows() {
            let cell = self.table.cells[r] as usize;
            for (slot, value) in [(o.k, false), (o.v, true)] {
                let (at, row) = (self.cell(o.kv, r, cell, value), self.row(slot, r));
                self.put(at, &row);
            }
        }
    }

    /// Cells that a row sees, with the index of the token in each.
    fn seen(&self, mask: Mask, row: usize) -> Vec<(usize, usize)> {
        let seen = mask.visible(self.table.index(row), self.table.len_of(self.table.seq(row)));
        match &self.table.seq(row).view {
            View::InOrder => seen.map(|j| (j, j)).collect(),
            View::Mapped(map) => {
                let cells = map.iter().map(|&j| j as usize).enumerate();
                cells.filter(|(_, j)| seen.contains(j)).collect()
            }
        }
    }

    fn attend(&self, o: &Attention, row: usize, q: &[f32]) -> Vec<f32> {
        let (_, dim, width, _) = sizes(&self.plan.kv.layers[o.kv]);
        let (seen, index) = (self.seen(o.mask, row), self.table.index(row));
        let stored = |value| seen.iter().map(move |&(c, _)| self.get(self.cell(o.kv, row, c, value), width));
        let (keys, values): (Vec<_>, Vec<_>) = (stored(false).collect(), stored(true).collect());
        let sinks = o.sinks.map(|w| self.weight(w));
        let slopes = o.alibi.map(|largest| slopes(o.heads, largest));
        let mut out = vec![];
        for (h, q) in q.chunks_exact(dim).enumerate() {
            let at = h * width / dim / o.heads * dim;
            let slope = slopes.as_ref().map_or(0.0, |s| s[h] * o.alibi_factor);
            let score = |(key, &(_, j)): (&Vec<f32>, &(usize, usize))| {
                let score = dot(q, &key[at..at + dim]) as f32 * o.scale;
                o.softcap.map_or(score, |cap| softcap(score, cap)) - slope * index.abs_diff(j) as f32
            };
            let mut weights: Vec<f32> = keys.iter().zip(&seen).map(score).collect();
            softmax(&mut weights, sinks.as_ref().map(|s| s[h]));
            for i in at..at + dim {
                let terms = weights.iter().zip(&values).map(|(&w, v)| f64::from(w) * f64::from(v[i]));
                out.push(terms.sum::<f64>() as f32);
            }
        }
        out
    }
}
