//! Tests in processes of their own: a driver is loaded by its name, once in a process.

use std::{
    env,
    process::{Command, Output},
};

/// Runs a test of the calling file, which is ignored there, with a driver's folder in front of the libraries' path.
pub fn alone(test: &str, libraries: &str, settings: &[(&str, &str)]) -> Output {
    let cache = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env::current_exe().expect("a program"));
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    // Images of the build would not run on the fake driver.
    let kernels = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu/kernels");
    command
        .env("LD_LIBRARY_PATH", libraries)
        .env("LAMINA_CACHE", cache.path())
        .env("LAMINA_KERNELS", kernels);
    command.env_remove("FAKE_CUDA").env_remove("FAKE_NVRTC").envs(settings.iter().copied());
    command.output().expect("the program runs")
}
