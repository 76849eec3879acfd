//! Puts the images of a folder that `LAMINA_CUBINS` names into the build; without it the list is empty.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

const KERNELS: &str = "../gpu/kernels";

fn main() {
    println!("cargo:rerun-if-env-changed=LAMINA_CUBINS");
    println!("cargo:rerun-if-changed={KERNELS}");
    let (mut images, mut portable) = (String::new(), "None".to_owned());
    if let Some(folder) = env::var_os("LAMINA_CUBINS").filter(|f| !f.is_empty()).map(PathBuf::from) {
        let folder = folder.canonicalize().expect("the folder that LAMINA_CUBINS names");
        println!("cargo:rerun-if-changed={}", folder.display());
        check_sources(&folder);
        for path in files(&folder, &folder).into_iter().map(|file| folder.join(file)) {
            let pack = |made: Vec<u32>| {
                format!("(&{made:?}, include_bytes!({:?}) as &[u8])", path.display().to_string())
            };
            if let Some(made) = capabilities(&path, "sm_") {
                images += &format!("{},", pack(made));
            } else if let Some(made) = capabilities(&path, "compute_") {
                portable = format!("Some({})", pack(made));
            }
        }
        assert!(!images.is_empty(), "LAMINA_CUBINS: no sm_*.xz in {}", folder.display());
    }
    let text =
        format!("const EMBEDDED: &[Pack] = &[{images}];\nconst PORTABLE: Option<Pack> = {portable};\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("embedded.rs");
    fs::write(out, text).expect("the build's folder takes files");
}

/// What the images of a file are for, in their order: `sm_80_86_89.xz` has three.
fn capabilities(path: &Path, prefix: &str) -> Option<Vec<u32>> {
    let name = path.file_name()?.to_str()?.strip_suffix(".xz")?.strip_prefix(prefix)?;
    name.split('_').map(|number| number.parse().ok()).collect()
}

/// Panics where the images were made of other sources: they would take other arguments.
fn check_sources(folder: &Path) {
    let kernels = Path::new(KERNELS);
    let now: String = files(kernels, kernels)
        .into_iter()
        .map(|file| {
            let text = fs::read_to_string(kernels.join(&file)).expect("a file of the kernels");
            format!("== {file}\n{}", text.replace("\r\n", "\n"))
        })
        .collect();
    let made = fs::read_to_string(folder.join("sources.txt")).unwrap_or_default();
    assert!(
        made.replace("\r\n", "\n") == now,
        "LAMINA_CUBINS: the images in {} are of other sources: run .ci/kernels.py again",
        folder.display()
    );
}

/// Files below a folder, sorted, with `/` between names.
fn files(root: &Path, folder: &Path) -> Vec<String> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(root, &path));
        } else {
            let inside = path.strip_prefix(root).expect("inside").display().to_string();
            found.push(inside.replace('\\', "/"));
        }
    }
    found.sort();
    found
}
