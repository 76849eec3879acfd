//! A launch whose operands are made of its kernel's name, and the hash of what it writes.

use crate::device::{Bound, GpuDevice, Launch};
use bytemuck::Pod;
use lamina_plan::backend::Result;

/// Where hashes begin (FNV-1a, 64 bits).
pub(super) const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Goes on with a hash.
fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// A buffer before the launch.
struct GoldenOperand {
    bytes: Vec<u8>,
    /// The kernel writes it: it goes into the hash.
    written: bool,
}

/// A launch with all that it needs.
pub(super) struct GoldenLaunch {
    pub kernel: &'static str,
    grid: [u32; 3],
    operands: Vec<GoldenOperand>,
    args: Vec<u8>,
}

impl GoldenLaunch {
    /// Runs it, and goes on with a hash over what it wrote.
    pub fn run<D: GpuDevice>(&self, device: &D, hash: u64) -> Result<u64> {
        let filled = |operand: &GoldenOperand| {
            let buffer = device.alloc(operand.bytes.len().max(16), "the golden bits")?;
            device.upload(&buffer, 0, &operand.bytes).map(|()| buffer)
        };
        let buffers = self.operands.iter().map(filled).collect::<Result<Vec<_>>>()?;
        let operands = || buffers.iter().zip(&self.operands);
        let bound: Vec<_> =
            operands().map(|(buffer, operand)| Bound { buffer, at: 0, writes: operand.written }).collect();
        device.launch(&Launch { kernel: self.kernel, grid: self.grid, bound: &bound, args: &self.args })?;
        device.wait()?;
        operands().filter(|(_, operand)| operand.written).try_fold(hash, |hash, (buffer, operand)| {
            let mut out = vec![0; operand.bytes.len()];
            device.download(buffer, 0, &mut out)?;
            Ok(hashed(hash, &out))
        })
    }
}

/// A launch under construction: operands follow one another as the kernel's parameters do. Numbers depend on the kernel's name
/// and on the order in which they are drawn, on nothing else.
pub(super) struct GoldenCase {
    kernel: &'static str,
    state: u64,
    operands: Vec<GoldenOperand>,
}

impl GoldenCase {
    pub fn new(kernel: &'static str) -> GoldenCase {
        GoldenCase { kernel, state: hashed(HASH_START, kernel.as_bytes()), operands: vec![] }
    }

    /// Even numbers from `low` to `high` (splitmix64). No function of the host's library is asked: another one would round
    /// otherwise.
    pub fn numbers(&mut self, n: usize, low: f32, high: f32) -> Vec<f32> {
        let mut one = || {
            self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            low + (high - low) * (((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 24) as f32)
        };
        (0..n).map(|_| one()).collect()
    }

    fn operand(mut self, bytes: Vec<u8>, written: bool) -> Self {
        self.operands.push(GoldenOperand { bytes, written });
        self
    }

    /// Bytes to read.
    pub fn bytes(self, bytes: Vec<u8>) -> Self {
        self.operand(bytes, false)
    }

    /// Words to read: whole numbers, or numbers that a case made itself.
    pub fn words<T: Pod>(self, words: &[T]) -> Self {
        self.bytes(bytemuck::cast_slice(words).to_vec())
    }

    /// `n` numbers to read, from `low` to `high`.
    pub fn between(mut self, n: usize, low: f32, high: f32) -> Self {
        let numbers = self.numbers(n, low, high);
        self.words(&numbers)
    }

    /// `n` numbers to read, from -1 to 1.
    pub fn floats(self, n: usize) -> Self {
        self.between(n, -1.0, 1.0)
    }

    /// `n` numbers from `low` to `high` that the kernel may read and write.
    pub fn updated(mut self, n: usize, low: f32, high: f32) -> Self {
        let numbers = self.numbers(n, low, high);
        self.operand(bytemuck::cast_slice(&numbers).to_vec(), true)
    }

    /// `n` words to write, 0 before.
    pub fn written(self, n: usize) -> Self {
        self.operand(vec![0; n * size_of::<u32>()], true)
    }

    /// The launch over a grid.
    pub fn over<A: Pod>(self, grid: [usize; 3], args: &A) -> GoldenLaunch {
        let args = bytemuck::bytes_of(args).to_vec();
        GoldenLaunch { kernel: self.kernel, grid: grid.map(|n| n as u32), operands: self.operands, args }
    }
}
