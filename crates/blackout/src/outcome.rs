//! The outcome of the sectors that a power cut leaves undecided, determined by a seed.
//!
//! Neighbours often share an outcome: a disk writes out runs, not single sectors. The length of the runs, and
//! the share that is kept, are drawn for each cut, so that many cuts include both few long runs and many
//! short ones.

use crate::rng::Rng;

/// The possible outcomes of undecided sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All are as before: the disk lost everything that was not flushed.
    None,
    /// All hold what was written last.
    All,
    /// Each is as before, or holds one of the things written.
    Subset,
    /// The same, or it holds zeros, noise, or the beginning of what was written.
    Garbage,
}

impl Keep {
    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "none" => Self::None,
            "all" => Self::All,
            "subset" => Self::Subset,
            "garbage" => Self::Garbage,
            _ => return None,
        })
    }
}

/// The outcome of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// As it was before the pending writes.
    Old,
    /// Its content after this many of its pending writes, counted from 1.
    Version(u32),
    /// Zeros.
    Zeros,
    /// Noise, generated from this seed.
    Noise(u64),
    /// This many bytes of its content after the last pending write, followed by the content before.
    Shorn(u32),
}

impl Outcome {
    /// 0 for old, the number of a version, or -1 zeros, -2 noise, -3 shorn.
    pub fn number(self) -> i64 {
        match self {
            Self::Old => 0,
            Self::Version(version) => i64::from(version),
            Self::Zeros => -1,
            Self::Noise(_) => -2,
            Self::Shorn(_) => -3,
        }
    }

    /// True if it was never written to the disk.
    pub(crate) fn is_garbage(self) -> bool {
        self.number() < 0
    }
}

/// The common outcome of a run of neighbours.
#[derive(Clone, Copy)]
enum RunOutcome {
    Old,
    Newest,
    AnyVersion,
    Zeros,
    Noise,
    Shorn,
}

/// Draws outcomes, sector by sector in the order of disks and offsets.
pub(crate) struct Outcomes {
    keep: Keep,
    rng: Rng,
    kept_of_16: u64,
    run_length_mean: u64,
    run: RunOutcome,
}

impl Outcomes {
    pub(crate) fn new(keep: Keep, seed: u64, at_ns: u64) -> Self {
        let mut rng = Rng::new(seed, at_ns);
        let kept_of_16 = rng.pick(&[1, 4, 8, 12, 15]);
        let run_length_mean = rng.pick(&[1, 2, 8, 32, 128]);
        Self {
            keep,
            rng,
            kept_of_16,
            run_length_mean,
            run: RunOutcome::Old,
        }
    }

    /// The outcome of the next sector, of which there are `versions` pending; `neighbour` says whether it
    /// follows right upon the last one.
    pub(crate) fn draw(&mut self, versions: u32, sector_bytes: u32, neighbour: bool) -> Outcome {
        match self.keep {
            Keep::None => return Outcome::Old,
            Keep::All => return Outcome::Version(versions),
            Keep::Subset | Keep::Garbage => {}
        }
        let mean = self.run_length_mean;
        if !(neighbour && self.rng.chance(mean - 1, mean)) {
            self.run = self.draw_run();
        }
        match self.run {
            RunOutcome::Old => Outcome::Old,
            RunOutcome::Newest => Outcome::Version(versions),
            RunOutcome::AnyVersion => match self.rng.below(u64::from(versions) + 1) as u32 {
                0 => Outcome::Old,
                version => Outcome::Version(version),
            },
            RunOutcome::Zeros => Outcome::Zeros,
            RunOutcome::Noise => Outcome::Noise(self.rng.next()),
            RunOutcome::Shorn => {
                Outcome::Shorn(1 + self.rng.below(u64::from(sector_bytes) - 1) as u32)
            }
        }
    }

    fn draw_run(&mut self) -> RunOutcome {
        if self.keep == Keep::Garbage && self.rng.chance(1, 8) {
            return self
                .rng
                .pick(&[RunOutcome::Zeros, RunOutcome::Noise, RunOutcome::Shorn]);
        }
        if !self.rng.chance(self.kept_of_16, 16) {
            return RunOutcome::Old;
        }
        if self.rng.chance(1, 4) {
            RunOutcome::AnyVersion
        } else {
            RunOutcome::Newest
        }
    }
}

/// Fills a sector with noise.
pub(crate) fn noise(seed: u64, sector: &mut [u8]) {
    let mut rng = Rng::new(seed, 0);
    for word in sector.chunks_mut(8) {
        let bytes = rng.next().to_le_bytes();
        word.copy_from_slice(&bytes[..word.len()]);
    }
}
