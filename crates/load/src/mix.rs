//! A group's mix of scripts: which one a transaction executes, by chance and weight.

use crate::script::Rng;

/// Scripts by number, with their weights.
#[derive(Debug, Clone)]
pub struct Mix {
    weights: Vec<u32>,
    total: u64,
}

impl Mix {
    /// Of scripts with these weights, which are not all 0.
    #[must_use]
    pub fn new(weights: Vec<u32>) -> Self {
        let total = weights.iter().copied().map(u64::from).sum();
        Self { weights, total }
    }

    /// Number of scripts.
    #[must_use]
    pub fn scripts(&self) -> usize {
        self.weights.len()
    }

    /// The number of a script. Where there is but one, nothing is left to chance.
    pub fn draw(&self, rng: &mut Rng) -> usize {
        if self.weights.len() < 2 {
            return 0;
        }
        let most = self.total.cast_signed() - 1;
        let mut draw = rng.range(0, most).cast_unsigned();
        for (number, weight) in self.weights.iter().enumerate() {
            match draw.checked_sub(u64::from(*weight)) {
                Some(rest) => draw = rest,
                None => return number,
            }
        }
        self.weights.len() - 1
    }
}
