//! The figures of a comparison, by the names and definitions of llama.cpp's `llama-perplexity --kl-divergence`.

use super::Divergence;
use serde_json::{Value, json};

/// A mean and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Its standard error; 0 of a single token.
    pub error: f64,
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.6} +- {:.6}", self.value, self.error)
    }
}

/// All figures of a comparison. Quantiles lie between neighbours in proportion, as numpy's do.
#[derive(Debug, Clone, PartialEq)]
pub struct DivergenceFigures {
    /// Tokens that were compared.
    pub tokens: usize,
    /// Mean KL divergence in nats.
    pub kl: Estimate,
    /// See [`Divergence::kl_bound`].
    pub kl_bound: f64,
    /// Half of the tokens have less.
    pub kl_median: f64,
    /// Nine of ten have less.
    pub kl_90: f64,
    /// 99 of 100 have less.
    pub kl_99: f64,
    /// 999 of 1000 have less.
    pub kl_999: f64,
    /// The most.
    pub kl_max: f64,
    /// The least.
    pub kl_min: f64,
    /// Mean change of the probability of the text's token.
    pub delta_p: Estimate,
    /// Root of its mean square.
    pub delta_p_rms: Estimate,
    /// Share of the tokens for which both find the same token the likeliest.
    pub same_top: Estimate,
    /// Perplexity of the model.
    pub ppl: Estimate,
    /// Perplexity of the base.
    pub base_ppl: Estimate,
    /// Logarithm of the first by the second.
    pub ln_ppl_ratio: Estimate,
    /// Correlation of both models' logarithms of the text's tokens; 1 where neither varies.
    pub correlation: f64,
}

impl Divergence {
    /// The figures.
    pub fn figures(&self) -> DivergenceFigures {
        let column =
            |f: fn(&super::TokenDivergence) -> f64| -> Vec<f64> { self.tokens.iter().map(f).collect() };
        let (kl, delta) = (column(|t| t.kl), column(super::TokenDivergence::delta_p));
        let (own, base) = (column(|t| -t.logprob), column(|t| -t.base_logprob));
        let ratio: Vec<f64> = own.iter().zip(&base).map(|(a, b)| a - b).collect();
        let squares = mean(&delta.iter().map(|d| d * d).collect::<Vec<_>>());
        let rms = squares.value.sqrt();
        let rms_error = if rms > 0.0 { 0.5 * squares.error / rms } else { 0.0 };
        let mut sorted = kl.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share| quantile(&sorted, share);
        DivergenceFigures {
            tokens: kl.len(),
            kl: mean(&kl),
            kl_bound: self.kl_bound,
            kl_median: at(0.5),
            kl_90: at(0.9),
            kl_99: at(0.99),
            kl_999: at(0.999),
            kl_max: at(1.0),
            kl_min: at(0.0),
            delta_p: mean(&delta),
            delta_p_rms: Estimate { value: rms, error: rms_error },
            same_top: mean(&column(|t| f64::from(u8::from(t.same_top)))),
            ppl: exponential(mean(&own)),
            base_ppl: exponential(mean(&base)),
            ln_ppl_ratio: mean(&ratio),
            correlation: correlation(&own, &base),
        }
    }
}

impl DivergenceFigures {
    /// All of them, with names that stay; a standard error has the name of its figure and `_error`.
    pub fn json(&self) -> Value {
        json!({
            "tokens": self.tokens,
            "kl": self.kl.value,
            "kl_error": self.kl.error,
            "kl_bound": self.kl_bound,
            "kl_median": self.kl_median,
            "kl_90": self.kl_90,
            "kl_99": self.kl_99,
            "kl_999": self.kl_999,
            "kl_max": self.kl_max,
            "kl_min": self.kl_min,
            "delta_p": self.delta_p.value,
            "delta_p_error": self.delta_p.error,
            "delta_p_rms": self.delta_p_rms.value,
            "delta_p_rms_error": self.delta_p_rms.error,
            "same_top": self.same_top.value,
            "same_top_error": self.same_top.error,
            "ppl": self.ppl.value,
            "ppl_error": self.ppl.error,
            "base_ppl": self.base_ppl.value,
            "base_ppl_error": self.base_ppl.error,
            "ln_ppl_ratio": self.ln_ppl_ratio.value,
            "ln_ppl_ratio_error": self.ln_ppl_ratio.error,
            "correlation": self.correlation,
        })
    }

    /// Names and figures for people.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let percent = |m: Estimate| format!("{:.3} % +- {:.3} %", 100.0 * m.value, 100.0 * m.error);
        let number = |x: f64| format!("{x:.6}");
        let mut rows = vec![
            ("perplexity", self.ppl.to_string()),
            ("perplexity of the base", self.base_ppl.to_string()),
            ("ln of their ratio", self.ln_ppl_ratio.to_string()),
            ("correlation", number(self.correlation)),
            ("mean KL divergence", self.kl.to_string()),
            ("median", number(self.kl_median)),
            ("90 %", number(self.kl_90)),
            ("99 %", number(self.kl_99)),
            ("99.9 %", number(self.kl_999)),
            ("maximum", number(self.kl_max)),
            ("minimum", number(self.kl_min)),
            ("mean change of p", percent(self.delta_p)),
            ("RMS change of p", percent(self.delta_p_rms)),
            ("same top", percent(self.same_top)),
            ("tokens compared", self.tokens.to_string()),
        ];
        if self.kl_bound > 0.0 {
            rows.insert(5, ("off by at most", number(self.kl_bound)));
        }
        rows
    }
}

/// Mean of `values`, with the root of the variance by `n - 1`.
fn mean(values: &[f64]) -> Estimate {
    let n = values.len() as f64;
    let value = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / n;
    Estimate { value, error: if n > 1.0 { (variance / (n - 1.0)).sqrt() } else { 0.0 } }
}

fn exponential(log: Estimate) -> Estimate {
    Estimate { value: log.value.exp(), error: log.value.exp() * log.error }
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, part) = (place.floor() as usize, place.fract());
    let above = sorted[(below + 1).min(sorted.len() - 1)];
    // Not (1 - part) * a + part * b, by which equal neighbours may give another number.
    sorted[below] + part * (above - sorted[below])
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (mean_a, mean_b) = (mean(a).value, mean(b).value);
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(b).map(|(x, y)| f(x - mean_a, y - mean_b)).sum()
    };
    let spread = (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
    if spread > 0.0 { sum(&|x, y| x * y) / spread } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let sorted = [0.0, 1.0, 2.0, 4.0];
        assert_eq!([0.0, 0.5, 1.0].map(|s| quantile(&sorted, s)), [0.0, 1.5, 4.0]);
        assert!((quantile(&sorted, 0.9) - 3.4).abs() < 1e-12, "numpy's linear rule");
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
    }

    #[test]
    fn a_mean_has_the_error_of_its_spread() {
        let m = mean(&[1.0, 3.0]);
        assert_eq!((m.value, m.error), (2.0, 1.0));
        assert_eq!(mean(&[5.0]).error, 0.0);
    }
}
