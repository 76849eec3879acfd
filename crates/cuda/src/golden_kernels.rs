//! Kernels that no plan launches, for whoever compares their bits: the build's text of them, which newer drivers compile, or
//! what NVRTC makes of their source.

use crate::{
    context::CudaContext,
    error::{CudaUnusable, Opened},
    image::KernelImage,
    kernels::LoadedKernels,
};
use lamina_gpu::ProductUnits;
use std::sync::Arc;

/// The kernels on a device of an architecture such as `sm_90`; or why there are none, in one line.
pub(crate) fn load_compared(
    context: &Arc<CudaContext>,
    architecture: &str,
    units: ProductUnits,
) -> Result<LoadedKernels, String> {
    let compile = || KernelImage::compile_compared(architecture);
    first_that_loads(context, units, KernelImage::compared_text(), compile)
}

fn first_that_loads(
    context: &Arc<CudaContext>,
    units: ProductUnits,
    text: Option<KernelImage>,
    compile: impl FnOnce() -> Opened<KernelImage>,
) -> Result<LoadedKernels, String> {
    let load = |image: KernelImage| LoadedKernels::load(context.clone(), &image, units);
    let refused = match text.map(load) {
        Some(Ok(kernels)) => return Ok(kernels),
        Some(Err(why)) => {
            format!("the driver does not compile their text, as 575 and newer do ({}); ", reason(why))
        }
        None => String::new(),
    };
    compile().and_then(load).map_err(|why| refused + &reason(why))
}

/// What went wrong, without the names of backend and device that lines begin with.
fn reason(why: CudaUnusable) -> String {
    match why {
        CudaUnusable::NoKernels { why, .. } => why,
        other => other.to_string().trim_start_matches("cuda: ").to_owned(),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::{alone::alone, part::KernelPart};

    const ALL: ProductUnits = ProductUnits::TensorCores;

    /// Runs a test of this file with the fake driver.
    fn passes(test: &str, settings: &[(&str, &str)]) {
        let name = format!("{}::{test}", module_path!().split_once("::").expect("a crate").1);
        let done = alone(&name, lamina_emu::FAKE_CUDA, settings);
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success() && out.contains("1 passed"), "{out}\n{err}");
    }

    /// What NVRTC 12.9 writes for compute_80, as far as drivers look for names of kernels.
    fn text() -> KernelImage {
        let entry = |name: &str| format!(".visible .entry {name}(\n)\n");
        let entries: String = KernelPart::Compared.kernels(ALL).iter().map(|line| entry(line.name)).collect();
        KernelImage::text(&format!(".version 8.8\n.target sm_75\n{entries}"), KernelPart::Compared.alone())
    }

    #[test]
    fn a_driver_that_is_new_enough_compiles_the_text() {
        passes("inner_text", &[]);
    }

    #[test]
    #[ignore = "needs the fake driver's folder in the libraries' path"]
    fn inner_text() {
        let context = CudaContext::open(0).expect("the fake device");
        let kernels =
            first_that_loads(&context, ALL, Some(text()), || panic!("not needed")).expect("kernels");
        assert!(kernels.get("product_few_q4_k").is_some() && kernels.get("attend").is_none());
    }

    #[test]
    fn otherwise_nvrtc_compiles_the_source() {
        passes("inner_source", &[("FAKE_CUDA", "version=12040")]);
    }

    #[test]
    #[ignore = "needs the fake driver's folder in the libraries' path"]
    fn inner_source() {
        let context = CudaContext::open(0).expect("the fake device");
        let compile = || KernelImage::compile_compared("sm_90");
        for text in [Some(text()), None] {
            let kernels = first_that_loads(&context, ALL, text, compile).expect("kernels");
            assert!(kernels.get("product_few_q4_k").is_some() && kernels.get("attend").is_none());
        }
    }

    #[test]
    fn where_neither_does_it_the_reasons_are_one_line() {
        passes("inner_reasons", &[("FAKE_CUDA", "version=12040"), ("FAKE_NVRTC", "1")]);
    }

    #[test]
    #[ignore = "needs the fake driver's folder in the libraries' path"]
    fn inner_reasons() {
        let context = CudaContext::open(0).expect("the fake device");
        let compile = || KernelImage::compile_compared("sm_90");
        let why = first_that_loads(&context, ALL, Some(text()), compile).err().expect("nobody compiles");
        let want = "the driver does not compile their text, as 575 and newer do (loading the kernels failed: the fake \
                    driver says 222 (CUDA_ERROR_222)); they did not compile: kernels.cu(41): error: the fake compiler \
                    was told to fail";
        assert_eq!(why, want);
    }
}
