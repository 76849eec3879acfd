//! Every weight type on every instruction set: products equal the decoded weights times the quantized activations, and
//! are the same bits for every number of rows at once.

use bytemuck::Zeroable;
use lamina_base::DType;
use lamina_fixtures::Numbers;
use lamina_kernels::{Act256, ActKind, NATIVE, PREFETCH, PanelOperands, RowKernels, kernels, lanes};
use lamina_simd::Isa;

const PANELS: usize = 3;

struct Case {
    dtype: DType,
    cols: usize,
    /// Encoded rows.
    stored: Vec<Vec<u8>>,
    /// The same, decoded.
    decoded: Vec<Vec<f32>>,
    x: Vec<Vec<f32>>,
}

/// From -1 to 1, and one in sixteen four times as large.
fn noise(mut numbers: Numbers) -> impl FnMut() -> f32 {
    move || numbers.uniform() * if numbers.uniform() > 0.875 { 4.0 } else { 1.0 }
}

impl Case {
    fn new(dtype: DType, rows: usize, cols: usize, xs: usize) -> Case {
        let mut next = noise(Numbers::of(&format!("rows of {dtype}")));
        let mut row = || -> Vec<f32> { (0..cols).map(|_| next()).collect() };
        let (mut stored, mut decoded) = (vec![], vec![]);
        for _ in 0..rows {
            let mut bytes = vec![0; dtype.bytes_for(cols).expect("whole blocks")];
            match dtype {
                DType::F8_E4M3 => {
                    bytes.iter_mut().zip(row()).for_each(|(b, v)| *b = (v * 100.0) as i8 as u8 & 0xbf);
                }
                _ => lamina_quant::encode(dtype, &row(), None, &mut bytes).expect("encodes"),
            }
            let mut values = vec![0.0; cols];
            lamina_quant::decode(dtype, &bytes, &mut values).expect("decodes");
            stored.push(bytes);
            decoded.push(values);
        }
        Case { dtype, cols, stored, decoded, x: (0..xs).map(|_| row()).collect() }
    }

    /// Rows of any bytes, which are codes and scales that no encoder would choose.
    fn of_any_bytes(dtype: DType, rows: usize, cols: usize, xs: usize) -> Case {
        let mut numbers = Numbers::of(&format!("any bytes of {dtype}"));
        let mut x = || (numbers.uniform() * 1e6) as i32 as u8;
        let (mut stored, mut decoded) = (vec![], vec![]);
        for _ in 0..rows {
            let (mut bytes, mut values) = (vec![], vec![]);
            while values.len() < cols {
                let block: Vec<u8> = (0..dtype.block_bytes()).map(|_| x()).collect();
                let mut out = vec![0.0; dtype.block_len()];
                lamina_quant::decode(dtype, &block, &mut out).expect("decodes");
                // No NaN or infinity, and room for sums.
                if out.iter().all(|v: &f32| v.abs() < 1e30) {
                    bytes.extend(block);
                    values.extend(out);
                }
            }
            stored.push(bytes);
            decoded.push(values);
        }
        let mut next = noise(Numbers::of("activations"));
        let x = (0..xs).map(|_| (0..cols).map(|_| next()).collect()).collect();
        Case { dtype, cols, stored, decoded, x }
    }

    /// Results `[weight row][x row]` of `rows` activations at once.
    fn run(&self, isa: Isa, rows: usize) -> Vec<Vec<f32>> {
        let k = kernels(self.dtype, isa).expect("native");
        let panel_bytes = k.panel_bytes(self.cols);
        let mut panels = vec![0u8; PANELS * panel_bytes];
        for (i, row) in self.stored.iter().enumerate() {
            let panel = &mut panels[i / k.rows() * panel_bytes..][..panel_bytes];
            k.put(row, i % k.rows(), panel);
        }
        let mut out = vec![vec![]; self.stored.len()];
        for x in self.x.chunks(rows) {
            let acts = self.acts(isa, k.act(), x);
            let mut tile = vec![f32::NAN; PANELS * x.len() * k.rows()];
            let operands = PanelOperands {
                weights: &panels,
                acts: bytemuck::cast_slice(&acts),
                stride: if k.act() == ActKind::F32 { self.cols } else { x.len() },
                rows: x.len(),
                out: &mut tile,
                out_rows: x.len(),
                ahead: PREFETCH,
            };
            k.multiply(self.cols, operands);
            for (i, out) in out.iter_mut().enumerate() {
                let at = |r: usize| tile[(i / lanes(isa) * x.len() + r) * lanes(isa) + i % lanes(isa)];
                out.extend((0..x.len()).map(at));
            }
        }
        out
    }

    /// Rows as activations, in memory that is aligned for all forms of them.
    fn acts(&self, isa: Isa, kind: ActKind, x: &[Vec<f32>]) -> Vec<Act256> {
        let mut out = vec![Act256::zeroed(); kind.bytes(x.len(), self.cols).div_ceil(size_of::<Act256>())];
        let row_kernels = RowKernels::new(isa);
        for (r, row) in x.iter().enumerate() {
            row_kernels.quantize(kind, row, r, x.len(), bytemuck::cast_slice_mut(&mut out));
        }
        out
    }

    /// Activations as the kernels see them.
    fn rounded(&self, kind: ActKind, x: &[f32]) -> Vec<f64> {
        let block = kind.block();
        if block == 1 {
            return x.iter().map(|&v| f64::from(v)).collect();
        }
        let one = |x: &[f32]| -> Vec<f64> {
            let top = x.iter().fold(0f32, |m, v| m.max(v.abs()));
            let inverse = if top > 0.0 { 127.0 / top } else { 0.0 };
            x.iter().map(|v| f64::from((v * inverse).round_ties_even()) * f64::from(top / 127.0)).collect()
        };
        x.chunks(block).flat_map(one).collect()
    }

    fn check(&self, isa: Isa) {
        let kind = kernels(self.dtype, isa).expect("native").act();
        let got = self.run(isa, 1);
        for (w, got) in self.decoded.iter().zip(&got) {
            for (x, got) in self.x.iter().zip(got) {
                let x = self.rounded(kind, x);
                let terms = || w.iter().zip(&x).map(|(w, x)| f64::from(*w) * x);
                let (want, size): (f64, f64) = (terms().sum(), terms().map(f64::abs).sum());
                // Sums of float32 over at most `cols` terms: the rounding of each is below 2^-24 of the running sum.
                assert!(
                    (want - f64::from(*got)).abs() <= size * 1e-5,
                    "{} on {isa}: {got} for {want}",
                    self.dtype
                );
            }
        }
        for rows in [2, 3, 4, 5, 7, 12, 13, 16, 37] {
            assert!(self.run(isa, rows) == got, "{} on {isa}: other bits with {rows} rows", self.dtype);
        }
    }
}

#[test]
fn products_are_right_and_bit_equal_for_any_number_of_rows() {
    for &dtype in NATIVE {
        let cols = if dtype.is_quantized() { 768 } else { 331 };
        for isa in Isa::usable() {
            let rows = (PANELS - 1) * kernels(dtype, isa).expect("native").rows() + 3;
            Case::new(dtype, rows, cols, 37).check(isa);
        }
    }
}

#[test]
fn any_stored_bytes_multiply_as_they_decode() {
    for &dtype in NATIVE.iter().filter(|t| t.is_quantized()) {
        for isa in Isa::usable() {
            Case::of_any_bytes(dtype, lanes(isa) + 3, 768, 13).check(isa);
        }
    }
}

#[test]
fn panels_take_what_the_documentation_says() {
    let bits = |dtype: DType| {
        let k = kernels(dtype, Isa::Scalar).expect("native");
        let block = k.act().block();
        (k.panel_bytes(block) * 800 / (k.rows() * block)) as f32 / 100.0
    };
    let want = [
        (DType::IQ1_S, 2.31),
        (DType::IQ1_M, 3.56),
        (DType::IQ2_XXS, 3.31),
        (DType::IQ2_XS, 3.56),
        (DType::IQ2_S, 3.56),
        (DType::IQ3_XXS, 4.31),
        (DType::IQ3_S, 4.31),
        (DType::TQ1_0, 2.31),
        (DType::TQ2_0, 2.31),
        (DType::NVFP4, 4.5),
        (DType::Q1_0, 1.5),
    ];
    assert_eq!(want.map(|(t, _)| (t, bits(t))), want);
}

#[test]
fn one_block_is_enough() {
    for &dtype in NATIVE {
        for isa in Isa::usable() {
            Case::new(dtype, 2, dtype.block_len(), 5).check(isa);
        }
    }
}
