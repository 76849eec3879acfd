//! Kernels on the device: compiled from their sources, with a pipeline for each of the list.

use crate::error::{MetalUnusable, Opened};
use candle_metal_kernels::{
    MetalKernelError,
    metal::{ComputePipeline, Device, Library},
};
use lamina_gpu::{KernelLine, first_error, kernel_source, kernels};
use objc2::rc::Retained;
use objc2_metal::{MTLCompileOptions, MTLLanguageVersion, MTLMathFloatingPointFunctions, MTLMathMode};
use std::{collections::HashMap, env, path::PathBuf};

/// A kernel that can be launched, and the threads of its blocks.
pub(crate) struct MetalKernel {
    pub pipeline: ComputePipeline,
    pub threads: u32,
}

/// Every kernel of the list.
pub(crate) struct MetalKernels(HashMap<&'static str, MetalKernel>);

impl MetalKernels {
    /// Compiles the kernels. `LAMINA_KERNELS` names a folder whose files are compiled instead of the build's.
    ///
    /// All pipelines are made at once, so that a kernel that the device refuses shows before a model is loaded; the system
    /// keeps what it compiled, and takes it again the next time.
    pub fn compile(device: &Device) -> Opened<MetalKernels> {
        let folder = env::var_os("LAMINA_KERNELS").filter(|v| !v.is_empty()).map(PathBuf::from);
        let source = kernel_source(folder.as_deref());
        let library = device.new_library_with_source(&source, Some(&options())).map_err(refused)?;
        let kernel = |line: &KernelLine| Ok((line.name, pipeline(device, &library, line)?));
        kernels().iter().map(kernel).collect::<Opened<_>>().map(MetalKernels)
    }

    pub fn get(&self, name: &str) -> Option<&MetalKernel> {
        self.0.get(name)
    }
}

/// Numbers are to round as the sources say: without contraction, which the sources forbid by themselves, and with divisions
/// and roots as IEEE has them.
fn options() -> Retained<MTLCompileOptions> {
    let options = MTLCompileOptions::new();
    options.setLanguageVersion(MTLLanguageVersion::Version3_1);
    options.setMathMode(MTLMathMode::Safe);
    options.setMathFloatingPointFunctions(MTLMathFloatingPointFunctions::Precise);
    options
}

fn pipeline(device: &Device, library: &Library, line: &KernelLine) -> Opened<MetalKernel> {
    let named = |e: MetalKernelError| MetalUnusable::Kernels(format!("{}: {e}", line.name));
    let function = library.get_function(line.name, None).map_err(named)?;
    let pipeline = device.new_compute_pipeline_state_with_function(&function).map_err(named)?;
    let most = pipeline.max_total_threads_per_threadgroup();
    if most < line.threads as usize {
        let why = format!("{} takes {} threads, the device runs {most}", line.name, line.threads);
        return Err(MetalUnusable::Kernels(why));
    }
    Ok(MetalKernel { pipeline, threads: line.threads })
}

/// The compiler's first error, which names a file and a line.
fn refused(e: MetalKernelError) -> MetalUnusable {
    let log = match &e {
        MetalKernelError::LoadLibraryError(log) => log.clone(),
        other => other.to_string(),
    };
    let first = first_error(&log).or(log.lines().next()).unwrap_or("no reason is given");
    MetalUnusable::Kernels(first.to_owned())
}
