//! Files of encoders beside language models, told by their names, as hubs and folders have them.

/// Types in such names, the one first that is taken of several: whoever wants a coarser or a larger one names it.
const TYPES: [&str; 4] = ["f16", "bf16", "q8_0", "f32"];

/// How soon the encoder (mmproj) in the GGUF file called `name` is taken of several, the lowest first; none for other files.
pub fn mmproj_rank(name: &str) -> Option<usize> {
    let name = name.to_ascii_lowercase();
    let is_one = name.contains("mmproj") && name.ends_with(".gguf");
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let has = |kind: &str| {
        let alone = |(at, _): (usize, &str)| {
            edge(name[..at].chars().next_back()) && edge(name[at + kind.len()..].chars().next())
        };
        name.match_indices(kind).any(alone)
    };
    is_one.then(|| TYPES.iter().position(|kind| has(kind)).unwrap_or(TYPES.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_words_of_names() {
        let names = [
            "mmproj-m-F16.gguf",
            "BF16.mmproj.gguf",
            "mmproj_q8_0.GGUF",
            "m-mmproj-f32.gguf",
            "mmproj-xf16y.gguf",
        ];
        assert_eq!(names.map(mmproj_rank), [Some(0), Some(1), Some(2), Some(3), Some(4)]);
        assert_eq!(["m-f16.gguf", "mmproj-f16.txt", ""].map(mmproj_rank), [None; 3]);
    }
}
