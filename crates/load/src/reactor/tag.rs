//! The tag of a request, which the kernel returns with its result.

/// Highest number of a socket; after it they begin again.
pub(super) const GENERATION_MAX: u32 = 0x1fff_ffff;

/// The purpose of a request, packed into the number that its result returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    /// Its kind.
    pub purpose: Purpose,
    /// At most [`GENERATION_MAX`].
    pub generation: u32,
    /// Slot of the socket, or index of the part that was sent.
    pub index: usize,
}

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Receives.
    Receive,
    /// Sends.
    Send,
    /// Waits until the socket is writable.
    Writable,
    /// Waits for the end of the stream.
    End,
    /// Waits for the bell.
    Bell,
}

impl Tag {
    /// As the kernel carries it.
    pub(super) fn pack(self) -> u64 {
        let purpose = match self.purpose {
            Purpose::Receive => 0,
            Purpose::Send => 1,
            Purpose::Writable => 2,
            Purpose::End => 3,
            Purpose::Bell => 4_u64,
        };
        purpose << 61 | u64::from(self.generation) << 32 | (self.index as u64 & 0xffff_ffff)
    }

    /// From what [`Self::pack`] gave.
    pub(super) fn unpack(packed: u64) -> Self {
        Self {
            purpose: match packed >> 61 {
                0 => Purpose::Receive,
                1 => Purpose::Send,
                2 => Purpose::Writable,
                3 => Purpose::End,
                _ => Purpose::Bell,
            },
            generation: (packed >> 32) as u32 & GENERATION_MAX,
            index: (packed & 0xffff_ffff) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_comes_back_as_it_was() {
        for purpose in [
            Purpose::Receive,
            Purpose::Send,
            Purpose::Writable,
            Purpose::End,
            Purpose::Bell,
        ] {
            for (generation, index) in [(0, 0), (1, 77), (GENERATION_MAX, 0xffff_ffff)] {
                let tag = Tag {
                    purpose,
                    generation,
                    index,
                };
                assert_eq!(Tag::unpack(tag.pack()), tag);
            }
        }
    }
}
