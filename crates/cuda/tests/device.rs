//! The conformance kit on the GPU of this machine.
#![cfg(target_os = "linux")]

use lamina_cuda::CudaDevice;
use lamina_gpu::{Gpu, self_test};
use lamina_oracle::conform::{self, Tolerance};

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_first_gpu_conforms() {
    let device = CudaDevice::open(0).expect("a GPU");
    self_test(&device).expect("right numbers");
    let report = conform::run(|| Gpu::new(device.clone()), Tolerance::default());
    report.assert();
    assert!(report.refused.is_empty(), "{report}");
}
