//! The CUDA device over a driver of our own, which runs kernels on the emulator and fails on demand.
//!
//! Each test that is ignored here runs in a process of its own, with the fake driver's folder in front of the libraries'
//! path: this binary again, with the name of the test, so the file is a binary of its own.
#![cfg(target_os = "linux")]

mod alone;
#[path = "../../emu/tests/it/common/runner.rs"]
mod runner;

use alone::alone;
use lamina_arch::{Family, weights::Weights};
use lamina_cpu::Cpu;
use lamina_cuda::{CudaDevice, ImageOrigin};
use lamina_emu::Emu;
use lamina_fixtures::packaged;
use lamina_gpu::{Gpu, GpuDevice, ProductUnits, self_test};
use lamina_oracle::conform::{self, Tolerance};
use lamina_plan::{BackendError, KvType, Reports, emit};
use lamina_store::Checkpoint;
use lamina_stream::{DeviceHomes, TierSide, Tiered};
use runner::{ONCE, runner, tell};
use std::env;

/// The same, with the fake driver, for a test that has to pass; what it wrote to stderr.
fn passes(test: &str, settings: &[(&str, &str)]) -> String {
    let done = alone(test, lamina_emu::FAKE_CUDA, settings);
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && out.contains("1 passed"), "{out}\n{err}");
    err.into_owned()
}

#[test]
fn cases_of_the_kit_conform() {
    passes("inner_cases", &[]);
}

#[test]
#[ignore = "needs the fake driver's folder in the libraries' path"]
fn inner_cases() {
    let device = CudaDevice::open(0).expect("the fake device");
    self_test(&device).expect("right bytes");
    for part in ["linear 129x256 Q4_K", "attend 8:2", "normalize", "replays", "queue", "memory", "experts s"]
    {
        let report = conform::run_matching(|| Gpu::new(device.clone()), Tolerance::default(), part);
        report.assert();
        assert!(report.cases > 0 && report.refused.is_empty(), "{part}: {report}");
    }
}

#[test]
fn devices_that_are_open_tell_their_energy() {
    let both = format!("{}:{}", lamina_emu::FAKE_CUDA, lamina_emu::FAKE_NVML);
    passes("inner_energy", &[("LD_LIBRARY_PATH", &both)]);
    passes("inner_energy_that_is_not_told", &[("LD_LIBRARY_PATH", &both), ("FAKE_NVML", "3")]);
    // Without the library, too.
    passes("inner_energy_that_is_not_told", &[]);
}

#[test]
#[ignore = "needs the fake driver's folder in the libraries' path"]
fn inner_energy() {
    assert_eq!(lamina_cuda::joules(), Ok(None), "nothing is open");
    let device = CudaDevice::open(0).expect("the fake device");
    let told = || lamina_cuda::joules().expect("energy").expect("a device");
    assert_eq!((told(), told()), (2.5, 4.0));
    drop(device);
    assert_eq!(lamina_cuda::joules(), Ok(None));
}

#[test]
#[ignore = "needs the fake driver's folder in the libraries' path"]
fn inner_energy_that_is_not_told() {
    let _device = CudaDevice::open(0).expect("the fake device");
    let why = lamina_cuda::joules().expect_err("nobody tells it");
    match env::var("FAKE_NVML") {
        Ok(_) => assert!(why.contains("does not support"), "{why}"),
        Err(_) => assert!(!why.is_empty()),
    }
}

#[test]
fn the_built_in_model_has_the_bits_of_the_emulator() {
    passes("inner_story", &[]);
}

/// A device of compute capability 7.5 gets kernels without bfloat16 on tensor cores, and has its own bits.
#[test]
fn the_built_in_model_runs_on_the_oldest_device() {
    let oldest = [("FAKE_CUDA", "capability=75")];
    passes("inner_story", &oldest);
    passes("inner_oldest", &oldest);
}

#[test]
#[ignore = "needs the fake driver's folder in the libraries' path"]
fn inner_oldest() {
    let device = CudaDevice::open(0).expect("the fake device");
    assert_eq!(device.products(), ProductUnits::Float16Cores);
    self_test(&device).expect("right bytes");
    for part in ["linear 129x256 BF16", "attend bf16 32"] {
        let report = conform::run_matching(|| Gpu::new(device.clone()), Tolerance::default(), part);
        report.assert();
        assert!(report.cases > 0 && report.refused.is_empty(), "{part}: {report}");
    }
    device.load_compared().expect("kernels that are only compared");
    let bits = Gpu::new(device).kernel_bits().expect("it compares").expect("kernels");
    assert!(bits.differ.is_empty() && bits.left_out.is_none(), "{:?}", bits.differ);
}

#[test]
#[ignore = "needs the fake driver's folder in the libraries' path"]
fn inner_story() {
    let device = CudaDevice::open(0).expect("the fake device");
    let old = device.facts().architecture == "sm_75";
    let types = [KvType::F16, KvType::Q8_0];
    // Both kinds of pages by the kernels of newer devices, some tokens by the others.
    let (kinds, tokens) = if old { (1, 10) } else { (2, 40) };
    for kv_type in types.into_iter().take(kinds) {
        let got = runner(&packaged(), Gpu::new(device.clone()), kv_type, false);
        let emulated =
            if old { Emu::default().with_float16_cores() } else { Emu::default().with_tensor_cores() };
        let want = runner(&packaged(), Gpu::new(emulated), kv_type, false);
        let [got, want] = [tell(got, &ONCE, tokens, 64), tell(want, &ONCE, tokens, 64)];
        assert!(got == want, "{kv_type}: {:?} instead of {:?}", got[0].text, want[0].text);
    }
}

/// Weights that are sent to the device come in time and not too early: the fake driver does all work as late as it may, and
/// copies are on a stream of their own.
#[test]
fn weights_are_sent_beside_the_work() {
    let text = passes("inner_sent", &[("FAKE_CUDA", "tell_pinned=1")]);
    assert!(text.contains("bytes are pinned") && text.contains("nothing is pinned"), "{text}");
    // Without leave to pin memory the driver copies by way of its own.
    let text = passes("inner_sent", &[("FAKE_CUDA", "tell_pinned=1,cuMemHostRegister_v2=801")]);
    assert!(!text.contains("pinned"), "{text}");
    // Copies that come as early as they may overwrite nothing that is still read.
    passes("inner_sent", &[("FAKE_CUDA", "early=1")]);
}

#[test]
#[ignore = "needs the fake driver's folder in the libraries' path"]
fn inner_sent() {
    let device = CudaDevice::open(0).expect("the fake device");
    let checkpoint = Checkpoint::open(packaged()).expect("a model");
    let family = Family::of(&checkpoint).expect("a family");
    let spec = family.spec(&checkpoint).expect("a spec");
    let weights = Weights::new(&checkpoint, family, &spec);
    let plan = emit(&spec, &|name| weights.has(name));
    let homes = DeviceHomes::of(&plan, &|_| TierSide::Device, &|_| TierSide::Device).expect("a division");
    let homes = homes.sending(&plan, &|_| true);
    let host = Cpu::new(1).expect("a CPU");
    let want = runner(&packaged(), Gpu::new(Emu::default().with_tensor_cores()), KvType::F16, false);
    let got = runner(&packaged(), Tiered::new(Gpu::new(device), host, homes), KvType::F16, false);
    let [got, want] = [tell(got, &ONCE, 40, 64), tell(want, &ONCE, 40, 64)];
    assert!(got == want, "{:?} instead of {:?}", got[0].text, want[0].text);
}

/// Work of several threads on one device, each with a context of its own over the one that all share.
#[test]
fn threads_share_a_device() {
    passes("inner_threads", &[]);
}

#[test]
#[ignore = "needs the fake driver's folder in the libraries' path"]
fn inner_threads() {
    let first = CudaDevice::open(0).expect("the fake device");
    std::thread::scope(|scope| {
        let tests: Vec<_> =
            (0..3).map(|_| scope.spawn(|| self_test(&CudaDevice::open(0)?).map_err(Into::into))).collect();
        for test in tests {
            let done: Result<(), lamina_cuda::CudaUnusable> = test.join().expect("no panic");
            done.expect("right bytes");
        }
    });
    // A device that was opened here is used and dropped on another thread.
    std::thread::spawn(move || self_test(&first).expect("right bytes")).join().expect("no panic");
}

#[test]
fn images_are_compiled_once() {
    passes("inner_images", &[]);
}

#[test]
#[ignore = "needs the fake driver's folder in the libraries' path"]
fn inner_images() {
    let origin = || CudaDevice::open(0).expect("the fake device").facts().origin;
    assert_eq!((origin(), origin()), (ImageOrigin::Compiled, ImageOrigin::Cached));
}

#[test]
fn every_reason_is_one_line() {
    let fake = lamina_emu::FAKE_CUDA;
    let compiler = "there are no kernels for sm_90: they did not compile: kernels.cu(41): error: the fake compiler was told to fail";
    for (libraries, setting, line) in [
        (
            lamina_emu::OLD_CUDA,
            "",
            "the driver has no function cuGetErrorName: needed is driver 525 or newer",
        ),
        (fake, "version=11070", "the driver knows CUDA 11.7, needed is 12.0: install driver 525 or newer"),
        (fake, "devices=0", "there is no device 0: the driver finds 0"),
        (fake, "number=3", "there is no device 3: the driver finds 1"),
        (fake, "capability=72", "Fake GPU 0 has compute capability 7.2, needed is 7.5 or newer"),
        (fake, "nvrtc=1", compiler),
        (
            fake,
            "cuModuleLoadData=209",
            "loading the kernels failed: the fake driver says 209 (CUDA_ERROR_209)",
        ),
        (
            fake,
            "cuInit=803",
            "starting the driver failed: the fake driver says 803 (CUDA_ERROR_803): its kernel module and its library are of \
             different versions, as after an update: restart the machine",
        ),
        (
            fake,
            "cuDevicePrimaryCtxRetain=46",
            "opening the device failed: the fake driver says 46 (CUDA_ERROR_46): another program may have the device for \
             itself: see nvidia-smi",
        ),
    ] {
        let number = setting.strip_prefix("number=").unwrap_or("0");
        let compiler = setting.strip_prefix("nvrtc=").unwrap_or("");
        let settings = [("FAKE_CUDA", setting), ("NUMBER", number), ("FAKE_NVRTC", compiler)];
        let done = alone("inner_reason", libraries, &settings);
        let out = String::from_utf8_lossy(&done.stdout);
        assert!(out.lines().any(|l| l.ends_with(&format!("cuda: {line}"))), "{setting}: {out}");
    }
}

#[test]
#[ignore = "needs a driver's folder in the libraries' path"]
fn inner_reason() {
    let number = env::var("NUMBER").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let why = CudaDevice::open(number).err().expect("no device");
    println!("{why}");
}

#[test]
fn a_lost_device_stays_lost_and_the_process_lives() {
    // The last two codes are of drivers that are newer than the manual that was read.
    for code in [700, 226, 1234] {
        passes("inner_lost", &[("FAKE_CUDA", &format!("cuLaunchKernel={code}@10"))]);
    }
}

#[test]
#[ignore = "needs the fake driver's folder in the libraries' path"]
fn inner_lost() {
    let device = CudaDevice::open(0).expect("the fake device");
    let buffer = device.alloc(64, "a test").expect("memory");
    let failure = self_test(&device).expect_err("it is lost inside a recording");
    assert!(matches!(failure, BackendError::Device { backend: "cuda", lost: true, .. }), "{failure}");
    assert!(failure.to_string().contains("load the model again"), "{failure}");
    let later = device.upload(&buffer, 0, &[1; 64]);
    assert!(matches!(later, Err(BackendError::Device { lost: true, .. })), "{later:?}");
    assert!(matches!(device.wait(), Err(BackendError::Device { lost: true, .. })));
    assert_eq!(device.info().free, 0);
}

/// The driver refuses to free memory on a thread that records, and the recording would be void.
#[test]
fn memory_is_given_back_behind_a_recording() {
    passes("inner_given_back", &[]);
}

#[test]
#[ignore = "needs the fake driver's folder in the libraries' path"]
fn inner_given_back() {
    let device = CudaDevice::open(0).expect("the fake device");
    let free = device.info().free;
    let buffer = device.alloc(1 << 20, "a test").expect("memory");
    device.capture().expect("a recording");
    drop(buffer);
    assert_eq!(device.info().free, free - (1 << 20), "it is there until the end");
    device.captured().expect("a graph");
    assert_eq!(device.info().free, free);
}

#[test]
fn kernels_with_much_shared_memory_ask_for_more_of_it() {
    let text = passes("inner_images", &[("FAKE_CUDA", "tell_shared=1")]);
    assert!(text.contains("tensor_many_q4_k prefers 100 %") && !text.contains("norm_row"), "{text}");
}

#[test]
fn memory_is_told_and_its_end_is_no_loss() {
    passes("inner_memory", &[("FAKE_CUDA", "memory=100000000")]);
}

#[test]
#[ignore = "needs the fake driver's folder in the libraries' path"]
fn inner_memory() {
    let device = CudaDevice::open(0).expect("the fake device");
    let info = device.info();
    // Graphs take 64 MiB of it.
    assert_eq!((info.device.as_str(), info.kernels.as_str()), ("cuda:0", "sm_90"));
    assert_eq!((info.free, info.total), (100_000_000 - (64 << 20), 100_000_000));
    let failure = device.alloc(200_000_000, "the cache of a layer").err().expect("more than there is");
    let said = failure.to_string();
    assert!(matches!(failure, BackendError::OutOfMemory { .. }) && said.contains("200.0 MB"), "{said}");
    // Longer than all pinned pieces together.
    let bytes: Vec<u8> = (0..9_000_001u32).map(|i| (i % 251) as u8).collect();
    let buffer = device.alloc(bytes.len(), "a test").expect("memory");
    device.upload(&buffer, 0, &bytes).expect("copied");
    let mut back = vec![0; bytes.len()];
    device.download(&buffer, 0, &mut back).expect("copied");
    assert!(bytes == back);
}
