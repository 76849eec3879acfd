//! Matrix products (GEMV and GEMM): activations are quantized once per operator, then tasks multiply weight panels and run
//! the epilogue on their results.

use crate::{
    machine::{Machine, Operate, RowsOf},
    matrix::Matrix,
    tasks::TaskCut,
};
use lamina_kernels::{ActKind, ActKinds, Epilogue, EpilogueArgs, NormArgs, Outputs, PREFETCH, PanelOperands};
use lamina_plan::{Batch, Plan, Slot, WeightKind, backend::Result, op::*};

/// Rows of one task of a large product. Their activations (about 300 bytes per 256 columns) stay in L2 while
/// panels stream past.
const ROW_BLOCK: usize = 128;
/// Results that a task may hold before their epilogue, in numbers.
const TILE: usize = 8192;
/// Weight bytes of one task of a product of few rows: at the end threads wait for the last one, but each begins a stream
/// that memory has to recognize first. Of 64, 128, 256 and 512 KiB the third was best: 7 to 25 % over the first where a
/// gate and its other half take turns.
const TASK_BYTES: usize = 256 << 10;
/// Scratch of a thread: two tiles of results, and a float32 row behind them.
pub const SCRATCH: usize = 2 * 4 * TILE;

/// Widest input of any matrix of the plan.
pub fn widest_input(plan: &Plan) -> usize {
    let cols = |kind: WeightKind| match kind {
        WeightKind::Matrix { cols, .. } | WeightKind::Stack { cols, .. } => cols,
        _ => 0,
    };
    plan.weights.iter().map(|w| cols(w.kind)).max().unwrap_or(0)
}

/// Activations in the form that a weight wants.
#[derive(Clone, Copy)]
pub struct Acts<'a> {
    /// Blocks from the first row on.
    pub bytes: &'a [u8],
    /// Rows, and blocks from one block of a row to its next; for float32 numbers from one row to the next.
    pub stride: usize,
}

impl<'a> Acts<'a> {
    /// The activations from row `row` on.
    pub fn from(self, row: usize, kind: ActKind) -> Acts<'a> {
        let blocks = if kind == ActKind::F32 { row * self.stride } else { row };
        Acts { bytes: &self.bytes[blocks * kind.block_bytes()..], stride: self.stride }
    }
}

/// A product with a place for its results.
pub struct Product<'a> {
    /// Weights.
    pub matrix: &'a Matrix,
    /// Which of the matrices, for experts.
    pub index: usize,
    /// Second matrix of a gated part.
    pub up: Option<&'a Matrix>,
    /// Activations of the matrix's kind.
    pub acts: Acts<'a>,
    /// Rows of activations.
    pub rows: usize,
    /// First result; rows are `stride` apart.
    pub to: *mut f32,
    /// Numbers from one row of results to the next.
    pub stride: usize,
    /// Bias of each result.
    pub bias: Option<&'a [f32]>,
    /// Bias of `up`.
    pub up_bias: Option<&'a [f32]>,
    /// Epilogue on the results.
    pub epilogue: Epilogue,
}

impl Product<'_> {
    fn cut(&self, threads: usize) -> TaskCut {
        let m = self.matrix;
        let rows = self.rows.min(ROW_BLOCK);
        let room = TILE / (rows.max(1) * m.kernels.rows());
        let few = (TASK_BYTES / m.panel_bytes.max(1)).min(m.panels.div_ceil(2 * threads));
        let panels = if self.rows >= ROW_BLOCK { room } else { few.min(room) }.max(1);
        let each = m.panels.div_ceil(panels);
        TaskCut { rows, panels, each, tasks: each * self.rows.div_ceil(rows.max(1)) }
    }

    /// Multiplies task `task` and runs its epilogue. Tasks of one row block follow one another, so that its activations stay in
    /// the cache.
    fn run(&self, m: &Machine, cut: TaskCut, task: usize, worker: usize) {
        let (row, panel) = cut.place(task);
        let rows = cut.rows.min(self.rows - row);
        let panels = cut.panels.min(self.matrix.panels - panel);
        let tile = m.scratch[worker].ptr_mut().cast::<f32>();
        // SAFETY: `SCRATCH` is two tiles, and they belong to this worker, which runs one task at a time.
        let tiles = unsafe {
            [std::slice::from_raw_parts_mut(tile, TILE), std::slice::from_raw_parts_mut(tile.add(TILE), TILE)]
        };
        let [out, second] = tiles;
        self.multiply(self.matrix, panel, panels, row, rows, out);
        if let Some(up) = self.up {
            self.multiply(up, panel, panels, row, rows, second);
        }
        let kernels = &self.matrix.kernels;
        let first = panel * kernels.rows();
        let outputs = Outputs {
            to: self.to.wrapping_add(row * self.stride + first),
            rows,
            stride: self.stride,
            width: (panels * kernels.rows()).min(self.matrix.rows - first),
        };
        let biases = (self.bias.map(|b| &b[first..]), self.up_bias.map(|b| &b[first..]));
        let products = (&*out, self.up.map(|_| &*second));
        // SAFETY: `to` holds `self.rows` rows of the matrix's outputs, of which this task alone writes these.
        let args = unsafe { EpilogueArgs::new(products, kernels.lanes(), outputs, biases, self.epilogue) };
        m.kernels.epilogue(&args);
    }

    fn multiply(&self, w: &Matrix, panel: usize, panels: usize, row: usize, rows: usize, out: &mut [f32]) {
        let acts = self.acts.from(row, w.kernels.act());
        let operands = PanelOperands {
            weights: w.panels_of(self.index, panel, panels),
            acts: acts.bytes,
            stride: acts.stride,
            rows,
            out,
            out_rows: rows,
            ahead: PREFETCH,
        };
        w.kernels.multiply(w.cols, operands);
    }
}

impl Machine {
    /// Runs `count` products whose results do not touch one another, all in one go. Each task asks `product` for its own.
    pub(crate) fn products<'a>(&self, count: usize, product: impl Fn(usize) -> Product<'a> + Sync) {
        let threads = self.pool.threads();
        let mut cuts = self.lists.cuts.cleared();
        let mut end = 0;
        for i in 0..count {
            let cut = product(i).cut(threads);
            end += cut.tasks;
            cuts.push((end, cut));
        }
        let cuts = &cuts[..];
        self.pool.run(end, |task, worker| {
            let at = cuts.partition_point(|&(end, _)| end <= task);
            let (end, cut) = cuts[at];
            product(at).run(self, cut, task + cut.tasks - end, worker);
        });
    }

    /// The row behind the tiles of thread `worker`, as wide as the widest slot.
    ///
    /// # Safety
    /// Nothing else of this worker is in its scratch memory while the slice is used.
    #[allow(clippy::mut_from_ref)] // the promise above
    pub(super) unsafe fn wide_row(&self, worker: usize) -> &mut [f32] {
        // SAFETY: the memory is this worker's alone, and the caller promises that it is free.
        let all = unsafe { self.scratch[worker].numbers_mut() };
        &mut all[SCRATCH / 4..]
    }

    /// Brings rows into every form that `kinds` asks for, normed first where there is a norm.
    pub(crate) fn prepare(&self, x: RowsOf, norm: Option<NormArgs<'_>>, kinds: ActKinds) {
        self.each_row(x.rows, x.width * 2, |r, worker| {
            let mut row = x.at(r).cast_const();
            if let Some(args) = &norm {
                let normed = if kinds.has(ActKind::F32) {
                    self.acts[0].ptr_mut().cast::<f32>().wrapping_add(r * x.width)
                } else {
                    self.scratch[worker].ptr_mut().wrapping_add(SCRATCH).cast()
                };
                // SAFETY: both rows have room for the width, and this task alone writes to `normed`.
                unsafe { (self.kernels.norm)(row, x.width, args, normed) };
                row = normed;
            }
            self.quantize_row(row, x.width, r, x.rows, kinds);
        });
    }

    /// Quantizes one row into the activations' place `r` of `rows`; float32 rows are where they are.
    pub(crate) fn quantize_row(&self, row: *const f32, width: usize, r: usize, rows: usize, kinds: ActKinds) {
        for kind in kinds.iter().filter(|&kind| kind != ActKind::F32) {
            let out = self.acts[kind as usize].ptr_mut();
            // SAFETY: the buffer begins on a page and holds `rows` rows, of which this task alone writes row `r`.
            unsafe { self.kernels.quantize_at(kind, row, width, (r, rows), out) };
        }
    }

    /// Prepared activations of `kind`.
    ///
    /// # Safety
    /// Nobody writes the rows of `x`, or prepares others, while they are used.
    pub(crate) unsafe fn acts_of(&self, kind: ActKind, x: RowsOf, normed: bool) -> Acts<'_> {
        let (place, stride) = match kind {
            ActKind::F32 if !normed => {
                // SAFETY: a slot's rows follow one another, and the caller promises that nobody writes them.
                let rows = unsafe { std::slice::from_raw_parts(x.ptr.cast(), 4 * x.rows * x.width) };
                return Acts { bytes: rows, stride: x.width };
            }
            ActKind::F32 => (0, x.width),
            ActKind::Int32 => (1, x.rows),
            ActKind::Int256 => (2, x.rows),
        };
        // SAFETY: the caller promises that nobody prepares other activations.
        Acts { bytes: unsafe { self.acts[place].bytes() }, stride }
    }

    fn product<'a>(
        &'a self,
        b: &Batch,
        x: RowsOf,
        normed: bool,
        part: &Part,
        epilogue: Epilogue,
        to: Slot,
    ) -> Product<'a> {
        let m = self.matrix(part.weight);
        let (to, first) = (self.slot(b, to), part.columns.first());
        debug_assert!(first + m.rows <= to.width, "columns of the slot");
        Product {
            matrix: m,
            index: 0,
            up: None,
            // SAFETY: products write other slots than they read, and the next operator prepares activations after them.
            acts: unsafe { self.acts_of(m.kernels.act(), x, normed) },
            rows: x.rows,
            to: to.ptr.wrapping_add(first),
            stride: to.width,
            bias: self.optional(part.bias).map(|b| &b[first..]),
            up_bias: None,
            epilogue,
        }
    }

    /// Forms of activations that the matrices of `parts` multiply with.
    ///
    /// # Errors
    /// When one of them is not bound.
    fn kinds(&self, parts: &[Part]) -> Result<ActKinds> {
        let with = |kinds: ActKinds, p: &Part| Ok(kinds.with(self.bound_matrix(p.weight)?.kernels.act()));
        parts.iter().try_fold(ActKinds::default(), with)
    }

    fn parts(&self, b: &Batch, x: Slot, norm: Option<NormOp>, parts: &[Part]) -> Result<()> {
        let x = self.slot(b, x);
        self.prepare(x, norm.map(|n| self.norm_args(&n)), self.kinds(parts)?);
        let product = |p: &Part| self.product(b, x, norm.is_some(), p, Epilogue::Store, p.out);
        self.products(parts.len(), |i| product(&parts[i]));
        Ok(())
    }
}

impl Operate<Linear> for Machine {
    fn run(&mut self, b: &Batch, o: &Linear) -> Result<()> {
        self.parts(b, o.x, None, std::slice::from_ref(&o.part))
    }
}

impl Operate<Project> for Machine {
    fn run(&mut self, b: &Batch, o: &Project) -> Result<()> {
        self.parts(b, o.x, o.norm, &o.parts)
    }
}

impl Operate<LinearAdd> for Machine {
    fn run(&mut self, b: &Batch, o: &LinearAdd) -> Result<()> {
        let x = self.slot(b, o.x);
        let part = Part { weight: o.weight, bias: o.bias, out: o.into, columns: o.columns };
        self.prepare(x, None, self.kinds(&[part])?);
        self.products(1, |_| self.product(b, x, false, &part, Epilogue::Add(o.scale), o.into));
        Ok(())
    }
}

impl Operate<Glu> for Machine {
    fn run(&mut self, b: &Batch, o: &Glu) -> Result<()> {
        let p = &o.project;
        let x = self.slot(b, p.x);
        self.prepare(x, p.norm.map(|n| self.norm_args(&n)), self.kinds(&p.parts)?);
        let normed = p.norm.is_some();
        let gate = &p.parts[0];
        let Some(up) = p.parts.get(1) else {
            self.products(1, |_| self.product(b, x, normed, gate, Epilogue::Activate(o.act), gate.out));
            return Ok(());
        };
        let second = self.matrix(up.weight);
        if second.kernels.dtype() != self.matrix(gate.weight).kernels.dtype() {
            // Files that mix types inside a part are rare; the plain way is right for them.
            let store = |part: &Part| self.product(b, x, normed, part, Epilogue::Store, part.out);
            self.products(2, |i| store([gate, up][i]));
            let (up, columns, gate) = (Some(up.out), gate.columns, gate.out);
            return self.run(b, &Activate { gate, up, act: o.act, out: gate, columns });
        }
        self.products(1, |_| Product {
            up: Some(second),
            up_bias: self.optional(up.bias).map(|b| &b[up.columns.first()..]),
            ..self.product(b, x, normed, gate, Epilogue::Glu(o.act), gate.out)
        });
        Ok(())
    }
}
