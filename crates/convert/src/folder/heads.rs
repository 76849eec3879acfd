//! Order of the value heads of gated delta nets: folders keep those of one key head together, files of Qwen 3.5 deal
//! them out to the key heads in turn.

use super::Folder;
use lamina_arch::{
    spec::{GatedDelta, Mixer},
    weights::Tensor,
};

/// `tensor`, the canonical `part` of a layer, with its heads in the order of the file.
pub fn dealt(folder: &Folder, layer: usize, part: &str, tensor: Tensor) -> lamina_arch::Result<Tensor> {
    let mixer = folder.spec.layers.get(layer).map(|l| &l.mixer);
    let (Some(Mixer::GatedDelta(d)), true) = (mixer, folder.architecture.starts_with("qwen35")) else {
        return Ok(tensor);
    };
    let keys = 2 * d.k_heads * d.k_dim;
    Ok(match part {
        "attn_qkv.weight" | "ssm_conv1d.weight" => tensor.reordered(order(d, d.v_dim, keys)),
        "attn_gate.weight" => tensor.reordered(order(d, d.v_dim, 0)),
        "ssm_beta.weight" | "ssm_alpha.weight" => tensor.reordered(order(d, 1, 0)),
        "ssm_a" | "ssm_dt.bias" => columns(&tensor, &order(d, 1, 0))?,
        "ssm_out.weight" => columns(&tensor, &order(d, d.v_dim, 0))?,
        _ => tensor,
    })
}

/// Stored place of each of the rows in the file: `before` others, then heads of `width` rows.
fn order(d: &GatedDelta, width: usize, before: usize) -> Vec<u32> {
    let share = d.v_heads / d.k_heads.max(1);
    let head = |h: usize| h % d.k_heads * share + h / d.k_heads;
    let heads = (0..d.v_heads).flat_map(|h| (0..width).map(move |r| (before + head(h) * width + r) as u32));
    (0..before as u32).chain(heads).collect()
}

fn columns(tensor: &Tensor, order: &[u32]) -> lamina_arch::Result<Tensor> {
    let values = tensor.to_f32()?;
    let rows = values.chunks_exact(tensor.cols.max(1));
    let moved: Vec<f32> = rows.flat_map(|row| order.iter().map(|&i| row[i as usize])).collect();
    Ok(Tensor::from_f32(&tensor.name, tensor.rows(), tensor.cols, &moved))
}
