//! The name in a DNS question, read from the datagram that asks it.
#![forbid(unsafe_code)]

/// The name asked for, without its final dot. `None` unless the bytes are a plain query with one question.
#[must_use]
pub fn question(datagram: &[u8]) -> Option<String> {
    let (header, mut rest) = datagram.split_first_chunk::<12>()?;
    let is_query = header[2] & 0xF8 == 0;
    let one_question = header[4..6] == [0, 1] && header[6..8] == [0, 0];
    if !is_query || !one_question {
        return None;
    }
    let mut name = String::new();
    loop {
        let (&length, tail) = rest.split_first()?;
        if length == 0 {
            // Type and class follow, or it was no question.
            return (tail.len() >= 4 && !name.is_empty()).then_some(name);
        }
        // The two top bits would make it a pointer, which a first question never is.
        if length > 63 || name.len() + usize::from(length) > 254 {
            return None;
        }
        let (label, tail) = tail.split_at_checked(usize::from(length))?;
        if !label.iter().all(|b| b.is_ascii_graphic() && *b != b'.') {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().map(|&b| char::from(b.to_ascii_lowercase())));
        rest = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query(labels: &[&str]) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(label.as_bytes());
        }
        bytes.extend([0, 0, 1, 0, 1]);
        bytes
    }

    #[test]
    fn reads_the_name() {
        assert_eq!(question(&query(&["Crates", "io"])).as_deref(), Some("crates.io"));
    }

    #[test]
    fn refuses_what_is_no_plain_question() {
        let good = query(&["a", "b"]);
        let mut answer = good.clone();
        answer[2] |= 0x80;
        let mut pointer = good.clone();
        pointer[12] = 0xC0;
        for (what, bytes) in [
            ("empty", Vec::new()),
            ("answer", answer),
            ("pointer", pointer),
            ("cut", good[..good.len() - 3].to_vec()),
            ("root", query(&[])),
            ("control character", query(&["a\u{1b}[2J"])),
        ] {
            assert_eq!(question(&bytes), None, "{what}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Some(name) = question(&bytes) {
                prop_assert!(name.len() <= 254 && name.is_ascii());
            }
        }
    }
}
