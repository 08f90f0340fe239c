//! A log read back: an index in memory, the data left in the file.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{BlackoutError, failed};
use crate::format::{Entry, HEADER_BYTES, Header, Kind, RECORD_BYTES, data_bytes, decode};

/// A record and the position of its data in the log.
pub(crate) struct Indexed {
    pub entry: Entry,
    position: u64,
    data_crc: u32,
}

/// The log of one disk.
pub(crate) struct DiskLog {
    path: PathBuf,
    file: File,
    pub disk_bytes: u64,
    pub opened_ns: u64,
    /// In the order of their ends.
    pub records: Vec<Indexed>,
    /// True if its writer did not end it: what happened after the last record is unknown.
    pub torn: bool,
}

impl DiskLog {
    /// Reads the index of a log.
    pub(crate) fn open(path: &Path) -> Result<Self, BlackoutError> {
        let cannot = || format!("cannot read the log {}", path.display());
        let file = File::open(path).map_err(failed("disk-log", cannot))?;
        let length = file.metadata().map_err(failed("disk-log", cannot))?.len();
        let mut reader = BufReader::with_capacity(1 << 16, &file);
        let mut bytes = [0; HEADER_BYTES];
        reader
            .read_exact(&mut bytes)
            .map_err(failed("disk-log", cannot))?;
        let header = Header::decode(&bytes).map_err(|why| {
            BlackoutError::new(
                "disk-log",
                format!("cannot use the log {}: {why}", path.display()),
            )
        })?;
        let records = read_records(&mut reader, length).map_err(failed("disk-log", cannot))?;
        let mut log = Self {
            path: path.to_owned(),
            file,
            disk_bytes: header.disk_bytes,
            opened_ns: header.opened_ns,
            records,
            torn: true,
        };
        log.settle_end();
        Ok(log)
    }

    /// Return whether the log has an end and, if not, whether its last record has all of its data.
    fn settle_end(&mut self) {
        self.torn = self
            .records
            .last()
            .is_none_or(|last| last.entry.kind != Kind::End);
        while let Some(last) = self.records.last() {
            let mut data = vec![0; data_bytes(&last.entry) as usize];
            if self.read_checked(last, &mut data).is_ok() {
                break;
            }
            self.records.pop();
        }
    }

    /// Last time at which the state of the disk is known.
    pub(crate) fn ended_ns(&self) -> u64 {
        self.records
            .last()
            .map_or(self.opened_ns, |last| last.entry.end_ns)
    }

    /// The bytes that a write wrote, in `data`, which it replaces; zeros for a range zeroed.
    pub(crate) fn read_data(
        &self,
        record: &Indexed,
        data: &mut Vec<u8>,
    ) -> Result<(), BlackoutError> {
        data.clear();
        data.resize(record.entry.length as usize, 0);
        if record.entry.kind != Kind::Write {
            return Ok(());
        }
        self.read_checked(record, data)
            .map_err(failed("disk-log", || {
                format!(
                    "cannot read the log {} at byte {}",
                    self.path.display(),
                    record.position
                )
            }))
    }

    fn read_checked(&self, record: &Indexed, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, record.position)?;
        if crc32fast::hash(data) == record.data_crc || record.entry.kind != Kind::Write {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the data there is not what was logged",
        ))
    }
}

/// All whole records; the first that is not one is the torn end.
fn read_records<R: Read + Seek>(
    reader: &mut BufReader<R>,
    length: u64,
) -> io::Result<Vec<Indexed>> {
    let mut records: Vec<Indexed> = Vec::new();
    let mut position = HEADER_BYTES as u64;
    while position + RECORD_BYTES as u64 <= length {
        let mut bytes = [0; RECORD_BYTES];
        reader.read_exact(&mut bytes)?;
        let Some((entry, data_crc)) = decode(&bytes) else {
            break;
        };
        position += RECORD_BYTES as u64;
        let follows = data_bytes(&entry);
        if follows > length - position {
            break;
        }
        records.push(Indexed {
            entry,
            position,
            data_crc,
        });
        reader.seek_relative(follows as i64)?;
        position += follows;
    }
    Ok(records)
}
