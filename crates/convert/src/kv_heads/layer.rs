//! One layer's new heads: which old ones each is made of, and how these are turned before.

use super::{
    Grouping, KvHeads, grouping,
    turn::{Freedom, identity},
};

/// Products of all rows of a matrix with one another, under the covariance of its input: what its outputs have in common.
pub(super) struct Gram {
    heads: usize,
    dim: usize,
    values: Vec<f64>,
}

impl Gram {
    /// Of `w`, `[heads * dim x cols]`. Without a covariance all inputs count alike.
    pub fn new(w: &[f32], heads: usize, dim: usize, covariance: Option<&[f32]>) -> Gram {
        let rows = heads * dim;
        let cols = w.len() / rows.max(1);
        let seen: Vec<f32> = match covariance {
            None => w.to_vec(),
            Some(c) => w
                .chunks_exact(cols)
                .flat_map(|row| (0..cols).map(|j| dot(row, &c[j * cols..][..cols]) as f32))
                .collect(),
        };
        let product = |r: usize, s: usize| dot(&w[r * cols..][..cols], &seen[s * cols..][..cols]);
        let values = (0..rows * rows).map(|i| product(i / rows, i % rows)).collect();
        Gram { heads, dim, values }
    }

    /// Rows of head `i` with rows of head `j`, `[dim x dim]`.
    fn block(&self, i: usize, j: usize) -> Vec<f64> {
        let (rows, d) = (self.heads * self.dim, self.dim);
        (0..d).flat_map(|r| self.values[(i * d + r) * rows + j * d..][..d].iter().copied()).collect()
    }

    fn size(&self, i: usize) -> f64 {
        let block = self.block(i, i);
        (0..self.dim).map(|r| block[r * self.dim + r]).sum::<f64>().max(f64::MIN_POSITIVE)
    }

    /// Cosine between the outputs of two heads, after the best turn of one.
    fn alike(&self, i: usize, j: usize, freedom: &Freedom) -> f64 {
        freedom.best(&self.block(i, j), self.dim).1 / (self.size(i) * self.size(j)).sqrt()
    }

    /// Turns of the heads of `group` that bring them closest to their mean (generalized Procrustes analysis).
    fn turns(&self, group: &[usize], freedom: &Freedom) -> Vec<Vec<f64>> {
        let d = self.dim;
        let mut turns = vec![identity(d); group.len()];
        if *freedom == Freedom::Fixed {
            return turns;
        }
        for _ in 0..ROUNDS {
            for (at, &i) in group.iter().enumerate() {
                let mut m = vec![0.0; d * d];
                for (&j, turn) in group.iter().zip(&turns) {
                    add_product(&mut m, turn, &self.block(j, i), d);
                }
                turns[at] = freedom.best(&m, d).0;
            }
        }
        turns
    }
}

/// Rounds of turning each head towards the mean of all.
const ROUNDS: usize = 6;

/// What becomes of one layer.
pub(super) struct LayerHeads {
    /// Old heads in their new order; each group is a run of equal length.
    pub order: Vec<usize>,
    /// Turn of each old key head, by its old number, row by row.
    pub keys: Vec<Vec<f64>>,
    /// Turn of each old value head.
    pub values: Vec<Vec<f64>>,
}

impl LayerHeads {
    pub fn find(options: &KvHeads<'_>, keys: &Gram, values: &Gram, free: [Freedom; 2]) -> LayerHeads {
        let heads = keys.heads;
        let size = heads / options.count.max(1);
        let [k, v] = if options.align { free } else { [Freedom::Fixed, Freedom::Fixed] };
        let groups = match options.grouping {
            Grouping::InOrder => {
                (0..heads).collect::<Vec<_>>().chunks(size.max(1)).map(<[usize]>::to_vec).collect()
            }
            Grouping::Similar => {
                let mut table = vec![0.0; heads * heads];
                for (i, j) in (0..heads).flat_map(|i| (0..i).map(move |j| (i, j))) {
                    let alike = keys.alike(i, j, &k) + values.alike(i, j, &v);
                    (table[i * heads + j], table[j * heads + i]) = (alike, alike);
                }
                grouping::by_likeness(heads, size, &|i, j| table[i * heads + j])
            }
        };
        let spread = |gram: &Gram, freedom: &Freedom| {
            let mut all = vec![vec![]; heads];
            for group in &groups {
                for (&head, turn) in group.iter().zip(gram.turns(group, freedom)) {
                    all[head] = turn;
                }
            }
            all
        };
        LayerHeads { keys: spread(keys, &k), values: spread(values, &v), order: groups.concat() }
    }
}

/// `out += a b`.
fn add_product(out: &mut [f64], a: &[f64], b: &[f64], n: usize) {
    for (row, a) in out.chunks_exact_mut(n).zip(a.chunks_exact(n)) {
        for (factor, b) in a.iter().zip(b.chunks_exact(n)) {
            row.iter_mut().zip(b).for_each(|(o, b)| *o += factor * b);
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    f64::from(a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>())
}
