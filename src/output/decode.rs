//! Bytes to text without ever cutting a character.

#![forbid(unsafe_code)]

/// Length of the beginning that belongs to a character whose first byte is gone: at most three continuation bytes.
/// Only to be asked of bytes that something was dropped in front of.
pub(crate) fn orphaned_prefix(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count()
}

/// Length of the end that may still become a character when more bytes come: at most three bytes.
pub(crate) fn unfinished_suffix(bytes: &[u8]) -> usize {
    // Only the last three bytes can begin something unfinished; the latest lead byte among them decides.
    let window = bytes.len().saturating_sub(3);
    for start in (window..bytes.len()).rev() {
        if (0x80..0xC0).contains(&bytes[start]) {
            continue;
        }
        return match std::str::from_utf8(&bytes[start..]) {
            Err(error) if error.error_len().is_none() => bytes.len() - start,
            _ => 0,
        };
    }
    0
}

/// Decodes; each invalid sequence becomes one U+FFFD.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: &str = "aé€🦀 z\u{7ff}\u{800}\u{ffff}\u{10000}é";

    #[test]
    fn a_cut_anywhere_loses_no_character_on_the_right() {
        let bytes = SAMPLE.as_bytes();
        for cut in 0..=bytes.len() {
            let held = unfinished_suffix(&bytes[..cut]);
            let (first, rest) = bytes.split_at(cut - held);
            assert!(held <= 3);
            assert_eq!(text(first) + &text(rest), SAMPLE, "cut at {cut}");
            assert!(std::str::from_utf8(first).is_ok(), "cut at {cut}");
        }
    }

    #[test]
    fn a_cut_anywhere_shows_no_half_character_on_the_left() {
        let bytes = SAMPLE.as_bytes();
        for cut in 1..bytes.len() {
            let rest = &bytes[cut..];
            let shown = text(&rest[orphaned_prefix(rest)..]);
            assert!(SAMPLE.ends_with(&shown) && !shown.contains('\u{fffd}'), "cut at {cut}: {shown:?}");
            assert_eq!(SAMPLE.is_char_boundary(cut), orphaned_prefix(rest) == 0);
        }
    }

    #[test]
    fn invalid_bytes_are_shown_not_held() {
        assert_eq!(unfinished_suffix(b"ab\xff"), 0);
        assert_eq!(unfinished_suffix(b"ab\x80\x80\x80"), 0);
        assert_eq!(unfinished_suffix(b"\xe2\x28"), 0);
        assert_eq!(unfinished_suffix(b"ab\xe2\x82"), 2);
        assert_eq!(unfinished_suffix(b"\xf0\x9f\xa6"), 3);
        assert_eq!(text(b"a\xffb"), "a\u{fffd}b");
    }

    proptest! {
        #[test]
        fn pieces_decode_as_the_whole(bytes in prop::collection::vec(prop_oneof![
            any::<u8>(), Just(0xE2), Just(0x82), Just(0xAC), Just(0xF0), Just(0x9F)], 0..40), cut in 0_usize..40) {
            let cut = cut.min(bytes.len());
            let (first, rest) = bytes.split_at(cut - unfinished_suffix(&bytes[..cut]));
            prop_assert_eq!(text(first) + &text(rest), text(&bytes));
        }
    }
}
