//! The folder for what can be made again.

use std::{env, path::PathBuf};

/// Where files are kept that can be made again: `LAMINA_CACHE`, or the cache folder of the user.
pub fn cache_folder() -> PathBuf {
    let named = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let user = || {
        if cfg!(windows) {
            named("LOCALAPPDATA").map(|p| p.join("lamina").join("cache"))
        } else if cfg!(target_os = "macos") {
            named("HOME").map(|p| p.join("Library").join("Caches").join("lamina"))
        } else {
            let own = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|p| p.join(".cache")));
            own.map(|p| p.join("lamina"))
        }
    };
    named("LAMINA_CACHE").or_else(user).unwrap_or_else(|| env::temp_dir().join("lamina"))
}
