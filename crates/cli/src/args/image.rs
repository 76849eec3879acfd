//! Pictures of a prompt.

use crate::{
    error::{CliError, Result},
    output::note,
};
use lamina::{ImageInput, Model, image::Picture};
use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Pictures beside a prompt.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ImageArgs {
    /// A picture, which stands where the prompt has the model's marker, and before it where there is none; may be repeated,
    /// and `-` is stdin
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
}

impl ImageArgs {
    /// Whether one of them is standard input.
    pub fn take_stdin(&self) -> bool {
        self.image.iter().any(|path| is_stdin(path))
    }

    /// The pictures, as `model` takes them.
    ///
    /// # Errors
    /// When the model takes text only, or a picture cannot be read or is refused.
    pub fn read(&self, model: &Model) -> Result<Vec<Arc<Picture>>> {
        if self.image.iter().filter(|path| is_stdin(path)).count() > 1 {
            return Err(CliError::usage("stdin holds one picture, but --image - is given twice"));
        }
        let mut piped = vec![];
        if self.take_stdin() {
            let most = model.image_reader()?.most_bytes() as u64;
            io::stdin().lock().take(most + 1).read_to_end(&mut piped).map_err(CliError::Input)?;
        }
        let named = |path: &Path| if is_stdin(path) { "stdin".into() } else { path.display().to_string() };
        let names: Vec<String> = self.image.iter().map(|path| named(path)).collect();
        let input = |path| if is_stdin(path) { ImageInput::Bytes(&piped) } else { ImageInput::File(path) };
        let read =
            model.read_images(names.iter().map(String::as_str).zip(self.image.iter().map(|p| input(p))))?;
        read.notes.iter().for_each(|line| note(line));
        Ok(read.images)
    }
}

/// Width and height, as in `1280x720`.
///
/// # Errors
/// What would be one.
pub fn pixels(text: &str) -> std::result::Result<(u32, u32), String> {
    let side = |text: &str| text.trim().parse::<u32>().ok().filter(|side| (1..=65_535).contains(side));
    let both = text.split_once(['x', 'X']).and_then(|(width, height)| Some((side(width)?, side(height)?)));
    both.ok_or_else(|| "must be width and height in pixels, such as 1280x720".into())
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

#[cfg(test)]
mod tests {
    use super::pixels;

    #[test]
    fn sizes_have_two_sides() {
        assert_eq!(pixels("1280x720"), Ok((1280, 720)));
        for wrong in ["", "1280", "0x5", "5x", "axb", "70000x1"] {
            assert!(pixels(wrong).is_err(), "{wrong}");
        }
    }
}
