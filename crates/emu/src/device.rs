//! The emulated device.

use crate::{
    launch::{EmuGraph, OwnLaunch},
    memory::EmuBuffer,
};
use lamina_base::Bytes;
use lamina_gpu::{DeviceInfo, GpuDevice, Launch, ProductUnits};
use lamina_plan::{BackendError, backend::Result};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Order in which blocks, and threads between two barriers, are run: results must not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockOrder {
    /// From the first to the last.
    #[default]
    Forwards,
    /// From the last to the first.
    Backwards,
}

/// An emulated GPU; clones are the same device.
#[derive(Clone)]
pub struct Emu {
    shared: Arc<Mutex<EmuState>>,
    order: BlockOrder,
    memory: u64,
    products: ProductUnits,
    /// Products that its tensor cores sum at once, and truncate; 0: all, and round.
    mma_block: u32,
}

/// What the device is at. Its lock is what all access to buffers needs.
#[derive(Default)]
struct EmuState {
    /// Launches since the recording began.
    recording: Option<Vec<OwnLaunch>>,
    /// Recordings that were run.
    replays: usize,
    /// Launches that were asked for, by kernel.
    launches: HashMap<String, usize>,
    /// When stamps were asked for: launches are done by then.
    stamps: Vec<Instant>,
    /// What was sent, by slot.
    slots: HashMap<usize, SentCopies>,
}

/// Copies for a staging slot.
#[derive(Default)]
struct SentCopies {
    /// On their way.
    waiting: Vec<(EmuBuffer, usize, Bytes)>,
    /// They are there, and have not been released.
    used: bool,
}

impl Default for Emu {
    fn default() -> Self {
        Emu::new(BlockOrder::Forwards)
    }
}

impl Emu {
    /// A device that runs blocks and threads in this order.
    pub fn new(order: BlockOrder) -> Emu {
        Emu { shared: Arc::default(), order, memory: 1 << 30, products: ProductUnits::Fma, mma_block: 0 }
    }

    /// The same with `bytes` bytes of memory, for each buffer.
    pub fn with_memory(mut self, bytes: u64) -> Emu {
        self.memory = bytes;
        self
    }

    /// The same with tensor cores.
    pub fn with_tensor_cores(mut self) -> Emu {
        self.products = ProductUnits::TensorCores;
        self
    }

    /// The same with tensor cores that know float16 alone, and without what else compute capability 8.0 brought.
    pub fn with_float16_cores(mut self) -> Emu {
        self.products = ProductUnits::Float16Cores;
        self
    }

    /// The same with tensor cores that sum so many products at once and truncate what does not fit beside the largest, as
    /// those of devices are reported to: 4 (sm_70), 8 (sm_80), 16 (sm_90).
    pub fn with_truncating_tensor_cores(mut self, products: u32) -> Emu {
        self.mma_block = products;
        self.with_tensor_cores()
    }

    /// Recordings that were run so far.
    pub fn replays(&self) -> usize {
        self.lock().replays
    }

    /// Launches of a kernel that were asked for so far, run or recorded.
    pub fn launches(&self, kernel: &str) -> usize {
        self.lock().launches.get(kernel).copied().unwrap_or(0)
    }

    /// Time stamps that the last step has left.
    pub fn stamps(&self) -> usize {
        self.lock().stamps.len()
    }

    fn lock(&self) -> MutexGuard<'_, EmuState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock for a copy, which cannot be recorded.
    fn idle(&self) -> Result<MutexGuard<'_, EmuState>> {
        let running = self.lock();
        if running.recording.is_some() {
            Err(failed("copies cannot be recorded".into()))
        } else {
            Ok(running)
        }
    }

    /// Runs a launch under the lock.
    fn run(&self, launch: &mut OwnLaunch, _lock: &MutexGuard<'_, EmuState>) -> Result<()> {
        let order = if self.order == BlockOrder::Forwards { 1 } else { -1 };
        let capability = if self.products == ProductUnits::Float16Cores { 75 } else { 90 };
        // SAFETY: the lock is held: the guard is in the arguments.
        unsafe { launch.run(order, self.mma_block, capability) }.map_err(failed)
    }
}

fn failed(what: String) -> BackendError {
    BackendError::Device { backend: Emu::NAME, what, lost: false }
}

impl GpuDevice for Emu {
    type Buffer = EmuBuffer;
    type Graph = Mutex<EmuGraph>;

    const NAME: &'static str = "emulated";

    fn info(&self) -> DeviceInfo {
        let (device, kernels) = (Self::NAME.to_owned(), "c++".to_owned());
        DeviceInfo { device, kernels, free: self.memory, total: self.memory }
    }

    fn products(&self) -> ProductUnits {
        self.products
    }

    fn alloc(&self, bytes: usize, what: &str) -> Result<EmuBuffer> {
        if bytes as u64 > self.memory {
            return Err(BackendError::OutOfMemory {
                what: what.to_owned(),
                need: format!("{bytes} bytes"),
                have: format!("{} bytes", self.memory),
                advice: "use a smaller model",
            });
        }
        Ok(EmuBuffer::new(bytes))
    }

    fn upload(&self, to: &EmuBuffer, at: usize, bytes: &[u8]) -> Result<()> {
        let _lock = self.idle()?;
        // SAFETY: the lock is held.
        unsafe { to.put(at, bytes) };
        Ok(())
    }

    /// A copy arrives as late as it can: until then there is what nobody wrote, so that work that does not wait for it
    /// shows.
    fn send(&self, slot: usize, to: &EmuBuffer, at: usize, bytes: &Bytes) -> Result<()> {
        let mut running = self.idle()?;
        let sent = running.slots.entry(slot).or_default();
        if sent.used {
            return Err(failed(format!("staging slot {slot} is in use")));
        }
        sent.waiting.push((to.clone(), at, bytes.clone()));
        // SAFETY: the lock is held.
        unsafe { to.put(at, &vec![u8::MAX; bytes.len()]) };
        Ok(())
    }

    fn settle(&self, slot: usize) -> Result<()> {
        let mut running = self.idle()?;
        for (to, at, bytes) in running.slots.entry(slot).or_default().waiting.drain(..) {
            // SAFETY: the lock is held.
            unsafe { to.put(at, &bytes) };
        }
        Ok(())
    }

    fn arrive(&self, slot: usize) -> Result<()> {
        self.settle(slot)?;
        self.idle()?.slots.entry(slot).or_default().used = true;
        Ok(())
    }

    fn release(&self, slot: usize) -> Result<()> {
        self.idle()?.slots.remove(&slot);
        Ok(())
    }

    fn download(&self, from: &EmuBuffer, at: usize, out: &mut [u8]) -> Result<()> {
        let _lock = self.idle()?;
        // SAFETY: the lock is held.
        unsafe { from.get(at, out) };
        Ok(())
    }

    fn copy(&self, buffer: &EmuBuffer, from: usize, to: usize, bytes: usize) -> Result<()> {
        let _lock = self.idle()?;
        let mut between = vec![0; bytes];
        // SAFETY: the lock is held.
        unsafe { buffer.get(from, &mut between) };
        // SAFETY: the lock is held.
        unsafe { buffer.put(to, &between) };
        Ok(())
    }

    fn clear(&self, buffer: &EmuBuffer, at: usize, bytes: usize) -> Result<()> {
        let _lock = self.idle()?;
        // SAFETY: the lock is held.
        unsafe { buffer.put(at, &vec![0; bytes]) };
        Ok(())
    }

    fn launch(&self, launch: &Launch<'_, EmuBuffer>) -> Result<()> {
        let mut running = self.lock();
        *running.launches.entry(launch.kernel.to_owned()).or_default() += 1;
        let mut own = OwnLaunch::new(launch);
        match &mut running.recording {
            Some(recorded) => {
                recorded.push(own);
                Ok(())
            }
            None => self.run(&mut own, &running),
        }
    }

    fn capture(&self) -> Result<()> {
        self.lock().recording = Some(vec![]);
        Ok(())
    }

    fn captured(&self) -> Result<Mutex<EmuGraph>> {
        let recorded = self.lock().recording.take();
        recorded
            .map(|launches| Mutex::new(EmuGraph(launches)))
            .ok_or_else(|| failed("nothing is recorded".into()))
    }

    fn replay(&self, graph: &Mutex<EmuGraph>) -> Result<()> {
        let mut running = self.lock();
        running.replays += 1;
        let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
        graph.0.iter_mut().try_for_each(|launch| self.run(launch, &running))
    }

    fn wait(&self) -> Result<()> {
        Ok(())
    }

    fn stamp(&self, at: usize) -> Result<bool> {
        let mut running = self.idle()?;
        running.stamps.truncate(at);
        running.stamps.push(Instant::now());
        Ok(true)
    }

    fn stamps(&self, count: usize, out: &mut Vec<Duration>) -> Result<()> {
        let running = self.lock();
        out.clear();
        out.extend(running.stamps.iter().take(count).map(|at| *at - running.stamps[0]));
        Ok(())
    }
}
