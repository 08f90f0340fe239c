//! What becomes of the sectors that a power cut leaves undecided, as a seed says.
//!
//! Neighbours often share a fate: a disk writes out runs, not single sectors. How long the runs are, and how
//! much is kept, is drawn anew for each cut, so that many cuts see few long runs and many short ones.

use crate::rng::Rng;

/// What may become of undecided sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All are as before: the disk lost everything that it was not made to keep.
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

/// What became of one sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// As it was before the pending writes.
    Old,
    /// What it held after so many of its pending writes, counted from 1.
    Version(u32),
    /// Zeros.
    Zeros,
    /// Noise that this number begets.
    Noise(u64),
    /// So many bytes of what it held after its last pending write, and then what was there before.
    Shorn(u32),
}

impl Fate {
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

    /// Whether it is something that a disk never was told to hold.
    pub(crate) fn is_garbage(self) -> bool {
        self.number() < 0
    }
}

/// What a run of neighbours has in common.
#[derive(Clone, Copy)]
enum Lot {
    Old,
    Newest,
    AnyVersion,
    Zeros,
    Noise,
    Shorn,
}

/// Draws fates, sector after sector in the order of disks and offsets.
pub(crate) struct Fates {
    keep: Keep,
    rng: Rng,
    kept_of_16: u64,
    run_length_mean: u64,
    lot: Lot,
}

impl Fates {
    pub(crate) fn new(keep: Keep, seed: u64, at_ns: u64) -> Self {
        let mut rng = Rng::new(seed, at_ns);
        let kept_of_16 = rng.pick(&[1, 4, 8, 12, 15]);
        let run_length_mean = rng.pick(&[1, 2, 8, 32, 128]);
        Self {
            keep,
            rng,
            kept_of_16,
            run_length_mean,
            lot: Lot::Old,
        }
    }

    /// The fate of the next sector, of which there are `versions` pending; `neighbour` says whether it
    /// follows right upon the last one.
    pub(crate) fn draw(&mut self, versions: u32, sector_bytes: u32, neighbour: bool) -> Fate {
        match self.keep {
            Keep::None => return Fate::Old,
            Keep::All => return Fate::Version(versions),
            Keep::Subset | Keep::Garbage => {}
        }
        let mean = self.run_length_mean;
        if !(neighbour && self.rng.chance(mean - 1, mean)) {
            self.lot = self.draw_lot();
        }
        match self.lot {
            Lot::Old => Fate::Old,
            Lot::Newest => Fate::Version(versions),
            Lot::AnyVersion => match self.rng.below(u64::from(versions) + 1) as u32 {
                0 => Fate::Old,
                version => Fate::Version(version),
            },
            Lot::Zeros => Fate::Zeros,
            Lot::Noise => Fate::Noise(self.rng.next()),
            Lot::Shorn => Fate::Shorn(1 + self.rng.below(u64::from(sector_bytes) - 1) as u32),
        }
    }

    fn draw_lot(&mut self) -> Lot {
        if self.keep == Keep::Garbage && self.rng.chance(1, 8) {
            return self.rng.pick(&[Lot::Zeros, Lot::Noise, Lot::Shorn]);
        }
        if !self.rng.chance(self.kept_of_16, 16) {
            return Lot::Old;
        }
        if self.rng.chance(1, 4) {
            Lot::AnyVersion
        } else {
            Lot::Newest
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
