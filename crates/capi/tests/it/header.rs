//! `lamina.h` is what the code says.

use std::{fs, path::Path};

/// `LAMINA_BLESS=1` writes the header anew.
#[test]
fn the_header_is_what_the_code_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a configuration");
    let source = folder.join("src/lib.rs");
    let made = cbindgen::Builder::new().with_config(config).with_src(source).generate().expect("a header");
    let mut text = vec![];
    made.write(&mut text);
    let path = folder.join("include/lamina.h");
    if std::env::var_os("LAMINA_BLESS").is_some() {
        fs::write(&path, &text).expect("a header");
    }
    let header = fs::read(&path).expect("a header");
    assert!(header == text, "{} is not what the code says: LAMINA_BLESS=1 writes it", path.display());
}
