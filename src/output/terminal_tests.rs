use proptest::prelude::*;

use super::*;

fn filtered(bytes: &[u8]) -> Vec<u8> {
    TerminalFilter::new().filter(bytes)
}

#[test]
fn what_draws_on_the_screen_passes() {
    for text in [
        "plain\r\n\ttext \u{201c}quoted\u{201d} \u{4e2d}\u{1f600}\x07\x08",
        "\x1b[1;31mred\x1b[0m\x1b[2J\x1b[10;20H\x1b[?1049h\x1b[38:2::1:2:3m",
        "\x1b(B\x1b)0\x1b=\x1b>\x1b7\x1b8\x1bM\x1bc",
        "\x1b]0;a title \u{e9}\x07\x1b]2;t\x1b\\\x1b]8;;http://h/\x1b\\link\x1b]8;;\x07\x1b]133;A\x07\x1b]11;?\x07",
    ] {
        assert_eq!(filtered(text.as_bytes()), text.as_bytes(), "{text:?}");
    }
}

#[test]
fn what_acts_elsewhere_does_not() {
    for (given, shown) in [
        ("a\x1b]52;c;aGk=\x07b", "ab"),
        ("a\x1b]52;c;aGk=\x1b\\b", "ab"),
        ("a\u{9d}52;c;aGk=\u{9c}b", "ab"),
        ("a\x1b]052;c;x\x07b", "ab"),
        ("a\x1b]1337;Copy=:aGk=\x07b\x1b]5522;x\x07\x1b]9;n\x07\x1b]50;f\x07\x1b]777;x\x07", "ab"),
        ("a\x1b]\x07b\x1b]x\x07c\x1b]0x;t\x07d", "abcd"),
        ("a\x1bPq#0\x1b\\b\x1b_app\x1b\\c\x1b^pm\x1b\\d\x1bXsos\x1b\\e\u{90}x\u{9c}f", "abcdef"),
        ("a\x1b[5ib\x1b[?4ic", "abc"),
        // A dropped sequence joins nothing around it.
        ("\x1b\x1bPx\x1b\\]52;c;x\x07", "]52;c;x\x07"),
        ("\x1b[3\x1b_x\x1b\\1m", "1m"),
        // A string that another sequence ends, or CAN.
        ("\x1b]52;c;x\x1b[1mbold", "\x1b[1mbold"),
        ("\x1b]52;c;x\x18text", "text"),
    ] {
        assert_eq!(String::from_utf8_lossy(&filtered(given.as_bytes())), shown, "{given:?}");
    }
}

#[test]
fn bytes_that_are_no_text_cannot_become_controls() {
    assert_eq!(filtered(b"a\x9d52;c;x\x07"), "a\u{fffd}52;c;x\x07".as_bytes());
    assert_eq!(filtered(b"\xc2\x1bPx\x1b\\\x9d52"), "\u{fffd}\u{fffd}52".as_bytes());
    assert_eq!(filtered(b"\xe2\x80"), b"", "an unfinished character waits");
}

#[test]
fn endless_sequences_are_given_up() {
    let mut filter = TerminalFilter::new();
    assert_eq!(filter.filter(b"\x1b]0;"), b"");
    assert_eq!(filter.filter(&[b'x'; 100_000]), b"");
    assert!(filter.held.len() <= LONGEST);
    assert_eq!(filter.filter(b"\x07after"), b"after");
    let mut long = b"\x1b[".to_vec();
    long.resize(LONGEST * 2, b'1');
    assert!(filtered(&long).iter().all(|byte| *byte == b'1'));
}

#[test]
fn modes_that_are_left_set_are_reset() {
    let mut filter = TerminalFilter::new();
    assert!(!filter.filter(b"\x1b[?1049h\x1b[?2004;1006h\x1b[?25l\x1b[?2004l").is_empty());
    assert_eq!(filter.reset(), b"\x1b[?1006l\x1b[?1049l\x1b[?25h");
    assert!(!filter.filter(b"\x1b[?1006;1049l\x1b[?25h").is_empty());
    assert_eq!(filter.reset(), b"");
}

/// Bytes in which sequences are likely.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..8),
        prop::sample::select(vec![
            "\x1b",
            "\x1b]52;c;",
            "\x1b]0;",
            "\x1bP",
            "\x1b_",
            "\x1b^",
            "\x1bX",
            "\x1b[",
            "\x1b\\",
            "\x07",
            "\u{9d}",
            "\u{90}",
            "\u{9c}",
            "\u{9b}",
            "52;c;x",
            "5i",
            "1m",
            "\x18",
            "text",
            "\u{e9}",
            "]",
            "P",
            "?1049h",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// A second, simpler reading of what was let through: every forbidden introducer, wherever it stands.
fn forbidden(shown: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(shown).into_owned();
    let c1 = text.chars().find(|c| ('\u{80}'..='\u{9f}').contains(c));
    let strings = ["\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x1b]52", "\x1b]1337"];
    // Within an operating-system command that passes, an ESC is followed by a backslash only.
    c1.map(String::from).or_else(|| strings.iter().find(|string| text.contains(**string)).map(|s| (*s).to_owned()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_forbidden_comes_through(bytes in output()) {
        let shown = filtered(&bytes);
        prop_assert_eq!(forbidden(&shown), None, "{:?}", String::from_utf8_lossy(&shown));
    }

    #[test]
    fn pieces_make_no_difference(bytes in output(), cut in 0..200_usize) {
        let mut filter = TerminalFilter::new();
        let cut = cut.min(bytes.len());
        let mut shown = filter.filter(&bytes[..cut]);
        shown.extend(filter.filter(&bytes[cut..]));
        prop_assert_eq!(shown, filtered(&bytes));
    }

    #[test]
    fn what_came_through_comes_through_again(bytes in output()) {
        let once = filtered(&bytes);
        prop_assert_eq!(filtered(&once), once);
    }

    #[test]
    fn text_is_left_alone(text in "[^\\x00-\\x1f\\x7f-\\u{9f}]{0,60}") {
        prop_assert_eq!(filtered(text.as_bytes()), text.as_bytes());
    }
}
