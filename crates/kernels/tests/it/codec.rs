//! Keys and values as caches store them: encoded, mixed and moved, in every type.

use lamina_base::{KvType, PAGE_LEN};
use lamina_fixtures::Numbers;
use lamina_kernels::{CHUNK_PAGES, CacheRow, Codec, LaneGroups, PanelMix, ValueMix, ValuePages};
use lamina_simd::Isa;

/// Types that latents are kept in.
const LATENT_TYPES: [KvType; 5] = [KvType::F32, KvType::F16, KvType::BF16, KvType::F8, KvType::Q8_0];

#[test]
fn e4m3_rounds_to_the_nearest_code() {
    let decode = |b: u8| {
        let mut out = [0.0];
        lamina_quant::decode(KvType::F8.dtype(), &[b], &mut out).expect("one byte");
        out[0]
    };
    let codec = Codec::new(KvType::F8.into(), Isa::Scalar);
    let nearest = |v: f32| decode(codec.encoded_value(&[v])[0]);
    for b in (0..=255u8).filter(|b| b & 0x7f != 0x7f) {
        assert_eq!(nearest(decode(b)), decode(b));
    }
    assert_eq!(nearest(1e9), 448.0);
    assert_eq!(nearest(1.06), 1.0);
    assert_eq!(nearest(1.07), 1.125);
}

/// Numbers of a usual size, some of them zero.
fn random(n: usize, seed: usize) -> Vec<f32> {
    let mut numbers = Numbers::of(&format!("row {seed}"));
    (0..n).map(|_| if numbers.uniform() > 0.9 { 0.0 } else { 3.0 * numbers.uniform() }).collect()
}

/// Weights of rows over positions, values stored in pages, and both as plain numbers.
struct Mixing {
    codec: Codec,
    dim: usize,
    positions: usize,
    pages: Vec<Vec<u8>>,
    values: Vec<Vec<f32>>,
    weights: Vec<Vec<f32>>,
}

impl Mixing {
    fn new(kv_type: KvType, isa: Isa, dim: usize, positions: usize) -> Mixing {
        let codec = Codec::new(kv_type.into(), isa);
        // What nothing was written to may hold anything, NaN among it.
        let mut pages = vec![vec![0xffu8; codec.values().page_bytes(dim)]; CHUNK_PAGES];
        let (mut row, mut values) = (CacheRow::new(0), vec![]);
        for j in 0..positions {
            // Heads with a first position of tiny values and most of the weight are common: attention sinks.
            let size = if j == 0 { 0.01 } else { 1.0 };
            let value: Vec<f32> = random(dim, j).iter().map(|v| v * size).collect();
            let row = codec.encode_value(&value, &mut row);
            codec.values().put(row, j % PAGE_LEN, dim, &mut pages[j / PAGE_LEN]);
            let mut stored = vec![0.0; dim];
            lamina_quant::decode(kv_type.dtype(), row, &mut stored).expect("a stored row");
            values.push(stored);
        }
        let weights = (0..9).map(|r| {
            let row = random(positions, 1000 + r);
            // The last row sees one position only, and the one before it nothing.
            let seen = |j: usize| r < 7 || (r == 8 && j == 0);
            let weight = |j: usize| if j == 0 { 1.0 } else { (row[j] - 3.0).exp() };
            (0..positions).map(|j| if seen(j) { weight(j) } else { 0.0 }).collect()
        });
        Mixing { codec, dim, positions, pages, values, weights: weights.collect() }
    }

    /// Sums of some rows by the kernel.
    fn mixed(&self, rows: std::ops::Range<usize>) -> Vec<f32> {
        let (lanes, n) = (self.codec.keys().lanes(), rows.len());
        let mut weights = vec![0f32; CHUNK_PAGES * PAGE_LEN * n];
        for (r, row) in self.weights[rows].iter().enumerate() {
            row.iter().enumerate().for_each(|(j, &w)| weights[(j / lanes * n + r) * lanes + j % lanes] = w);
        }
        let mut out = vec![f32::NAN; n * self.dim];
        let pages = std::array::from_fn(|i| &self.pages[i][..]);
        let values = ValuePages { pages, next: pages.map(<[u8]>::as_ptr), positions: self.positions };
        let weights = LaneGroups { numbers: &mut weights, stride: n * lanes, rows: n, lanes };
        self.codec.values().mix(&ValueMix::new(weights, values, self.dim, &mut out));
        out
    }

    /// The same, one product after the other.
    fn slowly(&self, r: usize) -> Vec<f64> {
        let sum = |d: usize| {
            self.weights[r].iter().zip(&self.values).map(|(&w, v)| f64::from(w) * f64::from(v[d])).sum()
        };
        (0..self.dim).map(sum).collect()
    }

    /// Half a step of a 15-bit weight (and what float32 rounds) for each position, times the largest code.
    fn tolerance(&self, r: usize) -> f64 {
        let size = |(w, v): (&f32, &Vec<f32>)| f64::from(w * v.iter().fold(0f32, |a, b| a.max(b.abs())));
        let largest = self.weights[r].iter().zip(&self.values).map(size).fold(0.0, f64::max);
        self.positions as f64 * largest / 32760.0 * 0.6
    }
}

#[test]
fn values_are_mixed_as_one_by_one() {
    for isa in Isa::usable() {
        for &(name, kv_type) in KvType::ALL {
            for (dim, positions) in [(32, 1), (64, 33), (96, 200), (128, 256)] {
                let m = Mixing::new(kv_type, isa, dim, positions);
                let all = m.mixed(0..m.weights.len());
                for (r, row) in all.chunks(dim).enumerate() {
                    for (d, (&got, want)) in row.iter().zip(m.slowly(r)).enumerate() {
                        let far = (f64::from(got) - want).abs();
                        assert!(
                            far <= m.tolerance(r),
                            "{isa} {name} {dim} x {positions}: row {r}, {d}: {got}, not {want}"
                        );
                    }
                    let alone = m.mixed(r..r + 1);
                    assert_eq!(row, alone, "{isa} {name} {dim} x {positions}: row {r} alone");
                }
            }
        }
    }
}

#[test]
fn latents_are_mixed_as_one_by_one() {
    let sizes: &[_] =
        if cfg!(miri) { &[(40, 8, 33)] } else { &[(64, 16, 70), (17, 2, 5), (40, 8, 256), (96, 64, 33)] };
    for (isa, kv_type, (rank, rope, positions)) in Isa::usable()
        .into_iter()
        .flat_map(|isa| LATENT_TYPES.map(move |t| (isa, t)))
        .flat_map(|(isa, t)| sizes.iter().map(move |s| (isa, t, *s)))
    {
        let codec = Codec::new(kv_type.into(), isa);
        let (keys, width) = (codec.keys(), codec.latent_dim(rank, rope));
        let lanes = keys.lanes();
        let mut pages = vec![vec![0u8; codec.key_page(width)]; CHUNK_PAGES];
        let (mut row, mut latents) = (CacheRow::new(0), vec![]);
        for j in 0..positions {
            // Rotary keys are far larger here: they must not cost the latents any precision.
            let (latent, turned) = (random(rank, j), vec![1000.0; rope]);
            let bytes = codec.encode_key(&[&latent, &turned], &mut row);
            let panel = &mut pages[j / PAGE_LEN][j % PAGE_LEN / keys.rows() * keys.panel_bytes(width)..];
            keys.put(bytes, j % keys.rows(), &mut panel[..keys.panel_bytes(width)]);
            let mut stored = vec![0.0; width];
            lamina_quant::decode(kv_type.dtype(), bytes, &mut stored).expect("a stored row");
            assert!(stored.iter().zip(&latent).all(|(a, b)| (a - b).abs() < 0.13), "{kv_type:?}");
            latents.push(stored);
        }
        for rows in [1, 3, 4, 7] {
            let (weights, groups) = (random(rows * positions, 7), positions.div_ceil(lanes));
            let mut spread = vec![0f32; groups * rows * lanes];
            for (i, w) in weights.iter().enumerate() {
                let (r, j) = (i / positions, i % positions);
                spread[(j / lanes * rows + r) * lanes + j % lanes] = w.abs();
            }
            let mut out = vec![0f32; rows * rank.next_multiple_of(32)];
            let pages: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
            let weighted = LaneGroups { numbers: &mut spread, stride: rows * lanes, rows, lanes };
            let sums = (&mut out[..], rank.next_multiple_of(32));
            codec.mix_latents(&PanelMix::new(weighted, &pages, keys.panel(width), groups, rank, sums));
            for (r, d) in (0..rows).flat_map(|r| (0..rank).map(move |d| (r, d))) {
                let products = (0..positions)
                    .map(|j| f64::from(weights[r * positions + j].abs()) * f64::from(latents[j][d]));
                let (want, got) = (products.sum::<f64>(), f64::from(out[r * rank.next_multiple_of(32) + d]));
                assert!((got - want).abs() < 1e-3, "{isa} {kv_type:?} {rank} {rows}: {got}, not {want}");
            }
        }
    }
}

#[test]
fn a_value_that_is_no_number_stays_visible() {
    for isa in Isa::usable() {
        for kv_type in KvType::ALL.iter().map(|t| t.1) {
            let mut m = Mixing::new(kv_type, isa, 64, 40);
            let mut value = vec![1.0; 64];
            value[3] = f32::NAN;
            m.codec.values().put(&m.codec.encoded_value(&value), 7, 64, &mut m.pages[1]);
            assert!(m.mixed(0..1)[3].is_nan(), "{isa} {kv_type:?}");
        }
    }
}

#[test]
fn values_beyond_the_type_become_its_largest() {
    for isa in Isa::usable() {
        for (kv_type, most) in [(KvType::F16, 65504.0), (KvType::F8, 448.0)] {
            let codec = Codec::new(kv_type.into(), isa);
            let x = [1e6, -1e30, f32::INFINITY, f32::NEG_INFINITY, 65519.0, 1.0];
            let (encoded, mut out) = (codec.encoded_value(&x), [0.0; 6]);
            let bytes = kv_type.dtype().bytes_for(x.len()).expect("whole numbers");
            lamina_quant::decode(kv_type.dtype(), &encoded[..bytes], &mut out).expect("whole numbers");
            assert_eq!(out, [most, -most, most, -most, most, 1.0], "{kv_type:?}");
        }
        let codec = Codec::new(KvType::Q8_0.into(), isa);
        let mut out = [0.0; 32];
        lamina_quant::decode(KvType::Q8_0.dtype(), &codec.encoded_value(&[1e30; 32]), &mut out)
            .expect("a block");
        assert!(out.iter().all(|v| v.is_finite() && *v > 1e6), "{out:?}");
    }
}

#[test]
fn keys_and_values_are_moved_as_they_are_stored() {
    for isa in Isa::usable() {
        for &(name, kv_type) in KvType::ALL {
            let codec = Codec::new(kv_type.into(), isa);
            let (keys, values) = (codec.keys(), codec.values());
            let (dim, n) = (64, keys.rows());
            let panel_bytes = keys.panel_bytes(dim);
            let (mut from, mut moved) = (vec![0u8; panel_bytes], vec![0u8; panel_bytes]);
            let [mut value_from, mut value_moved] = [(); 2].map(|()| vec![0u8; values.page_bytes(dim)]);
            let rows: Vec<_> = (0..PAGE_LEN).map(|j| random(dim, 50 + j)).collect();
            for (j, row) in rows.iter().enumerate() {
                keys.put(&codec.encoded_key(row), j % n, &mut from);
                values.put(&codec.encoded_value(row), j, dim, &mut value_from);
            }
            // What later rows of the loop left in a panel with fewer lanes than a page has positions.
            let last = |lane: usize| PAGE_LEN - n + lane;
            let (mut want, mut value_want, mut bytes) = (moved.clone(), value_moved.clone(), vec![]);
            for (to, lane) in [(0, 5), (n - 1, 0), (3, n - 1)] {
                codec.lane().take(&from, lane, &mut bytes);
                codec.lane().put(&bytes, to, &mut moved);
                keys.put(&codec.encoded_key(&rows[last(lane)]), to, &mut want);
                values.take(&value_from, lane, dim, &mut bytes);
                values.put(&bytes, to, dim, &mut value_moved);
                values.put(&codec.encoded_value(&rows[lane]), to, dim, &mut value_want);
            }
            assert!(moved == want, "keys of {name} on {isa}");
            assert!(value_moved == value_want, "values of {name} on {isa}");
        }
    }
}
