//! The C library's words for the errors a refusal ends in, in English and in the languages of the host's own catalogue.
//!
//! A program prints `strerror(EROFS)` in the user's language; the catalogue that translated it is on this host, in GNU
//! gettext's `.mo` form (two tables of length and offset, originals and translations). Only the dozen texts that a
//! refusal can produce are taken out of it.
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};

/// An error that a refusal can end in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// `EACCES`.
    Access,
    /// `EPERM`.
    Perm,
    /// `EROFS`.
    ReadOnly,
    /// `EXDEV`.
    CrossDevice,
    /// `EBUSY`.
    Busy,
    /// `ENOENT`: how a masked file or a hidden socket looks from inside.
    Missing,
    /// `ENOSYS`.
    NoSyscall,
    /// `ENETUNREACH`.
    NetUnreachable,
    /// `EHOSTUNREACH`.
    HostUnreachable,
    /// `ECONNREFUSED`.
    Refused,
    /// `EAFNOSUPPORT`.
    Family,
    /// `EADDRNOTAVAIL`.
    AddressUnavailable,
    /// A name look-up that had no server to ask (`EAI_AGAIN`, or `EAI_NONAME` without a network).
    Lookup,
}

impl Cause {
    /// The symbolic errno; `None` for name look-ups, whose codes are the resolver's.
    #[must_use]
    pub const fn errno(self) -> Option<&'static str> {
        match self {
            Self::Access => Some("EACCES"),
            Self::Perm => Some("EPERM"),
            Self::ReadOnly => Some("EROFS"),
            Self::CrossDevice => Some("EXDEV"),
            Self::Busy => Some("EBUSY"),
            Self::Missing => Some("ENOENT"),
            Self::NoSyscall => Some("ENOSYS"),
            Self::NetUnreachable => Some("ENETUNREACH"),
            Self::HostUnreachable => Some("EHOSTUNREACH"),
            Self::Refused => Some("ECONNREFUSED"),
            Self::Family => Some("EAFNOSUPPORT"),
            Self::AddressUnavailable => Some("EADDRNOTAVAIL"),
            Self::Lookup => None,
        }
    }

    /// The cause of a symbolic errno as Node.js, Go's `syscall` and npm print it.
    #[must_use]
    pub fn from_errno(name: &str) -> Option<Self> {
        Some(match name {
            "EACCES" => Self::Access,
            "EPERM" => Self::Perm,
            "EROFS" => Self::ReadOnly,
            "EXDEV" => Self::CrossDevice,
            "EBUSY" => Self::Busy,
            "ENOENT" => Self::Missing,
            "ENOSYS" => Self::NoSyscall,
            "ENETUNREACH" => Self::NetUnreachable,
            "EHOSTUNREACH" => Self::HostUnreachable,
            "ECONNREFUSED" => Self::Refused,
            "EAFNOSUPPORT" => Self::Family,
            "EADDRNOTAVAIL" => Self::AddressUnavailable,
            "EAI_AGAIN" | "ENOTFOUND" => Self::Lookup,
            _ => return None,
        })
    }
}

/// glibc's originals, which are also the catalogue's keys.
const GLIBC: [(&str, Cause); 14] = [
    ("Permission denied", Cause::Access),
    ("Operation not permitted", Cause::Perm),
    ("Read-only file system", Cause::ReadOnly),
    ("Invalid cross-device link", Cause::CrossDevice),
    ("Device or resource busy", Cause::Busy),
    ("No such file or directory", Cause::Missing),
    ("Function not implemented", Cause::NoSyscall),
    ("Network is unreachable", Cause::NetUnreachable),
    ("No route to host", Cause::HostUnreachable),
    ("Connection refused", Cause::Refused),
    ("Address family not supported by protocol", Cause::Family),
    ("Cannot assign requested address", Cause::AddressUnavailable),
    ("Temporary failure in name resolution", Cause::Lookup),
    ("Name or service not known", Cause::Lookup),
];

/// Other runtimes' words: libuv, musl, Go's resolver, Python's older resolver text, dash (which shortens ENOENT).
const OTHERS: [(&str, Cause); 8] = [
    ("cross-device link not permitted", Cause::CrossDevice),
    ("resource busy or locked", Cause::Busy),
    ("Cross-device link", Cause::CrossDevice),
    ("Resource busy", Cause::Busy),
    ("Host is unreachable", Cause::HostUnreachable),
    ("No such file", Cause::Missing),
    ("no such host", Cause::Lookup),
    ("Try again", Cause::Lookup),
];

/// Finds error texts in a line.
#[derive(Debug)]
pub struct HostErrors {
    automaton: Option<AhoCorasick>,
    causes: Vec<Cause>,
}

/// One error text found in a line: byte range and meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// First byte of the text.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
    /// What it means.
    pub cause: Cause,
}

static ENGLISH: LazyLock<HostErrors> = LazyLock::new(|| HostErrors::build(Vec::new()));
static EVERY_LANGUAGE: LazyLock<HostErrors> =
    LazyLock::new(|| HostErrors::build(catalogue_texts(Path::new("/usr/share/locale"))));

impl HostErrors {
    /// The English texts only.
    #[must_use]
    pub fn english() -> &'static Self {
        &ENGLISH
    }

    /// The English texts and every translation the host's catalogues hold; read once, on first use.
    #[must_use]
    pub fn every_language() -> &'static Self {
        &EVERY_LANGUAGE
    }

    fn build(translated: Vec<(String, Cause)>) -> Self {
        let mut texts: Vec<(String, Cause)> =
            GLIBC.iter().chain(&OTHERS).map(|(text, cause)| ((*text).to_owned(), *cause)).collect();
        texts.extend(translated);
        let automaton = AhoCorasickBuilder::new()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts.iter().map(|(text, _)| text.as_str()))
            .ok();
        Self { automaton, causes: texts.into_iter().map(|(_, cause)| cause).collect() }
    }

    /// The last error text of a line: messages put the reason at their end.
    #[must_use]
    pub fn last_in(&self, line: &str) -> Option<Found> {
        let found = self.automaton.as_ref()?.find_iter(line).last()?;
        let cause = *self.causes.get(found.pattern().as_usize())?;
        Some(Found { start: found.start(), end: found.end(), cause })
    }
}

/// The translations of the known texts in every `libc.mo` under a locale directory. Unreadable or odd catalogues say
/// nothing: their language is then not understood, as before.
fn catalogue_texts(root: &Path) -> Vec<(String, Cause)> {
    let mut texts = Vec::new();
    let Ok(languages) = std::fs::read_dir(root) else { return texts };
    for language in languages.flatten().take(512) {
        let file = language.path().join("LC_MESSAGES/libc.mo");
        if std::fs::metadata(&file).is_ok_and(|meta| meta.len() < 4 << 20)
            && let Ok(bytes) = std::fs::read(&file)
        {
            texts.extend(translations(&bytes));
        }
    }
    texts.sort_by(|a, b| a.0.cmp(&b.0));
    texts.dedup_by(|a, b| a.0 == b.0);
    texts
}

/// Takes the known texts out of one `.mo` file.
#[must_use]
pub fn translations(mo: &[u8]) -> Vec<(String, Cause)> {
    let word = |at: usize, little: bool| -> Option<usize> {
        let bytes: [u8; 4] = mo.get(at..at.checked_add(4)?)?.try_into().ok()?;
        let value = if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
        usize::try_from(value).ok()
    };
    let little = match mo.get(..4) {
        Some([0xde, 0x12, 0x04, 0x95]) => true,
        Some([0x95, 0x04, 0x12, 0xde]) => false,
        _ => return Vec::new(),
    };
    let text = |table: usize, index: usize| -> Option<&str> {
        let entry = table.checked_add(index.checked_mul(8)?)?;
        let (length, offset) = (word(entry, little)?, word(entry.checked_add(4)?, little)?);
        std::str::from_utf8(mo.get(offset..offset.checked_add(length)?)?).ok()
    };
    let (Some(count), Some(originals), Some(translated)) = (word(8, little), word(12, little), word(16, little)) else {
        return Vec::new();
    };
    // A count larger than the file has room for is a lie; do not walk it.
    (0..count.min(mo.len() / 8))
        .filter_map(|index| {
            let original = text(originals, index)?;
            let (_, cause) = GLIBC.iter().find(|(known, _)| *known == original)?;
            let translation = text(translated, index)?;
            // Very short translations would match inside ordinary words.
            (translation.chars().count() >= 5).then(|| (translation.to_owned(), *cause))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A catalogue with one entry, as `msgfmt` lays it out.
    fn catalogue(original: &str, translation: &str) -> Vec<u8> {
        let strings = 28 + 16;
        let mut mo = Vec::new();
        for value in [0x9504_12de_u32, 0, 1, 28, 36, 0, 0] {
            mo.extend(value.to_le_bytes());
        }
        mo.extend(u32::try_from(original.len()).unwrap().to_le_bytes());
        mo.extend(u32::try_from(strings).unwrap().to_le_bytes());
        mo.extend(u32::try_from(translation.len()).unwrap().to_le_bytes());
        mo.extend(u32::try_from(strings + original.len() + 1).unwrap().to_le_bytes());
        mo.extend(original.as_bytes());
        mo.push(0);
        mo.extend(translation.as_bytes());
        mo.push(0);
        mo
    }

    #[test]
    fn takes_a_translation_out_of_a_catalogue() {
        let mo = catalogue("Read-only file system", "Das Dateisystem ist nur lesbar");
        assert_eq!(translations(&mo), [("Das Dateisystem ist nur lesbar".to_owned(), Cause::ReadOnly)]);
        assert!(translations(&catalogue("Success", "Erfolg")).is_empty());
    }

    #[test]
    fn a_broken_catalogue_says_nothing_of_the_missing_part() {
        let mo = catalogue("Permission denied", "Keine Berechtigung");
        for cut in 0..mo.len() - 1 {
            assert!(translations(&mo[..cut]).is_empty(), "cut at {cut}");
        }
        let mut huge = mo.clone();
        huge[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(translations(&huge), translations(&mo));
    }

    #[test]
    fn the_last_text_of_a_line_is_its_reason() {
        let line = "cp: Connection refused is a name: permission denied";
        let found = HostErrors::english().last_in(line).unwrap();
        assert_eq!((found.cause, &line[found.start..found.end]), (Cause::Access, "permission denied"));
        assert_eq!(HostErrors::english().last_in("all is well"), None);
    }
}
