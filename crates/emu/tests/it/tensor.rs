//! Tensor cores on the emulated GPU: the conformance kit, and the text of the built-in model.

use crate::common::kit::{in_half, with_parts};
use crate::common::runner::{ONCE, Told, runner, tell};
use lamina_cpu::Cpu;
use lamina_emu::{BlockOrder, Emu};
use lamina_fixtures::{extent, packaged};
use lamina_gpu::Gpu;
use lamina_oracle::conform::{self, Tolerance};
use lamina_plan::{Backend, KvType};

/// Rows are rounded to float16, half a step in 2^11 of each number at most, which makes some 2.6e-4 of a product; three
/// products behind one another, and weights of types without fragments, which are float16, make it no more than this. Rows
/// of matrices in bfloat16 are rounded to bfloat16, as the kit allows for `half`.
fn tolerance() -> Tolerance {
    Tolerance { quantized: 1e-3, ..Tolerance::default() }
}

fn device(order: BlockOrder) -> Emu {
    Emu::new(order).with_tensor_cores()
}

/// Runs the cases whose name is `wanted`; returns how many there are.
fn conforms(device: &Emu, wanted: impl Fn(&str) -> bool) -> usize {
    let report = conform::run_where(|| Gpu::new(device.clone()), tolerance(), wanted);
    println!("{report}");
    report.assert();
    assert!(report.refused.is_empty(), "declined: {:?}", report.refused);
    report.cases
}

/// Runs the cases whose name contains one of these parts.
fn parts_conform(device: &Emu, parts: &[&str]) {
    assert!(conforms(device, with_parts(parts)) > 0, "no case of these names");
}

/// True for the cases that tensor cores may compute: not for long attention over float32 pages, which they do not read. That
/// took a third of the time and is `conform.rs`'s, which runs all cases on the same portable kernels. The short ones, named by
/// their heads, are run here too: the choice between kernels is this device's.
fn reaches_tensor_cores(name: &str) -> bool {
    match name.split(' ').collect::<Vec<_>>()[..] {
        ["attend", first, ..] if first.contains(':') => true,
        ["attend", kv, dim] if dim.parse::<usize>().is_ok() => kv != "f32",
        ["attend", .., last] => last.contains("f16"),
        _ => true,
    }
}

#[test]
fn one_half_of_the_cases_conforms() {
    let half = in_half(0);
    conforms(&device(BlockOrder::Forwards), |name| half(name) && reaches_tensor_cores(name));
}

#[test]
fn the_other_half_of_the_cases_conforms() {
    let half = in_half(1);
    conforms(&device(BlockOrder::Forwards), |name| half(name) && reaches_tensor_cores(name));
}

#[test]
fn blocks_and_threads_backwards_conform() {
    let parts = ["linear 129x256 Q4_K", "linear 40x512 Q6_K", "linear 17x33 F16", "experts types"];
    parts_conform(&device(BlockOrder::Backwards), &parts);
}

/// Inputs of products are done in turn, for want of memory.
#[test]
fn chunks_of_rows_conform() {
    let parts = ["linear 129x256", "linear add", "experts types", "latent weights"];
    parts_conform(&device(BlockOrder::Forwards).with_memory(6 << 20), &parts);
}

/// By day the cases with these parts of names, by night one half of all.
fn half_conforms(device: &Emu, half: usize, by_day: &[&str]) {
    let whole = in_half(half);
    match extent::is_whole() {
        true => assert!(conforms(device, |name| whole(name) && reaches_tensor_cores(name)) > 0),
        false => assert!(conforms(device, |name| by_day.iter().any(|part| name.contains(part))) > 0),
    }
}

/// Devices of compute capability 7.5: products of float16 in halves of 8 inputs, bfloat16 by fma, inputs by way of registers. The
/// self-test has every kernel of products; by day, cases of each way that lanes take weights, and of each choice of pages.
#[test]
fn cores_of_float16_alone_conform() {
    let cores = |order| Emu::new(order).with_float16_cores();
    let parts = [
        "linear 129x256 Q4_1",
        "linear 129x256 Q4_K",
        "linear 129x256 BF16",
        "linear 40x512 Q6_K",
        "linear 17x33 F16",
        "attend 8:2",
        "attend q8_0 32",
        "attend bf16 32",
    ];
    half_conforms(&cores(BlockOrder::Forwards), 0, &parts);
    for order in [BlockOrder::Forwards, BlockOrder::Backwards] {
        lamina_gpu::self_test(&cores(order)).expect("right products");
    }
    // Theirs sum four products at a time.
    let cut = Emu::default().with_truncating_tensor_cores(4).with_float16_cores();
    lamina_gpu::self_test(&cut).expect("right products");
}

#[test]
fn cores_of_float16_alone_conform_in_other_cases() {
    half_conforms(&Emu::default().with_float16_cores(), 1, &["linear 129x256 Q3_K", "latent f16"]);
}

#[test]
fn the_self_test_passes() {
    for order in [BlockOrder::Forwards, BlockOrder::Backwards] {
        lamina_gpu::self_test(&device(order)).expect("right products");
    }
}

/// What devices are reported to round otherwise must not look wrong: the self-test of the first day, and the kit.
fn truncating_conforms(products: u32, half: usize) {
    let device = Emu::default().with_truncating_tensor_cores(products);
    lamina_gpu::self_test(&device).expect("right products");
    half_conforms(&device, half, &[["linear 129x256 Q4_K", "linear 17x33 F16"][half]]);
}

macro_rules! truncating {
    ($($name:ident $products:literal $half:literal)*) => {$(
        #[test]
        fn $name() {
            truncating_conforms($products, $half);
        }
    )*};
}

truncating! {
    one_half_conforms_with_sums_of_4 4 0
    the_other_half_conforms_with_sums_of_4 4 1
    one_half_conforms_with_sums_of_8 8 0
    the_other_half_conforms_with_sums_of_8 8 1
    one_half_conforms_with_sums_of_16 16 0
    the_other_half_conforms_with_sums_of_16 16 1
}

#[test]
fn tensor_cores_that_truncate_have_other_bits() {
    let told = |device| tell(runner(&packaged(), Gpu::new(device), KvType::F16, false), &ONCE, 4, 64);
    let cut = told(Emu::default().with_truncating_tensor_cores(8));
    assert!(cut != told(device(BlockOrder::Forwards)), "nothing is cut");
}

/// Codes times scales are exact, and minimums keep 22 bits of the sums of inputs: what is lost is what float32 loses of some
/// hundred additions, whose terms are up to five times as large as the product's where minimums are taken from them. A code
/// of 1024 more than it is, whose share would be taken away with the offset, loses ten times as much.
#[test]
fn products_are_those_of_float64() {
    lamina_gpu::self_test_within(&device(BlockOrder::Forwards), 1e-6).expect("float32's rounding alone");
}

fn story(backend: impl Into<Box<dyn Backend>>, plain: bool) -> Vec<Told> {
    tell(runner(&packaged(), backend, KvType::F16, plain), &ONCE, 40, 64)
}

/// As on the CPU with the same weights as float32: its own products round rows to 8 bits (`story.rs`).
#[test]
fn the_text_is_that_of_the_cpu() {
    let told = story(Gpu::new(device(BlockOrder::Forwards)), false);
    let plain = story(Cpu::new(1).expect("a CPU"), true);
    let texts = |told: &[Told]| told.iter().map(|t| t.text.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&told), texts(&plain));
    // Tensor cores of float16 alone round 16 inputs twice: other bits, which some tokens show.
    let twice = Gpu::new(Emu::default().with_float16_cores());
    let twice = tell(runner(&packaged(), twice, KvType::F16, false), &ONCE, 10, 64);
    for (twice, told) in twice.iter().zip(&told) {
        assert!(
            told.text.starts_with(&twice.text) && !told.bits.starts_with(&twice.bits),
            "{:?}",
            twice.text
        );
    }
    let backwards = story(Gpu::new(device(BlockOrder::Backwards)), false);
    assert!(told == backwards, "bits depend on the order of blocks and threads");
}
