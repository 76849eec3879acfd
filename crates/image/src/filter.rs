//! Filters of resampling, and their weights in integers.

/// How pixels between pixels are made. Numbers are those of Pillow, which configurations of processors hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Filter {
    /// A triangle.
    Bilinear,
    /// Cubic convolution with a = -0.5.
    Bicubic,
    /// A sinc of three lobes.
    Lanczos,
}

/// FilterWeights are rounded to integers of so many bits behind the point: a sum of 8-bit samples then fits 32 bits.
pub(crate) const WEIGHT_BITS: u32 = 22;

/// The samples that make one sample of the result, and their weights, which add up to about `1 << WEIGHT_BITS`.
pub(crate) struct Taps<'t> {
    pub first: usize,
    pub weights: &'t [i32],
}

/// Taps of all samples of a resized line.
pub(crate) struct FilterWeights {
    /// Index of the first tap and number of taps.
    spans: Vec<(usize, usize)>,
    weights: Vec<i32>,
    /// FilterWeights are stored in rows of so many.
    most: usize,
}

impl Filter {
    /// By Pillow's number; none for those that no processor of a known family uses.
    pub fn of_number(number: u64) -> Option<Filter> {
        match number {
            1 => Some(Filter::Lanczos),
            2 => Some(Filter::Bilinear),
            3 => Some(Filter::Bicubic),
            _ => None,
        }
    }

    /// Half the width of the filter, in samples of the source when it is not shrunk.
    fn support(self) -> f64 {
        match self {
            Filter::Bilinear => 1.0,
            Filter::Bicubic => 2.0,
            Filter::Lanczos => 3.0,
        }
    }

    /// The filter at a distance.
    fn at(self, x: f64) -> f64 {
        let x = x.abs();
        match self {
            Filter::Bilinear if x < 1.0 => 1.0 - x,
            Filter::Bicubic if x < 1.0 => ((-0.5 + 2.0) * x - (-0.5 + 3.0)) * x * x + 1.0,
            Filter::Bicubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5,
            Filter::Lanczos if x < 3.0 => sinc(x) * sinc(x / 3.0),
            _ => 0.0,
        }
    }
}

fn sinc(x: f64) -> f64 {
    let x = x * std::f64::consts::PI;
    if x == 0.0 { 1.0 } else { x.sin() / x }
}

impl FilterWeights {
    /// FilterWeights for a line of `from` samples that becomes one of `to`. Where it shrinks, the filter is widened, so that every
    /// sample of the source counts.
    pub fn new(filter: Filter, from: usize, to: usize) -> FilterWeights {
        let scale = from as f64 / to as f64;
        let stretch = scale.max(1.0);
        let support = filter.support() * stretch;
        let most = support.ceil() as usize * 2 + 1;
        let mut weights = FilterWeights { spans: Vec::with_capacity(to), weights: vec![0; to * most], most };
        for (i, row) in weights.weights.chunks_exact_mut(most).enumerate() {
            let center = (i as f64 + 0.5) * scale;
            let first = (center - support + 0.5).max(0.0) as usize;
            let end = ((center + support + 0.5) as usize).min(from);
            let exact: Vec<f64> =
                (first..end).map(|x| filter.at((x as f64 - center + 0.5) * (1.0 / stretch))).collect();
            let sum: f64 = exact.iter().sum();
            row.iter_mut().zip(&exact).for_each(|(weight, exact)| *weight = rounded(exact, sum));
            weights.spans.push((first, end - first));
        }
        weights
    }

    /// The taps of sample `i` of the result.
    pub fn taps(&self, i: usize) -> Taps<'_> {
        let (first, count) = self.spans[i];
        Taps { first, weights: &self.weights[i * self.most..][..count] }
    }
}

/// A weight over the sum of its row, as an integer, half away from zero.
fn rounded(weight: &f64, sum: f64) -> i32 {
    let scaled = if sum == 0.0 { *weight } else { weight / sum } * f64::from(1u32 << WEIGHT_BITS);
    (scaled + 0.5f64.copysign(scaled)) as i32
}
