//! Where kernels come from: out of the build, from the cache on disk, or from NVRTC.

use crate::{
    error::{CudaUnusable, Opened},
    nvrtc::{Nvrtc, OPTIONS},
};
use lamina_disk::{cache_folder, checksum};
use lamina_gpu::kernel_source;
use std::{
    env,
    ffi::c_void,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

// EMBEDDED: compute capabilities and their images, compressed by xz; PORTABLE: the one in the driver's own language, if there
// is one.
include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// An image that was made for a compute capability.
type Made = (u32, &'static [u8]);

/// Systems on a chip: images of other devices do not run there, whatever their numbers say.
const ALONE: &[u32] = &[87, 101];

/// Where an image came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageOrigin {
    /// It is a part of the build.
    Embedded,
    /// It was compiled on this machine before.
    Cached,
    /// It was compiled just now.
    Compiled,
}

/// All kernels, compiled for a device.
pub(crate) struct KernelImage {
    /// Its bytes, aligned as the driver wants them, and a 0 behind them, which ends a text.
    words: Vec<u64>,
    pub origin: ImageOrigin,
}

impl KernelImage {
    /// The image for a device. `LAMINA_KERNELS` names a folder whose files are compiled instead.
    pub fn of(capability: u32) -> Opened<KernelImage> {
        let folder = env::var_os("LAMINA_KERNELS").filter(|v| !v.is_empty()).map(PathBuf::from);
        let embedded = choose(EMBEDDED, PORTABLE, capability).filter(|_| folder.is_none());
        if let Some(packed) = embedded {
            return Ok(KernelImage::new(&unpacked(packed), ImageOrigin::Embedded));
        }
        KernelImage::compiled(&kernel_source(folder.as_deref()), &format!("sm_{capability}"))
    }

    /// The image of a source, from the cache if it was compiled before.
    fn compiled(source: &str, architecture: &str) -> Opened<KernelImage> {
        let missing = || {
            let why = "this build has none inside, and NVRTC, which would compile them, is not found: install \
                       nvidia-cuda-nvrtc-cu12, and put the folder of its library into LD_LIBRARY_PATH (PATH on \
                       Windows)";
            CudaUnusable::NoKernels { architecture: architecture.to_owned(), why: why.to_owned() }
        };
        let nvrtc = Nvrtc::find().ok_or_else(missing)?;
        let made_by = format!("{:?} {OPTIONS:?} {architecture}\n{source}", nvrtc.version);
        let name = format!("{architecture}-{:016x}.cubin", checksum(made_by.as_bytes()));
        let path = cache_folder().join("kernels").join(name);
        if let Some(bytes) = cached(&path) {
            return Ok(KernelImage::new(&bytes, ImageOrigin::Cached));
        }
        let bytes = nvrtc.compile(source, architecture)?;
        // Without a cache it takes some seconds each time, and nothing else.
        let _ = keep(&path, &bytes);
        Ok(KernelImage::new(&bytes, ImageOrigin::Compiled))
    }

    fn new(bytes: &[u8], origin: ImageOrigin) -> KernelImage {
        let word = |i: usize| {
            let mut word = [0; 8];
            let part = bytes.get(8 * i..).unwrap_or_default();
            let n = part.len().min(8);
            word[..n].copy_from_slice(&part[..n]);
            u64::from_ne_bytes(word)
        };
        KernelImage { words: (0..bytes.len() / 8 + 1).map(word).collect(), origin }
    }

    /// Its first byte.
    pub fn start(&self) -> *const c_void {
        self.words.as_ptr().cast()
    }
}

/// An image of the build, as it was before it was compressed.
///
/// # Panics
/// When the build holds another thing.
fn unpacked(mut packed: &[u8]) -> Vec<u8> {
    let mut image = vec![];
    lzma_rs::xz_decompress(&mut packed, &mut image).expect("the build holds images compressed by xz");
    image
}

/// The image that a device runs: of the same major number, the nearest minor one that is not above its own. Devices newer than
/// all get the portable one.
fn choose(images: &'static [Made], portable: Option<Made>, capability: u32) -> Option<&'static [u8]> {
    if ALONE.contains(&capability) {
        return None;
    }
    let runs = |made: u32| made / 10 == capability / 10 && made <= capability;
    let best = images.iter().copied().filter(|(made, _)| runs(*made)).max_by_key(|(made, _)| *made);
    best.or(portable.filter(|(made, _)| made / 10 < capability / 10)).map(|(_, bytes)| bytes)
}

/// An image of the cache: its checksum, then its bytes.
fn cached(path: &Path) -> Option<Vec<u8>> {
    let stored = fs::read(path).ok()?;
    let (sum, bytes) = stored.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*sum) == checksum(bytes)).then(|| bytes.to_vec())
}

/// Keeps an image, whole or not at all.
fn keep(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&checksum(bytes).to_le_bytes())?;
    file.write_all(bytes)?;
    file.persist(path).map(|_| ()).map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_gets_the_nearest_image_of_its_generation() {
        const IMAGES: &[Made] = &[(80, b"a"), (86, b"b"), (89, b"c"), (90, b"d"), (120, b"e")];
        const NEWER: Made = (120, b"ptx");
        let choose = |capability| choose(IMAGES, Some(NEWER), capability);
        for (capability, image) in
            [(80, "a"), (86, "b"), (88, "b"), (89, "c"), (90, "d"), (120, "e"), (121, "e"), (130, "ptx")]
        {
            assert_eq!(choose(capability), Some(image.as_bytes()), "{capability}");
        }
        // Older ones, systems on a chip, and generations that were left out.
        for capability in [75, 87, 101, 100] {
            assert_eq!(choose(capability), None, "{capability}");
        }
    }

    /// "kernels kernels kernels" as Python's `lzma` writes it, which makes the images (`.ci/kernels.py`).
    const PACKED: &[u8] = &[
        253, 55, 122, 88, 90, 0, 0, 4, 230, 214, 180, 70, 2, 0, 33, 1, 28, 0, 0, 0, 16, 207, 88, 204, 224, 0,
        22, 0, 14, 216, 0, 53, 153, 74, 70, 227, 41, 176, 230, 32, 170, 44, 0, 0, 0, 0, 0, 0, 26, 73, 8, 227,
        115, 210, 208, 69, 0, 1, 42, 23, 196, 252, 62, 204, 31, 182, 243, 125, 1, 0, 0, 0, 0, 4, 89, 90,
    ];

    #[test]
    fn images_of_the_build_are_unpacked() {
        assert_eq!(unpacked(PACKED), b"kernels kernels kernels");
        // A plain build has none; what the driver takes is an ELF file.
        for (capability, packed) in EMBEDDED {
            assert_eq!(unpacked(packed).get(..4), Some(&b"\x7fELF"[..]), "{capability}");
        }
    }

    #[test]
    fn images_are_aligned_and_end_in_zero() {
        for n in [0, 1, 7, 8, 9] {
            let image = KernelImage::new(&vec![7; n], ImageOrigin::Compiled);
            let bytes: Vec<u8> = image.words.iter().flat_map(|w| w.to_ne_bytes()).collect();
            assert!(
                bytes[..n].iter().all(|b| *b == 7) && bytes[n..].iter().all(|b| *b == 0) && bytes.len() > n
            );
        }
    }

    #[test]
    fn the_cache_gives_whole_images_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kernels").join("sm_90.cubin");
        assert_eq!(cached(&path), None);
        keep(&path, b"an image").expect("kept");
        assert_eq!(cached(&path).as_deref(), Some(&b"an image"[..]));
        let stored = fs::read(&path).expect("readable");
        fs::write(&path, &stored[..stored.len() - 1]).expect("writable");
        assert_eq!(cached(&path), None);
    }
}
