//! Compression of a prompt's cache: what a request asks for, and which cells of which layer that leaves.

use crate::error::EngineError;
use lamina_plan::{CellSelection, KeptCells, LayerState, Limits, Plan, Reach, Step, op::Op};
use std::{fmt, ops::Range, str::FromStr, sync::Arc};

/// How the cells of a prompt that stay are divided among layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerBudgets {
    /// As many in each: SnapKV (arXiv 2404.14469).
    Even,
    /// Fewer from layer to layer: PyramidKV (arXiv 2406.02069).
    Falling,
}

impl LayerBudgets {
    /// All of them with the names that users write.
    const ALL: [(&str, LayerBudgets); 2] =
        [("snapkv", LayerBudgets::Even), ("pyramidkv", LayerBudgets::Falling)];
}

/// Of a prompt that is longer than this, what its last tokens look at most stays in each layer and key head, with them.
///
/// Users write `snapkv:1024`, or `pyramidkv:1024,window=32,pool=7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// How the tokens that stay are divided among layers.
    pub budgets: LayerBudgets,
    /// Tokens that stay of each layer's and key head's, in the mean, with those of the window.
    pub tokens: usize,
    /// Last tokens of the prompt, whose attention decides: they all stay.
    pub window: usize,
    /// A token counts as much as the one with the most attention among so many around it; an odd number.
    pub pool: usize,
}

/// Tokens of a window that is not said.
const WINDOW: usize = 32;
/// Tokens of a neighbourhood that is not said.
const POOL: usize = 7;
/// PyramidKV's beta: the topmost layer keeps this part of the mean beside its window.
const TOP_PART: usize = 20;

impl Compression {
    /// With the papers' window and neighbourhood.
    pub fn new(budgets: LayerBudgets, tokens: usize) -> Compression {
        Compression { budgets, tokens, window: WINDOW, pool: POOL }
    }

    fn check(&self) -> Result<(), EngineError> {
        let wrong = |want| Err(wrong(self, want));
        if self.pool.is_multiple_of(2) || self.pool > 255 {
            return wrong("written with an odd pool, from 1 to 255");
        }
        if self.window == 0 || self.window >= self.tokens {
            return wrong("written with a window of at least 1 token that is smaller than what stays");
        }
        Ok(())
    }

    /// Tokens before the window that `layers` layers keep of `before`, from the lowest layer on.
    fn kept(&self, before: usize, layers: usize) -> Vec<usize> {
        let mean = (self.tokens - self.window).min(before);
        // As its authors do it: where twice the mean is not there, all layers keep as many.
        if self.budgets == LayerBudgets::Even || layers < 2 || before < 2 * mean {
            return vec![mean; layers];
        }
        let top = mean / TOP_PART;
        let bottom = 2 * mean - top;
        (0..layers).map(|i| bottom - (bottom - top) * i / (layers - 1)).collect()
    }
}

impl FromStr for Compression {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        let unknown =
            || wrong(text, "snapkv:TOKENS or pyramidkv:TOKENS, with ,window=N and ,pool=N if wanted");
        let (method, rest) = text.split_once(':').ok_or_else(unknown)?;
        let (_, budgets) = *LayerBudgets::ALL.iter().find(|(name, _)| *name == method).ok_or_else(unknown)?;
        let mut parts = rest.split(',');
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| unknown());
        let mut all = Compression::new(budgets, number(parts.next().unwrap_or_default())?);
        for part in parts {
            match part.trim().split_once('=') {
                Some(("window", n)) => all.window = number(n)?,
                Some(("pool", n)) => all.pool = number(n)?,
                _ => return Err(unknown()),
            }
        }
        all.check().map(|()| all)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = LayerBudgets::ALL.iter().find(|(_, b)| *b == self.budgets).map_or("", |(name, _)| name);
        write!(f, "{name}:{},window={},pool={}", self.tokens, self.window, self.pool)
    }
}

/// Layers of a machine's cache that can be compressed: the layer group of those that can, by their index.
#[derive(Clone, Debug)]
pub(crate) struct CompressibleLayers {
    groups: Result<Arc<[Option<usize>]>, &'static str>,
    /// Most rows of a window, and where all rows of a prompt are scored.
    rows: [usize; 2],
}

impl CompressibleLayers {
    pub fn new(step: &dyn Step) -> CompressibleLayers {
        let groups = match step.selects_cells() {
            true => groups(step.plan()),
            false => Err("left out on this device: its attention reads all tokens"),
        };
        let &Limits { rows, selected, logits, .. } = step.limits();
        // Answers that decode beside it get the other half.
        let rows = [rows / 2, rows.min(selected).min(logits) / 2];
        CompressibleLayers { groups: groups.map(Into::into), rows }
    }

    /// What compresses the prompts of a request, `scored` where it wants the logprobs of theirs.
    ///
    /// # Errors
    /// When the model, the device or its steps cannot do what is asked for.
    pub fn compressor(&self, asked: &Compression, scored: bool) -> Result<Compressor, EngineError> {
        asked.check()?;
        let groups = self.groups.clone().map_err(|want| wrong(asked, want))?;
        if asked.window > self.rows[usize::from(scored)] {
            let want = "written with a window of at most half of the rows of a step, of those with logits where the prompt \
                        is scored";
            return Err(wrong(asked, want));
        }
        Ok(Compressor { asked: *asked, groups })
    }
}

/// The layer group of each layer of the cache that sees the whole context through keys of its own, or what a request that
/// wants them compressed is told. Windows and recurrent layers stay as they are.
fn groups(plan: &Plan) -> Result<Vec<Option<usize>>, &'static str> {
    let whole = |group: usize| plan.kv.groups[group].reach == Reach::All;
    let readers = |kv: usize| {
        plan.ops.iter().filter_map(move |op| match op {
            Op::Attend(o) if o.attention.kv == kv => Some(o.attention),
            Op::Attention(o) if o.kv == kv => Some(*o),
            _ => None,
        })
    };
    if plan.looks_ahead() {
        return Err("left out for models whose rows see later ones");
    }
    let mut groups = vec![None; plan.kv.layers.len()];
    for (kv, layer) in plan.kv.layers.iter().enumerate() {
        match *layer {
            LayerState::Latent { group, .. } if whole(group) => {
                return Err(
                    "left out for models whose cache holds latents: these are small, and all heads share them",
                );
            }
            LayerState::Paged { group, .. } if whole(group) => {
                if readers(kv).any(|o| o.alibi.is_some()) {
                    return Err(
                        "left out for models with linear position biases: they count tokens that would be gone",
                    );
                }
                if readers(kv).count() > 1 {
                    return Err("left out for models whose layers share keys: each would select others");
                }
                groups[kv] = Some(group);
            }
            _ => {}
        }
    }
    match groups.iter().any(Option::is_some) {
        true => Ok(groups),
        false => Err("left out for models without a layer that sees the whole context"),
    }
}

/// Compresses the prompts of a request.
#[derive(Debug)]
pub(crate) struct Compressor {
    asked: Compression,
    groups: Arc<[Option<usize>]>,
}

impl Compressor {
    /// The window at the end of a prompt of `end` tokens; none where all of it stays.
    pub fn window(&self, end: usize) -> Option<Range<usize>> {
        (end > self.asked.tokens).then(|| end - self.asked.window..end)
    }

    /// First cell that is left in each layer of the cache, before a window that begins at `start`.
    fn first(&self, start: usize) -> Arc<[u32]> {
        let kept = self.asked.kept(start, self.groups.iter().flatten().count());
        let mut kept = kept.into_iter();
        let mut first = |_: usize| (start - kept.next().unwrap_or(0)) as u32;
        self.groups.iter().map(|group| group.map_or(0, &mut first)).collect()
    }

    /// What the rows of the window are to do.
    pub fn select(&self, start: usize) -> KeptCells {
        KeptCells::Select(CellSelection { first: self.first(start), pool: self.asked.pool as u32 })
    }

    /// What rows behind the window see.
    pub fn kept(&self, start: usize) -> KeptCells {
        KeptCells::From(self.first(start))
    }

    /// First cell of a layer group that any layer of it has, before a window that begins at `start`; none for groups that
    /// stay as they are.
    pub fn first_of(&self, group: usize, start: usize) -> Option<usize> {
        let first = self.first(start);
        let layers = self.groups.iter().zip(&*first);
        layers.filter(|(g, _)| **g == Some(group)).map(|(_, &first)| first as usize).min()
    }
}

fn wrong(value: impl ToString, want: &'static str) -> EngineError {
    EngineError::Parameter { name: "compress", value: value.to_string(), want }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Compression {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn what_is_written_is_read() {
        let plain = parsed("snapkv:1024");
        assert_eq!(plain, Compression { budgets: LayerBudgets::Even, tokens: 1024, window: 32, pool: 7 });
        let all = parsed("pyramidkv:100, window=16,pool=5");
        assert_eq!(all, Compression { budgets: LayerBudgets::Falling, tokens: 100, window: 16, pool: 5 });
        assert_eq!(parsed(&all.to_string()), all);
        let wrong = [
            "",
            "snapkv",
            "snapkv:",
            "h2o:100",
            "snapkv:x",
            "snapkv:9,depth=2",
            "snapkv:100,pool=4",
            "snapkv:32",
        ];
        for text in wrong {
            let error = text.parse::<Compression>().expect_err(text).to_string();
            assert!(error.starts_with("compress is ") && error.contains("must be"), "{error}");
        }
    }

    #[test]
    fn budgets_fall_from_layer_to_layer_around_the_same_mean() {
        assert_eq!(parsed("snapkv:132").kept(1000, 3), [100; 3]);
        assert_eq!(parsed("snapkv:132").kept(60, 3), [60; 3], "no more than there are");
        let falling = parsed("pyramidkv:132").kept(1000, 5);
        assert_eq!((falling[0], falling[4]), (195, 5));
        assert_eq!(falling.iter().sum::<usize>().div_ceil(5), 101);
        assert!(falling.is_sorted_by(|a, b| a > b));
        assert_eq!(
            parsed("pyramidkv:132").kept(150, 5),
            [100; 5],
            "the lowest layer would want more than there are"
        );
        assert_eq!(parsed("pyramidkv:132").kept(1000, 1), [100]);
    }

    #[test]
    fn layers_of_other_groups_are_whole() {
        let groups: Arc<[Option<usize>]> = [Some(1), None, Some(1), Some(2)].into();
        let c = Compressor { asked: parsed("pyramidkv:132"), groups };
        assert_eq!((c.window(132), c.window(133)), (None, Some(101..133)));
        assert_eq!(*c.first(1000), [805, 0, 900, 995]);
        assert_eq!([0, 1, 2].map(|g| c.first_of(g, 1000)), [None, Some(805), Some(995)]);
        assert_eq!(c.kept(1000).first(2), 900);
        assert_eq!(c.select(1000).selects(3), Some((995, 7)));
    }
}
