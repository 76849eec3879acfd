//! Files that are dropped on a terminal, which writes their paths: in quotes, or with backslashes before what shells read.

use std::path::Path;

/// Ends of the names of pictures.
const ENDS: [&str; 6] = ["png", "jpg", "jpeg", "webp", "gif", "bmp"];

/// The picture that a line is the path of, and nothing else.
pub fn dropped_picture(line: &str) -> Option<String> {
    let path = dropped_path(line.trim())?;
    let end = Path::new(&path).extension()?.to_str()?.to_ascii_lowercase();
    ENDS.contains(&end.as_str()).then_some(path)
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
            assert_eq!(dropped_picture(&line), Some(path.clone()), "{line}");
        }
        let text = dir.path().join("a.txt");
        fs::write(&text, b"").unwrap();
        for line in
            [format!("{path} what is it?"), text.to_str().unwrap().into(), "/image".into(), "a.png".into()]
        {
            assert_eq!(dropped_picture(&line), None, "{line}");
        }
    }
}
