//! Folders of the user that this program keeps files in.

use std::{env, ffi::OsString, path::PathBuf};

/// What a folder of the user is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserFolder {
    /// What can be made again.
    Cache,
    /// What the user would miss.
    Data,
}

/// How a system lays out what belongs to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FolderLayout {
    /// The XDG base directories: Linux and its kind.
    Xdg,
    MacOs,
    Windows,
}

impl FolderLayout {
    const HERE: FolderLayout = if cfg!(windows) {
        FolderLayout::Windows
    } else if cfg!(target_os = "macos") {
        FolderLayout::MacOs
    } else {
        FolderLayout::Xdg
    };
}

/// Where files are kept that can be made again: `LAMINA_CACHE`, or the cache folder of the user.
pub fn cache_folder() -> PathBuf {
    let named = env::var_os("LAMINA_CACHE").filter(|v| !v.is_empty()).map(PathBuf::from);
    named.or_else(|| user_folder(UserFolder::Cache)).unwrap_or_else(|| env::temp_dir().join("lamina"))
}

/// The folder of this program among those of the user; none where the environment names no home. It may not exist yet.
pub fn user_folder(kind: UserFolder) -> Option<PathBuf> {
    folder_in(FolderLayout::HERE, kind, |name| env::var_os(name))
}

fn folder_in(
    layout: FolderLayout,
    kind: UserFolder,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    let named = |name| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let at_home = |below: &str| Some(named("HOME")?.join(below).join("lamina"));
    // The specification has programs pass over paths that are not absolute.
    let xdg = |name| Some(named(name).filter(|p| p.has_root())?.join("lamina"));
    match (layout, kind) {
        (FolderLayout::Xdg, UserFolder::Cache) => xdg("XDG_CACHE_HOME").or_else(|| at_home(".cache")),
        (FolderLayout::Xdg, UserFolder::Data) => xdg("XDG_DATA_HOME").or_else(|| at_home(".local/share")),
        (FolderLayout::MacOs, UserFolder::Cache) => at_home("Library/Caches"),
        (FolderLayout::MacOs, UserFolder::Data) => at_home("Library/Application Support"),
        (FolderLayout::Windows, UserFolder::Cache) => {
            Some(named("LOCALAPPDATA")?.join("lamina").join("cache"))
        }
        (FolderLayout::Windows, UserFolder::Data) => Some(named("APPDATA")?.join("lamina")),
    }
}

#[cfg(test)]
mod tests {
    use super::{FolderLayout::*, UserFolder::*, *};

    fn found(layout: FolderLayout, kind: UserFolder, set: &[(&str, &str)]) -> Option<PathBuf> {
        folder_in(layout, kind, |name| {
            set.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn each_system_has_its_places() {
        let home = [("HOME", "/home/u"), ("LOCALAPPDATA", "/local"), ("APPDATA", "/roaming")];
        for (layout, kind, expected) in [
            (Xdg, Cache, "/home/u/.cache/lamina"),
            (Xdg, Data, "/home/u/.local/share/lamina"),
            (MacOs, Cache, "/home/u/Library/Caches/lamina"),
            (MacOs, Data, "/home/u/Library/Application Support/lamina"),
            (Windows, Cache, "/local/lamina/cache"),
            (Windows, Data, "/roaming/lamina"),
        ] {
            assert_eq!(found(layout, kind, &home), Some(expected.into()), "{layout:?} {kind:?}");
            assert_eq!(found(layout, kind, &[]), None);
        }
    }

    #[test]
    fn xdg_variables_come_first_where_they_are_paths() {
        let set = |cache, data| [("HOME", "/home/u"), ("XDG_CACHE_HOME", cache), ("XDG_DATA_HOME", data)];
        assert_eq!(found(Xdg, Cache, &set("/c", "/d")), Some("/c/lamina".into()));
        assert_eq!(found(Xdg, Data, &set("/c", "/d")), Some("/d/lamina".into()));
        for wrong in ["", "relative"] {
            assert_eq!(found(Xdg, Cache, &set(wrong, "/d")), Some("/home/u/.cache/lamina".into()));
            assert_eq!(found(Xdg, Data, &set("/c", wrong)), Some("/home/u/.local/share/lamina".into()));
        }
        assert_eq!(found(MacOs, Cache, &set("/c", "/d")), Some("/home/u/Library/Caches/lamina".into()));
    }
}
