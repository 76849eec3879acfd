//! What a device has to do right before a model is put on it: copies, a product of every type, a recording.

use crate::{
    args::{Field, ProductArgs, RepackArgs},
    device::{Bound, GpuDevice, Launch},
    format::{FORMATS, LANES, PanelFormat},
    samples::stored,
};
use lamina_arch::ArchError;
use lamina_plan::{BackendError, backend::Result};

const OUTPUTS: usize = 40;
const INPUTS: usize = 512;
/// One more than a block of the kernel for few.
const ROWS: usize = 9;

/// Most of the sum of all terms' sizes that a product may be beside float64: only its order is another.
const TOLERANCE: f64 = 1e-5;

/// Multiplies a small matrix of every type with a few rows, by the kernel for few rows, by a recording of it, and by the
/// kernel for many, which give the same bits as one another and the host's numbers. It takes some milliseconds, and is no
/// substitute for the conformance kit.
///
/// # Errors
/// When the device fails, or gives other numbers.
pub fn self_test<D: GpuDevice>(device: &D) -> Result<()> {
    FORMATS.iter().try_for_each(|format| {
        let stored = StoredMatrix::new(format)?;
        TestProduct::new(device, &stored)?.run(&stored)
    })
}

/// `n` numbers between -1 and 1.
fn wave(n: usize, stride: usize, period: usize) -> Vec<f32> {
    (0..n).map(|i| (i * stride % period) as f32 / period as f32 * 2.0 - 1.0).collect()
}

fn inputs() -> Vec<f32> {
    wave(ROWS * INPUTS, 29, 127)
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

    /// True for what the matrix gives, row by row.
    fn gives(&self, products: &[f32]) -> bool {
        let inputs = inputs();
        products.iter().enumerate().all(|(i, product)| {
            let (row, output) = (&inputs[i / OUTPUTS * INPUTS..], &self.numbers[i % OUTPUTS * INPUTS..]);
            let terms = || row.iter().zip(output).take(INPUTS).map(|(a, b)| f64::from(*a) * f64::from(*b));
            let (sum, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
            // NaN is no less than anything.
            (f64::from(*product) - sum).abs() <= TOLERANCE * size
        })
    }
}

/// A product on the device.
struct TestProduct<'a, D: GpuDevice> {
    device: &'a D,
    format: &'static PanelFormat,
    step: D::Buffer,
    panels: D::Buffer,
    x: D::Buffer,
    y: D::Buffer,
}

impl<'a, D: GpuDevice> TestProduct<'a, D> {
    fn new(device: &'a D, stored: &StoredMatrix) -> Result<Self> {
        let format = stored.format;
        let filled = |bytes: &[u8]| {
            let buffer = device.alloc(bytes.len(), "the self-test")?;
            device.upload(&buffer, 0, bytes).map(|()| buffer)
        };
        // Of the step table, products read how many rows there are.
        let step = [ROWS as u32; 4];
        let panels = OUTPUTS.div_ceil(LANES) * format.panel_bytes(INPUTS);
        let own = TestProduct {
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

    fn launch(&self, kernel: &str, grid: [u32; 3]) -> Result<()> {
        let args = ProductArgs {
            inputs: INPUTS as i32,
            outputs: OUTPUTS as i32,
            y_row: OUTPUTS as i32,
            factor: 1.0,
            ..ProductArgs::default()
        };
        let (step, panels, x) =
            (Bound::read(&self.step, 0), Bound::read(&self.panels, 0), Bound::read(&self.x, 0));
        // There is no bias: what stands in its place is not read.
        let bound = [step, panels, x, Bound::read(&self.x, 0), Bound::write(&self.y, 0)];
        self.device.launch(&Launch { kernel, grid, bound: &bound, args: bytemuck::bytes_of(&args) })
    }

    /// What the last launch gave; nothing of it is left for the next one.
    fn products(&self) -> Result<Vec<f32>> {
        let mut products = vec![0.0; ROWS * OUTPUTS];
        self.device.download(&self.y, 0, bytemuck::cast_slice_mut(&mut products))?;
        self.device.clear(&self.y, 0, ROWS * OUTPUTS * size_of::<f32>())?;
        Ok(products)
    }

    fn run(&self, stored: &StoredMatrix) -> Result<()> {
        let few = || self.launch(self.format.few, [OUTPUTS.div_ceil(LANES) as u32, 2, 1]);
        few()?;
        let alone = self.products()?;
        self.device.capture()?;
        let launched = few();
        // A recording that went wrong has to end as well.
        let graph = self.device.captured();
        launched?;
        self.device.replay(&graph?)?;
        let recorded = self.products()?;
        self.launch(self.format.many, [1, 1, 1])?;
        let many = self.products()?;
        let bits = |products: &[f32]| products.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let wrong = if !stored.gives(&alone) {
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
