//! Where kernels come from: out of the build, from the cache on disk, or from NVRTC.

use crate::{
    error::{CudaUnusable, Opened},
    nvrtc::{Nvrtc, OPTIONS},
    part::KernelPart,
};
use lamina_base::files::read_regular;
use lamina_disk::{cache_folder, checksum, replace_file};
use lamina_gpu::{ProductUnits, kernel_source};
use std::{
    env,
    ffi::c_void,
    fs, io,
    path::{Path, PathBuf},
};

// EMBEDDED: all images, of the kernels that plans launch; PORTABLE: texts in PTX, if there are some, which drivers compile
// themselves: for the oldest devices of those that are only compared, for newer ones than all images of all kernels.
include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The compute capabilities that images were made for, and these, compressed together by xz: the length of each (32 bits, little
/// end first), then each (`.ci/kernels.py`).
type Pack = (&'static [u32], &'static [u8]);

/// An image of the build: its pack, and its place in that.
type Packed = (Pack, usize);

/// Largest image of the cache that is read; all kernels of one device have some megabytes.
const MOST_IMAGE: u64 = 1 << 30;
/// Images are made from this compute capability on.
pub(crate) const OLDEST: u32 = 75;
/// From this one on tensor cores multiply bfloat16.
const BF16_CORES: u32 = 80;

/// Systems on a chip: images of other devices do not run there, whatever their numbers say.
const ALONE: &[u32] = &[87, 101];

/// What multiplies matrices on devices of a capability that images are made for.
pub(crate) fn units_of(capability: u32) -> ProductUnits {
    if capability < BF16_CORES { ProductUnits::Float16Cores } else { ProductUnits::TensorCores }
}

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

/// Kernels for a device, as an image or as a text that the driver compiles.
pub(crate) struct KernelImage {
    /// Its bytes, aligned as the driver wants them, and a 0 behind them, which ends a text.
    words: Vec<u64>,
    pub origin: ImageOrigin,
    /// What is in it.
    pub parts: &'static [KernelPart],
}

/// The folder whose files are compiled instead of what is in the build.
fn sources_folder() -> Option<PathBuf> {
    env::var_os("LAMINA_KERNELS").filter(|v| !v.is_empty()).map(PathBuf::from)
}

impl KernelImage {
    /// The image for a device. `LAMINA_KERNELS` names a folder whose files are compiled instead.
    pub fn of(capability: u32) -> Opened<KernelImage> {
        let embedded = choose(EMBEDDED, PORTABLE, capability).filter(|_| sources_folder().is_none());
        match embedded {
            Some((packed, parts)) => Ok(KernelImage::new(&unpacked(packed), ImageOrigin::Embedded, parts)),
            None => KernelImage::compiled(&format!("sm_{capability}"), KernelPart::Launched),
        }
    }

    /// The build's text of the kernels that are only compared, for any device whose driver compiles it.
    pub fn compared_text() -> Option<KernelImage> {
        let pack = PORTABLE.filter(|_| sources_folder().is_none())?;
        let place = pack.0.iter().position(|made| *made == OLDEST)?;
        let text = unpacked((pack, place));
        Some(KernelImage::new(&text, ImageOrigin::Embedded, KernelPart::Compared.alone()))
    }

    /// The image of the kernels that are only compared, as NVRTC makes it.
    pub fn compile_compared(architecture: &str) -> Opened<KernelImage> {
        KernelImage::compiled(architecture, KernelPart::Compared)
    }

    /// The image of a part of the sources, from the cache if it was compiled before.
    fn compiled(architecture: &str, part: KernelPart) -> Opened<KernelImage> {
        let missing =
            || CudaUnusable::NoKernels { architecture: architecture.to_owned(), why: no_nvrtc(part) };
        let nvrtc = Nvrtc::find().ok_or_else(missing)?;
        let source = kernel_source(sources_folder().as_deref());
        let made_by = format!("{:?} {OPTIONS:?} {} {architecture}\n{source}", nvrtc.version, part.option());
        let name = format!("{architecture}-{:016x}.cubin", checksum(made_by.as_bytes()));
        let path = cache_folder().join("kernels").join(name);
        if let Some(bytes) = cached(&path) {
            return Ok(KernelImage::new(&bytes, ImageOrigin::Cached, part.alone()));
        }
        let bytes = nvrtc.compile(&source, architecture, part)?;
        // Without a cache it takes some seconds each time, and nothing else.
        let _ = keep(&path, &bytes);
        Ok(KernelImage::new(&bytes, ImageOrigin::Compiled, part.alone()))
    }

    /// A text in PTX with these kernels.
    #[cfg(test)]
    pub fn text(text: &str, parts: &'static [KernelPart]) -> KernelImage {
        KernelImage::new(text.as_bytes(), ImageOrigin::Embedded, parts)
    }

    fn new(bytes: &[u8], origin: ImageOrigin, parts: &'static [KernelPart]) -> KernelImage {
        let word = |i: usize| {
            let mut word = [0; 8];
            let part = bytes.get(8 * i..).unwrap_or_default();
            let n = part.len().min(8);
            word[..n].copy_from_slice(&part[..n]);
            u64::from_ne_bytes(word)
        };
        KernelImage { words: (0..bytes.len() / 8 + 1).map(word).collect(), origin, parts }
    }

    /// Its first byte.
    pub fn start(&self) -> *const c_void {
        self.words.as_ptr().cast()
    }
}

/// Why a part of the kernels cannot be compiled without NVRTC.
fn no_nvrtc(part: KernelPart) -> String {
    let others = match part {
        KernelPart::Launched => "this build has none inside, and ",
        KernelPart::Compared => "",
    };
    format!(
        "{others}NVRTC, which would compile them, is not found: install nvidia-cuda-nvrtc-cu12 beside the Python package, or put \
         the folder of its library into LD_LIBRARY_PATH (PATH on Windows)"
    )
}

/// An image of the build, as it was before it was compressed.
///
/// # Panics
/// When the build holds another thing.
fn unpacked(((capabilities, mut packed), place): Packed) -> Vec<u8> {
    let mut all = vec![];
    lzma_rs::xz_decompress(&mut packed, &mut all).expect("the build holds images compressed by xz");
    let (lengths, images) = all.split_at(4 * capabilities.len());
    let length = |four: &[u8]| four.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let mut lengths = lengths.chunks_exact(4).map(length);
    let start: usize = lengths.by_ref().take(place).sum();
    images[start..][..lengths.next().unwrap_or_default()].to_vec()
}

/// What a device runs, and which kernels are in it: of the images of the same major number, the nearest minor one that is not
/// above its own. Devices newer than all get the text that is for the newest.
fn choose(
    images: &'static [Pack],
    portable: Option<Pack>,
    capability: u32,
) -> Option<(Packed, &'static [KernelPart])> {
    if ALONE.contains(&capability) {
        return None;
    }
    let places = |pack: &'static Pack| pack.0.iter().enumerate().map(|(place, made)| (*made, (*pack, place)));
    let runs = |made: u32| made / 10 == capability / 10 && made <= capability;
    let best = images.iter().flat_map(places).filter(|(made, _)| runs(*made)).max_by_key(|(made, _)| *made);
    let older = |pack: &Pack| pack.0.iter().all(|made| made / 10 < capability / 10);
    let text = || {
        let pack = portable.filter(older)?;
        let newer = pack.0.iter().enumerate().filter(|(_, made)| **made > OLDEST);
        let (place, _) = newer.max_by_key(|(_, made)| **made)?;
        Some(((pack, place), &[KernelPart::Launched, KernelPart::Compared][..]))
    };
    best.map(|(_, packed)| (packed, KernelPart::Launched.alone())).or_else(text)
}

/// An image of the cache: its checksum, then its bytes.
fn cached(path: &Path) -> Option<Vec<u8>> {
    let stored = read_regular(path, MOST_IMAGE).ok()?;
    let (sum, bytes) = stored.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*sum) == checksum(bytes)).then(|| bytes.to_vec())
}

/// Keeps an image, whole or not at all.
fn keep(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    replace_file(path, &[&checksum(bytes).to_le_bytes()[..], bytes].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_gets_the_nearest_image_of_its_generation() {
        const IMAGES: &[Pack] = &[(&[75, 80, 86, 89], b"abc"), (&[90], b"d"), (&[120], b"e")];
        const TEXTS: Pack = (&[75, 120], b"ptx");
        let choose = |capability| {
            choose(IMAGES, Some(TEXTS), capability).map(|(((_, b), place), parts)| (b, place, parts.len()))
        };
        for (capability, pack, place) in [
            (75, "abc", 0),
            (80, "abc", 1),
            (86, "abc", 2),
            (88, "abc", 2),
            (89, "abc", 3),
            (90, "d", 0),
            (120, "e", 0),
            (121, "e", 0),
            (130, "ptx", 1),
        ] {
            let parts = if pack == "ptx" { 2 } else { 1 };
            assert_eq!(choose(capability), Some((pack.as_bytes(), place, parts)), "{capability}");
        }
        // Older ones, systems on a chip, and generations that were left out.
        for capability in [70, 72, 87, 101, 100] {
            assert_eq!(choose(capability), None, "{capability}");
        }
    }

    /// "kernels", nothing and "kernels kernels" as `.ci/kernels.py` packs them.
    const PACKED: &[u8] = &[
        253, 55, 122, 88, 90, 0, 0, 4, 230, 214, 180, 70, 2, 0, 33, 1, 28, 0, 0, 0, 16, 207, 88, 204, 224, 0,
        33, 0, 22, 216, 0, 3, 128, 49, 1, 240, 134, 107, 50, 156, 141, 198, 200, 167, 92, 142, 135, 181, 139,
        54, 170, 224, 0, 0, 0, 0, 141, 243, 119, 109, 81, 180, 132, 38, 0, 1, 50, 34, 190, 160, 150, 24, 31,
        182, 243, 125, 1, 0, 0, 0, 0, 4, 89, 90,
    ];

    #[test]
    fn images_of_the_build_are_unpacked() {
        for (place, image) in [&b"kernels"[..], b"", b"kernels kernels"].into_iter().enumerate() {
            assert_eq!(unpacked(((&[80, 86, 89], PACKED), place)), image);
        }
        // A plain build has none; what the driver takes is an ELF file, or a text that it compiles.
        for pack in EMBEDDED {
            for (place, capability) in pack.0.iter().enumerate() {
                assert_eq!(unpacked((*pack, place)).get(..4), Some(&b"\x7fELF"[..]), "{capability}");
            }
        }
        for (pack, place) in PORTABLE.iter().flat_map(|pack| (0..pack.0.len()).map(move |i| (*pack, i))) {
            let text = String::from_utf8_lossy(&unpacked((pack, place))).into_owned();
            assert!(text.contains(&format!(".target sm_{}\n", pack.0[place])), "{place}");
            let compared = KernelPart::Compared.kernels(ProductUnits::TensorCores);
            assert!(compared.iter().all(|line| text.contains(&format!(".entry {}(", line.name))), "{place}");
        }
    }

    #[test]
    fn images_are_aligned_and_end_in_zero() {
        for n in [0, 1, 7, 8, 9] {
            let image = KernelImage::new(&vec![7; n], ImageOrigin::Compiled, &[]);
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
