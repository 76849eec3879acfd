//! Shared libraries that are looked for when they are first needed, and their functions by name. Answers are plain numbers:
//! newer libraries have codes that no list of ours knows.

use libloading::Library;
use std::{
    env::consts::OS,
    path::{Path, PathBuf},
};

/// Makes a module's functions of those of a library. `load` looks all of them up, so that a missing one is an error before
/// anything happens; called before that, they answer with `$absent`.
macro_rules! functions {
    ($Code:ty, $absent:expr; $(fn $name:ident($($argument:ident: $Type:ty),*);)*) => {
        #[allow(non_snake_case)] // the library's names
        struct Functions {
            $(
                // SAFETY: the type of a pointer; whoever calls it keeps to the library's manual.
                $name: unsafe extern "system" fn($($Type),*) -> $Code,
            )*
        }

        static FUNCTIONS: std::sync::OnceLock<Functions> = std::sync::OnceLock::new();

        /// Looks the functions up; the name of one that is missing is the error. The library stays for good.
        pub(crate) fn load(library: libloading::Library) -> Result<&'static libloading::Library, &'static str> {
            let library: &'static libloading::Library = Box::leak(Box::new(library));
            let found = Functions {
                // SAFETY: the library's manual gives its functions these types, and the library is never unloaded.
                $($name: *unsafe { library.get(stringify!($name)) }.map_err(|_| stringify!($name))?,)*
            };
            FUNCTIONS.get_or_init(|| found);
            Ok(library)
        }

        $(
            /// The library's function of this name.
            ///
            /// # Safety
            /// As its manual says.
            #[allow(non_snake_case, clippy::too_many_arguments)] // as the manual has them
            pub(crate) unsafe fn $name($($argument: $Type),*) -> $Code {
                match FUNCTIONS.get() {
                    // SAFETY: the caller keeps to the manual.
                    Some(functions) => unsafe { (functions.$name)($($argument),*) },
                    None => $absent,
                }
            }
        )*
    };
}
pub(crate) use functions;

/// The first of these libraries that can be opened: a name where the system looks for libraries, or a path.
pub(crate) fn open(names: impl IntoIterator<Item = PathBuf>) -> Option<Library> {
    // SAFETY: loading a library runs its initializers, as every program that uses it does.
    names.into_iter().find_map(|name| unsafe { Library::new(name) }.ok())
}

/// Names that a library has on this system.
pub(crate) fn names(linux: &[&'static str], windows: &[&'static str]) -> Vec<PathBuf> {
    let names = if OS == "windows" { windows } else { linux };
    names.iter().map(PathBuf::from).collect()
}

/// Folders of the libraries of `nvidia` packages that pip put beside the package that this code is in.
pub(crate) fn package_folders() -> Vec<PathBuf> {
    let object = own_object();
    object.iter().flat_map(|path| folders_beside(path)).filter(|folder| folder.is_dir()).collect()
}

/// Where such folders would be, for code in the file `object` of some package.
fn folders_beside(object: &Path) -> impl Iterator<Item = PathBuf> {
    const PARTS: &[&str] = &["nvidia/cuda_nvrtc/lib", "nvidia/cu13/lib"];
    // `site-packages/lamina/_lamina.abi3.so`
    let site = object.ancestors().nth(2).map(Path::to_owned);
    site.into_iter().flat_map(|site| PARTS.iter().map(move |part| site.join(part)))
}

/// The file that this code was loaded from, where the system tells.
fn own_object() -> Option<PathBuf> {
    let own = own_object as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| covers(line, own))?;
    line.find('/').map(|at| PathBuf::from(&line[at..]))
}

/// True for the line of a mapping, `from-to ...` in hexadecimal, with an address in it.
fn covers(line: &str, address: usize) -> bool {
    let range = line.split(' ').next().and_then(|range| range.split_once('-'));
    let number = |text| usize::from_str_radix(text, 16).ok();
    let range = range.and_then(|(from, to)| Some(number(from)?..number(to)?));
    range.is_some_and(|range| range.contains(&address))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn packages_are_looked_for_beside_the_own_one() {
        let own = own_object().expect("a path");
        assert_eq!(own, std::env::current_exe().expect("a path"));
        let beside = folders_beside(Path::new("/v/site-packages/lamina/_lamina.abi3.so")).next();
        assert_eq!(beside, Some("/v/site-packages/nvidia/cuda_nvrtc/lib".into()));
        assert!(covers("7f0-7ff r-xp 00 /x", 0x7fe) && !covers("7f0-7ff r-xp", 0x7ff) && !covers("", 0));
    }
}
