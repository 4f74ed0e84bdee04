//! Paths in messages and results: a Linux path is bytes, and need not be text.
//!
//! Serde's own form refuses a path that is not UTF-8, which would make a workspace of that name unusable and a result
//! that tells of one unprintable. Binary forms carry the bytes; text forms carry U+FFFD where there is no character.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One path, in whichever form the format wants.
struct Text<'a>(&'a Path);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&self.0.to_string_lossy())
        } else {
            serializer.serialize_bytes(self.0.as_os_str().as_bytes())
        }
    }
}

/// As it comes out of a message.
struct Owned(PathBuf);

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = if deserializer.is_human_readable() {
            String::deserialize(deserializer)?.into_bytes()
        } else {
            // The binary codec writes bytes as it writes a list of them.
            Vec::deserialize(deserializer)?
        };
        Ok(Self(OsString::from_vec(bytes).into()))
    }
}

pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    Text(path).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Owned::deserialize(deserializer).map(|path| path.0)
}

/// For an optional path.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Owned, PathBuf, Serialize, Serializer, Text};

    pub(crate) fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(Text).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Owned>::deserialize(deserializer)?.map(|path| path.0))
    }
}

/// For a list of paths.
pub(crate) mod list {
    use super::{Deserialize, Deserializer, Owned, PathBuf, Serializer, Text};

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| Text(path)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<Owned>::deserialize(deserializer)?.into_iter().map(|path| path.0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Three {
        #[serde(with = "super")]
        one: PathBuf,
        #[serde(with = "super::option")]
        maybe: Option<PathBuf>,
        #[serde(with = "super::list")]
        many: Vec<PathBuf>,
    }

    #[test]
    fn bytes_survive_in_binary_and_text_is_always_text() {
        let odd = PathBuf::from(OsString::from_vec(b"/a\xff\nb".to_vec()));
        for maybe in [None, Some(odd.clone())] {
            let three = Three { one: odd.clone(), maybe, many: vec![odd.clone(), "/plain".into()] };
            let bytes = postcard::to_stdvec(&three).unwrap();
            assert_eq!(postcard::from_bytes::<Three>(&bytes).unwrap(), three);
            let text = serde_json::to_string(&three).unwrap();
            assert!(text.contains("/a\u{fffd}\\nb") && text.contains("\"/plain\""), "{text}");
            let back: Three = serde_json::from_str(&text).unwrap();
            assert_eq!(back.many[1], Path::new("/plain"));
        }
    }
}
