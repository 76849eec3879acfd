//! Ids of answers and calls.

use super::draws::id_bits;

/// `prefix` and 24 letters and digits that nobody can guess.
pub fn fresh(prefix: &str) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let [mut a, mut b] = [id_bits(), id_bits()];
    let letter = |n: &mut u128| {
        let at = (*n % 62) as usize;
        *n /= 62;
        char::from(ALPHABET[at])
    };
    let letters: String = (0..12).flat_map(|_| [letter(&mut a), letter(&mut b)]).collect();
    format!("{prefix}{letters}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_have_24_letters_and_differ() {
        let (a, b) = (super::fresh("cmpl-"), super::fresh("cmpl-"));
        assert!(a.starts_with("cmpl-") && a.len() == 29 && a != b);
        assert!(a[5..].chars().all(|c| c.is_ascii_alphanumeric()));
    }
}
