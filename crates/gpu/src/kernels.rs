//! The list of kernels, and their sources for devices that compile.

use crate::{
    device::ProductUnits,
    format::{FORMATS, PanelFormat},
    tensor::TensorFormat,
};
use std::{collections::HashSet, sync::OnceLock};

/// A kernel of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLine {
    /// Its name in every image.
    pub name: &'static str,
    /// Threads of a block.
    pub threads: u32,
    /// Threads of a block wait for one another.
    pub waits: bool,
    /// Most registers that a thread may take on any architecture.
    pub registers: u32,
}

const LIST: &str = include_str!("../kernels/list.h");
const TENSOR_LIST: &str = include_str!("../kernels/tensor_list.h");

macro_rules! sources {
    ($($file:literal)*) => {
        /// Every file of the kernels with its path below their folder; `all.h` includes the others.
        pub const SOURCES: &[(&str, &str)] = &[$(($file, include_str!(concat!("../kernels/", $file))),)*];
    };
}

sources! {
    "all.h" "attend.h" "attend_latent.h" "attend_tensor.h" "cache.h" "dialect.h" "experts.h" "fragments.h" "groups.h" "halves.h"
    "list.h" "math.h" "norm.h" "panel.h" "product.h" "recurrent.h" "repack.h" "rope.h" "rows.h" "step.h" "stored_pairs.h"
    "super.h" "tensor.h" "tensor_list.h" "types.h"
    "formats/bf16.h" "formats/f16.h" "formats/f32.h" "formats/f8_e4m3.h" "formats/f8_e5m2.h" "formats/iq4_nl.h"
    "formats/iq4_xs.h" "formats/mxfp4.h" "formats/nvfp4.h" "formats/q2_k.h" "formats/q3_k.h" "formats/q4_0.h"
    "formats/q4_1.h" "formats/q4_k.h" "formats/q5_0.h" "formats/q5_1.h" "formats/q5_k.h" "formats/q6_k.h"
    "formats/q8_0.h"
}

/// The kernels of every device, in the order of their list.
pub fn kernels() -> &'static [KernelLine] {
    static KERNELS: OnceLock<Vec<KernelLine>> = OnceLock::new();
    KERNELS.get_or_init(|| LIST.lines().filter_map(line).collect())
}

/// The kernels that devices with tensor cores have beside them.
pub fn tensor_kernels() -> &'static [KernelLine] {
    static KERNELS: OnceLock<Vec<KernelLine>> = OnceLock::new();
    KERNELS.get_or_init(|| TENSOR_LIST.lines().filter_map(line).collect())
}

/// Kernels of every device that no plan launches where there are such tensor cores, since these multiply their types: such
/// devices run them for their golden bits alone.
pub fn compared_kernels(units: ProductUnits) -> impl Iterator<Item = &'static KernelLine> {
    kernels().iter().filter(move |kernel| {
        let multiplies = |f: &&PanelFormat| [f.few, f.many, f.each].contains(&kernel.name);
        FORMATS.iter().find(multiplies).is_some_and(|format| TensorFormat::of(format, units).is_some())
    })
}

/// Kernels that plans launch on a device with such tensor cores.
pub fn launched_kernels(units: ProductUnits) -> impl Iterator<Item = &'static KernelLine> {
    let compared: HashSet<_> = compared_kernels(units).map(|kernel| kernel.name).collect();
    let there = move |kernel: &&KernelLine| match units {
        ProductUnits::Fma => false,
        ProductUnits::TensorCores => true,
        ProductUnits::Float16Cores => !kernel.name.ends_with("_bf16"),
    };
    let own = kernels().iter().filter(move |kernel| !compared.contains(kernel.name));
    own.chain(tensor_kernels().iter().filter(there))
}

/// What a line of the list declares.
fn line(text: &'static str) -> Option<KernelLine> {
    let fields = text.strip_prefix("KERNEL_LINE(")?.strip_suffix(')')?;
    let mut fields = fields.split(", ");
    let name = fields.next()?;
    let mut number = || fields.next()?.parse::<u32>().ok();
    let (threads, waits, registers) = (number()?, number()?, number()?);
    Some(KernelLine { name, threads, waits: waits == 1, registers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs, path::Path};

    #[test]
    fn every_line_of_the_list_is_read_once() {
        let all = || kernels().iter().chain(tensor_kernels());
        let names: BTreeSet<_> = all().map(|k| k.name).collect();
        let lines = [LIST, TENSOR_LIST].iter().flat_map(|list| list.lines());
        let lines = lines.filter(|l| l.starts_with("KERNEL_LINE(")).count();
        assert_eq!((all().count(), names.len()), (lines, lines));
        assert!(all().all(|k| k.threads.is_multiple_of(32) && k.threads <= 256), "whole warps");
    }

    #[test]
    fn products_of_types_that_tensor_cores_multiply_are_only_compared() {
        let compared: BTreeSet<_> = compared_kernels(ProductUnits::TensorCores).map(|k| k.name).collect();
        let launched: BTreeSet<_> = launched_kernels(ProductUnits::TensorCores).map(|k| k.name).collect();
        assert_eq!(compared.len() + launched.len(), kernels().len() + tensor_kernels().len());
        for kind in ["few", "many", "each"] {
            assert!(compared.contains(format!("product_{kind}_q4_k").as_str()), "{kind}");
            assert!(launched.contains(format!("product_{kind}_q2_k").as_str()), "{kind}");
        }
        assert!(launched.contains("lookup_q4_k") && launched.contains("attend"));
        // The kernels' own list of these types is the same.
        let types = include_str!("../kernels/types.h");
        let own = |list| types.split("#define ").find(|text| text.starts_with(list)).expect("a list");
        let own =
            own("F16_TYPES(of)").split(" of(").skip(1).chain(own("TENSOR_TYPES(of)").split(" of(").skip(1));
        let own = own.filter_map(|text| text.split(')').next());
        let few: BTreeSet<_> = own.map(|name| format!("product_few_{name}")).collect();
        let want: BTreeSet<_> = compared.iter().filter(|name| name.starts_with("product_few_")).collect();
        assert!(few.iter().map(String::as_str).eq(want.into_iter().copied()));
    }

    /// Those for bfloat16 stay behind, and its products by fma come instead.
    #[test]
    fn tensor_cores_of_float16_alone_have_no_kernels_of_bfloat16() {
        let [all, own] = [ProductUnits::TensorCores, ProductUnits::Float16Cores]
            .map(|units| launched_kernels(units).map(|k| k.name).collect::<BTreeSet<_>>());
        let without: Vec<_> = all.difference(&own).copied().collect();
        let want = ["attend_latent_bf16", "attend_one_bf16", "tensor_few_bf16", "tensor_many_bf16"];
        assert_eq!(without, want);
        let instead: Vec<_> = own.difference(&all).copied().collect();
        assert_eq!(instead, ["product_each_bf16", "product_few_bf16", "product_many_bf16"]);
    }

    #[test]
    fn every_file_of_the_kernels_is_a_source() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let files = |sub: &str| -> Vec<String> {
            let entries = fs::read_dir(folder.join(sub)).expect("a folder").flatten();
            let files = entries.filter(|e| e.path().is_file());
            files.map(|e| format!("{sub}{}", e.file_name().to_string_lossy())).collect()
        };
        let found: BTreeSet<String> = files("").into_iter().chain(files("formats/")).collect();
        let listed: BTreeSet<String> = SOURCES.iter().map(|(file, _)| (*file).to_owned()).collect();
        assert_eq!(found, listed);
    }
}
