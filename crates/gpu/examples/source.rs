//! Prints all kernels as one text, as the compilers of devices get them: `.ci/msl` reads it in the place of Metal's.

fn main() {
    print!("{}", lamina_gpu::kernel_source(None));
}
