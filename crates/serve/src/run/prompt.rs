//! Prompts of a job: tokens, and the pictures whose rows take the places of some of them.

use lamina::image::Picture;
use std::sync::Arc;

/// A prompt as tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobPrompt {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Its pictures, in order.
    pub pictures: Vec<PromptPicture>,
}

/// A picture of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptPicture {
    /// Its place in the request, for errors.
    pub at: String,
    /// Its pixels.
    pub picture: Arc<Picture>,
    /// Tokens whose places its rows take.
    pub tokens: usize,
}

/// Pictures that an error names at most.
const MOST_NAMED: usize = 8;

impl From<Vec<u32>> for JobPrompt {
    fn from(tokens: Vec<u32>) -> JobPrompt {
        JobPrompt { tokens, pictures: vec![] }
    }
}

impl JobPrompt {
    /// Pixels of its pictures.
    pub fn images(&self) -> Vec<Arc<Picture>> {
        self.pictures.iter().map(|picture| picture.picture.clone()).collect()
    }

    /// Tokens whose places rows of pictures take.
    pub fn image_tokens(&self) -> usize {
        self.pictures.iter().map(|picture| picture.tokens).sum()
    }

    /// What its pictures take, in words: nothing where there are none.
    pub fn told(&self) -> String {
        let each = self.pictures.iter().take(MOST_NAMED);
        let each: Vec<String> = each.map(|picture| format!("{} {}", picture.at, picture.tokens)).collect();
        match self.pictures.len().saturating_sub(MOST_NAMED) {
            _ if each.is_empty() => String::new(),
            0 => format!(" (tokens of pictures: {})", each.join(", ")),
            more => format!(" (tokens of pictures: {}, and {more} more)", each.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamina::image::PixelSize;

    #[test]
    fn pictures_are_told_with_their_tokens() {
        let picture = Arc::new(Picture::new(PixelSize::square(1), vec![0; 3]).expect("a picture"));
        let of = |n: usize| JobPrompt {
            tokens: vec![],
            pictures: (0..n)
                .map(|i| PromptPicture { at: format!("[{i}]"), picture: picture.clone(), tokens: 9 })
                .collect(),
        };
        assert_eq!((of(0).told(), of(2).image_tokens()), (String::new(), 18));
        assert_eq!(of(2).told(), " (tokens of pictures: [0] 9, [1] 9)");
        assert!(of(10).told().ends_with("[7] 9, and 2 more)"));
    }
}
