//! The random seeds of a group's clients.
//!
//! As in pgbench with `--random-seed`: one generator is made from the seed; in order, it gives each
//! client the seed of its own, then `:default_seed`. So the first group's clients draw the numbers
//! that pgbench's clients draw. What pgbench gives its first thread to choose scripts with comes
//! next; here each client chooses by itself, and the first of them as pgbench does with one client.

use crate::script::Rng;

/// Seeds of one group.
#[derive(Debug)]
pub struct Seeds {
    base: u64,
    /// By client: of its expressions, and of its choices of scripts.
    clients: Vec<(u64, u64)>,
    default_seed: Option<u64>,
}

impl Seeds {
    /// For a group by number, with so many clients. Another group's clients draw other numbers.
    #[must_use]
    pub fn new(seed: u64, group: usize, clients: u32, has_default_seed: bool) -> Self {
        let base = seed ^ 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(group as u64);
        let mut rng = Rng::new(base);
        let expressions: Vec<u64> = (0..clients).map(|_| rng.next_u64()).collect();
        let default_seed = (!has_default_seed).then(|| rng.next_u64());
        let choices = expressions.iter().map(|_| rng.next_u64());
        Self {
            base,
            clients: expressions.iter().copied().zip(choices).collect(),
            default_seed,
        }
    }

    /// Value of `:default_seed`, unless the user defines it.
    #[must_use]
    pub fn default_seed(&self) -> Option<i64> {
        self.default_seed.map(u64::cast_signed)
    }

    /// The generators of a client: for expressions, and for choosing scripts. A client that was not
    /// planned for has them too.
    #[must_use]
    pub fn client(&self, id: u32) -> (Rng, Rng) {
        let planned = self.clients.get(id as usize).copied();
        let (expressions, choices) = planned.unwrap_or_else(|| {
            let mut rng = Rng::new(self.base ^ (u64::from(id) << 20));
            (rng.next_u64(), rng.next_u64())
        });
        (Rng::new(expressions), Rng::new(choices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_draw_apart_and_the_same_again() {
        let seeds = Seeds::new(7, 0, 3, false);
        let first = |seeds: &Seeds, id| seeds.client(id).0.next_u64();
        let drawn: Vec<u64> = (0..5).map(|id| first(&seeds, id)).collect();
        for (id, draw) in drawn.iter().enumerate() {
            assert_eq!(drawn.iter().filter(|other| *other == draw).count(), 1);
            assert_eq!(
                first(&Seeds::new(7, 0, 3, false), u32::try_from(id).expect("few")),
                *draw
            );
        }
        assert_ne!(first(&Seeds::new(7, 1, 3, false), 0), drawn[0]);
        assert_ne!(first(&Seeds::new(8, 0, 3, false), 0), drawn[0]);
    }

    #[test]
    fn a_default_seed_from_outside_is_not_drawn() {
        let (drawn, given) = (Seeds::new(7, 0, 1, false), Seeds::new(7, 0, 1, true));
        assert_eq!(given.default_seed(), None);
        let choice = given.client(0).1.next_u64();
        let default_seed = drawn.default_seed().expect("drawn").cast_unsigned();
        assert_eq!(choice, Rng::new(default_seed).next_u64());
    }
}
