//! A power cut: the sectors that it left undecided, and the outcome of each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::error::BlackoutError;
use crate::image::Image;
use crate::outcome::{Keep, Outcome, Outcomes, noise};
use crate::recording::Recording;

/// A sector that is not durable at the time of the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sector {
    /// Which disk.
    pub disk: usize,
    /// Its first byte there.
    pub offset: u64,
    /// Number of pending writes that touch it.
    pub versions: u32,
    /// Its outcome.
    pub outcome: Outcome,
}

/// A cut in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutFacts {
    /// Time of the power cut.
    pub at_ns: u64,
    /// The seed that decided.
    pub seed: u64,
    /// Size of the sectors that are whole or not.
    pub sector_bytes: u32,
    /// Writes that were pending, on all disks.
    pub pending_writes: u64,
    /// Sectors that they touch.
    pub sectors: u64,
    /// Of these, sectors that hold something written.
    pub kept: u64,
    /// Of these, sectors that hold what was never written.
    pub garbage: u64,
}

/// A power cut.
#[derive(Clone)]
pub struct Cut {
    recording: Arc<Recording>,
    at_ns: u64,
    seed: u64,
    sector_bytes: u32,
    /// Of each disk, the pending writes by their places in the log.
    writes: Arc<Vec<Vec<usize>>>,
    sectors: Vec<Sector>,
}

impl Cut {
    pub(crate) fn new(
        recording: Arc<Recording>,
        at_ns: u64,
        seed: u64,
        sector_bytes: u32,
        keep: Keep,
    ) -> Self {
        let mut writes = Vec::new();
        let mut sectors = Vec::new();
        let mut outcomes = Outcomes::new(keep, seed, at_ns);
        for disk in 0..recording.disks.len() {
            let of_disk = recording.pending_writes(disk, at_ns);
            decide(
                &recording,
                disk,
                &of_disk,
                sector_bytes,
                &mut outcomes,
                &mut sectors,
            );
            writes.push(of_disk);
        }
        Self {
            recording,
            at_ns,
            seed,
            sector_bytes,
            writes: Arc::new(writes),
            sectors,
        }
    }

    /// The undecided sectors, by disk and offset.
    pub fn sectors(&self) -> &[Sector] {
        &self.sectors
    }

    /// The cut in numbers.
    pub fn facts(&self) -> CutFacts {
        let count = |is: fn(Outcome) -> bool| {
            self.sectors
                .iter()
                .filter(|sector| is(sector.outcome))
                .count() as u64
        };
        CutFacts {
            at_ns: self.at_ns,
            seed: self.seed,
            sector_bytes: self.sector_bytes,
            pending_writes: self.writes.iter().map(|of_disk| of_disk.len() as u64).sum(),
            sectors: self.sectors.len() as u64,
            kept: count(|outcome| outcome.number() > 0),
            garbage: count(Outcome::is_garbage),
        }
    }

    /// The same cut with these sectors, by their places in `sectors`, as they were before.
    pub fn without(&self, indices: &[usize]) -> Result<Self, BlackoutError> {
        let dropped = self.checked(indices)?;
        Ok(self.with_old(|at| dropped.contains(&at)))
    }

    /// The same cut with all other sectors as they were before.
    pub fn only(&self, indices: &[usize]) -> Result<Self, BlackoutError> {
        let kept = self.checked(indices)?;
        Ok(self.with_old(|at| !kept.contains(&at)))
    }

    fn checked(&self, indices: &[usize]) -> Result<BTreeSet<usize>, BlackoutError> {
        let count = self.sectors.len();
        if let Some(at) = indices.iter().find(|at| **at >= count) {
            let message = format!("there is no sector {at} in this cut, which has {count}");
            return Err(BlackoutError::new("cut-invalid", message));
        }
        Ok(indices.iter().copied().collect())
    }

    fn with_old(&self, is_old: impl Fn(usize) -> bool) -> Self {
        let mut cut = self.clone();
        for (at, sector) in cut.sectors.iter_mut().enumerate() {
            if is_old(at) {
                sector.outcome = Outcome::Old;
            }
        }
        cut
    }

    /// Puts a disk's sectors onto a copy of the rolling image as it is at the time of the cut.
    pub fn write(&self, disk: usize, image: &Path) -> Result<(), BlackoutError> {
        self.recording.disk(disk)?;
        let image = Image::open(image)?;
        let of_disk: Vec<Sector> = self.of_disk(disk).copied().collect();
        self.write_versions(disk, &of_disk, &image)?;
        self.write_garbage(&of_disk, &image)
    }

    fn of_disk(&self, disk: usize) -> impl Iterator<Item = &Sector> {
        self.sectors
            .iter()
            .filter(move |sector| sector.disk == disk)
    }

    /// Applies the pending writes in order, each only to the sectors that it reached.
    fn write_versions(
        &self,
        disk: usize,
        sectors: &[Sector],
        image: &Image<'_>,
    ) -> Result<(), BlackoutError> {
        let log = &self.recording.disk(disk)?.log;
        let size = u64::from(self.sector_bytes);
        let mut seen = vec![0; sectors.len()];
        let mut data = Vec::new();
        for write in &self.writes[disk] {
            let record = &log.records[*write];
            let (start, end) = (record.entry.offset, record.entry.end_offset());
            let first = sectors.partition_point(|sector| sector.offset + size <= start);
            let touched = sectors[first..]
                .iter()
                .take_while(|sector| sector.offset < end)
                .count();
            let mut pieces = Pieces::default();
            for at in first..first + touched {
                seen[at] += 1;
                let reach = reach(&sectors[at], seen[at], self.sector_bytes);
                let until = (sectors[at].offset + u64::from(reach)).min(end);
                pieces.add(sectors[at].offset.max(start), until);
            }
            if pieces.0.is_empty() {
                continue;
            }
            log.read_data(record, &mut data)?;
            for (from, until) in pieces.0 {
                let part = &data[(from - start) as usize..(until - start) as usize];
                image.write(part, from)?;
            }
        }
        Ok(())
    }

    fn write_garbage(&self, sectors: &[Sector], image: &Image<'_>) -> Result<(), BlackoutError> {
        let mut bytes = vec![0; self.sector_bytes as usize];
        for sector in sectors {
            match sector.outcome {
                Outcome::Zeros => bytes.fill(0),
                Outcome::Noise(seed) => noise(seed, &mut bytes),
                Outcome::Old | Outcome::Version(_) | Outcome::Shorn(_) => continue,
            }
            image.write(&bytes, sector.offset)?;
        }
        Ok(())
    }
}

/// Number of bytes of a sector that its `nth` pending write reached.
fn reach(sector: &Sector, nth: u32, sector_bytes: u32) -> u32 {
    match sector.outcome {
        Outcome::Version(version) if nth <= version => sector_bytes,
        Outcome::Shorn(bytes) => bytes,
        _ => 0,
    }
}

/// Ranges, of which those that touch are one.
#[derive(Default)]
struct Pieces(Vec<(u64, u64)>);

impl Pieces {
    fn add(&mut self, from: u64, until: u64) {
        match self.0.last_mut() {
            _ if from >= until => {}
            Some(last) if last.1 == from => last.1 = until,
            _ => self.0.push((from, until)),
        }
    }
}

/// Splits pending writes into sectors and draws an outcome for each.
fn decide(
    recording: &Recording,
    disk: usize,
    writes: &[usize],
    sector_bytes: u32,
    outcomes: &mut Outcomes,
    sectors: &mut Vec<Sector>,
) {
    let size = u64::from(sector_bytes);
    let mut versions: BTreeMap<u64, u32> = BTreeMap::new();
    for write in writes {
        let entry = &recording.disks[disk].log.records[*write].entry;
        for number in entry.offset / size..entry.end_offset().div_ceil(size) {
            *versions.entry(number).or_default() += 1;
        }
    }
    let mut last = None;
    for (number, versions) in versions {
        let neighbour = last.is_some_and(|last| last + 1 == number);
        last = Some(number);
        sectors.push(Sector {
            disk,
            offset: number * size,
            versions,
            outcome: outcomes.draw(versions, sector_bytes, neighbour),
        });
    }
}
