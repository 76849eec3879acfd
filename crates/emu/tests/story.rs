//! The built-in model on the emulated GPU: the greedy text of the CPU, recorded and replayed steps among others.
//!
//! The CPU rounds the inputs of Q8_0 products to 8 bits, which decides between two tokens that are nearly as likely once in
//! some thirty. The whole text is therefore that of the CPU with the same weights as float32.
#![cfg(target_os = "linux")]

mod common;

use common::{THERE_WAS, story};
use lamina_cpu::Cpu;
use lamina_emu::{BlockOrder, Emu};
use lamina_gpu::Gpu;
use lamina_plan::KvType;

#[test]
fn the_text_is_that_of_the_cpu_and_steps_are_replayed() {
    let cpu = || Cpu::new(1).expect("a CPU");
    for kv_type in [KvType::F16, KvType::F32] {
        let device = Emu::default();
        let (texts, bits) = story(Gpu::new(device.clone()), kv_type, false);
        assert_eq!(texts, story(cpu(), kv_type, true).0, "{kv_type}");
        let (rounded, _) = story(cpu(), kv_type, false);
        assert_eq!(texts[0][..26], rounded[0][..26], "{kv_type}");
        // The same text, whatever part of it was the prompt.
        assert!(texts[0][5..].starts_with(&THERE_WAS) && texts[1].starts_with(&texts[0]), "{texts:?}");
        assert!(device.replays() >= 37, "{} replays", device.replays());
        let (_, backwards) = story(Gpu::new(Emu::new(BlockOrder::Backwards)), kv_type, false);
        assert!(bits == backwards, "bits depend on the order of blocks and threads");
    }
}
