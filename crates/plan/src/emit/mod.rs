//! From a model's spec to its plan. The presence of optional tensors (biases) is asked of the checkpoint.

mod attention;
mod clips;
mod convert;
mod ffn;
mod head;
mod output;
mod recurrent;
mod vision;

pub use head::{emit_features, emit_head, emit_medusa};
pub use vision::{emit_blocks, emit_merger, emit_patches, emit_projection};

use self::clips::ClipsOf;
use crate::{
    kv::{KvLayout, LayerState, Reach},
    op::*,
    plan::{Mark, Plan, WeightKind, WeightSpec},
    slot::{RowKind, Slot, SlotSpec, WeightId},
};
use lamina_arch::spec::{
    Embed as EmbedSpec, Ffn, Layer, Mask, Mixer, ModelOutput, ModelSpec, Norm, Place, Rope,
};
use std::collections::HashMap;

/// Emits the operators of `spec`; `has` tells whether the checkpoint holds a canonical tensor name.
pub fn emit(spec: &ModelSpec, has: &dyn Fn(&str) -> bool) -> Plan {
    let mut e = Emitter::new(spec, has);
    let mut x = e.embed(&spec.embed);
    let last = spec.layers.len().saturating_sub(1);
    for (i, layer) in spec.layers.iter().enumerate() {
        x = e.layer(i, layer, x, i == last);
        if layer.scale != 1.0 {
            e.push(Apply { x, map: Map::Scale(layer.scale) });
        }
        e.mark(x);
    }
    let (normed, logits) = e.head(spec, x);
    let vocab = match spec.output {
        ModelOutput::Tokens => spec.vocab,
        ModelOutput::Rows => 0,
        ModelOutput::Classes { labels, .. } => labels,
    };
    e.plan(normed, logits, vocab)
}

/// What a part reads: a slot, and the norm that the part itself has to apply.
#[derive(Clone, Copy)]
struct NormedInput {
    x: Slot,
    norm: Option<NormOp>,
}

/// What a part ends in: a last matrix product that may be fused with the residual, or a finished value.
enum Tail {
    Linear { x: Slot, weight: WeightId, bias: Option<WeightId> },
    Value(Slot),
}

struct Emitter<'a> {
    spec: &'a ModelSpec,
    has: &'a dyn Fn(&str) -> bool,
    ops: Vec<Op>,
    slots: Vec<SlotSpec>,
    weights: Vec<WeightSpec>,
    index: HashMap<WeightSpec, WeightId>,
    ropes: Vec<RopeTable>,
    kv: KvLayout,
    marks: Vec<Mark>,
    /// Bounds of matrices, by their names without an ending; none where no matrix has any.
    clips: Option<ClipsOf<'a>>,
    /// Which rows new slots hold: selected ones from inside the last layer on, those with logits in the head.
    rows: RowKind,
}

impl<'a> Emitter<'a> {
    fn new(spec: &'a ModelSpec, has: &'a dyn Fn(&str) -> bool) -> Self {
        Emitter {
            spec,
            has,
            ops: vec![],
            slots: vec![],
            weights: vec![],
            index: HashMap::new(),
            ropes: vec![],
            kv: KvLayout::default(),
            marks: vec![],
            clips: None,
            rows: RowKind::All,
        }
    }

    /// All that was emitted, with these results.
    fn plan(mut self, normed: Slot, logits: Slot, vocab: usize) -> Plan {
        if self.kv.groups.is_empty() {
            // Pages count tokens and name prefixes even where no layer keeps keys.
            self.kv.group(Reach::All);
        }
        Plan {
            ops: self.ops,
            slots: self.slots,
            weights: self.weights,
            ropes: self.ropes,
            kv: self.kv,
            normed,
            logits,
            marks: self.marks,
            hidden: self.spec.hidden,
            tokens: self.spec.vocab,
            vocab,
        }
    }

    /// A slot for a new value; the arena gives it the memory of values that are dead.
    fn slot(&mut self, name: &'static str, width: usize) -> Slot {
        self.slots.push(SlotSpec { name, width, rows: self.rows });
        Slot((self.slots.len() - 1) as u16)
    }

    fn width(&self, slot: Slot) -> usize {
        self.slots[slot.0 as usize].width
    }

    fn push(&mut self, op: impl Into<Op>) {
        match self.clips {
            None => self.ops.push(op.into()),
            Some(clips) => self.push_clipped(clips, op.into()),
        }
    }

    fn mark(&mut self, slot: Slot) {
        self.marks.push(Mark { ops: self.ops.len(), slot });
    }

    fn weight(&mut self, name: String, kind: WeightKind) -> WeightId {
        let spec = WeightSpec { name, kind };
        *self.index.entry(spec).or_insert_with_key(|spec| {
            self.weights.push(spec.clone());
            WeightId((self.weights.len() - 1) as u32)
        })
    }

    fn matrix(&mut self, name: String, rows: usize, cols: usize) -> WeightId {
        self.weight(name + ".weight", WeightKind::Matrix { rows, cols })
    }

    fn vector(&mut self, name: String, len: usize) -> WeightId {
        self.weight(name, WeightKind::Vector { len })
    }

    /// The vector `name` if the checkpoint has it.
    fn optional(&mut self, name: String, len: usize) -> Option<WeightId> {
        (self.has)(&name).then(|| self.vector(name, len))
    }

    /// `out = x w^T + b` with the tensors `name.weight` and, if there, `name.bias`.
    fn part(&mut self, name: String, cols: usize, out: Slot) -> Part {
        let rows = self.width(out);
        let bias = self.optional(name.clone() + ".bias", rows);
        Part { weight: self.matrix(name, rows, cols), bias, out, columns: ColumnRange::All }
    }

    /// A norm over `len` numbers with the tensors `name.weight` and, if there, `name.bias`.
    fn norm(&mut self, name: String, norm: Norm, len: usize) -> NormOp {
        let weight = match norm.kind {
            NormKind::Rms => Some(self.vector(name.clone() + ".weight", len)),
            // OLMo 1 has layer norms without any weight.
            NormKind::Layer => self.optional(name.clone() + ".weight", len),
        };
        NormOp { kind: norm.kind, eps: norm.eps, weight, bias: self.optional(name + ".bias", len) }
    }

    fn state(&mut self, state: LayerState) -> usize {
        self.kv.layers.push(state);
        self.kv.layers.len() - 1
    }

    /// A paged layer, in the group of those that see as far.
    fn paged(&mut self, mask: Mask, layer: impl FnOnce(usize) -> LayerState) -> usize {
        let group = self.kv.group(match mask {
            Mask::Causal | Mask::Strict | Mask::Full => Reach::All,
            Mask::Window(n) => Reach::Window(n),
            Mask::Chunk(n) => Reach::Chunk(n),
        });
        self.state(layer(group))
    }

    fn rope(&mut self, rope: &Rope) -> usize {
        let table = RopeTable::from(rope);
        self.ropes.iter().position(|r| *r == table).unwrap_or_else(|| {
            self.ropes.push(table);
            self.ropes.len() - 1
        })
    }

    fn embed(&mut self, embed: &EmbedSpec) -> Slot {
        let (vocab, hidden) = (self.spec.vocab, self.spec.hidden);
        let width = embed.width.unwrap_or(hidden);
        let x = self.slot("residual", hidden);
        let out = if width == hidden { x } else { self.slot("embedding", width) };
        let table = self.weight("token_embd.weight".into(), WeightKind::Table { rows: vocab, cols: width });
        self.push(Embed { table, scale: embed.scale, out });
        if out != x {
            let part = self.part("project_in".into(), width, x);
            self.push(Linear { x: out, part });
        }
        if let Some(offset) = embed.positions {
            let rows = self.spec.context + offset;
            let table = self.weight("position_embd.weight".into(), WeightKind::Table { rows, cols: hidden });
            self.push(Positions { table, by: PlaceIndex::Position { offset }, x });
        }
        if embed.segments > 0 {
            let kind = WeightKind::Table { rows: embed.segments, cols: hidden };
            let table = self.weight("token_types.weight".into(), kind);
            self.push(Positions { table, by: PlaceIndex::Segment, x });
        }
        if let Some(norm) = embed.norm {
            let norm = self.norm("token_embd_norm".into(), norm, hidden);
            self.push(Normalize { x, norm, out: x });
        }
        self.mark(x);
        x
    }

    /// From here on only rows of this kind are computed.
    fn select(&mut self, x: Slot, kind: RowKind, name: &'static str) -> Slot {
        self.rows = kind;
        let width = self.width(x);
        let out = self.slot(name, width);
        self.push(Select { x, out });
        out
    }

    /// Emits a block and returns the slot of its residual.
    fn layer(&mut self, i: usize, l: &Layer, x: Slot, last: bool) -> Slot {
        let (mixer_in, mut x) = self.part_input(i, l, x, "attn_norm");
        let mut mixed = self.mixer(i, &l.mixer, mixer_in);
        if last {
            mixed = self.select_tail(mixed);
            x = self.select(x, RowKind::Selected, "selected");
        }
        if let Place::Parallel { shared_norm } = l.place {
            let name = if shared_norm { "attn_norm" } else { "ffn_norm" };
            let (input, _) = self.part_input(i, l, x, name);
            let fed = self.ffn(i, &l.ffn, input);
            self.add_tail(mixed, l.residual, x);
            fed.into_iter().for_each(|t| self.add_tail(t, l.residual, x));
            return x;
        }
        self.feed_mixed(i, l, mixed, x)
    }

    /// Emits a block from its mixed rows on, where one part follows the other.
    fn feed_mixed(&mut self, i: usize, l: &Layer, mixed: Tail, x: Slot) -> Slot {
        self.finish(i, l, mixed, x, "post_attention_norm");
        if l.ffn == Ffn::None {
            return x;
        }
        let (ffn_in, x) = self.part_input(i, l, x, "ffn_norm");
        if let Some(fed) = self.ffn(i, &l.ffn, ffn_in) {
            self.finish(i, l, fed, x, "post_ffw_norm");
        }
        x
    }

    /// What a part reads, and the residual it is added to.
    fn part_input(&mut self, i: usize, l: &Layer, x: Slot, name: &str) -> (NormedInput, Slot) {
        let hidden = self.spec.hidden;
        match l.place {
            Place::Post | Place::PostResidual => (NormedInput { x, norm: None }, x),
            Place::Pre | Place::Sandwich | Place::Parallel { .. } => {
                let norm = self.norm(format!("blk.{i}.{name}"), l.norm, hidden);
                (NormedInput { x, norm: Some(norm) }, x)
            }
            Place::FromNorm => {
                let norm = self.norm(format!("blk.{i}.{name}"), l.norm, hidden);
                let out = self.slot(if name == "attn_norm" { "normed residual" } else { "residual" }, hidden);
                self.push(Normalize { x, norm, out });
                (NormedInput { x: out, norm: None }, out)
            }
        }
    }

    /// Adds a part's result to the residual, with the norm that the block's place asks for.
    fn finish(&mut self, i: usize, l: &Layer, tail: Tail, into: Slot, name: &str) {
        let hidden = self.spec.hidden;
        match l.place {
            Place::Post | Place::Sandwich => {
                let x = self.value(tail);
                let norm = self.norm(format!("blk.{i}.{name}"), l.norm, hidden);
                self.push(NormAdd { x, norm, scale: l.residual, into });
            }
            Place::PostResidual => {
                self.add_tail(tail, l.residual, into);
                let name = if name == "post_attention_norm" { "attn_norm" } else { "ffn_norm" };
                let norm = self.norm(format!("blk.{i}.{name}"), l.norm, hidden);
                self.push(Normalize { x: into, norm, out: into });
            }
            Place::Pre | Place::FromNorm | Place::Parallel { .. } => self.add_tail(tail, l.residual, into),
        }
    }

    fn add_tail(&mut self, tail: Tail, scale: f32, into: Slot) {
        match tail {
            Tail::Linear { x, weight, bias } => {
                let width = self.width(into);
                let temp = self.slot("part", width);
                self.push(LinearAdd { x, weight, bias, temp, scale, into, columns: ColumnRange::All });
            }
            Tail::Value(x) => self.push(Add { x, scale, into, columns: ColumnRange::All }),
        }
    }

    /// A tail as a finished value.
    fn value(&mut self, tail: Tail) -> Slot {
        match tail {
            Tail::Value(x) => x,
            Tail::Linear { x, weight, bias } => {
                let out = self.slot("part", self.spec.hidden);
                self.push(Linear { x, part: Part { weight, bias, out, columns: ColumnRange::All } });
                out
            }
        }
    }

    fn select_tail(&mut self, tail: Tail) -> Tail {
        match tail {
            Tail::Linear { x, weight, bias } => {
                Tail::Linear { x: self.select(x, RowKind::Selected, "selected mix"), weight, bias }
            }
            Tail::Value(x) => Tail::Value(self.select(x, RowKind::Selected, "selected mix")),
        }
    }

    fn mixer(&mut self, i: usize, mixer: &Mixer, input: NormedInput) -> Tail {
        match mixer {
            Mixer::Gqa(g) => self.gqa(i, g, input),
            Mixer::Mla(m) => self.mla(i, m, input),
            Mixer::GatedDelta(d) => self.gated_delta(i, d, input),
            Mixer::Mamba2(m) => self.mamba2(i, m, input),
        }
    }

    fn ffn(&mut self, i: usize, ffn: &Ffn, input: NormedInput) -> Option<Tail> {
        match ffn {
            Ffn::None => None,
            Ffn::Dense(d) => Some(self.dense(i, d, input)),
            Ffn::Moe(m) => Some(self.moe(i, m, input)),
        }
    }

    /// The normed input as a slot of its own, for parts that read it several times.
    fn normed(&mut self, input: NormedInput) -> Slot {
        let Some(norm) = input.norm else { return input.x };
        let out = self.slot("normed", self.spec.hidden);
        self.push(Normalize { x: input.x, norm, out });
        out
    }

    fn project(&mut self, input: NormedInput, parts: Vec<Part>) -> Project {
        let width = self.width(input.x);
        Project { x: input.x, norm: input.norm, temp: self.slot("normed", width), parts }
    }
}
