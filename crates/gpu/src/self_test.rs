//! What a device has to do right before a model is put on it: copies, a product of every type, a recording.

use crate::{
    args::{Field, HalfArgs, ProductArgs, RepackArgs, TensorArgs},
    device::{Bound, GpuDevice, Launch},
    format::{FORMATS, LANES, PanelFormat},
    half_rows::HalfSpace,
    samples::stored,
    tensor::TensorFormat,
};
use lamina_arch::ArchError;
use lamina_base::DType;
use lamina_plan::{BackendError, backend::Result};

const OUTPUTS: usize = 40;
const INPUTS: usize = 512;
/// One more than a block of the kernel for few.
const ROWS: usize = 9;

/// Most of the sum of all terms' sizes that a product may be beside float64: only its order is another.
const TOLERANCE: f64 = 1e-5;

/// The same on tensor cores, which cut off what lies below the last bits of the largest of 16 terms, beside a product of the
/// inputs in 16 bits.
const TENSOR_TOLERANCE: f64 = 5e-5;

/// Multiplies a small matrix of every type with a few rows, by the kernel for few rows, by a recording of it, and by the
/// kernel for many, which give the same bits as one another and the host's numbers. It takes some milliseconds, and is no
/// substitute for the conformance kit.
///
/// # Errors
/// When the device fails, or gives other numbers.
pub fn self_test<D: GpuDevice>(device: &D) -> Result<()> {
    self_test_within(device, TENSOR_TOLERANCE)
}

/// The same where tensor cores are known to round better: `most` of the sum of all terms' sizes.
///
/// # Errors
/// When the device fails, or gives other numbers.
pub fn self_test_within<D: GpuDevice>(device: &D, most: f64) -> Result<()> {
    let units = device.products();
    FORMATS.iter().try_for_each(|format| {
        let tensor = TensorFormat::of(format, units);
        let stored = StoredMatrix::new(format)?;
        TestProduct::new(device, &stored, tensor)?.run(&stored, most)
    })
}

/// Room for the inputs in 16 bits.
const HALF_BYTES: usize = ROWS * INPUTS * 3;

/// `n` numbers between -1 and 1.
fn wave(n: usize, stride: usize, period: usize) -> Vec<f32> {
    (0..n).map(|i| (i * stride % period) as f32 / period as f32 * 2.0 - 1.0).collect()
}

fn inputs() -> Vec<f32> {
    wave(ROWS * INPUTS, 29, 127)
}

/// The inputs as a product takes them.
fn inputs_of(tensor: Option<&TensorFormat>) -> Result<Vec<f32>> {
    let mut inputs = inputs();
    if let Some(tensor) = tensor {
        let dtype = if tensor.bf16 { DType::BF16 } else { DType::F16 };
        let mut bytes = vec![0; 2 * inputs.len()];
        lamina_quant::encode(dtype, &inputs, None, &mut bytes).map_err(ArchError::from)?;
        lamina_quant::decode(dtype, &bytes, &mut inputs).map_err(ArchError::from)?;
    }
    Ok(inputs)
}

/// A matrix in a type, as bytes of a file and as the numbers that they hold.
struct StoredMatrix {
    format: &'static PanelFormat,
    bytes: Vec<u8>,
    numbers: Vec<f32>,
}

impl StoredMatrix {
    fn new(format: &'static PanelFormat) -> Result<StoredMatrix> {
        let mut numbers = wave(OUTPUTS * INPUTS, 37, 251);
        let bytes = stored(format.dtype, &numbers)?;
        lamina_quant::decode(format.dtype, &bytes, &mut numbers).map_err(ArchError::from)?;
        Ok(StoredMatrix { format, bytes, numbers })
    }

    /// True for what the matrix gives for `inputs`, row by row.
    fn gives(&self, products: &[f32], inputs: &[f32], most: f64) -> bool {
        products.iter().enumerate().all(|(i, product)| {
            let (row, output) = (&inputs[i / OUTPUTS * INPUTS..], &self.numbers[i % OUTPUTS * INPUTS..]);
            let terms = || row.iter().zip(output).take(INPUTS).map(|(a, b)| f64::from(*a) * f64::from(*b));
            let (sum, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
            // NaN is no less than anything.
            (f64::from(*product) - sum).abs() <= most * size
        })
    }
}

/// A product on the device.
struct TestProduct<'a, D: GpuDevice> {
    device: &'a D,
    format: &'static PanelFormat,
    /// How tensor cores multiply it, and their inputs in 16 bits.
    tensor: Option<(&'static TensorFormat, D::Buffer)>,
    step: D::Buffer,
    panels: D::Buffer,
    x: D::Buffer,
    y: D::Buffer,
}

impl<'a, D: GpuDevice> TestProduct<'a, D> {
    fn new(device: &'a D, stored: &StoredMatrix, tensor: Option<&'static TensorFormat>) -> Result<Self> {
        let format = stored.format;
        let halves = |t| -> Result<_> { Ok((t, device.alloc(HALF_BYTES, "the self-test")?)) };
        let filled = |bytes: &[u8]| {
            let buffer = device.alloc(bytes.len(), "the self-test")?;
            device.upload(&buffer, 0, bytes).map(|()| buffer)
        };
        // Of the step table, products read how many rows there are.
        let step = [ROWS as u32; 4];
        let panels = OUTPUTS.div_ceil(LANES) * format.panel_bytes(INPUTS);
        let own = TestProduct {
            tensor: tensor.map(halves).transpose()?,
            step: filled(bytemuck::cast_slice(&step))?,
            panels: device.alloc(panels, "the self-test")?,
            x: filled(bytemuck::cast_slice(&inputs()))?,
            y: device.alloc(ROWS * OUTPUTS * size_of::<f32>(), "the self-test")?,
            device,
            format,
        };
        own.repack(&filled(&stored.bytes)?)?;
        Ok(own)
    }

    fn repack(&self, stored: &D::Buffer) -> Result<()> {
        let mut field = [Field::default(); 4];
        field[..self.format.fields.len()].copy_from_slice(self.format.fields);
        let args = RepackArgs {
            rows: OUTPUTS as i32,
            row_bytes: self.format.dtype.bytes_for(INPUTS).unwrap_or_default() as i32,
            block_bytes: self.format.block_bytes() as i32,
            blocks: self.format.blocks(INPUTS) as i32,
            fields: self.format.fields.len() as i32,
            field,
        };
        self.device.launch(&Launch {
            kernel: "repack",
            grid: [args.blocks as u32, OUTPUTS.div_ceil(LANES) as u32, 1],
            bound: &[Bound::read(stored, 0), Bound::write(&self.panels, 0)],
            args: bytemuck::bytes_of(&args),
        })?;
        // The stored bytes are read until then.
        self.device.wait()
    }

    fn launch(
        &self,
        kernel: &str,
        grid: [u32; 3],
        bound: &[Bound<'_, D::Buffer>],
        args: &[u8],
    ) -> Result<()> {
        self.device.launch(&Launch { kernel, grid, bound, args })
    }

    /// Multiplies, by the kernel for few rows or that for many.
    fn multiply(&self, many: bool) -> Result<()> {
        let product = ProductArgs {
            inputs: INPUTS as i32,
            outputs: OUTPUTS as i32,
            y_row: OUTPUTS as i32,
            factor: 1.0,
            ..ProductArgs::default()
        };
        let (step, panels, x) =
            (Bound::read(&self.step, 0), Bound::read(&self.panels, 0), Bound::read(&self.x, 0));
        // There is no bias: what stands in its place is not read.
        let (bias, y) = (Bound::read(&self.x, 0), Bound::write(&self.y, 0));
        let Some((tensor, halves)) = &self.tensor else {
            let grid = if many { [1; 3] } else { [OUTPUTS.div_ceil(LANES) as u32, 2, 1] };
            let kernel = if many { self.format.many } else { self.format.few };
            return self.launch(kernel, grid, &[step, panels, x, bias, y], bytemuck::bytes_of(&product));
        };
        let space = HalfSpace::new(INPUTS, 1, HALF_BYTES);
        let [numbers, sums, undo] = [0, space.sums, space.undo].map(|at| Bound::write(halves, at));
        let (items, x_row, bf16) = (1, product.inputs, i32::from(tensor.bf16));
        let args = HalfArgs { inputs: product.inputs, items, x_row, bf16, ..HalfArgs::default() };
        let bound = [step, x, x, numbers, sums, undo];
        self.launch("half_rows", [1, ROWS as u32, 1], &bound, bytemuck::bytes_of(&args))?;
        let args = TensorArgs { rows: ROWS as i32, items: 1, share: 1, product, ..TensorArgs::default() };
        let grid = if many { [1; 3] } else { [OUTPUTS.div_ceil(16) as u32, 2, 1] };
        let kernel = if many { tensor.many } else { tensor.few };
        // Rows are in order: what stands in place of a list of tiles is not read either.
        let bound = [step, panels, numbers, sums, undo, bias, step, y];
        self.launch(kernel, grid, &bound, bytemuck::bytes_of(&args))
    }

    /// What the last launch gave; nothing of it is left for the next one.
    fn products(&self) -> Result<Vec<f32>> {
        let mut products = vec![0.0; ROWS * OUTPUTS];
        self.device.download(&self.y, 0, bytemuck::cast_slice_mut(&mut products))?;
        self.device.clear(&self.y, 0, ROWS * OUTPUTS * size_of::<f32>())?;
        Ok(products)
    }

    fn run(&self, stored: &StoredMatrix, tensor_most: f64) -> Result<()> {
        self.multiply(false)?;
        let alone = self.products()?;
        self.device.capture()?;
        let launched = self.multiply(false);
        // A recording that went wrong has to end as well.
        let graph = self.device.captured();
        launched?;
        self.device.replay(&graph?)?;
        let recorded = self.products()?;
        self.multiply(true)?;
        let many = self.products()?;
        let bits = |products: &[f32]| products.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let tensor = self.tensor.as_ref().map(|(tensor, _)| *tensor);
        let most = if tensor.is_some() { tensor_most } else { TOLERANCE };
        let wrong = if !stored.gives(&alone, &inputs_of(tensor)?, most) {
            "gives wrong products"
        } else if bits(&alone) != bits(&recorded) {
            "gives other bits when it is recorded"
        } else if bits(&alone) != bits(&many) {
            "gives other bits for many rows"
        } else {
            return Ok(());
        };
        let what = format!("the self-test of {} {wrong}", self.format.dtype.name());
        Err(BackendError::Device { backend: D::NAME, what, lost: false })
    }
}
