//! Divisions by chance between a simulated device and the host.

use lamina_cpu::Cpu;
use lamina_oracle::Throttled;
use lamina_stream::{DeviceHomes, Tiered};

/// A device of any size behind a link that takes no time.
pub fn roomy_device() -> Throttled<Cpu> {
    Throttled::new(Cpu::new(1).unwrap(), 1 << 40, f64::INFINITY)
}

/// A device and the host.
pub fn beside_cpu(device: Throttled<Cpu>, homes: DeviceHomes) -> Tiered {
    Tiered::new(device, Cpu::new(1).unwrap(), homes)
}

/// A device of any size and the host.
pub fn two_cpus(homes: DeviceHomes) -> Tiered {
    beside_cpu(roomy_device(), homes)
}

/// A number by chance, the same for the same name and seed.
pub fn chance(seed: u64, name: &str) -> usize {
    let mix = |h: u64, byte: u8| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xcbf2_9ce4_8422_2325, mix);
    ((hash ^ hash >> 29) >> 2) as usize
}
