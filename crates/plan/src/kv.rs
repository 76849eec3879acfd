//! The KV cache layout: what each layer stores of a sequence, and how it is paged.

use lamina_base::{BLOCK, DType};
use std::{fmt, str::FromStr};

/// Positions per page. Prefixes are shared, and memory is given out, in pages.
///
/// 32 keeps a page a whole number of 8- and 16-lane tiles and wastes at most 31 positions a sequence.
pub const PAGE_LEN: usize = 32;

/// Number type of stored keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvType {
    /// float32.
    F32,
    /// float16.
    F16,
    /// bfloat16.
    BF16,
    /// 8 bit with a float16 scale per 32.
    Q8_0,
    /// 4 bit with a float16 scale per 32.
    Q4_0,
    /// 4 bit between the smallest and the largest of each 32: FlexGen's group-wise compression (arXiv 2303.06865).
    Q4_1,
    /// 8-bit float, 4 exponent bits.
    F8,
}

impl KvType {
    /// All types with the names that users write.
    pub const ALL: &'static [(&'static str, KvType)] = &[
        ("f32", KvType::F32),
        ("f16", KvType::F16),
        ("bf16", KvType::BF16),
        ("q8_0", KvType::Q8_0),
        ("q4_0", KvType::Q4_0),
        ("q4_1", KvType::Q4_1),
        ("fp8", KvType::F8),
    ];

    /// The element type that the name stands for.
    pub fn dtype(self) -> DType {
        match self {
            KvType::F32 => DType::F32,
            KvType::F16 => DType::F16,
            KvType::BF16 => DType::BF16,
            KvType::Q8_0 => DType::Q8_0,
            KvType::Q4_0 => DType::Q4_0,
            KvType::Q4_1 => DType::Q4_1,
            KvType::F8 => DType::F8_E4M3,
        }
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KvType::ALL.iter().find(|(_, t)| t == self).map_or("", |(name, _)| name))
    }
}

/// A cache type name that is not in [`KvType::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kv_dtype `{0}`; known: f32 f16 bf16 q8_0 q4_0 q4_1 fp8")]
pub struct UnknownKvType(String);

impl FromStr for KvType {
    type Err = UnknownKvType;
    fn from_str(s: &str) -> Result<Self, UnknownKvType> {
        let found = KvType::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(s));
        found.map(|&(_, t)| t).ok_or_else(|| UnknownKvType(s.to_owned()))
    }
}

/// Number types of a layer group's keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvTypes {
    /// Keys; latents too.
    pub k: KvType,
    /// Values.
    pub v: KvType,
}

impl From<KvType> for KvTypes {
    fn from(one: KvType) -> KvTypes {
        KvTypes { k: one, v: one }
    }
}

/// How far back the rows of a layer group see, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// To the beginning.
    All,
    /// The last `n` tokens, their own included.
    Window(usize),
    /// Their own chunk of `n` tokens.
    Chunk(usize),
}

impl Reach {
    /// First token that the token at `index` sees.
    pub fn first(self, index: usize) -> usize {
        match self {
            Reach::All => 0,
            Reach::Window(n) => (index + 1).saturating_sub(n),
            Reach::Chunk(n) => index / n.max(1) * n,
        }
    }

    /// Pages that one sequence of `context` tokens holds at most, with steps of at most `rows` rows.
    pub fn pages(self, context: usize, rows: usize) -> usize {
        let all = context.div_ceil(PAGE_LEN);
        match self {
            Reach::All => all,
            // What the first row of a step sees, and its rows; both ends may lie inside a page.
            Reach::Window(n) | Reach::Chunk(n) => {
                all.min(n.saturating_add(rows).div_ceil(PAGE_LEN).saturating_add(1))
            }
        }
    }
}

/// A layer group: layers whose pages are allocated and freed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupSpec {
    /// How far back its rows see.
    pub reach: Reach,
}

/// What one layer stores of a sequence: keys and values, latents, or a recurrent state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerState {
    /// Keys and values of every token, in pages.
    Paged {
        /// Layer group.
        group: usize,
        /// Key and value heads.
        kv_heads: usize,
        /// Width of a head.
        dim: usize,
    },
    /// One latent row per token, in pages (MLA).
    Latent {
        /// Layer group.
        group: usize,
        /// Width of the latent.
        rank: usize,
        /// Width of the rotary key.
        rope: usize,
    },
    /// A fixed number of float32 values per sequence.
    Recurrent {
        /// Last inputs of the convolution: `channels * (taps - 1)`.
        conv: usize,
        /// State matrix.
        state: usize,
    },
    /// Nothing: the layer lies on another machine, which runs its operators.
    Elsewhere,
}

impl LayerState {
    /// Group of a paged layer.
    pub fn group(&self) -> Option<usize> {
        match *self {
            LayerState::Paged { group, .. } | LayerState::Latent { group, .. } => Some(group),
            LayerState::Recurrent { .. } | LayerState::Elsewhere => None,
        }
    }
}

/// Cache and state of all layers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KvLayout {
    /// Groups of paged layers; sequences have a page table in each.
    pub groups: Vec<GroupSpec>,
    /// One entry per layer that stores something; operators name layers by index.
    pub layers: Vec<LayerState>,
    /// Paged layers without memory of their own, ascending: where their pages are is said before each use, see
    /// [`Queue::bind_cache`](crate::Queue::bind_cache).
    pub bound: Vec<usize>,
}

/// Bytes from one page to the next of a layer that is bound, whose pages have `page` bytes: whole blocks, so that each can be
/// read past the page cache.
pub fn bound_stride(page: usize) -> usize {
    page.next_multiple_of(BLOCK)
}

impl KvLayout {
    /// Numbers per token that go into the pages of a group, over its layers.
    pub fn numbers_per_token(&self, group: usize) -> usize {
        let one = |l: &LayerState| match l {
            LayerState::Paged { kv_heads, dim, .. } => 2 * kv_heads * dim,
            LayerState::Latent { rank, rope, .. } => rank + rope,
            LayerState::Recurrent { .. } | LayerState::Elsewhere => 0,
        };
        self.of_group(group).map(one).sum()
    }

    /// Layers of a group.
    pub fn of_group(&self, group: usize) -> impl Iterator<Item = &LayerState> {
        self.layers.iter().filter(move |l| l.group() == Some(group))
    }

    /// Layers of a group that have memory of their own.
    pub fn kept_of_group(&self, group: usize) -> impl Iterator<Item = &LayerState> {
        let kept = self.layers.iter().enumerate().filter(|(i, _)| !self.bound.contains(i));
        kept.map(|(_, layer)| layer).filter(move |l| l.group() == Some(group))
    }

    /// The same groups with layer `layer` alone, in memory of its own.
    pub fn alone(&self, layer: usize) -> KvLayout {
        let one = |(i, state): (usize, &LayerState)| if i == layer { *state } else { LayerState::Elsewhere };
        let layers = self.layers.iter().enumerate().map(one).collect();
        KvLayout { groups: self.groups.clone(), layers, bound: vec![] }
    }

    /// The group of this reach; a new one where there is none yet.
    pub fn group(&mut self, reach: Reach) -> usize {
        let known = self.groups.iter().position(|g| g.reach == reach);
        known.unwrap_or_else(|| {
            self.groups.push(GroupSpec { reach });
            self.groups.len() - 1
        })
    }

    /// Float32 numbers of recurrent state per sequence, over all layers.
    pub fn state_len(&self) -> usize {
        let one =
            |l: &LayerState| if let LayerState::Recurrent { conv, state } = l { conv + state } else { 0 };
        self.layers.iter().map(one).sum()
    }
}
