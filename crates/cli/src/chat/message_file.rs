//! Files of pictures and sounds that messages have; those that are dropped on a terminal, which writes their paths: in quotes,
//! or with backslashes before what shells read.

use serde_json::{Value, json};
use std::path::Path;

/// What a message has beside its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageFileKind {
    /// It shows a picture.
    Picture,
    /// It plays a sound.
    Sound,
}

/// A picture or a sound of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageFile {
    /// What it is.
    pub kind: MessageFileKind,
    /// Where it lies.
    pub path: String,
}

impl MessageFileKind {
    /// All of them.
    pub const ALL: [MessageFileKind; 2] = [MessageFileKind::Picture, MessageFileKind::Sound];

    /// Type of its parts, and the name of the field that holds the path.
    pub fn part(self) -> &'static str {
        match self {
            MessageFileKind::Picture => "image",
            MessageFileKind::Sound => "audio",
        }
    }

    /// Several of it, in messages.
    pub fn plural(self) -> &'static str {
        match self {
            MessageFileKind::Picture => "pictures",
            MessageFileKind::Sound => "sounds",
        }
    }

    /// Ends of the names of such files.
    fn ends(self) -> &'static [&'static str] {
        match self {
            MessageFileKind::Picture => &["png", "jpg", "jpeg", "webp", "gif", "bmp"],
            MessageFileKind::Sound => &["wav", "flac", "mp3", "ogg", "oga"],
        }
    }
}

impl MessageFile {
    /// It as a part of a message.
    pub fn part(&self) -> Value {
        let name = self.kind.part();
        json!({ "type": name, name: self.path })
    }
}

/// The picture or sound that a line is the path of, and nothing else.
pub fn dropped_file(line: &str) -> Option<MessageFile> {
    let path = dropped_path(line.trim())?;
    let end = Path::new(&path).extension()?.to_str()?.to_ascii_lowercase();
    let kind = MessageFileKind::ALL.into_iter().find(|kind| kind.ends().contains(&end.as_str()))?;
    Some(MessageFile { kind, path })
}

/// The file that a text is the path of, as a terminal writes it.
pub fn dropped_path(text: &str) -> Option<String> {
    let quoted = ['\'', '"'].iter().find_map(|&q| text.strip_prefix(q)?.strip_suffix(q));
    let plain = text.strip_prefix("file://").unwrap_or(text);
    let found = |path: &str| Path::new(path).is_file().then(|| path.to_owned());
    quoted.and_then(found).or_else(|| found(plain)).or_else(|| found(&unescaped(plain)))
}

/// Without the backslashes before characters that shells read.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        out.extend(if c == '\\' { rest.next() } else { Some(c) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn paths_are_read_as_terminals_write_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a picture.PNG");
        fs::write(&file, b"").unwrap();
        let path = file.to_str().unwrap().to_owned();
        for line in [path.clone(), format!("'{path}' "), format!("\"{path}\""), path.replace(' ', "\\ ")] {
            let picture = MessageFile { kind: MessageFileKind::Picture, path: path.clone() };
            assert_eq!(dropped_file(&line), Some(picture), "{line}");
        }
        let sound = dir.path().join("a.flac");
        fs::write(&sound, b"").unwrap();
        let kind = dropped_file(sound.to_str().unwrap()).map(|file| file.kind);
        assert_eq!(kind, Some(MessageFileKind::Sound));
        let text = dir.path().join("a.txt");
        fs::write(&text, b"").unwrap();
        for line in
            [format!("{path} what is it?"), text.to_str().unwrap().into(), "/image".into(), "a.png".into()]
        {
            assert_eq!(dropped_file(&line), None, "{line}");
        }
    }
}
