//! One vector for a text: the rows of a pass, pooled as they come.

use crate::request::RowSink;
use lamina_plan::Select;
use std::sync::{Arc, Mutex, PoisonError};

/// How the rows of a pass become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The last one, which has seen all tokens.
    Last,
    /// The first one: that of a class token.
    First,
}

impl Pooling {
    /// The rows that it looks at.
    pub fn rows(self) -> Select {
        match self {
            Pooling::Last => Select::Last,
            Pooling::Mean | Pooling::First => Select::All,
        }
    }
}

/// A sink for a pass over the rows of [`Pooling::rows`] with rows of `width` numbers, and where their pool is found when the pass has finished.
pub fn pooled(pooling: Pooling, width: usize) -> (RowSink, Pooled) {
    let pool = Arc::new(Mutex::new(Pool { sum: vec![0.0; width], rows: 0 }));
    let taken = Pooled(pool.clone());
    let sink = move |_first: usize, rows: &[f32]| {
        let pool = &mut *pool.lock().unwrap_or_else(PoisonError::into_inner);
        for row in rows.chunks_exact(width) {
            match pooling {
                Pooling::Mean => pool.sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x),
                Pooling::First if pool.rows > 0 => {}
                Pooling::First | Pooling::Last => pool.sum.copy_from_slice(row),
            }
            pool.rows += if pooling == Pooling::Mean { 1 } else { usize::from(pool.rows == 0) };
        }
    };
    (Box::new(sink), taken)
}

struct Pool {
    sum: Vec<f32>,
    /// Rows in the sum.
    rows: usize,
}

/// The pool of a pass.
pub struct Pooled(Arc<Mutex<Pool>>);

impl Pooled {
    /// The pooled row; zeros before any row has come.
    pub fn row(&self) -> Vec<f32> {
        let pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n = pool.rows.max(1) as f32;
        pool.sum.iter().map(|x| x / n).collect()
    }

    /// The direction of the pooled row: a vector of length one.
    pub fn unit(&self) -> Vec<f32> {
        let mut row = self.0.lock().unwrap_or_else(PoisonError::into_inner).sum.clone();
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        row.iter_mut().for_each(|x| *x /= length);
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_pieces_are_pooled_as_one() {
        let rows = [3.0, 4.0, 1.0, 0.0, 5.0, 2.0];
        for (pooling, want) in
            [(Pooling::Mean, [3.0, 2.0]), (Pooling::Last, [5.0, 2.0]), (Pooling::First, [3.0, 4.0])]
        {
            for cut in [0, 2, 4] {
                let (mut sink, pool) = pooled(pooling, 2);
                sink(0, &rows[..cut]);
                sink(cut / 2, &rows[cut..]);
                assert_eq!(pool.row(), want, "{pooling:?}");
                let length = pool.unit().iter().map(|x| x * x).sum::<f32>();
                assert!((length - 1.0).abs() < 1e-6);
            }
        }
    }
}
