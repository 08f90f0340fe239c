//! The log of a disk: its bytes.
//!
//! ```text
//! header, 32 bytes     "pgdynolg" · version u32 · bytes of the header u32 · size of the disk u64 · opened_ns u64
//! record, 48 bytes     magic u32 · kind u32 · start_ns u64 · end_ns u64 · offset u64 · length u64 ·
//!                      CRC-32 of the data u32 · CRC-32 of the 44 bytes before u32
//! data                 `length` bytes, after a record of kind write only
//! ```
//!
//! All numbers are little-endian. Kinds: 1 write, 2 zeroed, 3 flush, 4 end of the recording. Records are in
//! the order of their `end_ns`. A log whose writer was killed can end anywhere: what follows the last whole
//! record is ignored.

use std::io::{self, Write};

const MAGIC: &[u8; 8] = b"pgdynolg";
const VERSION: u32 = 1;
const RECORD_MAGIC: u32 = 0x5244_4750;
/// Bytes of the log's header.
pub(crate) const HEADER_BYTES: usize = 32;
/// Bytes of a record without its data.
pub(crate) const RECORD_BYTES: usize = 48;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Data written.
    Write,
    /// A range that reads as zeros from now on (discarded, or zeroed).
    Zero,
    /// Everything that was written before it began is durable once it has ended.
    Flush,
    /// The recording was ended on purpose.
    End,
}

impl Kind {
    fn code(self) -> u32 {
        match self {
            Self::Write => 1,
            Self::Zero => 2,
            Self::Flush => 3,
            Self::End => 4,
        }
    }

    fn of(code: u32) -> Option<Self> {
        [Self::Write, Self::Zero, Self::Flush, Self::End]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// An event of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its kind.
    pub kind: Kind,
    /// Start on the disk.
    pub start_ns: u64,
    /// End, just before the answer.
    pub end_ns: u64,
    /// Offset on the disk, in bytes.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Entry {
    /// True if it is a write or a range zeroed.
    pub fn writes(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::Zero)
    }

    /// The first byte after it.
    pub(crate) fn end_offset(&self) -> u64 {
        self.offset + self.length
    }
}

/// The log's header.
pub(crate) struct Header {
    pub disk_bytes: u64,
    pub opened_ns: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.disk_bytes.to_le_bytes());
        bytes[24..].copy_from_slice(&self.opened_ns.to_le_bytes());
        bytes
    }

    /// The header, or what is wrong with it.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, String> {
        if &bytes[..8] != MAGIC {
            return Err("it is not the log of a recording disk".into());
        }
        match u32_at(bytes, 8) {
            VERSION => Ok(Self {
                disk_bytes: u64_at(bytes, 16),
                opened_ns: u64_at(bytes, 24),
            }),
            other => Err(format!(
                "its format is version {other}, and this pgdyno reads version {VERSION}"
            )),
        }
    }
}

/// A record and its data's checksum; `data_crc` is of no meaning where there is no data.
pub(crate) fn encode(entry: &Entry, data_crc: u32) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..4].copy_from_slice(&RECORD_MAGIC.to_le_bytes());
    bytes[4..8].copy_from_slice(&entry.kind.code().to_le_bytes());
    let numbers = [entry.start_ns, entry.end_ns, entry.offset, entry.length];
    for (slot, number) in bytes[8..40].chunks_exact_mut(8).zip(numbers) {
        slot.copy_from_slice(&number.to_le_bytes());
    }
    bytes[40..44].copy_from_slice(&data_crc.to_le_bytes());
    let own_crc = crc32fast::hash(&bytes[..44]);
    bytes[44..].copy_from_slice(&own_crc.to_le_bytes());
    bytes
}

/// The record and its data's checksum; `None` where the bytes are not a whole record.
pub(crate) fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<(Entry, u32)> {
    let whole =
        u32_at(bytes, 0) == RECORD_MAGIC && u32_at(bytes, 44) == crc32fast::hash(&bytes[..44]);
    let kind = Kind::of(u32_at(bytes, 4)).filter(|_| whole)?;
    let entry = Entry {
        kind,
        start_ns: u64_at(bytes, 8),
        end_ns: u64_at(bytes, 16),
        offset: u64_at(bytes, 24),
        length: u64_at(bytes, 32),
    };
    Some((entry, u32_at(bytes, 40)))
}

/// Number of bytes of data that follow a record.
pub(crate) fn data_bytes(entry: &Entry) -> u64 {
    if entry.kind == Kind::Write {
        entry.length
    } else {
        0
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4]
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8]
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Writes a log record by record, without a thread of its own.
#[derive(Debug)]
pub struct LogWriter<W: Write>(W);

impl<W: Write> LogWriter<W> {
    /// Begins a log.
    pub fn new(mut out: W, disk_bytes: u64, opened_ns: u64) -> io::Result<Self> {
        let header = Header {
            disk_bytes,
            opened_ns,
        };
        out.write_all(&header.encode())?;
        Ok(Self(out))
    }

    /// Appends a record; `data` is empty unless it is a write.
    pub fn append(&mut self, entry: &Entry, data: &[u8]) -> io::Result<()> {
        self.0.write_all(&encode(entry, crc32fast::hash(data)))?;
        self.0.write_all(data)
    }

    /// Returns the underlying writer.
    pub fn into_inner(self) -> W {
        self.0
    }
}
