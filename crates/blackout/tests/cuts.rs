//! Logs and cuts against an independent model that derives the possible outcomes of every write and every
//! sector by itself, without prefixes, indexes or rolling images.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File, OpenOptions};
use std::iter;
use std::path::{Path, PathBuf};

use pgdyno_blackout::{Cut, DiskLogs, Entry, Keep, Kind, LogWriter, Outcome, Why};
use proptest::prelude::*;
use tempfile::TempDir;

const DISK_BYTES: u64 = 32 << 10;
const BASE: u8 = 0xEE;

/// Events of one disk, in the order of their ends.
#[derive(Debug, Clone)]
struct History(Vec<Entry>);

/// Content of the nth write: a byte of its own.
fn value(history: &History, nth: usize) -> u8 {
    match history.0[nth].kind {
        Kind::Zero => 0,
        _ => nth as u8 + 1,
    }
}

impl History {
    fn durable(&self, write: &Entry, at_ns: u64) -> bool {
        self.0.iter().any(|flush| {
            flush.kind == Kind::Flush && flush.end_ns <= at_ns && write.end_ns <= flush.start_ns
        })
    }

    fn writes(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.writes())
    }

    /// The whole disk after the durable writes, and then after each pending one in turn.
    fn states(&self, at_ns: u64) -> Vec<(Option<&Entry>, Vec<u8>)> {
        let mut disk = vec![BASE; DISK_BYTES as usize];
        let put = |disk: &mut Vec<u8>, nth: usize, entry: &Entry| {
            let range = entry.offset as usize..(entry.offset + entry.length) as usize;
            disk[range].fill(value(self, nth));
        };
        for (nth, entry) in self
            .writes()
            .filter(|(_, entry)| self.durable(entry, at_ns))
        {
            put(&mut disk, nth, entry);
        }
        let mut states = vec![(None, disk.clone())];
        for (nth, entry) in self.writes() {
            if entry.start_ns <= at_ns && !self.durable(entry, at_ns) {
                put(&mut disk, nth, entry);
                states.push((Some(entry), disk.clone()));
            }
        }
        states
    }

    fn pending(&self, at_ns: u64) -> (u64, u64) {
        let states = self.states(at_ns);
        let writes = states.iter().filter_map(|(entry, _)| *entry);
        writes.fold((0, 0), |(count, bytes), entry| {
            (count + 1, bytes + entry.length)
        })
    }
}

fn touches(entry: &Entry, sector: usize, sector_bytes: usize) -> bool {
    let (from, until) = (sector * sector_bytes, (sector + 1) * sector_bytes);
    (entry.offset as usize) < until && (entry.offset + entry.length) as usize > from
}

fn entry() -> impl Strategy<Value = Entry> {
    let kinds = prop_oneof![
        6 => Just(Kind::Write),
        1 => Just(Kind::Zero),
        2 => Just(Kind::Flush),
    ];
    (kinds, 100..1000u64, 0..60u64, 0..64u64, 1..24u64).prop_map(
        |(kind, start_ns, lasts_ns, sector, sectors)| {
            let writes = kind != Kind::Flush;
            let sectors = sectors.min(64 - sector);
            Entry {
                kind,
                start_ns,
                end_ns: start_ns + lasts_ns,
                offset: if writes { sector * 512 } else { 0 },
                length: if writes { sectors * 512 } else { 0 },
            }
        },
    )
}

fn history() -> impl Strategy<Value = History> {
    prop::collection::vec(entry(), 0..60).prop_map(|mut entries| {
        entries.sort_by_key(|entry| entry.end_ns);
        entries.push(Entry {
            kind: Kind::End,
            start_ns: 1200,
            end_ns: 1200,
            offset: 0,
            length: 0,
        });
        History(entries)
    })
}

/// The logs and base images of some disks.
struct Recorded {
    directory: TempDir,
    histories: Vec<History>,
    logs: DiskLogs,
}

impl Recorded {
    fn new(histories: Vec<History>) -> Self {
        let directory = TempDir::new().expect("a directory");
        let paths: Vec<PathBuf> = (0..histories.len())
            .map(|disk| directory.path().join(format!("log{disk}")))
            .collect();
        for (path, history) in paths.iter().zip(&histories) {
            write_log(path, history);
        }
        let logs = DiskLogs::open(&paths).expect("logs that were just written");
        Self {
            directory,
            histories,
            logs,
        }
    }

    /// A rolling image that is as the base.
    fn image(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, vec![BASE; DISK_BYTES as usize]).unwrap();
        path
    }

    /// The disk as a cut leaves it, without any rolling.
    fn cut_image(&self, disk: usize, cut: &Cut) -> Vec<u8> {
        let path = self.image("cut");
        self.logs.advance(disk, &path, cut.facts().at_ns).unwrap();
        cut.write(disk, &path).unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        bytes
    }
}

fn write_log(path: &Path, history: &History) {
    let mut log = LogWriter::new(File::create(path).unwrap(), DISK_BYTES, 50).unwrap();
    for (nth, entry) in history.0.iter().enumerate() {
        let data = match entry.kind {
            Kind::Write => vec![value(history, nth); entry.length as usize],
            _ => vec![],
        };
        log.append(entry, &data).unwrap();
    }
}

fn at() -> impl Strategy<Value = u64> {
    50..=1200u64
}

fn sectors() -> impl Strategy<Value = u32> {
    prop_oneof![Just(512u32), Just(4096u32)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn nothing_kept_and_all_kept_are_the_extremes(
        one in history(), at_ns in at(), seed: u64, sector_bytes in sectors()
    ) {
        let recorded = Recorded::new(vec![one.clone()]);
        let states = one.states(at_ns);
        let none = recorded.logs.cut(at_ns, seed, sector_bytes, Keep::None).unwrap();
        prop_assert_eq!(&recorded.cut_image(0, &none), &states[0].1);
        let recorded = Recorded::new(vec![one.clone()]);
        let all = recorded.logs.cut(at_ns, seed, sector_bytes, Keep::All).unwrap();
        prop_assert_eq!(&recorded.cut_image(0, &all), &states[states.len() - 1].1);
    }

    #[test]
    fn a_sector_holds_what_was_durable_or_something_pending(
        one in history(), at_ns in at(), seed: u64, sector_bytes in sectors(), garbage: bool
    ) {
        let keep = if garbage { Keep::Garbage } else { Keep::Subset };
        let recorded = Recorded::new(vec![one.clone()]);
        let cut = recorded.logs.cut(at_ns, seed, sector_bytes, keep).unwrap();
        let image = recorded.cut_image(0, &cut);
        let states = one.states(at_ns);
        let size = sector_bytes as usize;
        for (sector, held) in image.chunks(size).enumerate() {
            let range = sector * size..(sector + 1) * size;
            let touching: Vec<&Vec<u8>> = states
                .iter()
                .filter(|(entry, _)| entry.is_none_or(|it| touches(it, sector, size)))
                .map(|(_, disk)| disk)
                .collect();
            let listed = cut.sectors().iter().find(|it| it.offset == range.start as u64);
            prop_assert_eq!(listed.map_or(0, |it| it.versions as usize), touching.len() - 1);
            let as_after = |n: usize| held == &touching[n][range.clone()];
            match listed.map_or(Outcome::Old, |it| it.outcome) {
                Outcome::Old => prop_assert!(as_after(0)),
                Outcome::Version(n) => prop_assert!(as_after(n as usize)),
                Outcome::Zeros => prop_assert!(garbage && held.iter().all(|byte| *byte == 0)),
                Outcome::Noise(_) => prop_assert!(garbage),
                Outcome::Shorn(bytes) => {
                    let (new, old) = held.split_at(bytes as usize);
                    prop_assert!(garbage && bytes > 0 && bytes < sector_bytes);
                    prop_assert_eq!(new, &touching[touching.len() - 1][range.clone()][..new.len()]);
                    prop_assert_eq!(old, &touching[0][range.clone()][new.len()..]);
                }
            }
        }
    }

    #[test]
    fn the_same_seed_is_the_same_cut_on_all_disks(
        one in history(), two in history(), at_ns in at(), seed: u64, sector_bytes in sectors()
    ) {
        let first = Recorded::new(vec![one.clone(), two.clone()]);
        let again = Recorded::new(vec![one, two]);
        let cuts = [&first, &again]
            .map(|it| it.logs.cut(at_ns, seed, sector_bytes, Keep::Garbage).unwrap());
        prop_assert_eq!(cuts[0].sectors(), cuts[1].sectors());
        prop_assert_eq!(cuts[0].facts(), cuts[1].facts());
        for disk in 0..2 {
            prop_assert_eq!(first.cut_image(disk, &cuts[0]), again.cut_image(disk, &cuts[1]));
        }
    }

    #[test]
    fn a_rolling_image_never_loses_what_was_flushed(
        one in history(), mut times in prop::collection::vec(at(), 1..8)
    ) {
        times.sort_unstable();
        let recorded = Recorded::new(vec![one.clone()]);
        let image = recorded.image("rolling");
        for at_ns in &times {
            recorded.logs.advance(0, &image, *at_ns).unwrap();
            prop_assert_eq!(&fs::read(&image).unwrap(), &one.states(*at_ns)[0].1);
        }
    }

    #[test]
    fn subsets_of_a_cut_only_take_sectors_back(
        one in history(), at_ns in at(), seed: u64, chosen: u64
    ) {
        let recorded = Recorded::new(vec![one]);
        let cut = recorded.logs.cut(at_ns, seed, 512, Keep::Garbage).unwrap();
        let count = cut.sectors().len();
        let (some, others): (Vec<usize>, Vec<usize>) =
            (0..count).partition(|at| chosen.rotate_left(*at as u32) & 1 == 1);
        let only = cut.only(&some).unwrap();
        let without = cut.without(&others).unwrap();
        prop_assert_eq!(only.sectors(), without.sectors());
        for (at, sector) in only.sectors().iter().enumerate() {
            let outcome = if some.contains(&at) { cut.sectors()[at].outcome } else { Outcome::Old };
            prop_assert_eq!(sector.outcome, outcome);
        }
        prop_assert!(cut.only(&[count]).is_err());
    }

    #[test]
    fn ranked_times_are_in_order_and_count_what_is_pending(
        one in history(), two in history(), count in 0..40usize, seed: u64,
        marks in prop::collection::vec(at(), 0..3)
    ) {
        let recorded = Recorded::new(vec![one, two]);
        let times = recorded.logs.ranked(count, seed, &marks);
        prop_assert_eq!(&times, &recorded.logs.ranked(count, seed, &marks));
        prop_assert!(times.len() <= count);
        prop_assert!(times.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns));
        for time in times {
            prop_assert!((50..=1200).contains(&time.at_ns));
            let of_disks = recorded.histories.iter().map(|it| it.pending(time.at_ns));
            let sum = of_disks.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
            prop_assert_eq!((time.pending_writes, time.pending_bytes), sum);
        }
    }

    #[test]
    fn a_torn_log_ends_with_its_last_whole_record(one in history(), left_of_1000 in 0..1000u64) {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("log");
        write_log(&path, &one);
        let whole = fs::metadata(&path).unwrap().len();
        let left = 32 + (whole - 32) * left_of_1000 / 1000;
        OpenOptions::new().write(true).open(&path).unwrap().set_len(left).unwrap();
        let logs = DiskLogs::open(&[&path]).unwrap();
        let facts = logs.facts()[0];
        let record_bytes = |entry: &Entry| {
            48 + if entry.kind == Kind::Write { entry.length } else { 0 }
        };
        let mut fits = 32;
        let there: Vec<&Entry> = one.0.iter().take_while(|entry| {
            fits += record_bytes(entry);
            fits <= left
        }).collect();
        prop_assert!(facts.torn);
        prop_assert_eq!(facts.writes, there.iter().filter(|it| it.writes()).count() as u64);
        prop_assert_eq!(facts.last_ns, there.last().map_or(50, |it| it.end_ns));
    }

    #[test]
    fn a_changed_byte_never_makes_up_a_record(one in history(), place in 0..1000usize, bit in 0..8u8) {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("log");
        write_log(&path, &one);
        let mut bytes = fs::read(&path).unwrap();
        let at = 32 + (bytes.len() - 32) * place / 1000;
        bytes[at] ^= 1 << bit;
        fs::write(&path, &bytes).unwrap();
        let image = directory.path().join("image");
        fs::write(&image, vec![BASE; DISK_BYTES as usize]).unwrap();
        let logs = DiskLogs::open(&[&path]).unwrap();
        let last_ns = logs.facts()[0].last_ns;
        // Whatever is read is what was written; what is not is an error, or the torn end.
        if logs.advance(0, &image, last_ns).is_ok() {
            let flushes = one.0.iter().filter(|it| it.kind == Kind::Flush).map(|it| it.end_ns);
            let mut durable = iter::once(0).chain(flushes).map(|at_ns| one.states(at_ns).swap_remove(0).1);
            let held = fs::read(&image).unwrap();
            prop_assert!(durable.any(|disk| disk == held));
        }
    }
}

/// Flushes of 10 ns, 100 ns apart, the nth after `writes(n)` writes.
fn flushes_after(count: u64, writes: impl Fn(u64) -> u64) -> History {
    let mut entries = Vec::new();
    for nth in 0..count {
        let start_ns = 200 + nth * 100;
        entries.extend((0..writes(nth)).map(|at| Entry {
            kind: Kind::Write,
            start_ns: start_ns - 50 + at,
            end_ns: start_ns - 49 + at,
            offset: at * 512,
            length: 512,
        }));
        entries.push(Entry {
            kind: Kind::Flush,
            start_ns,
            end_ns: start_ns + 10,
            offset: 0,
            length: 0,
        });
    }
    History(entries)
}

#[test]
fn ranked_times_are_those_that_matter() {
    let history = flushes_after(40, |nth| if nth % 10 == 3 { 40 } else { nth % 3 });
    let recorded = Recorded::new(vec![history]);
    let marks = [777, 1234, 99_999];
    let times = recorded.logs.ranked(32, 5, &marks);
    assert_eq!(times.len(), 32);
    let of = |why: Why| -> Vec<u64> {
        let times = times.iter().filter(|time| time.why == why);
        times.map(|time| time.at_ns).collect()
    };
    for most_pending in [3, 13, 23, 33] {
        assert!(of(Why::Pending).contains(&(200 + most_pending * 100 + 9)));
    }
    // The last mark lies outside of the recording.
    assert!(marks[..2].iter().all(|mark| of(Why::Mark).contains(mark)));
    let edges = of(Why::FlushEdge);
    assert!(edges.iter().all(|at_ns| at_ns % 100 <= 10));
    assert!(edges.last() > edges.first());
    assert_eq!((of(Why::Pending).len(), edges.len()), (20, 4));
    // Where nothing is pending a cut shows little; only the marks lie where they lie.
    let empty = times.iter().filter(|time| time.pending_writes == 0);
    assert!(
        empty.clone().count() <= times.len() / 4,
        "{:?}",
        empty.collect::<Vec<_>>()
    );
    assert!(!of(Why::Random).is_empty());
    assert_ne!(times, recorded.logs.ranked(32, 6, &marks));
}

#[test]
fn seeds_keep_more_or_less_and_in_runs() {
    let recorded = Recorded::new(vec![flushes_after(1, |_| 40)]);
    let shares: Vec<u64> = (0..40)
        .map(|seed| {
            recorded
                .logs
                .cut(209, seed, 512, Keep::Subset)
                .unwrap()
                .facts()
                .kept
        })
        .collect();
    assert!(shares.iter().any(|kept| *kept <= 5) && shares.iter().any(|kept| *kept >= 35));
    let garbage = |seed| {
        recorded
            .logs
            .cut(209, seed, 512, Keep::Garbage)
            .unwrap()
            .facts()
            .garbage
    };
    assert!((0..40).map(garbage).sum::<u64>() > 0);
}

#[test]
fn a_damaged_record_is_told_from_a_torn_end() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("log");
    let write = |end_ns| Entry {
        kind: Kind::Write,
        start_ns: end_ns - 1,
        end_ns,
        offset: 0,
        length: 512,
    };
    write_log(&path, &History(vec![write(100), write(200), write(300)]));
    let mut bytes = fs::read(&path).unwrap();
    // The data of the last is damaged: it counts as torn. That of the first is not forgiven.
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    bytes[32 + 48] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let logs = DiskLogs::open(&[&path]).unwrap();
    assert_eq!((logs.facts()[0].writes, logs.facts()[0].torn), (2, true));
    let image = directory.path().join("image");
    fs::write(&image, vec![BASE; DISK_BYTES as usize]).unwrap();
    let cut = logs.cut(150, 1, 512, Keep::All).unwrap();
    let error = cut.write(0, &image).unwrap_err();
    assert!(error.message.contains("not what was logged"), "{error}");
}

#[test]
fn what_cannot_be_asked_is_an_error() {
    let nothing = History(vec![Entry {
        kind: Kind::End,
        start_ns: 90,
        end_ns: 90,
        offset: 0,
        length: 0,
    }]);
    let recorded = Recorded::new(vec![nothing]);
    let image = recorded.image("rolling");
    assert!(recorded.logs.cut(49, 1, 512, Keep::All).is_err());
    assert!(recorded.logs.cut(91, 1, 512, Keep::All).is_err());
    assert!(recorded.logs.cut(60, 1, 1024, Keep::All).is_err());
    assert!(recorded.logs.advance(1, &image, 60).is_err());
    let other = recorded.directory.path().join("other");
    fs::write(&other, b"0123456789012345678901234567890123456789").unwrap();
    let error = DiskLogs::open(&[&other]).err().unwrap();
    assert!(
        error.message.contains("not the log of a recording disk"),
        "{error}"
    );
    assert!(DiskLogs::open::<&Path>(&[]).is_err());
}

#[test]
fn a_rolling_image_does_not_go_back() {
    let flush = |start_ns| Entry {
        kind: Kind::Flush,
        start_ns,
        end_ns: start_ns + 10,
        offset: 0,
        length: 0,
    };
    let recorded = Recorded::new(vec![History(vec![flush(100), flush(200), flush(300)])]);
    let image = recorded.image("rolling");
    recorded.logs.advance(0, &image, 250).unwrap();
    recorded.logs.advance(0, &image, 250).unwrap();
    assert!(recorded.logs.advance(0, &image, 150).is_err());
}
