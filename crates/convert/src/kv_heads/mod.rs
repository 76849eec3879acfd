//! Fewer key and value heads: several are pooled into their mean (GQA, arXiv 2305.13245), after an order that puts alike
//! ones together and turns that bring them closer ("Align Attention Heads Before Merging Them", arXiv 2412.20677). Order
//! and turns alone leave the model's function as it is.

mod grouping;
mod layer;
mod turn;

use crate::{
    draft::{Draft, Planned, room},
    error::{ConvertError, Result},
};
use lamina_arch::{
    Family, families,
    spec::{Gqa, Mixer, ModelSpec, Pairs},
    weights::Tensor,
};
use layer::{Gram, LayerHeads};
use std::{collections::BTreeMap, sync::Arc};
use turn::Freedom;

/// Which heads are pooled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Neighbours.
    InOrder,
    /// Those whose keys and values are most alike.
    Similar,
}

/// Second moments of the inputs of weights, over some text: by the name of the weight `[cols x cols]`, of any scale.
pub type Covariances = BTreeMap<String, Vec<f32>>;

/// How key and value heads are made fewer.
#[derive(Clone, Debug)]
pub struct KvHeads<'a> {
    /// Heads that are left; divides their number.
    pub count: usize,
    /// Which become one.
    pub grouping: Grouping,
    /// Turn heads towards the mean of their group.
    pub align: bool,
    /// Replace each group by its mean. Without, the model stays what it is: only order and turns change.
    pub pool: bool,
    /// What the attention of each layer sees (under the names of the key weights); without it all directions count alike.
    pub covariances: Option<&'a Covariances>,
}

impl KvHeads<'_> {
    /// `count` heads, each the mean of neighbours.
    pub fn new(count: usize) -> Self {
        KvHeads { count, grouping: Grouping::InOrder, align: false, pool: true, covariances: None }
    }
}

impl Draft {
    /// The model with fewer key and value heads.
    ///
    /// # Errors
    /// When their number is no multiple of `options.count`, or the model's attention is of a kind that cannot be pooled.
    pub fn with_kv_heads(&self, options: &KvHeads<'_>) -> Result<Draft> {
        let family = Family::of(&self.source)?;
        let spec = family.spec(&self.source)?;
        let reader = families::ALL.iter().find(|f| f.gguf.contains(&self.architecture.as_str()));
        let pairs = reader.map_or(Pairs::Half, |f| f.pairs[1]);
        if !spec.layers.iter().any(|l| matches!(l.mixer, Mixer::Gqa(_))) {
            return Err(ConvertError::invalid(
                "heads of this model",
                "cannot be pooled: no layer has key heads",
            ));
        }
        let mut draft = self.clone();
        for (i, layer) in spec.layers.iter().enumerate() {
            if let Mixer::Gqa(gqa) = &layer.mixer {
                HeadsOfLayer { draft: self, i, gqa, pairs }.convert(options, &mut draft)?;
            }
        }
        if options.pool {
            set_count(&mut draft, &spec, options.count);
        }
        Ok(draft)
    }
}

/// Layers without key heads keep their 0.
fn set_count(draft: &mut Draft, spec: &ModelSpec, count: usize) {
    let number = |m: &Mixer| if matches!(m, Mixer::Gqa(_)) { count as i32 } else { 0 };
    let all: Vec<i32> = spec.layers.iter().map(|l| number(&l.mixer)).collect();
    let key = format!("{}.attention.head_count_kv", draft.architecture);
    match all.iter().all(|&n| n == count as i32) {
        true => draft.metadata.insert(key, count as u32),
        false => draft.metadata.insert(key, all),
    };
}

/// One layer of attention.
struct HeadsOfLayer<'a> {
    draft: &'a Draft,
    i: usize,
    gqa: &'a Gqa,
    pairs: Pairs,
}

impl HeadsOfLayer<'_> {
    fn convert(&self, options: &KvHeads<'_>, out: &mut Draft) -> Result<()> {
        self.check(options)?;
        let (heads, dim) = (self.gqa.kv_heads, self.gqa.dim);
        let k = self.tensor("attn_k.weight")?;
        let covariance = options.covariances.and_then(|c| c.get(&k.name)).map(Vec::as_slice);
        if covariance.is_some_and(|c| c.len() != k.cols() * k.cols()) {
            return Err(self.wrong("the covariance of its input is of another model"));
        }
        let gram = |t: &Planned| {
            // Beside the weight, products of all its rows in double precision.
            room(&t.name, t.elements().saturating_add(t.rows().saturating_mul(t.rows())))?;
            Ok::<_, ConvertError>(Gram::new(&t.values()?.to_f32()?, heads, dim, covariance))
        };
        let (keys, values) = (gram(k)?, gram(self.tensor("attn_v.weight")?)?);
        let found =
            Arc::new(LayerHeads::find(options, &keys, &values, [self.key_freedom(), self.value_freedom()]));
        let group = if options.pool { heads / options.count } else { 1 };
        let share = self.gqa.heads / heads;
        for (part, work) in [
            ("attn_q", Work { side: Side::Keys, share, group: 1 }),
            ("attn_k", Work { side: Side::Keys, share: 1, group }),
            ("attn_v", Work { side: Side::Values, share: 1, group }),
            ("attn_output", Work { side: Side::Columns, share, group: 1 }),
            ("attn_sinks", Work { side: Side::Numbers, share, group: 1 }),
        ] {
            for suffix in [".weight", ".bias"] {
                // The bias of the output is behind the heads.
                let untouched = part == "attn_output" && suffix == ".bias";
                let name = self.name(&format!("{part}{suffix}"));
                let place = out.tensors.iter_mut().find(|t| t.name == name && !untouched);
                if let Some(place) = place {
                    *place = work.planned(place.clone(), found.clone(), dim);
                }
            }
        }
        Ok(())
    }

    fn check(&self, options: &KvHeads<'_>) -> Result<()> {
        let (heads, count) = (self.gqa.kv_heads, options.count);
        if count == 0 || !heads.is_multiple_of(count) {
            return Err(self.wrong(&format!(
                "it has {heads} key heads, of which {count} cannot be made: give a divisor"
            )));
        }
        if self.draft.tensor(&self.name("attn_qkv.weight")).is_some() {
            return Err(self.wrong("it keeps queries, keys and values in one tensor"));
        }
        if self.gqa.gated {
            return Err(self.wrong("its queries carry a gate"));
        }
        if self.gqa.alibi.is_some() && options.grouping == Grouping::Similar {
            return Err(
                self.wrong("its heads have positions of their own (ALiBi), so only neighbours can be pooled")
            );
        }
        for norm in ["attn_q_norm.weight", "attn_k_norm.weight"] {
            if self.draft.tensor(&self.name(norm)).is_some_and(|t| t.elements() != self.gqa.dim) {
                return Err(self.wrong("its norm of queries and keys spans several heads"));
            }
        }
        Ok(())
    }

    /// Turns of keys that queries can follow: rotary pairs only turn in their planes, and numbers that are normed or cut
    /// each by itself do not turn at all.
    fn key_freedom(&self) -> Freedom {
        if self.gqa.qk_norm.is_some() || self.gqa.clip.is_some() {
            return Freedom::Fixed;
        }
        let Some(rope) = &self.gqa.rope else { return Freedom::ANY };
        let half = rope.dim / 2;
        let pair = |j: usize| match self.pairs {
            Pairs::Half => (j, j + half),
            Pairs::Adjacent => (2 * j, 2 * j + 1),
        };
        Freedom::Pairs { pairs: (0..half).map(pair).collect(), rest: rope.dim }
    }

    fn value_freedom(&self) -> Freedom {
        if self.gqa.clip.is_some() { Freedom::Fixed } else { Freedom::ANY }
    }

    fn name(&self, part: &str) -> String {
        format!("blk.{}.{part}", self.i)
    }

    fn tensor(&self, part: &str) -> Result<&Planned> {
        let name = self.name(part);
        self.draft.tensor(&name).ok_or_else(|| self.wrong(&format!("it has no tensor `{name}`")))
    }

    fn wrong(&self, problem: &str) -> ConvertError {
        ConvertError::invalid(format!("heads of layer {}", self.i), format!("cannot be pooled: {problem}"))
    }
}

/// What a tensor's heads are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    /// Rows that turn with the keys.
    Keys,
    /// Rows that turn with the values.
    Values,
    /// Columns that turn with the values.
    Columns,
    /// One number for each head.
    Numbers,
}

/// How one tensor changes.
#[derive(Clone, Copy)]
struct Work {
    side: Side,
    /// Heads of the tensor for each key head.
    share: usize,
    /// Heads that become their mean.
    group: usize,
}

impl Work {
    fn planned(self, old: Planned, found: Arc<LayerHeads>, dim: usize) -> Planned {
        let mut shape = old.shape.clone();
        shape[0] /= self.group;
        let (name, dtype) = (old.name.clone(), old.dtype);
        Planned::computed(name.clone(), dtype, shape, move || {
            room(&name, old.elements())?;
            let values = old.values()?.to_f32()?;
            // Vectors are matrices of one column.
            let cols = if old.shape.len() > 1 { old.cols() } else { 1 };
            let new = match self.side {
                Side::Columns => self.columns(&values, cols, &found, dim),
                Side::Numbers => self.rows(&values, cols, &found.order, None, 1),
                Side::Keys => self.rows(&values, cols, &found.order, Some(&found.keys), dim),
                Side::Values => self.rows(&values, cols, &found.order, Some(&found.values), dim),
            };
            let (rows, width) = if old.shape.len() > 1 { (new.len() / cols, cols) } else { (1, new.len()) };
            Ok(Tensor::from_f32(&name, rows, width, &new))
        })
    }

    /// Heads of `dim` rows in their new order, turned, each group as its mean.
    fn rows(
        &self,
        w: &[f32],
        cols: usize,
        order: &[usize],
        turns: Option<&[Vec<f64>]>,
        dim: usize,
    ) -> Vec<f32> {
        let size = dim * cols;
        let mut out = vec![0f32; w.len() / self.group];
        let heads = order.iter().flat_map(|&kv| (0..self.share).map(move |s| (kv, kv * self.share + s)));
        for (at, (kv, head)) in heads.enumerate() {
            let from = &w[head * size..][..size];
            let into = &mut out[at / self.group * size..][..size];
            let part = 1.0 / self.group as f64;
            for (r, into) in into.chunks_exact_mut(cols).enumerate() {
                for (k, from) in from.chunks_exact(cols).enumerate() {
                    let factor = part * turns.map_or(f64::from(u8::from(r == k)), |t| t[kv][r * dim + k]);
                    if factor != 0.0 {
                        into.iter_mut().zip(from).for_each(|(o, v)| *o += factor as f32 * v);
                    }
                }
            }
        }
        out
    }

    /// The same of columns, without a mean: what reads the heads turns back what they were turned by.
    fn columns(&self, w: &[f32], cols: usize, found: &LayerHeads, dim: usize) -> Vec<f32> {
        let mut out = Vec::with_capacity(w.len());
        for row in w.chunks_exact(cols) {
            for &kv in &found.order {
                for head in kv * self.share..(kv + 1) * self.share {
                    let from = &row[head * dim..][..dim];
                    let turn = found.values[kv].chunks_exact(dim);
                    out.extend(
                        turn.map(|t| t.iter().zip(from).map(|(t, v)| t * f64::from(*v)).sum::<f64>() as f32),
                    );
                }
            }
        }
        out
    }
}
