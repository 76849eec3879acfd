//! The built-in model on the emulated GPU: the greedy text of the CPU, recorded and replayed steps among others.
//!
//! The CPU rounds the inputs of Q8_0 products to 8 bits, which decides between two tokens that are nearly as likely once in
//! some thirty. The whole text is therefore that of the CPU with the same weights as float32.

use crate::common::runner::{ONCE, Told, runner, tell};
use lamina_cpu::Cpu;
use lamina_emu::{BlockOrder, Emu};
use lamina_fixtures::packaged;
use lamina_gpu::Gpu;
use lamina_plan::{Backend, KvType};

fn story(backend: impl Into<Box<dyn Backend>>, kv_type: KvType, plain: bool) -> Vec<Told> {
    tell(runner(&packaged(), backend, kv_type, plain), &ONCE, 40, 64)
}

fn texts(told: &[Told]) -> Vec<&[u32]> {
    told.iter().map(|t| &t.text[..]).collect()
}

#[test]
fn the_text_is_that_of_the_cpu_and_steps_are_replayed() {
    let cpu = || Cpu::new(1).expect("a CPU");
    for kv_type in [KvType::F16, KvType::F32] {
        let device = Emu::default();
        let told = story(Gpu::new(device.clone()), kv_type, false);
        assert_eq!(texts(&told), texts(&story(cpu(), kv_type, true)), "{kv_type}");
        let rounded = story(cpu(), kv_type, false);
        assert_eq!(told[0].text[..26], rounded[0].text[..26], "{kv_type}");
        // The same text, whatever part of it was the prompt.
        let [once, longer] = &told[..] else { panic!("two stories") };
        assert!(once.text.starts_with(ONCE[1]) && longer.text.starts_with(&once.text), "{once:?}");
        assert!(device.replays() >= 37, "{} replays", device.replays());
        let backwards = story(Gpu::new(Emu::new(BlockOrder::Backwards)), kv_type, false);
        assert!(told == backwards, "bits depend on the order of blocks and threads");
    }
}
