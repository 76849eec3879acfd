//! Golden bits: what every kernel of `kernels/list.h` gives for fixed operands, as hashes that the emulator made.
//!
//! These kernels write `a * b + c` as `fma`, use functions of their own, and add in an order that depends on nothing else. So
//! every device has to give the emulator's bits; where one does not, its compiler or its arithmetic is not what they count on.
//! Kernels on tensor cores are not among them: how these round is the device's own matter.

mod attention;
mod launch;
mod layers;
mod products;
mod rows;
mod step;

use crate::{
    device::{GpuDevice, ProductUnits},
    kernels::compared_kernels,
};
use lamina_plan::{KernelBits, LeftOutKernels, backend::Result};
use launch::{GoldenLaunch, HASH_START};
use std::collections::{BTreeMap, BTreeSet};
use step::GoldenStep;

/// Hashes by kernel, as [`golden_text`] writes them.
const GOLDEN: &str = include_str!("../../golden.txt");

fn launches() -> Result<Vec<GoldenLaunch>> {
    let on = GoldenStep::new();
    let all =
        [rows::launches(&on), attention::launches(&on)?, layers::launches(&on), products::launches(&on)?];
    Ok(all.into_iter().flatten().collect())
}

/// Runs the kernels, and hashes what each of them gave in all its launches.
///
/// # Errors
/// When the device fails.
pub fn kernel_hashes<D: GpuDevice>(device: &D) -> Result<BTreeMap<&'static str, u64>> {
    hashes_without(device, &BTreeSet::new())
}

/// The same without some kernels.
fn hashes_without<D: GpuDevice>(
    device: &D,
    left_out: &BTreeSet<&str>,
) -> Result<BTreeMap<&'static str, u64>> {
    let mut hashes = BTreeMap::new();
    for launch in launches()?.iter().filter(|launch| !left_out.contains(launch.kernel)) {
        let hash = hashes.entry(launch.kernel).or_insert(HASH_START);
        *hash = launch.run(device, *hash)?;
    }
    Ok(hashes)
}

/// The hashes that are kept.
pub fn golden_hashes() -> BTreeMap<&'static str, u64> {
    let line = |line: &'static str| {
        let (kernel, hash) = line.split_once(' ')?;
        Some((kernel, u64::from_str_radix(hash, 16).ok()?))
    };
    GOLDEN.lines().filter_map(line).collect()
}

/// Hashes as they are kept: a line for each kernel.
pub fn golden_text(hashes: &BTreeMap<&'static str, u64>) -> String {
    hashes.iter().map(|(kernel, hash)| format!("{kernel} {hash:016x}\n")).collect()
}

/// Runs the kernels, and compares what they give with the hashes that are kept. Those that the device cannot get, of the ones
/// that no plan launches on it, are left out.
///
/// # Errors
/// When the device fails.
pub(crate) fn compare<D: GpuDevice>(device: &D) -> Result<KernelBits> {
    let why = match device.products() {
        ProductUnits::Fma => None,
        ProductUnits::TensorCores | ProductUnits::Float16Cores => device.load_compared().err(),
    };
    let compared = || compared_kernels(device.products());
    let left_out = why.iter().flat_map(|_| compared()).map(|kernel| kernel.name).collect();
    let (got, want) = (hashes_without(device, &left_out)?, golden_hashes());
    let differ = got.iter().filter(|(kernel, hash)| want.get(*kernel) != Some(hash));
    let names = left_out.into_iter().map(str::to_owned).collect();
    Ok(KernelBits {
        compared: got.len(),
        differ: differ.map(|(kernel, _)| (*kernel).to_owned()).collect(),
        left_out: why.map(|why| LeftOutKernels { names, why }),
    })
}
