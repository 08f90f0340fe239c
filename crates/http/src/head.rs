//! The head of a response, lent out of the buffer that it is in.

/// The head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// Status code, from 100 to 999.
    pub status: u16,
    /// Header lines, which were checked.
    lines: &'a [u8],
}

impl<'a> Head<'a> {
    /// `head` is the whole of it, as `httparse` accepted it.
    pub(crate) fn new(status: u16, head: &'a [u8]) -> Self {
        let first = memchr::memchr(b'\n', head).map_or(head.len(), |end| end + 1);
        Self {
            status,
            lines: &head[first..],
        }
    }

    /// Names and values, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.lines.split(|byte| *byte == b'\n').filter_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }

    /// Value of the first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers()
            .find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }
}
