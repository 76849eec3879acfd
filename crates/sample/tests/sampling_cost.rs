//! What one token costs: no allocation once the buffers have grown.
//!
//! A binary of its own: what counts allocations is the allocator of the whole process.

use lamina_sample::{Context, SampleError, Sampler, SamplingParams};

const VOCAB: usize = 20_000;

fn row(step: u32) -> Vec<f32> {
    (0..VOCAB as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761).rotate_left(step) >> 16) as f32 / 4096.0)
        .collect()
}

fn allocations(values: &[(&str, f64)]) -> Result<u64, SampleError> {
    let mut params = SamplingParams::default();
    values.iter().try_for_each(|&(name, value)| params.set(name, value))?;
    let mut sampler = Sampler::new(&params, Context::new(VOCAB))?;
    let mut rows: Vec<_> = (0..24).map(row).collect();
    let mut token = |row: &mut Vec<f32>| sampler.sample(row, None).map(|chosen| sampler.accept(chosen.id));
    let (first, later) = rows.split_at_mut(8);
    first.iter_mut().try_for_each(&mut token)?;
    let mut result = Ok(());
    let cost = allocation_counter::measure(|| result = later.iter_mut().try_for_each(&mut token));
    result.map(|()| cost.count_total)
}

#[test]
fn greedy_and_top_k_top_p_do_not_allocate() {
    assert_eq!(allocations(&[("temperature", 0.0)]), Ok(0));
    assert_eq!(allocations(&[("seed", 1.0)]), Ok(0));
    assert_eq!(allocations(&[("seed", 1.0), ("top_k", 0.0)]), Ok(0));
    assert_eq!(allocations(&[("seed", 1.0), ("top_k", 0.0), ("top_p", 1.0), ("min_p", 0.0)]), Ok(0));
}
