//! Orthogonal matrices that bring one head closest to another (the Procrustes problem), among those that a head may be
//! turned by.

/// Which turns leave a model's function as it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Freedom {
    /// None.
    Fixed,
    /// Of these pairs each in its plane, as rotary embeddings turn them; of the numbers from `rest` on, any.
    Pairs { pairs: Vec<(usize, usize)>, rest: usize },
}

impl Freedom {
    /// Any turn.
    pub const ANY: Freedom = Freedom::Pairs { pairs: vec![], rest: 0 };

    /// The turn `r` of `n` numbers that makes the trace of `m r^T` largest, row by row, and that trace. `m` is `[n x n]`.
    pub fn best(&self, m: &[f64], n: usize) -> (Vec<f64>, f64) {
        let mut r = identity(n);
        if let Freedom::Pairs { pairs, rest } = self {
            for &(a, b) in pairs {
                // In the plane of a pair the trace is c cos + s sin.
                let (c, s) = (m[a * n + a] + m[b * n + b], m[b * n + a] - m[a * n + b]);
                let size = c.hypot(s);
                if size > 0.0 {
                    let (cos, sin) = (c / size, s / size);
                    (r[a * n + a], r[a * n + b]) = (cos, -sin);
                    (r[b * n + a], r[b * n + b]) = (sin, cos);
                }
            }
            let k = n - rest;
            let part: Vec<f64> = (0..k * k).map(|i| m[(rest + i / k) * n + rest + i % k]).collect();
            for (i, v) in polar(&part, k).into_iter().enumerate() {
                r[(rest + i / k) * n + rest + i % k] = v;
            }
        }
        let trace = m.iter().zip(&r).map(|(a, b)| a * b).sum();
        (r, trace)
    }
}

pub(super) fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect()
}

/// Sweeps of the Jacobi method; ten suffice for double precision.
const SWEEPS: usize = 30;

/// The orthogonal factor `u v^T` of `m = u s v^T`, by one-sided Jacobi: the columns of `m v` are turned until they are
/// orthogonal.
fn polar(m: &[f64], n: usize) -> Vec<f64> {
    // Columns, so that each is one slice.
    let mut u: Vec<Vec<f64>> = (0..n).map(|c| (0..n).map(|r| m[r * n + c]).collect()).collect();
    let mut v: Vec<Vec<f64>> = identity(n).chunks_exact(n.max(1)).map(<[f64]>::to_vec).collect();
    for _ in 0..SWEEPS {
        let mut turned = false;
        for p in 0..n {
            for q in p + 1..n {
                let (a, b, c) = (dot(&u[p], &u[p]), dot(&u[q], &u[q]), dot(&u[p], &u[q]));
                if c.abs() <= 1e-14 * (a * b).sqrt() || c == 0.0 {
                    continue;
                }
                turned = true;
                let zeta = (b - a) / (2.0 * c);
                let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
                let cos = 1.0 / (1.0 + t * t).sqrt();
                plane(&mut u, p, q, cos, cos * t);
                plane(&mut v, p, q, cos, cos * t);
            }
        }
        if !turned {
            break;
        }
    }
    orthonormal(&mut u);
    (0..n * n).map(|i| (0..n).map(|k| u[k][i / n] * v[k][i % n]).sum()).collect()
}

fn plane(columns: &mut [Vec<f64>], p: usize, q: usize, cos: f64, sin: f64) {
    let (left, right) = columns.split_at_mut(q);
    for (x, y) in left[p].iter_mut().zip(&mut right[0]) {
        (*x, *y) = (cos * *x - sin * *y, sin * *x + cos * *y);
    }
}

/// Brings orthogonal columns to length 1; those of length 0 become what is missing to a basis.
fn orthonormal(columns: &mut [Vec<f64>]) {
    let n = columns.len();
    let largest = columns.iter().map(|c| dot(c, c)).fold(0.0, f64::max);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| dot(&columns[b], &columns[b]).total_cmp(&dot(&columns[a], &columns[a])));
    for (done, &i) in order.iter().enumerate() {
        if dot(&columns[i], &columns[i]) <= 1e-24 * largest || largest == 0.0 {
            columns[i] = (0..n)
                .map(|axis| {
                    let mut unit = vec![0.0; n];
                    unit[axis] = 1.0;
                    for &j in &order[..done] {
                        let part = columns[j][axis];
                        unit.iter_mut().zip(&columns[j]).for_each(|(u, c)| *u -= part * c);
                    }
                    unit
                })
                .max_by(|a, b| dot(a, a).total_cmp(&dot(b, b)))
                .unwrap_or_default();
        }
        let length = dot(&columns[i], &columns[i]).sqrt();
        columns[i].iter_mut().for_each(|c| *c /= length);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
        (0..n * n).map(|i| (0..n).map(|k| a[i / n * n + k] * b[k * n + i % n]).sum()).collect()
    }

    fn transposed(a: &[f64], n: usize) -> Vec<f64> {
        (0..n * n).map(|i| a[i % n * n + i / n]).collect()
    }

    fn noise(n: usize, seed: u64) -> Vec<f64> {
        let mix = |i: u64| {
            (i + 1000 * seed)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
                .wrapping_mul(0xBF58_476D_1CE4_E5B9)
        };
        (0..(n * n) as u64).map(|i| (mix(i) >> 11) as f64 / (1u64 << 52) as f64 - 1.0).collect()
    }

    fn assert_near(a: &[f64], b: &[f64]) {
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9), "{a:?} {b:?}");
    }

    #[test]
    fn the_polar_factor_is_orthogonal_and_finds_a_hidden_turn() {
        for n in [1, 2, 5, 16] {
            let turn = polar(&noise(n, 1), n);
            assert_near(&product(&turn, &transposed(&turn, n), n), &identity(n));
            // x -> turn x has the best way back.
            let x = noise(n, 2);
            let m = product(&product(&turn, &x, n), &transposed(&x, n), n);
            assert_near(&polar(&m, n), &turn);
        }
    }

    #[test]
    fn matrices_without_full_rank_still_give_a_turn() {
        for m in [vec![0.0; 9], vec![1.0; 9], vec![0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]] {
            let r = polar(&m, 3);
            assert_near(&product(&r, &transposed(&r, 3), 3), &identity(3));
        }
    }

    #[test]
    fn pairs_turn_in_their_planes_only() {
        let (sin, cos) = 0.7f64.sin_cos();
        let mut turn = identity(4);
        (turn[0], turn[2], turn[8], turn[10]) = (cos, -sin, sin, cos);
        let x = noise(4, 3);
        let m = product(&product(&turn, &x, 4), &transposed(&x, 4), 4);
        let freedom = Freedom::Pairs { pairs: vec![(0, 2), (1, 3)], rest: 4 };
        let (found, trace) = freedom.best(&m, 4);
        assert_near(&found, &turn);
        assert!(trace >= Freedom::Fixed.best(&m, 4).1);
    }
}
