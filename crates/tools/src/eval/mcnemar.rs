//! Two models on the same questions: McNemar's test, which looks at those where one alone is right.

use super::{Accuracy, Verdict};
use serde_json::{Value, json};

/// How a model compares with another one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedVerdict {
    /// Of the other model.
    pub other: Accuracy,
    /// Questions that the model alone gets right.
    pub better: usize,
    /// Questions that the other alone gets right.
    pub worse: usize,
}

impl PairedVerdict {
    /// Of verdicts on the same questions.
    pub fn of(own: &[Verdict], other: &[Verdict]) -> PairedVerdict {
        let count =
            |right: bool| own.iter().zip(other).filter(|(a, b)| a.right == right && b.right != right).count();
        PairedVerdict {
            other: Accuracy::of(other.iter().map(|v| v.right)),
            better: count(true),
            worse: count(false),
        }
    }

    /// How likely so uneven a division is where neither model is better: two-sided, exact (binomial).
    pub fn p_value(self) -> f64 {
        let (few, all) = (self.better.min(self.worse), self.better + self.worse);
        // Logarithms: of a thousand questions the coefficients are beyond f64.
        let mut coefficient = -(all as f64) * std::f64::consts::LN_2;
        let mut sum = 0.0;
        for k in 0..=few {
            sum += coefficient.exp();
            coefficient += ((all - k) as f64).ln() - ((k + 1) as f64).ln();
        }
        (2.0 * sum).min(1.0)
    }

    /// For reports.
    pub fn json(self) -> Value {
        let PairedVerdict { other, better, worse } = self;
        json!({"other": other.json(), "better": better, "worse": worse, "p_value": self.p_value()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(better: usize, worse: usize) -> f64 {
        PairedVerdict { other: Accuracy { questions: 0, right: 0 }, better, worse }.p_value()
    }

    #[test]
    fn p_values_are_binomial() {
        // 2 * sum of C(10, k) / 2^10 for k up to 1, and up to 3.
        assert!((p(1, 9) - 22.0 / 1024.0).abs() < 1e-12);
        assert!((p(7, 3) - 352.0 / 1024.0).abs() < 1e-12);
        assert_eq!((p(0, 0), p(5, 5)), (1.0, 1.0));
        assert!(p(700, 1300) < 1e-30 && p(1000, 1001) > 0.9);
    }
}
