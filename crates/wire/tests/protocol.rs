//! The scanner and the session against arbitrary splits of a stream and arbitrary bytes.

use bytes::BytesMut;
use pgdyno_wire::{
    Binding, Channel, Event, Format, Identity, MESSAGE_BYTES_MAX, Message, ProtocolError,
    ProtocolVersion, Scanner, Session, TlsAnswer, TransactionStatus, read_tls_answer, write_cancel,
    write_tls_request,
};
use proptest::prelude::*;

/// A message as the server writes it.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("short");
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Everything that the scanner hands out when the stream comes in these pieces.
fn scan_all(pieces: &[&[u8]], keep_rows: bool) -> Result<Vec<(u8, Vec<u8>)>, ProtocolError> {
    let mut scanner = Scanner::new();
    scanner.keep_rows(keep_rows);
    let mut found = Vec::new();
    for piece in pieces {
        let mut scan = scanner.scan(piece);
        while let Some(Message { tag, body }) = scan.message()? {
            found.push((tag, body.to_vec()));
        }
    }
    Ok(found)
}

fn cut<'a>(stream: &'a [u8], at: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = at
        .iter()
        .map(|index| index.index(stream.len() + 1))
        .collect();
    at.extend([0, stream.len()]);
    at.sort_unstable();
    at.windows(2)
        .map(|pair| &stream[pair[0]..pair[1]])
        .collect()
}

/// A valid message: type byte and body.
fn any_message() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let body = |least: usize, most: usize| prop::collection::vec(any::<u8>(), least..=most);
    prop_oneof![
        prop::sample::select(b"123Inc".to_vec()).prop_map(|tag| (tag, vec![])),
        prop::sample::select(b"ITE".to_vec()).prop_map(|status| (b'Z', vec![status])),
        body(2, 300).prop_map(|body| (b'D', body)),
        body(0, 300).prop_map(|body| (b'd', body)),
        body(2, 300).prop_map(|body| (b'T', body)),
        body(1, 300).prop_map(|body| (b'E', body)),
        body(1, 30).prop_map(|body| (b'C', body)),
        body(8, 30).prop_map(|body| (b'K', body)),
    ]
}

proptest! {
    #[test]
    fn any_split_gives_the_same_messages(
        messages in prop::collection::vec(any_message(), 0..20),
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        keep_rows: bool,
    ) {
        let stream: Vec<u8> = messages.iter().flat_map(|(tag, body)| message(*tag, body)).collect();
        let wanted: Vec<(u8, Vec<u8>)> = messages
            .into_iter()
            .map(|(tag, body)| {
                let skipped = !keep_rows && matches!(tag, b'D' | b'd');
                (tag, if skipped { vec![] } else { body })
            })
            .collect();
        let pieces = cut(&stream, &at);
        prop_assert_eq!(scan_all(&pieces, keep_rows), Ok(wanted));
    }

    #[test]
    fn arbitrary_bytes_neither_panic_nor_depend_on_the_split(
        stream in prop::collection::vec(any::<u8>(), 0..300),
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        keep_rows: bool,
    ) {
        let whole = scan_all(&[&stream], keep_rows);
        let pieces = cut(&stream, &at);
        prop_assert_eq!(scan_all(&pieces, keep_rows), whole);
    }

    #[test]
    fn arbitrary_messages_do_not_panic_a_session(
        authenticated: bool,
        messages in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..60)), 0..20),
    ) {
        let identity = identity(Some("secret"));
        let mut out = BytesMut::new();
        let mut session = if authenticated { connected() } else { started(&identity) };
        for (tag, body) in &messages {
            if authenticated {
                session.sync(&mut out);
            }
            match session.receive(Message { tag: *tag, body }, &identity, &mut out) {
                Ok(Event::Columns(mut columns)) => while let Ok(Some(_)) = columns.name() {},
                Ok(Event::Row(Some(mut row))) => while let Ok(Some(_)) = row.value() {},
                _ => {}
            }
        }
    }
}

fn identity(password: Option<&str>) -> Identity {
    Identity {
        user: "u".into(),
        database: "d".into(),
        password: password.map(str::to_owned),
        ..Identity::default()
    }
}

fn started(identity: &Identity) -> Session {
    Session::start(identity, Channel::Clear, &mut BytesMut::new()).expect("no zero bytes")
}

fn receive<'a>(session: &mut Session, tag: u8, body: &'a [u8]) -> Result<Event<'a>, ProtocolError> {
    session.receive(Message { tag, body }, &identity(None), &mut BytesMut::new())
}

fn connected() -> Session {
    let mut session = started(&identity(None));
    for (tag, body) in [
        (b'R', &[0, 0, 0, 0][..]),
        (b'K', &[0, 0, 0, 7, 0, 0, 0, 9]),
        (b'Z', b"I"),
    ] {
        receive(&mut session, tag, body).expect("a login without password");
    }
    session
}

/// Types of the messages that a session wrote.
fn tags(mut out: &[u8]) -> Vec<u8> {
    let mut tags = Vec::new();
    while let Some((tag, after)) = out.split_first() {
        tags.push(*tag);
        let (length, _) = after.split_first_chunk::<4>().expect("a length");
        out = &after[u32::from_be_bytes(*length) as usize..];
    }
    tags
}

#[test]
fn impossible_lengths_are_refused_before_a_body_is_waited_for() {
    for (tag, length) in [
        (b'Z', 4_u32),
        (b'Z', 6),
        (b'1', 5),
        (b'C', 3),
        (b'C', 30_001),
        (b'K', 11),
        (b'K', 300),
        (b'E', 0),
        (b'E', u32::MAX),
        (b'E', MESSAGE_BYTES_MAX + 1),
        (b'D', 0x4000_0000),
    ] {
        let mut header = vec![tag];
        header.extend_from_slice(&length.to_be_bytes());
        assert_eq!(
            scan_all(&[&header], false),
            Err(ProtocolError::Length { tag, length })
        );
    }
    assert_eq!(
        scan_all(&[b"HTTP/1.1 400 Bad Request"], false),
        Err(ProtocolError::Length {
            tag: b'H',
            length: 0x5454_502F
        })
    );
    assert_eq!(
        scan_all(&[b"x\0\0\0\x04"], false),
        Err(ProtocolError::UnknownMessage(b'x'))
    );
}

#[test]
fn a_skipped_row_takes_no_memory_however_long() {
    const ROW_BYTES: usize = 512 << 20;
    let mut scanner = Scanner::new();
    let mut header = vec![b'D'];
    header.extend_from_slice(
        &u32::try_from(ROW_BYTES + 4)
            .expect("below 1 GiB")
            .to_be_bytes(),
    );
    let mut scan = scanner.scan(&header);
    assert_eq!(
        scan.message(),
        Ok(Some(Message {
            tag: b'D',
            body: &[]
        }))
    );
    drop(scan);
    let piece = vec![0; 1 << 20];
    for _ in 0..ROW_BYTES / piece.len() {
        assert_eq!(scanner.scan(&piece).message(), Ok(None));
        assert_eq!(scanner.partial_bytes(), 0);
    }
    let ready = message(b'Z', b"I");
    assert_eq!(
        scanner.scan(&ready).message(),
        Ok(Some(Message {
            tag: b'Z',
            body: b"I"
        }))
    );
}

#[test]
fn a_whole_cycle_yields_its_events() {
    let mut session = connected();
    let mut out = BytesMut::new();
    session
        .parse("s0", "select $1", &[], &mut out)
        .expect("no zero byte");
    let write = |value: &str, out: &mut BytesMut| {
        out.extend_from_slice(value.as_bytes());
        true
    };
    session
        .bind("s0", &[], ["1"], write, &mut out)
        .expect("short");
    session.describe(&mut out).expect("constant");
    session.execute(&mut out).expect("constant");
    session.sync(&mut out);
    assert_eq!(tags(&out), b"PBDES");
    assert!(matches!(
        receive(&mut session, b'1', b""),
        Ok(Event::Parsed)
    ));
    assert!(matches!(receive(&mut session, b'2', b""), Ok(Event::Quiet)));
    let columns = b"\0\x01ab\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let Ok(Event::Columns(mut columns)) = receive(&mut session, b'T', columns) else {
        panic!("columns");
    };
    assert_eq!((columns.count(), columns.name()), (1, Ok(Some("ab"))));
    assert_eq!(columns.name(), Ok(None));
    let Ok(Event::Row(Some(mut row))) =
        receive(&mut session, b'D', b"\0\x02\0\0\0\x021\x32\xff\xff\xff\xff")
    else {
        panic!("a row");
    };
    assert_eq!(row.value(), Ok(Some(Some(&b"12"[..]))));
    assert_eq!(row.value(), Ok(Some(None)));
    assert_eq!(row.value(), Ok(None));
    assert!(matches!(
        receive(&mut session, b'C', b"SELECT 1\0"),
        Ok(Event::Complete {
            untouched: false,
            rolled_back: false
        })
    ));
    let ready = receive(&mut session, b'Z', b"T");
    assert!(matches!(ready, Ok(Event::Ready(TransactionStatus::Open))));
}

#[test]
fn a_change_of_no_row_is_told_from_others() {
    for (command, none) in [
        ("UPDATE 0", true),
        ("DELETE 0", true),
        ("MERGE 0", true),
        ("UPDATE 10", false),
        ("INSERT 0 0", false),
        ("SELECT 0", false),
        ("DEALLOCATE", false),
        ("", false),
    ] {
        let mut session = connected();
        let mut out = BytesMut::new();
        session.query(b"update a", &mut out).expect("sendable");
        let body = [command.as_bytes(), b"\0"].concat();
        let Ok(Event::Complete { untouched, .. }) = receive(&mut session, b'C', &body) else {
            panic!("{command}");
        };
        assert_eq!(untouched, none, "{command}");
    }
}

#[test]
fn answers_that_nobody_asked_for_break_the_connection() {
    for tag in *b"12CDTZnIGHWdcR" {
        let body: &[u8] = if tag == b'Z' { b"I" } else { b"" };
        let mut session = connected();
        let error = receive(&mut session, tag, body).expect_err("nothing was sent");
        assert_eq!(
            error,
            ProtocolError::Unexpected {
                tag,
                during: "idle time"
            }
        );
        assert!(receive(&mut session, b'N', b"SNOTICE\0C00000\0Mm\0\0").is_err());
    }
}

#[test]
fn what_comes_unasked_is_put_up_with_at_any_time() {
    let mut session = connected();
    let notice = receive(&mut session, b'N', b"SWARNUNG\0VWARNING\0C01000\0Mm\0\0");
    assert!(matches!(notice, Ok(Event::Notice(n)) if n.severity == "WARNING" && n.message == "m"));
    let parameter = receive(&mut session, b'S', b"TimeZone\0UTC\0");
    assert!(matches!(
        parameter,
        Ok(Event::Parameter {
            name: "TimeZone",
            value: "UTC"
        })
    ));
    assert!(matches!(
        receive(&mut session, b'A', b"\0\0\0\x01c\0x\0"),
        Ok(Event::Notification)
    ));
    let error = receive(&mut session, b'E', b"SFATAL\0C57P01\0Mbye \xff cut\0\0");
    assert!(
        matches!(error, Ok(Event::Error(e)) if e.is_fatal() && e.sqlstate == "57P01" && e.message == "bye ")
    );
    assert!(receive(&mut session, b'E', b"SFATAL\0Mno code\0\0").is_err());
    assert!(receive(&mut session, b'E', b"SFATAL\0C57P01\0").is_err());
}

#[test]
fn the_password_is_sent_only_in_the_form_asked_for() {
    let ask = |kind: &[u8], password: Option<&str>| {
        let identity = identity(password);
        let mut out = BytesMut::new();
        let outcome = started(&identity).receive(
            Message {
                tag: b'R',
                body: kind,
            },
            &identity,
            &mut out,
        );
        outcome.map(|_| out.to_vec())
    };
    assert_eq!(
        ask(&[0, 0, 0, 3], Some("pw")),
        Ok(b"p\0\0\0\x07pw\0".to_vec())
    );
    // "md5" || md5(md5("pw" || "u") || salt), computed with Python's hashlib.
    let md5 = ask(&[0, 0, 0, 5, 1, 2, 3, 4], Some("pw")).expect("answered");
    assert_eq!(md5, b"p\0\0\0\x28md50803a98a0618b75c8f9a50f280cad373\0");
    let scram = ask(b"\0\0\0\x0aOTHER\0SCRAM-SHA-256\0\0", Some("a password")).expect("answered");
    assert!(scram.windows(14).any(|bytes| bytes == b"SCRAM-SHA-256\0"));
    assert!(!scram.windows(10).any(|bytes| bytes == b"a password"));
    for kind in [
        &[0, 0, 0, 3][..],
        &[0, 0, 0, 5, 1, 2, 3, 4],
        b"\0\0\0\x0aSCRAM-SHA-256\0\0",
    ] {
        assert_eq!(ask(kind, None), Err(ProtocolError::PasswordMissing));
    }
    let unsupported = [
        &[0, 0, 0, 7][..],
        &[0, 0, 0, 2],
        &[0, 0, 0, 9],
        b"\0\0\0\x0aOTHER\0\0",
    ];
    for kind in unsupported {
        let outcome = ask(kind, Some("pw"));
        assert!(matches!(
            outcome,
            Err(ProtocolError::AuthenticationUnsupported(_))
        ));
    }
}

#[test]
fn a_server_that_cannot_prove_itself_is_not_trusted() {
    let identity = identity(Some("pw"));
    let mut out = BytesMut::new();
    let mut session = started(&identity);
    let mut answer = |body: &[u8]| {
        session
            .receive(Message { tag: b'R', body }, &identity, &mut out)
            .map(|_| ())
    };
    assert_eq!(answer(b"\0\0\0\x0aSCRAM-SHA-256\0\0"), Ok(()));
    let foreign = b"\0\0\0\x0br=someone-elses-nonce,s=c2FsdA==,i=4096";
    assert!(matches!(
        answer(foreign),
        Err(ProtocolError::ServerNotAuthentic(_))
    ));
    // Acceptance before the proof is refused too.
    let mut session = started(&identity);
    let mut answer = |body: &[u8]| {
        session
            .receive(Message { tag: b'R', body }, &identity, &mut out)
            .map(|_| ())
    };
    assert_eq!(answer(b"\0\0\0\x0aSCRAM-SHA-256\0\0"), Ok(()));
    assert!(answer(&[0, 0, 0, 0]).is_err());
}

/// A session in which a COPY FROM STDIN was sent and the server asks for its data.
fn copying(simple: bool) -> Session {
    let mut session = connected();
    let mut out = BytesMut::new();
    if simple {
        session.query(b"copy t from stdin", &mut out)
    } else {
        session.execute(&mut out)
    }
    .expect("no zero byte");
    if !simple {
        session.sync(&mut out);
    }
    let event = receive(&mut session, b'G', b"\x01\0\0");
    assert!(matches!(event, Ok(Event::CopyIn(Format::Binary))));
    assert!(session.is_copying());
    session
}

#[test]
fn a_copy_ends_with_another_sync_where_the_first_was_thrown_away() {
    for (simple, sync) in [(true, &b""[..]), (false, b"S")] {
        let mut session = copying(simple);
        let mut out = BytesMut::new();
        session.copy_data(b"1\n2", &mut out).expect("short");
        session.copy_data(b"\n", &mut out).expect("short");
        assert!(out.starts_with(b"d\0\0\0\x071\n2d"));
        session.copy_done(&mut out);
        assert_eq!(tags(&out), [b"ddc", sync].concat());
        assert!(!session.is_copying());

        let mut session = copying(simple);
        out.clear();
        session.copy_fail("no data", &mut out).expect("constant");
        assert_eq!(tags(&out), [b"f", sync].concat());

        // The server rejects the data: the rest of it is not sent.
        let mut session = copying(simple);
        out.clear();
        let message = Message {
            tag: b'E',
            body: b"SERROR\0C22P02\0Mm\0\0",
        };
        let event = session.receive(message, &identity(None), &mut out);
        assert!(matches!(event, Ok(Event::Error(_))));
        session.copy_data(b"3\n", &mut out).expect("short");
        session.copy_done(&mut out);
        assert_eq!(tags(&out), sync);
        let ready = receive(&mut session, b'Z', b"I");
        assert!(matches!(ready, Ok(Event::Ready(TransactionStatus::Idle))));
    }
}

#[test]
fn a_copy_is_alone_in_its_cycle() {
    for (executes, cycles) in [(2, 1), (1, 2)] {
        let mut session = connected();
        let mut out = BytesMut::new();
        for _ in 0..cycles {
            for _ in 0..executes {
                session.execute(&mut out).expect("constant");
            }
            session.sync(&mut out);
        }
        let outcome = receive(&mut session, b'G', b"\0\0\0");
        assert!(matches!(outcome, Err(ProtocolError::CopyInPipeline)));
    }
    let answer = receive(&mut copying(true), b'C', b"COPY 1\0");
    assert!(matches!(answer, Err(ProtocolError::Unexpected { .. })));
}

#[test]
fn an_error_ends_its_own_cycle_of_a_pipeline_only() {
    let mut session = connected();
    let mut out = BytesMut::new();
    for _ in 0..2 {
        session.execute(&mut out).expect("constant");
        session.execute(&mut out).expect("constant");
        session.sync(&mut out);
    }
    let answers: [(u8, &[u8]); 6] = [
        (b'C', b"BEGIN\0"),
        (b'E', b"SERROR\0C22012\0Mm\0\0"),
        (b'Z', b"E"),
        (b'C', b"ROLLBACK\0"),
        (b'C', b"BEGIN\0"),
        (b'Z', b"I"),
    ];
    let events: String = answers
        .iter()
        .map(|(tag, body)| match receive(&mut session, *tag, body) {
            Ok(Event::Complete { .. }) => 'c',
            Ok(Event::Error(_)) => 'e',
            Ok(Event::Ready(_)) => 'r',
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(events, "cerccr");
}

#[test]
fn parameters_have_types_and_formats() {
    let mut session = connected();
    let mut out = BytesMut::new();
    session
        .parse("s", "select $1", &[23], &mut out)
        .expect("no zero byte");
    assert!(out.ends_with(b"select $1\0\0\x01\0\0\0\x17"));
    out.clear();
    session
        .describe_statement("s", &mut out)
        .expect("no zero byte");
    assert_eq!(&out[..], b"D\0\0\0\x07Ss\0");
    out.clear();
    let write = |value: &[u8], out: &mut BytesMut| {
        out.extend_from_slice(value);
        true
    };
    let values = [&b"\0\0\0\x07"[..], b"7"];
    session
        .bind(
            "s",
            &[Format::Binary, Format::Text],
            values,
            write,
            &mut out,
        )
        .expect("short");
    assert!(out[5..].starts_with(b"\0s\0\0\x02\0\x01\0\0\0\x02\0\0\0\x04\0\0\0\x07"));
    session.sync(&mut out);
    let Ok(Event::ParameterTypes(types)) =
        receive(&mut session, b't', b"\0\x02\0\0\0\x17\0\0\0\x19")
    else {
        panic!("types");
    };
    assert_eq!(types.oids().collect::<Vec<_>>(), [23, 25]);
    assert!(receive(&mut session, b't', b"\0\x02\0\0\0\x17").is_err());
}

#[test]
fn what_cannot_be_sent_is_refused_here() {
    let mut session = connected();
    let mut out = BytesMut::new();
    assert!(matches!(
        session.query(b"select '\0'", &mut out),
        Err(ProtocolError::Unsendable(_))
    ));
    assert!(session.parse("", "select '\0'", &[], &mut out).is_err());
    let too_many = vec!["1"; 70_000];
    let write = |_: &str, _: &mut BytesMut| true;
    assert!(session.bind("", &[], too_many, write, &mut out).is_err());
}

/// The answer of a session on this channel to an offer of these SASL mechanisms.
fn answer_sasl(channel: Channel, binding: Binding, offer: &[u8]) -> Result<Vec<u8>, ProtocolError> {
    let identity = Identity {
        binding,
        ..identity(Some("pw"))
    };
    let mut out = BytesMut::new();
    let mut session = Session::start(&identity, channel, &mut out)?;
    out.clear();
    let body = [b"\0\0\0\x0a", offer].concat();
    let message = Message {
        tag: b'R',
        body: &body,
    };
    session.receive(message, &identity, &mut out)?;
    Ok(out.to_vec())
}

#[test]
fn scram_is_bound_to_its_connection_where_both_sides_can() {
    const BOTH: &[u8] = b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
    const PLAIN: &[u8] = b"SCRAM-SHA-256\0\0";
    let tls = || Channel::Tls(Some(vec![1, 2, 3].into()));
    let has = |answer: &[u8], text: &[u8]| answer.windows(text.len()).any(|part| part == text);

    for binding in [Binding::Prefer, Binding::Require] {
        let bound = answer_sasl(tls(), binding, BOTH).expect("answered");
        assert!(has(&bound, b"SCRAM-SHA-256-PLUS\0") && has(&bound, b"p=tls-server-end-point,,"));
    }
    let unasked = answer_sasl(tls(), Binding::Prefer, PLAIN).expect("answered");
    assert!(has(&unasked, b"y,,"));
    let disabled = answer_sasl(tls(), Binding::Disable, BOTH).expect("answered");
    assert!(has(&disabled, b"SCRAM-SHA-256\0") && has(&disabled, b"n,,"));
    let no_hash = answer_sasl(Channel::Tls(None), Binding::Prefer, BOTH).expect("answered");
    assert!(has(&no_hash, b"n,,"));

    for (channel, binding, offer) in [
        (Channel::Clear, Binding::Prefer, BOTH),
        (Channel::Clear, Binding::Require, PLAIN),
        (tls(), Binding::Require, PLAIN),
        (Channel::Tls(None), Binding::Require, BOTH),
    ] {
        let outcome = answer_sasl(channel, binding, offer);
        assert!(matches!(outcome, Err(ProtocolError::BindingMissing(_))));
    }
}

/// Outcome of authentication in which the server sends these authentication messages.
fn authenticate(identity: &Identity, messages: &[&[u8]]) -> Result<bool, ProtocolError> {
    let mut session = started(identity);
    for body in messages {
        let message = Message { tag: b'R', body };
        session.receive(message, identity, &mut BytesMut::new())?;
    }
    Ok(session.is_accepted())
}

#[test]
fn a_required_binding_cannot_be_talked_out_of() {
    let identity = Identity {
        binding: Binding::Require,
        ..identity(Some("pw"))
    };
    for message in [&[0, 0, 0, 0][..], &[0, 0, 0, 3], &[0, 0, 0, 5, 1, 2, 3, 4]] {
        let outcome = authenticate(&identity, &[message]);
        assert!(matches!(outcome, Err(ProtocolError::BindingMissing(_))));
    }
}

#[test]
fn only_what_require_auth_lists_is_answered() {
    const OK: &[u8] = &[0, 0, 0, 0];
    const CLEARTEXT: &[u8] = &[0, 0, 0, 3];
    const MD5: &[u8] = &[0, 0, 0, 5, 1, 2, 3, 4];
    for (list, messages, refused) in [
        ("", &[OK][..], None),
        ("md5", &[MD5, OK], None),
        ("none", &[OK], None),
        ("md5", &[OK], Some("none")),
        ("scram-sha-256,md5", &[CLEARTEXT], Some("password")),
        ("!password", &[CLEARTEXT], Some("password")),
        ("scram-sha-256", &[MD5], Some("md5")),
    ] {
        let identity = Identity {
            require_auth: list.parse().expect("a list"),
            ..identity(Some("pw"))
        };
        let outcome = authenticate(&identity, messages);
        let wanted = refused.map_or(Ok(true), |method| Err(ProtocolError::MethodRefused(method)));
        assert_eq!(outcome, wanted, "{list}");
    }
}

#[test]
fn the_version_is_negotiated_down_but_not_below_the_least() {
    let start = |version, version_min, answer: &[u8]| {
        let identity = Identity {
            version,
            version_min,
            ..identity(None)
        };
        let mut out = BytesMut::new();
        let mut session = Session::start(&identity, Channel::Clear, &mut out)?;
        let asked = out[7];
        let message = Message {
            tag: b'v',
            body: answer,
        };
        session.receive(message, &identity, &mut out)?;
        Ok(asked)
    };
    use ProtocolVersion::{V3_0, V3_2};
    const DOWN: &[u8] = &[0, 3, 0, 0, 0, 0, 0, 0];
    assert_eq!(start(V3_2, V3_0, DOWN), Ok(2));
    assert_eq!(start(V3_2, V3_2, DOWN), Err(ProtocolError::VersionTooOld));
    assert_eq!(
        start(V3_2, V3_0, &[0, 3, 0, 1, 0, 0, 0, 0]),
        Err(ProtocolError::VersionUnknown(0x3_0001))
    );
    let unasked = ProtocolError::Unexpected {
        tag: b'v',
        during: "authentication",
    };
    assert_eq!(start(V3_0, V3_0, DOWN), Err(unasked.clone()));
    assert_eq!(
        start(V3_2, V3_0, &[0, 3, 0, 0, 0, 0, 0, 1, b'x', 0]),
        Err(unasked)
    );
    assert!(start(V3_2, V3_0, &[0, 3]).is_err());
}

#[test]
fn a_cancel_key_is_as_long_as_its_version_allows() {
    let cancel = |version, secret: &[u8]| {
        let identity = Identity {
            version,
            ..identity(None)
        };
        let mut session = started(&identity);
        let key = [b"\0\0\0\x07", secret].concat();
        for (tag, body) in [(b'R', &[0, 0, 0, 0][..]), (b'K', &key)] {
            session.receive(Message { tag, body }, &identity, &mut BytesMut::new())?;
        }
        let mut out = BytesMut::new();
        write_cancel(session.key(), &mut out);
        Ok::<_, ProtocolError>(out.to_vec())
    };
    let short = cancel(ProtocolVersion::V3_0, b"abcd").expect("a key");
    assert_eq!(short, b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07abcd");
    let long = cancel(ProtocolVersion::V3_2, &[9; 256]).expect("a key");
    assert_eq!(long.len(), 12 + 256);
    assert!(long.starts_with(b"\0\0\x01\x0c\x04\xd2\x16\x2e\0\0\0\x07\x09"));
    assert!(cancel(ProtocolVersion::V3_0, &[9; 5]).is_err());
    assert!(cancel(ProtocolVersion::V3_2, &[9; 3]).is_err());
    assert!(cancel(ProtocolVersion::V3_2, &[9; 257]).is_err());
}

#[test]
fn nothing_but_one_letter_answers_the_request_for_encryption() {
    let mut out = BytesMut::new();
    write_tls_request(&mut out);
    assert_eq!(&out[..], [0, 0, 0, 8, 4, 210, 22, 47]);
    assert_eq!(read_tls_answer(b"S"), Ok(TlsAnswer::Yes));
    assert_eq!(read_tls_answer(b"N"), Ok(TlsAnswer::No));
    for smuggled in [&b"SR\0\0\0\x08\0\0\0\0"[..], b"NR"] {
        assert_eq!(
            read_tls_answer(smuggled),
            Err(ProtocolError::DataBeforeEncryption)
        );
    }
    assert_eq!(
        read_tls_answer(b"EFATAL\0"),
        Err(ProtocolError::EncryptionRefused)
    );
    assert_eq!(
        read_tls_answer(b"H"),
        Err(ProtocolError::EncryptionAnswer(b'H'))
    );
}
