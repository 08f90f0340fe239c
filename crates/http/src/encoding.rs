//! Percent-encoding (RFC 3986, 2.1).

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Appends a value as a part of a URL or of a form: all but letters, digits and `-._~` is encoded.
pub fn encode_value(value: &[u8], out: &mut Vec<u8>) {
    encode(value, out, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
    });
}

/// Appends a link: only what no URL may contain is encoded, and a fragment is left out.
pub fn encode_link(link: &[u8], out: &mut Vec<u8>) {
    let end = memchr::memchr(b'#', link).unwrap_or(link.len());
    encode(&link[..end], out, |byte| {
        byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`')
    });
}

fn encode(value: &[u8], out: &mut Vec<u8>, stays: impl Fn(u8) -> bool) {
    for &byte in value {
        if stays(byte) {
            out.push(byte);
        } else {
            let digit = |half: u8| DIGITS[usize::from(half & 15)];
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte)]);
        }
    }
}
