//! Compression of a prompt's cache: what a request asks for, and which cells of which layer that leaves.

use crate::error::EngineError;
use lamina_plan::{CellSelection, CellSums, KeptCells, LayerState, Limits, Plan, Reach, Step, op::Op};
use std::{fmt, ops::Range, str::FromStr, sync::Arc};

/// Whose attention decides what of a prompt stays, and how that is divided among layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionMethod {
    /// The window's, as many tokens in each layer: SnapKV (arXiv 2404.14469).
    SnapKv,
    /// The window's, fewer tokens from layer to layer: PyramidKV (arXiv 2406.02069).
    PyramidKv,
    /// That of all rows of the prompt, as many tokens in each layer: H2O (arXiv 2306.14048).
    H2o,
}

impl CompressionMethod {
    /// All of them with the names that users write.
    const ALL: [(&str, CompressionMethod); 3] = [
        ("snapkv", CompressionMethod::SnapKv),
        ("pyramidkv", CompressionMethod::PyramidKv),
        ("h2o", CompressionMethod::H2o),
    ];
}

/// Of a prompt that is longer than this, what its tokens look at most stays in each layer and key head, with its last ones.
///
/// Users write `snapkv:1024`, `pyramidkv:1024,window=32,pool=7`, or `h2o:1024`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Which tokens stay.
    pub method: CompressionMethod,
    /// Tokens that stay of each layer's and key head's, in the mean, with those of the window.
    pub tokens: usize,
    /// Last tokens of the prompt: they all stay.
    pub window: usize,
    /// A token counts as much as the one with the most attention among so many around it; an odd number.
    pub pool: usize,
}

/// Tokens of a window that is not said, but for H2O.
const WINDOW: usize = 32;
/// Tokens of a neighbourhood that is not said, but for H2O.
const POOL: usize = 7;
/// PyramidKV's beta: the topmost layer keeps this part of the mean beside its window.
const TOP_PART: usize = 20;

impl Compression {
    /// With the papers' window and neighbourhood: H2O's are half of what stays, and the token alone.
    pub fn new(method: CompressionMethod, tokens: usize) -> Compression {
        let (window, pool) = match method {
            CompressionMethod::H2o => (tokens / 2, 1),
            CompressionMethod::SnapKv | CompressionMethod::PyramidKv => (WINDOW, POOL),
        };
        Compression { method, tokens, window, pool }
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
        if self.method != CompressionMethod::PyramidKv || layers < 2 || before < 2 * mean {
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
        let unknown = || {
            wrong(text, "snapkv:TOKENS, pyramidkv:TOKENS or h2o:TOKENS, with ,window=N and ,pool=N if wanted")
        };
        let (name, rest) = text.split_once(':').ok_or_else(unknown)?;
        let (_, method) = *CompressionMethod::ALL.iter().find(|(n, _)| *n == name).ok_or_else(unknown)?;
        let mut parts = rest.split(',');
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| unknown());
        let mut all = Compression::new(method, number(parts.next().unwrap_or_default())?);
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
        let name =
            CompressionMethod::ALL.iter().find(|(_, m)| *m == self.method).map_or("", |(name, _)| name);
        write!(f, "{name}:{},window={},pool={}", self.tokens, self.window, self.pool)
    }
}

/// A layer of a machine's cache that can be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompressibleLayer {
    group: usize,
    kv_heads: usize,
}

/// Layers of a machine's cache by their index; none for those that stay as they are.
pub(crate) type CacheLayers = Arc<[Option<CompressibleLayer>]>;

/// Layers of a machine's cache that can be compressed.
#[derive(Clone, Debug)]
pub(crate) struct CompressibleLayers {
    layers: Result<CacheLayers, &'static str>,
    /// Most rows of a window, and where all rows of a prompt are scored.
    rows: [usize; 2],
}

impl CompressibleLayers {
    pub fn new(step: &dyn Step) -> CompressibleLayers {
        let layers = match step.selects_cells() {
            true => compressible(step.plan()),
            false => Err("left out on this device: its attention reads all tokens"),
        };
        let &Limits { rows, selected, logits, .. } = step.limits();
        // Answers that decode beside it get the other half.
        let rows = [rows / 2, rows.min(selected).min(logits) / 2];
        CompressibleLayers { layers: layers.map(Into::into), rows }
    }

    /// What compresses the prompts of a request, `scored` where it wants the logprobs of theirs.
    ///
    /// # Errors
    /// When the model, the device or its steps cannot do what is asked for.
    pub fn compressor(&self, asked: &Compression, scored: bool) -> Result<Compressor, EngineError> {
        asked.check()?;
        let layers = self.layers.clone().map_err(|want| wrong(asked, want))?;
        let rows = self.rows[usize::from(scored)];
        let closing = match asked.method {
            // Rows add to the sums one by one: any number of the last ones may close the prompt.
            CompressionMethod::H2o => asked.window.min(WINDOW).min(rows.max(1)),
            CompressionMethod::SnapKv | CompressionMethod::PyramidKv => asked.window,
        };
        if closing > rows.max(1) {
            let want = "written with a window of at most half of the rows of a step, of those with logits where the prompt \
                        is scored";
            return Err(wrong(asked, want));
        }
        Ok(Compressor { asked: *asked, closing, layers })
    }
}

/// The layers of the cache that see the whole context through keys of their own, or what a request that wants them
/// compressed is told. Windows and recurrent layers stay as they are.
fn compressible(plan: &Plan) -> Result<Vec<Option<CompressibleLayer>>, &'static str> {
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
    let mut layers = vec![None; plan.kv.layers.len()];
    for (kv, layer) in plan.kv.layers.iter().enumerate() {
        match *layer {
            LayerState::Latent { group, .. } if whole(group) => {
                return Err(
                    "left out for models whose cache holds latents: these are small, and all heads share them",
                );
            }
            LayerState::Paged { group, kv_heads, .. } if whole(group) => {
                if readers(kv).any(|o| o.alibi.is_some()) {
                    return Err(
                        "left out for models with linear position biases: they count tokens that would be gone",
                    );
                }
                if readers(kv).count() > 1 {
                    return Err("left out for models whose layers share keys: each would select others");
                }
                layers[kv] = Some(CompressibleLayer { group, kv_heads });
            }
            _ => {}
        }
    }
    match layers.iter().any(Option::is_some) {
        true => Ok(layers),
        false => Err("left out for models without a layer that sees the whole context"),
    }
}

/// Compresses the prompts of a request.
#[derive(Debug)]
pub(crate) struct Compressor {
    asked: Compression,
    /// Last rows of a prompt that are one step, behind which cells are selected.
    closing: usize,
    layers: CacheLayers,
}

impl Compressor {
    /// The last rows of a prompt of `end` tokens, which are one step; none where all of it stays.
    pub fn closing(&self, end: usize) -> Option<Range<usize>> {
        (end > self.asked.tokens).then(|| end - self.closing..end)
    }

    /// True where rows before the last ones count too, so that all of them have to be computed.
    pub fn sums_all_rows(&self) -> bool {
        self.asked.method == CompressionMethod::H2o
    }

    /// Cells before the window, of a prompt of `end` tokens.
    pub fn before(&self, end: usize) -> usize {
        end - self.asked.window
    }

    /// Sums of zero for the cells before the window.
    pub fn sums(&self, end: usize) -> CellSums {
        CellSums::new(self.before(end), self.layers.iter().map(|layer| layer.map_or(0, |l| l.kv_heads)))
    }

    /// Bytes of the sums of a prompt of `end` tokens that are kept from its first row on.
    pub fn bytes(&self, end: usize) -> usize {
        let heads: usize = self.layers.iter().flatten().map(|layer| layer.kv_heads).sum();
        if self.sums_all_rows() { size_of::<f32>() * heads * end } else { 0 }
    }

    /// First cell that is left in each layer of the cache, of a prompt of `end` tokens.
    fn first(&self, end: usize) -> Arc<[u32]> {
        let before = self.before(end);
        let kept = self.asked.kept(before, self.layers.iter().flatten().count());
        let mut kept = kept.into_iter();
        let mut first = |_: &CompressibleLayer| (before - kept.next().unwrap_or(0)) as u32;
        self.layers.iter().map(|layer| layer.as_ref().map_or(0, &mut first)).collect()
    }

    /// What the last rows of a prompt of `end` tokens are to do, with the sums of those before them, if these count.
    pub fn select(&self, end: usize, sums: Option<CellSums>) -> KeptCells {
        let sums = sums.unwrap_or_else(|| self.sums(end));
        KeptCells::Select(CellSelection { first: self.first(end), pool: self.asked.pool as u32, sums })
    }

    /// What rows behind a prompt of `end` tokens see.
    pub fn kept(&self, end: usize) -> KeptCells {
        KeptCells::From(self.first(end))
    }

    /// First cell of a layer group that any layer of it has, of a prompt of `end` tokens; none for groups that stay as
    /// they are.
    pub fn first_of(&self, group: usize, end: usize) -> Option<usize> {
        let first = self.first(end);
        let layers = self.layers.iter().zip(&*first);
        let of_group = layers.filter(|(layer, _)| layer.is_some_and(|l| l.group == group));
        of_group.map(|(_, &first)| first as usize).min()
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
        assert_eq!(
            plain,
            Compression { method: CompressionMethod::SnapKv, tokens: 1024, window: 32, pool: 7 }
        );
        let all = parsed("pyramidkv:100, window=16,pool=5");
        assert_eq!(
            all,
            Compression { method: CompressionMethod::PyramidKv, tokens: 100, window: 16, pool: 5 }
        );
        assert_eq!(parsed(&all.to_string()), all);
        let half = parsed("h2o:101");
        assert_eq!(half, Compression { method: CompressionMethod::H2o, tokens: 101, window: 50, pool: 1 });
        assert_eq!(parsed("h2o:101,window=7,pool=3").to_string(), "h2o:101,window=7,pool=3");
        let wrong = [
            "",
            "snapkv",
            "snapkv:",
            "h2o",
            "h2o:1",
            "h2o:100,window=100",
            "streaming:100",
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

    fn compressor(text: &str, closing: usize) -> Compressor {
        let layer = |group| Some(CompressibleLayer { group, kv_heads: group + 1 });
        Compressor { asked: parsed(text), closing, layers: [layer(1), None, layer(1), layer(2)].into() }
    }

    #[test]
    fn layers_of_other_groups_are_whole() {
        let c = compressor("pyramidkv:132", 32);
        assert_eq!((c.closing(132), c.closing(133)), (None, Some(101..133)));
        assert_eq!(*c.first(1032), [805, 0, 900, 995]);
        assert_eq!([0, 1, 2].map(|g| c.first_of(g, 1032)), [None, Some(805), Some(995)]);
        assert_eq!(c.kept(1032).first(2), 900);
        assert_eq!(c.select(1032, None).selects(3), Some((995..1000, 7)));
        assert_eq!(c.bytes(1032), 0, "one step has them");
    }

    #[test]
    fn half_of_what_all_rows_select_are_the_last_tokens() {
        let c = compressor("h2o:100", 32);
        assert_eq!((c.closing(100), c.closing(300)), (None, Some(268..300)));
        assert_eq!((c.before(300), c.bytes(300)), (250, 4 * 7 * 300));
        assert_eq!(*c.first(300), [200, 0, 200, 200]);
        let sums = c.sums(300);
        let select = c.select(300, Some(sums.clone()));
        assert_eq!((select.selects(2), select.sums(2)), (Some((200..250, 1)), Some(&sums)));
        assert_eq!((sums.of(3, 2).len(), select.sums(1)), (250, None));
    }
}
