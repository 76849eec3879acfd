//! Where the encoders of a model are, of pictures and of sound: in its folder, or in an mmproj file.

use crate::{
    error::{Error, Result},
    setting::{OptionKind, Setting},
};
use lamina_arch::vision::VisionSource;
use lamina_base::mmproj_rank;
use lamina_planner::BadValue;
use lamina_store::{Checkpoint, Config, Kind};
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

/// The epsilon of the language model's norms, as folders call it.
const EPSILON: &str = "rms_norm_eps";

/// Which encoder of pictures, or of sound, a model gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MmprojChoice {
    /// That of its folder, or the one mmproj file beside it that fits.
    #[default]
    Auto,
    /// None: text only. Nothing of an encoder is read.
    Off,
    /// That of an mmproj file, or of a folder.
    File(PathBuf),
}

impl Setting for MmprojChoice {
    const KIND: OptionKind = OptionKind::Path;

    fn read(text: &OsStr) -> std::result::Result<Self, BadValue> {
        Ok(match text.to_str().map(str::to_ascii_lowercase).as_deref() {
            Some("auto") => MmprojChoice::Auto,
            Some("off" | "false" | "no" | "none") => MmprojChoice::Off,
            _ => MmprojChoice::File(text.into()),
        })
    }
}

/// An encoder that goes with a model.
pub struct FoundMmproj {
    /// Its settings and tensors.
    pub source: VisionSource,
    /// The file, where it is not the model's own folder.
    pub file: Option<PathBuf>,
    /// That file as it was opened.
    pub checkpoint: Option<Checkpoint>,
}

impl MmprojChoice {
    /// The encoder for the model in `ck`, whose rows are `hidden` wide; none where there is none.
    ///
    /// # Errors
    /// The file that was named cannot be read or is of another model; two files beside the model fit.
    pub fn find(&self, ck: &Checkpoint, hidden: usize) -> Result<Option<FoundMmproj>> {
        self.find_of(Encoded::Pictures, ck, hidden)
    }

    /// The same for sounds.
    ///
    /// # Errors
    /// As for [`MmprojChoice::find`].
    pub fn find_sound(&self, ck: &Checkpoint, hidden: usize) -> Result<Option<FoundMmproj>> {
        self.find_of(Encoded::Sounds, ck, hidden)
    }

    fn find_of(&self, what: Encoded, ck: &Checkpoint, hidden: usize) -> Result<Option<FoundMmproj>> {
        match (self, ck.kind) {
            (MmprojChoice::Off, _) => Ok(None),
            (MmprojChoice::File(path), _) => match named(path, (ck, hidden), what)? {
                // A model may have one for pictures and one for sounds.
                None => MmprojChoice::Auto.find_of(what, ck, hidden),
                found => Ok(found),
            },
            (MmprojChoice::Auto, Kind::HuggingFace) => {
                let own = |source| FoundMmproj { source, file: None, checkpoint: None };
                Ok(what.of_folder(ck)?.map(own))
            }
            (MmprojChoice::Auto, Kind::Gguf) => beside((ck, hidden), what),
        }
    }
}

/// What an encoder takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoded {
    Pictures,
    Sounds,
}

impl Encoded {
    fn of_folder(self, ck: &Checkpoint) -> Result<Option<VisionSource>> {
        Ok(match self {
            Encoded::Pictures => VisionSource::of_folder(ck)?,
            Encoded::Sounds => VisionSource::of_sound(ck)?,
        })
    }

    /// The encoder of a file or folder; none where that has one for something else.
    fn source(self, path: &Path, ck: &Checkpoint) -> Result<Option<VisionSource>> {
        let found = match (ck.kind, self) {
            (Kind::HuggingFace, what) => what.of_folder(ck)?,
            (Kind::Gguf, Encoded::Sounds) => VisionSource::of_sound_mmproj(ck)?,
            (Kind::Gguf, Encoded::Pictures) if VisionSource::hears(ck)? && !VisionSource::sees(ck)? => None,
            (Kind::Gguf, Encoded::Pictures) => Some(VisionSource::of_mmproj(ck)?),
        };
        let other = || Ok::<_, Error>(VisionSource::of_sound(ck)?.is_some() || VisionSource::hears(ck)?);
        match found {
            None if self == Encoded::Pictures && !other()? => Err(Error::InvalidRequest(format!(
                "{} has no encoder of pictures: give an mmproj file",
                path.display()
            ))),
            found => Ok(found),
        }
    }
}

/// The encoder of `path`, which has to fit; none where it has one for something else.
fn named(path: &Path, (ck, hidden): (&Checkpoint, usize), what: Encoded) -> Result<Option<FoundMmproj>> {
    let checkpoint = Checkpoint::open(path)?;
    let Some(mut source) = what.source(path, &checkpoint)? else { return Ok(None) };
    // A projector's norm has the language model's epsilon (Mistral 3), which an mmproj file does not say.
    if let Some(eps) = ck.config.value(EPSILON) {
        let mut model = source.model.tree().clone();
        model.insert(EPSILON.to_owned(), eps.clone());
        source.model = Config::from_hf(source.model.file(), model)?;
    }
    match source.model_width()? {
        Some(width) if width != hidden => Err(Error::InvalidRequest(format!(
            "mmproj {} makes rows of {width} numbers, but the model's rows have {hidden}: it is the mmproj of another model",
            path.display()
        ))),
        _ => Ok(Some(FoundMmproj { source, file: Some(path.to_owned()), checkpoint: Some(checkpoint) })),
    }
}

/// The one mmproj file in the model's folder that fits. Those that cannot be read or belong to another model are passed over.
fn beside((ck, hidden): (&Checkpoint, usize), what: Encoded) -> Result<Option<FoundMmproj>> {
    let folder = if ck.folder.as_os_str().is_empty() { Path::new(".") } else { &ck.folder };
    let inside = |folder: &Path| -> Vec<FoundMmproj> {
        candidates(folder).iter().filter_map(|path| named(path, (ck, hidden), what).ok()?).collect()
    };
    let mut fitting = inside(folder);
    if let (true, Some(top)) = (fitting.is_empty(), snapshot_of(folder)) {
        fitting = inside(top);
    }
    let rank = |found: &FoundMmproj| found.file.as_deref().and_then(rank_of);
    let best = fitting.iter().filter_map(rank).min();
    fitting.retain(|found| rank(found) == best);
    if fitting.len() > 1 {
        let names: Vec<String> =
            fitting.iter().filter_map(|f| Some(f.file.as_ref()?.display().to_string())).collect();
        return Err(Error::InvalidRequest(format!(
            "several mmproj files beside the model fit it ({}): name one with mmproj, or leave all of them out with mmproj=off",
            names.join(", ")
        )));
    }
    Ok(fitting.pop())
}

/// The top of a repository of the hub that `folder` is inside of: encoders lie there, also of models below.
fn snapshot_of(folder: &Path) -> Option<&Path> {
    let is_top =
        |path: &&Path| path.parent().and_then(Path::file_name).is_some_and(|name| name == "snapshots");
    folder.ancestors().skip(1).find(is_top)
}

fn rank_of(path: &Path) -> Option<usize> {
    mmproj_rank(&path.file_name()?.to_string_lossy())
}

fn candidates(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = paths.filter(|path| rank_of(path).is_some()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina_fixtures::shared;
    use lamina_store::gguf::Writer;

    /// A folder with a model file and mmproj files of these families under these names.
    fn folder(files: &[(&str, &str)]) -> Option<(tempfile::TempDir, Checkpoint)> {
        let golden = shared("golden-vision")?.join("mmproj");
        let dir = tempfile::tempdir().expect("a folder");
        let model = dir.path().join("model.gguf");
        Writer::new(&model, "llama").create().expect("a file").finish().expect("written");
        for (family, name) in files {
            fs::copy(golden.join(format!("{family}.gguf")), dir.path().join(name)).expect("copied");
        }
        let ck = Checkpoint::open(&model).expect("opens");
        Some((dir, ck))
    }

    #[test]
    fn the_one_that_fits_is_found_and_two_are_named() {
        let Some((dir, ck)) = folder(&[("pixtral", "mmproj-a.gguf")]) else { return };
        let found = MmprojChoice::Auto.find(&ck, 64).expect("looked").expect("one fits");
        assert_eq!(found.source.name, "pixtral");
        assert!(MmprojChoice::Auto.find(&ck, 128).expect("looked").is_none(), "of another model");
        assert!(MmprojChoice::Off.find(&ck, 64).expect("nothing is read").is_none());
        fs::write(dir.path().join("mmproj-broken.gguf"), b"GGUF").expect("written");
        assert!(MmprojChoice::Auto.find(&ck, 64).expect("looked").is_some(), "a broken one is passed over");
        fs::copy(dir.path().join("mmproj-a.gguf"), dir.path().join("b-mmproj.gguf")).expect("copied");
        let error = MmprojChoice::Auto.find(&ck, 64).err().expect("two fit").to_string();
        assert!(error.contains("mmproj-a.gguf") && error.contains("b-mmproj.gguf"), "{error}");
    }

    #[test]
    fn one_that_is_named_has_to_fit() {
        let Some((dir, ck)) = folder(&[("pixtral", "eye.gguf")]) else { return };
        assert!(MmprojChoice::Auto.find(&ck, 64).expect("looked").is_none(), "not by its name");
        let choice = MmprojChoice::File(dir.path().join("eye.gguf"));
        assert!(choice.find(&ck, 64).expect("fits").is_some());
        let error = choice.find(&ck, 100).err().expect("another width").to_string();
        assert!(error.contains("64") && error.contains("100"), "{error}");
        let model = MmprojChoice::File(dir.path().join("model.gguf"));
        assert!(model.find(&ck, 64).is_err(), "no encoder");
    }

    #[test]
    fn of_several_types_the_usual_one_is_taken_also_from_the_top_of_a_snapshot() {
        let Some((dir, ck)) = folder(&[("pixtral", "mmproj-BF16.gguf"), ("pixtral", "mmproj-f32.gguf")])
        else {
            return;
        };
        let name = |ck: &Checkpoint| {
            let found = MmprojChoice::Auto.find(ck, 64).expect("looked")?;
            Some(found.file?.file_name()?.to_string_lossy().into_owned())
        };
        assert_eq!(name(&ck).as_deref(), Some("mmproj-BF16.gguf"));
        let top = dir.path().join("snapshots/abc");
        fs::create_dir_all(top.join("q4")).expect("folders");
        fs::copy(dir.path().join("model.gguf"), top.join("q4/model.gguf")).expect("copied");
        let below = Checkpoint::open(top.join("q4/model.gguf")).expect("opens");
        assert_eq!(name(&below), None);
        fs::copy(dir.path().join("mmproj-BF16.gguf"), top.join("mmproj-F16.gguf")).expect("copied");
        assert_eq!(name(&below).as_deref(), Some("mmproj-F16.gguf"));
    }

    #[test]
    fn words_switch_it_off() {
        let read = |text: &str| MmprojChoice::read(text.as_ref()).expect("a choice");
        assert_eq!(
            (read("off"), read("False"), read("auto")),
            (MmprojChoice::Off, MmprojChoice::Off, MmprojChoice::Auto)
        );
        assert_eq!(read("a/mmproj.gguf"), MmprojChoice::File("a/mmproj.gguf".into()));
    }
}
