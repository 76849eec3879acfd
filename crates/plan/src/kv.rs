//! The KV cache layout: what each layer stores of a sequence, and how it is paged.

use lamina_base::BLOCK;
pub use lamina_base::{KvType, KvTypes, PAGE_LEN, UnknownKvType};

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
