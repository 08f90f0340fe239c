//! Redirects, encodings and cookies.

use std::time::{Duration, SystemTime};

use pgdyno_http::{Jar, Origin, encode_link, encode_value};
use proptest::prelude::*;

fn origin() -> Origin {
    Origin {
        secure: false,
        host: "shop.example".into(),
        port: 8080,
    }
}

fn followed(from: &str, location: &str) -> Option<String> {
    let mut target = from.as_bytes().to_vec();
    let stays = origin().follow(location.as_bytes(), &mut target);
    stays.then(|| String::from_utf8(target).expect("ASCII"))
}

#[test]
fn redirects_lead_where_a_browser_goes() {
    let from = "/a/b/c?x=1";
    for (location, to) in [
        ("/d", "/d"),
        ("http://shop.example:8080/d?y", "/d?y"),
        ("HTTP://SHOP.example:8080", "/"),
        ("http://shop.example:8080?y", "/?y"),
        ("//shop.example:8080/d", "/d"),
        ("d", "/a/b/d"),
        ("../d#part", "/a/d"),
        ("../../../d/.", "/d/"),
        ("?y=2", "/a/b/c?y=2"),
        ("", from),
        ("d:e/f", "elsewhere"),
        ("/a b", "/a%20b"),
        ("/a%20b", "/a%20b"),
        ("https://shop.example:8080/d", "elsewhere"),
        ("http://shop.example/d", "elsewhere"),
        ("http://other:8080/d", "elsewhere"),
        ("mailto:a@b", "elsewhere"),
    ] {
        let wanted = (to != "elsewhere").then(|| to.to_owned());
        assert_eq!(followed(from, location), wanted, "{location}");
    }
    let secure = Origin {
        secure: true,
        host: "::1".into(),
        port: 443,
    };
    assert_eq!(secure.authority(), "[::1]");
    let mut target = b"/".to_vec();
    assert!(secure.follow(b"https://[::1]:443/x", &mut target));
    assert_eq!(target, b"/x");
}

proptest! {
    #[test]
    fn a_redirect_is_a_target_that_can_be_sent(location in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut target = b"/a/b?c".to_vec();
        if origin().follow(&location, &mut target) {
            prop_assert!(target.starts_with(b"/"));
            prop_assert!(target.iter().all(u8::is_ascii_graphic));
        }
    }

    #[test]
    fn encoded_values_decode_to_themselves(value in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut encoded = Vec::new();
        encode_value(&value, &mut encoded);
        let (mut decoded, mut rest) = (Vec::new(), encoded.as_slice());
        while let Some((&byte, after)) = rest.split_first() {
            if byte == b'%' {
                let digits = std::str::from_utf8(&after[..2]).expect("digits");
                decoded.push(u8::from_str_radix(digits, 16).expect("hexadecimal"));
                rest = &after[2..];
            } else {
                decoded.push(byte);
                rest = after;
            }
        }
        prop_assert_eq!(decoded, value);
    }

    #[test]
    fn no_cookie_breaks_a_jar(
        headers in prop::collection::vec("[a-c=; \\-0-9A-Za-z/]{0,40}", 0..80),
    ) {
        let (mut jar, now) = (Jar::default(), SystemTime::now());
        for header in &headers {
            jar.set(header.as_bytes(), "h", b"/a/b", now);
        }
        let mut out = Vec::new();
        jar.write(b"/a/b", false, now, &mut out);
        prop_assert!(out.is_empty() || (out.starts_with(b"Cookie: ") && out.ends_with(b"\r\n")));
    }
}

#[test]
fn links_keep_what_they_encode_already() {
    let mut link = Vec::new();
    encode_link("/ä%20?x=1&y=<z>#f".as_bytes(), &mut link);
    assert_eq!(link, b"/%C3%A4%20?x=1&y=%3Cz%3E");
}

/// The cookies of a request, after these headers.
fn cookies(headers: &[&str], target: &str, after_s: u64) -> String {
    let (mut jar, now) = (
        Jar::default(),
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
    );
    for header in headers {
        jar.set(header.as_bytes(), "www.shop.example", b"/shop/cart?x", now);
    }
    let mut out = Vec::new();
    jar.write(
        target.as_bytes(),
        false,
        now + Duration::from_secs(after_s),
        &mut out,
    );
    String::from_utf8(out).expect("ASCII").replace("\r\n", "|")
}

#[test]
fn cookies_are_kept_as_browsers_do() {
    let session = "JSESSIONID=A1B2; Path=/; HttpOnly";
    assert_eq!(cookies(&[session], "/", 0), "Cookie: JSESSIONID=A1B2|");
    assert_eq!(
        cookies(&[session, "a=b=c"], "/shop/x?y", 0),
        "Cookie: JSESSIONID=A1B2; a=b=c|"
    );
    // Without a path it is for the folder of the request.
    assert_eq!(cookies(&["a=b"], "/shopping", 0), "");
    assert_eq!(cookies(&["a=b"], "/shop", 0), "Cookie: a=b|");
    assert_eq!(
        cookies(&["a=b; Path=/", "a=c; path=/"], "/", 0),
        "Cookie: a=c|"
    );
    assert_eq!(cookies(&["a=b; Path=/; Secure"], "/", 0), "");
    assert_eq!(
        cookies(&["a=b; Path=/; Max-Age=10"], "/", 9),
        "Cookie: a=b|"
    );
    assert_eq!(cookies(&["a=b; Path=/; Max-Age=10"], "/", 10), "");
    for over in [
        "a=; Path=/; Max-Age=0",
        "a=; Path=/; Max-Age=-1",
        "a=; Path=/; Expires=Thu, 01 Jan 1970 00:00:10 GMT",
        "a=; Path=/; Expires=Thu, 01-Jan-1970 00:00:10 GMT",
    ] {
        assert_eq!(cookies(&["a=b; Path=/", over], "/", 0), "", "{over}");
    }
    assert_eq!(
        cookies(&["a=b; Path=/; Domain=.shop.example"], "/", 0),
        "Cookie: a=b|"
    );
    assert_eq!(cookies(&["a=b; Path=/; Domain=hop.example"], "/", 0), "");
    assert_eq!(cookies(&["a=b; Path=/; Domain=other.example"], "/", 0), "");
}
