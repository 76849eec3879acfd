//! Kernels over float32 rows: norms, nonlinearities, rotary embedding, and what follows a panel product.

use lamina_base::formula::{Act, NormKind};
use lamina_simd::{Simd, exp, shells, sigmoid, tanh};

/// A norm over one piece of a row.
#[derive(Clone, Copy)]
pub struct NormArgs<'a> {
    /// Formula.
    pub kind: NormKind,
    /// Added to the variance.
    pub eps: f32,
    /// Factors, at least as many as the piece is long.
    pub weight: Option<&'a [f32]>,
    /// Offsets, likewise.
    pub bias: Option<&'a [f32]>,
}

impl NormArgs<'_> {
    /// The norm of the piece that begins `start` numbers further on.
    pub fn from(self, start: usize) -> Self {
        NormArgs { weight: self.weight.map(|w| &w[start..]), bias: self.bias.map(|b| &b[start..]), ..self }
    }
}

/// Results of a panel product on their way into a slot.
pub struct EpilogueArgs<'a> {
    /// `[group][row][lane]`.
    from: &'a [f32],
    /// Second product of a gated part, of the same shape.
    up: Option<&'a [f32]>,
    /// Groups of `lanes` outputs.
    groups: usize,
    lanes: usize,
    rows: usize,
    /// First output of the first row.
    to: *mut f32,
    /// Numbers from one row to the next.
    stride: usize,
    /// Outputs that exist; the last group may have more lanes.
    width: usize,
    /// Bias of each output from the first on.
    bias: Option<&'a [f32]>,
    /// Bias of `up`.
    up_bias: Option<&'a [f32]>,
    epilogue: Epilogue,
}

/// Where an epilogue writes: `width` outputs for each of `rows` rows that begin `stride` numbers apart.
#[derive(Clone, Copy)]
pub struct Outputs {
    /// First output of the first row.
    pub to: *mut f32,
    /// Rows.
    pub rows: usize,
    /// Numbers from one row to the next.
    pub stride: usize,
    /// Outputs of a row.
    pub width: usize,
}

impl<'a> EpilogueArgs<'a> {
    /// `products` are those of one matrix, or of both of a gated part, `[group][row][lane]` with `lanes` each, and `biases`
    /// likewise.
    ///
    /// # Safety
    /// The numbers that `outputs` describes are there, and nobody else uses them while the epilogue runs.
    ///
    /// # Panics
    /// When there are fewer products or biases than outputs, or one product for an epilogue of two.
    pub unsafe fn new(
        products: (&'a [f32], Option<&'a [f32]>),
        lanes: usize,
        outputs: Outputs,
        biases: (Option<&'a [f32]>, Option<&'a [f32]>),
        epilogue: Epilogue,
    ) -> EpilogueArgs<'a> {
        let Outputs { to, rows, stride, width } = outputs;
        let groups = width.div_ceil(lanes);
        let all = groups * rows * lanes;
        assert!(products.0.len() >= all && products.1.is_none_or(|up| up.len() >= all), "too few products");
        assert!([biases.0, biases.1].iter().flatten().all(|b| b.len() >= width), "too few biases");
        assert!(
            !matches!(epilogue, Epilogue::Glu(_)) || products.1.is_some(),
            "a gate without its other half"
        );
        let ((from, up), (bias, up_bias)) = (products, biases);
        EpilogueArgs { from, up, groups, lanes, rows, to, stride, width, bias, up_bias, epilogue }
    }
}

impl EpilogueArgs<'_> {
    /// Outputs of a group.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }
}

/// What happens with a product.
#[derive(Clone, Copy)]
pub enum Epilogue {
    /// `to = v`.
    Store,
    /// `to += scale * v`.
    Add(f32),
    /// `to = act(v) * up`.
    Glu(Act),
    /// `to = act(v)`.
    Activate(Act),
}

mod lanes {
    use super::*;

    /// `act(g)`, times `u` where the form is gated.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    pub unsafe fn activate<S: Simd>(act: Act, g: S::F, u: Option<S::F>) -> S::F {
        // SAFETY: lane operations on registers alone, whose instructions the caller promises.
        unsafe {
            if let Act::SwigluClamped { alpha, limit } = act {
                let g = S::min(g, S::splat_f(limit));
                let gate = S::mul(g, sigmoid::<S>(S::mul(g, S::splat_f(alpha))));
                let Some(u) = u else { return gate };
                let u = S::min(S::max(u, S::splat_f(-limit)), S::splat_f(limit));
                return S::mul(gate, S::add(u, S::splat_f(1.0)));
            }
            let v = match act {
                Act::Silu => S::mul(g, sigmoid::<S>(g)),
                Act::Gelu => gelu::<S>(g),
                Act::GeluTanh => gelu_tanh::<S>(g),
                Act::GeluQuick => S::mul(g, sigmoid::<S>(S::mul(g, S::splat_f(1.702)))),
                Act::Relu => S::max(g, S::zero()),
                Act::Xielu { alpha_p, alpha_n, beta } => xielu::<S>(g, [alpha_p, alpha_n, beta]),
                _ => {
                    let r = S::max(g, S::zero());
                    S::mul(r, r)
                }
            };
            match u {
                Some(u) => S::mul(v, u),
                None => v,
            }
        }
    }

    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    unsafe fn gelu_tanh<S: Simd>(x: S::F) -> S::F {
        // SAFETY: lane operations on registers alone, whose instructions the caller promises.
        unsafe {
            let cube = S::mul(S::mul(x, x), x);
            let inner = S::mul(S::splat_f(0.797_884_6), S::fma(S::splat_f(0.044_715), cube, x));
            let half = S::mul(x, S::splat_f(0.5));
            S::fma(half, tanh::<S>(inner), half)
        }
    }

    /// The parts of negative and positive numbers are zero for the others.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    unsafe fn xielu<S: Simd>(x: S::F, [alpha_p, alpha_n, beta]: [f32; 3]) -> S::F {
        // SAFETY: lane operations on registers alone, whose instructions the caller promises.
        unsafe {
            let (p, n) = (S::max(x, S::zero()), S::min(x, S::zero()));
            let curve = S::sub(S::sub(exp::<S>(n), S::splat_f(1.0)), n);
            let negative = S::fma(S::splat_f(alpha_n), curve, S::mul(S::splat_f(beta), x));
            S::fma(S::splat_f(alpha_p), S::mul(p, p), negative)
        }
    }

    /// `x/2 (1 + erf(x / sqrt 2))` with erf by Abramowitz and Stegun 7.1.26, absolute error of erf below 1.5e-7.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`.
    #[inline(always)]
    unsafe fn gelu<S: Simd>(x: S::F) -> S::F {
        // SAFETY: lane operations on registers alone, whose instructions the caller promises.
        unsafe {
            let z = S::mul(S::abs(x), S::splat_f(std::f32::consts::FRAC_1_SQRT_2));
            let one = S::splat_f(1.0);
            let t = S::div(one, S::fma(S::splat_f(0.327_591_1), z, one));
            let mut p = S::splat_f(1.061_405_4);
            for c in [-1.453_152_1, 1.421_413_8, -0.284_496_72, 0.254_829_6] {
                p = S::fma(p, t, S::splat_f(c));
            }
            let tail = S::mul(S::mul(p, t), exp::<S>(S::sub(S::zero(), S::mul(z, z))));
            // erf is odd: x/2 + |x|/2 (1 - tail).
            let half = S::splat_f(0.5);
            S::fma(S::mul(half, S::abs(x)), S::sub(one, tail), S::mul(half, x))
        }
    }

    /// Loads up to `S::N` numbers, zeros beyond `n`.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, and `n` numbers (or `S::N`, if they are fewer) are readable at `p`.
    #[inline(always)]
    unsafe fn load_some<S: Simd>(p: *const f32, n: usize) -> S::F {
        // SAFETY: `S::N` numbers are read where there are as many; else `n`, fewer than the buffer holds, are copied
        // into it first.
        unsafe {
            if n >= S::N {
                return S::load_f(p);
            }
            let mut buffer = [0f32; 16];
            std::ptr::copy_nonoverlapping(p, buffer.as_mut_ptr(), n);
            S::load_f(buffer.as_ptr())
        }
    }

    /// Stores the first `n` lanes.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, and `n` numbers (or `S::N`, if they are fewer) are writable at `p`.
    #[inline(always)]
    unsafe fn store_some<S: Simd>(p: *mut f32, v: S::F, n: usize) {
        // SAFETY: `S::N` numbers are written where there is room; else the first `n` of a buffer that holds every
        // vector.
        unsafe {
            if n >= S::N {
                return S::store_f(p, v);
            }
            let mut buffer = [0f32; 16];
            S::store_f(buffer.as_mut_ptr(), v);
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), p, n);
        }
    }

    /// # Safety
    /// The CPU has the instructions of `S`, and `bias` has `n` numbers (or `S::N`, if they are fewer) from `first`
    /// on.
    #[inline(always)]
    #[allow(clippy::manual_map)] // a closure would be compiled without the features of its shell
    unsafe fn bias_at<S: Simd>(bias: Option<&[f32]>, first: usize, n: usize) -> Option<S::F> {
        // SAFETY: the caller promises that the numbers from `first` on are there.
        unsafe { bias.map(|b| load_some::<S>(b.as_ptr().add(first), n)) }
    }

    /// Writes the results of a product into their slot.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `f` describes memory that is there, as [`EpilogueArgs::new`] asks.
    #[inline(always)]
    pub unsafe fn epilogue<S: Simd>(f: &EpilogueArgs<'_>) {
        // SAFETY: group `p`, row `r` lies inside `from` and `up`, since `groups` and `rows` are theirs; of the last
        // group only the `left` outputs that exist are read from `to` and the biases, and written.
        unsafe {
            let up = f.up.unwrap_or(f.from).as_ptr();
            for p in 0..f.groups {
                let left = f.width - p * S::N;
                let (bias, up_bias) =
                    (bias_at::<S>(f.bias, p * S::N, left), bias_at::<S>(f.up_bias, p * S::N, left));
                for r in 0..f.rows {
                    let at = (p * f.rows + r) * S::N;
                    let mut v = S::load_f(f.from.as_ptr().add(at));
                    if let Some(b) = bias {
                        v = S::add(v, b);
                    }
                    let to = f.to.add(r * f.stride + p * S::N);
                    let v = match f.epilogue {
                        Epilogue::Store => v,
                        Epilogue::Add(scale) => S::fma(S::splat_f(scale), v, load_some::<S>(to, left)),
                        Epilogue::Activate(act) => activate::<S>(act, v, None),
                        Epilogue::Glu(act) => {
                            let mut u = S::load_f(up.add(at));
                            if let Some(b) = up_bias {
                                u = S::add(u, b);
                            }
                            activate::<S>(act, v, Some(u))
                        }
                    };
                    store_some::<S>(to, v, left);
                }
            }
        }
    }

    /// Norm of `n` numbers; `x` and `out` may be the same.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `n` numbers are readable at `x` and writable at `out`, and `a` has `n`
    /// factors and offsets if any.
    #[inline(always)]
    pub unsafe fn norm<S: Simd>(x: *const f32, n: usize, a: &NormArgs<'_>, out: *mut f32) {
        // SAFETY: `i` stays below `n`, whole vectors are read where `S::N` numbers are left, and `load_some` and
        // `store_some` take what is left.
        unsafe {
            let mean = match a.kind {
                NormKind::Rms => 0.0,
                NormKind::Layer => sum::<S>(x, n, |v| v) / n as f32,
            };
            let m = S::splat_f(mean);
            let mut squares = S::zero();
            let mut i = 0;
            while i + S::N <= n {
                let v = S::sub(S::load_f(x.add(i)), m);
                squares = S::fma(v, v, squares);
                i += S::N;
            }
            let mut total = S::reduce_add(squares);
            while i < n {
                let v = *x.add(i) - mean;
                total += v * v;
                i += 1;
            }
            let factor = 1.0 / (total / n as f32 + a.eps).sqrt();
            let mut i = 0;
            while i < n {
                let left = n - i;
                let mut v = S::mul(S::sub(load_some::<S>(x.add(i), left), m), S::splat_f(factor));
                if let Some(w) = a.weight {
                    v = S::mul(v, load_some::<S>(w.as_ptr().add(i), left));
                }
                if let Some(b) = a.bias {
                    v = S::add(v, load_some::<S>(b.as_ptr().add(i), left));
                }
                store_some::<S>(out.add(i), v, left);
                i += S::N;
            }
        }
    }

    /// # Safety
    /// The CPU has the instructions of `S`, and `n` numbers are readable at `x`.
    #[inline(always)]
    unsafe fn sum<S: Simd>(x: *const f32, n: usize, f: impl Fn(f32) -> f32) -> f32 {
        // SAFETY: whole vectors are read while `S::N` numbers are left, then single ones below `n`.
        unsafe {
            let mut lanes = S::zero();
            let mut i = 0;
            while i + S::N <= n {
                lanes = S::add(lanes, S::load_f(x.add(i)));
                i += S::N;
            }
            let mut total = S::reduce_add(lanes);
            while i < n {
                total += f(*x.add(i));
                i += 1;
            }
            total
        }
    }

    /// `out = act(gate)`, times `up` unless it is null, for `n` numbers.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `n` numbers are readable at `gate`, and at `up` unless it is null, and
    /// writable at `out`.
    #[inline(always)]
    pub unsafe fn activate_row<S: Simd>(gate: *const f32, up: *const f32, n: usize, act: Act, out: *mut f32) {
        // SAFETY: `i` stays below `n`, and `load_some` and `store_some` touch no more than the `left` numbers that
        // remain.
        unsafe {
            let mut i = 0;
            while i < n {
                let left = n - i;
                let g = load_some::<S>(gate.add(i), left);
                let u = if up.is_null() { None } else { Some(load_some::<S>(up.add(i), left)) };
                store_some::<S>(out.add(i), activate::<S>(act, g, u), left);
                i += S::N;
            }
        }
    }

    /// `x *= sigmoid(gate)`; a step of 0 reuses one gate for the whole row.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `n` numbers are readable and writable at `x`, and `n` (one, for a step of
    /// 0) readable at `gate`.
    #[inline(always)]
    pub unsafe fn gate_row<S: Simd>(x: *mut f32, gate: *const f32, step: usize, n: usize) {
        // SAFETY: `i` stays below `n`, and `load_some` and `store_some` touch no more than the `left` numbers that
        // remain; of a step of 0 only the first gate is read.
        unsafe {
            let mut i = 0;
            while i < n {
                let left = n - i;
                let g = if step == 0 { S::splat_f(*gate) } else { load_some::<S>(gate.add(i), left) };
                let v = S::mul(load_some::<S>(x.add(i), left), sigmoid::<S>(g));
                store_some::<S>(x.add(i), v, left);
                i += S::N;
            }
        }
    }

    /// `x = cap * tanh(x / cap)`.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`, and `n` numbers are readable and writable at `x`.
    #[inline(always)]
    pub unsafe fn softcap_row<S: Simd>(x: *mut f32, n: usize, cap: f32) {
        // SAFETY: `i` stays below `n`, and no more than the `left` numbers that remain are touched.
        unsafe {
            let mut i = 0;
            while i < n {
                let left = n - i;
                let v = S::mul(load_some::<S>(x.add(i), left), S::splat_f(1.0 / cap));
                store_some::<S>(x.add(i), S::mul(tanh::<S>(v), S::splat_f(cap)), left);
                i += S::N;
            }
        }
    }

    /// `to += scale * x`.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `n` numbers are readable at `x`, and readable and writable at `to`.
    #[inline(always)]
    pub unsafe fn add_row<S: Simd>(x: *const f32, n: usize, scale: f32, to: *mut f32) {
        // SAFETY: `i` stays below `n`, and no more than the `left` numbers that remain are touched.
        unsafe {
            let mut i = 0;
            while i < n {
                let left = n - i;
                let v = S::fma(
                    S::splat_f(scale),
                    load_some::<S>(x.add(i), left),
                    load_some::<S>(to.add(i), left),
                );
                store_some::<S>(to.add(i), v, left);
                i += S::N;
            }
        }
    }

    /// Turns pairs `(i, i + half)` of one head by the given cosines and sines.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `2 * half` numbers are readable and writable at `x`, and `half` readable
    /// at `cos` and `sin`.
    #[inline(always)]
    pub unsafe fn rotate<S: Simd>(x: *mut f32, half: usize, cos: *const f32, sin: *const f32) {
        // SAFETY: `i` stays below `half`, so that `x` is touched below `half` and from there below `2 * half`, and
        // the tables below `half`.
        unsafe {
            let mut i = 0;
            while i < half {
                let left = half - i;
                let (a, b) = (load_some::<S>(x.add(i), left), load_some::<S>(x.add(half + i), left));
                let (c, s) = (load_some::<S>(cos.add(i), left), load_some::<S>(sin.add(i), left));
                store_some::<S>(x.add(i), S::sub(S::mul(a, c), S::mul(b, s)), left);
                store_some::<S>(x.add(half + i), S::fma(a, s, S::mul(b, c)), left);
                i += S::N;
            }
        }
    }

    /// Norm with a SiLU gate over one piece of a row.
    ///
    /// # Safety
    /// The CPU has the instructions of `S`; `n` numbers are readable and writable at `x` and readable at `gate`, and
    /// `a` has `n` factors and offsets if any.
    #[inline(always)]
    pub unsafe fn gated_norm<S: Simd>(
        x: *mut f32,
        gate: *const f32,
        n: usize,
        a: &NormArgs<'_>,
        gate_first: bool,
    ) {
        // SAFETY: both steps need what this function asks for: `n` numbers at `x`, read and written in place, and at
        // `gate`.
        unsafe {
            if gate_first {
                silu_product::<S>(x, gate, n);
                norm::<S>(x, n, a, x);
            } else {
                norm::<S>(x, n, a, x);
                silu_product::<S>(x, gate, n);
            }
        }
    }

    /// # Safety
    /// The CPU has the instructions of `S`; `n` numbers are readable and writable at `x` and readable at `gate`.
    #[inline(always)]
    unsafe fn silu_product<S: Simd>(x: *mut f32, gate: *const f32, n: usize) {
        // SAFETY: `i` stays below `n`, and no more than the `left` numbers that remain are touched.
        unsafe { activate_row::<S>(gate, x, n, Act::Silu, x) }
    }
}

use lanes::*;

shells! {
    /// Results of a product into their slot.
    pub fn epilogue_kernel() = epilogue(f: &EpilogueArgs<'_>)
}
shells! {
    /// Norm of one row or piece.
    pub fn norm_kernel() = norm(x: *const f32, n: usize, a: &NormArgs<'_>, out: *mut f32)
}
shells! {
    /// Nonlinearity of one row.
    pub fn activate_kernel() = activate_row(gate: *const f32, up: *const f32, n: usize, act: Act, out: *mut f32)
}
shells! {
    /// Sigmoid gate of one row.
    pub fn gate_kernel() = gate_row(x: *mut f32, gate: *const f32, step: usize, n: usize)
}
shells! {
    /// Soft cap of one row.
    pub fn softcap_kernel() = softcap_row(x: *mut f32, n: usize, cap: f32)
}
shells! {
    /// Scaled sum of one row.
    pub fn add_kernel() = add_row(x: *const f32, n: usize, scale: f32, to: *mut f32)
}
shells! {
    /// Rotation of one head.
    pub fn rotate_kernel() = rotate(x: *mut f32, half: usize, cos: *const f32, sin: *const f32)
}
shells! {
    /// Gated norm of one piece.
    pub fn gated_norm_kernel() = gated_norm(x: *mut f32, gate: *const f32, n: usize, a: &NormArgs<'_>, gate_first: bool)
}
