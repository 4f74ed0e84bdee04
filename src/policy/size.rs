//! Sizes and counts in policy files: `4GiB`, `512`, `unlimited`.

#![forbid(unsafe_code)]

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A limit as a policy file writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitValue {
    /// Lifts the limit of the layer beneath.
    Unlimited,
    /// So many, or so many bytes.
    Value(u64),
}

impl LimitValue {
    /// The value as `Limits` keeps it.
    pub(super) const fn value(self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::Value(value) => Some(value),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let factor: u64 = match unit.trim() {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            "kB" | "KB" => 1000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            _ => {
                return Err(format!(
                    "'{text}' is no size: write a whole number and KiB, MiB, GiB or TiB, or \"unlimited\""
                ));
            }
        };
        let number: u64 =
            number.parse().map_err(|_| format!("'{text}' is no size: it must begin with a whole number"))?;
        let value = number.checked_mul(factor).ok_or_else(|| format!("'{text}' is more than 2^64 bytes"))?;
        Self::positive(value)
    }

    fn positive(value: u64) -> Result<Self, String> {
        if value == 0 {
            Err("a limit of 0 lets nothing run: write a larger one".into())
        } else {
            Ok(Self::Value(value))
        }
    }
}

/// As a policy that was read already is kept.
impl Serialize for LimitValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LimitValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Limit;
        impl Visitor<'_> for Limit {
            type Value = LimitValue;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a whole number, a size such as \"4GiB\", or \"unlimited\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<LimitValue, E> {
                LimitValue::parse(text).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<LimitValue, E> {
                LimitValue::positive(value).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<LimitValue, E> {
                let value = u64::try_from(value).map_err(|_| E::custom("a limit cannot be negative"))?;
                LimitValue::positive(value).map_err(E::custom)
            }
        }
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(Limit)
        } else {
            Ok(Option::deserialize(deserializer)?.map_or(Self::Unlimited, Self::Value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, value) in [
            ("4GiB", Some(4 << 30)),
            ("1 MiB", Some(1 << 20)),
            ("512", Some(512)),
            ("2kB", Some(2000)),
            ("unlimited", None),
        ] {
            assert_eq!(LimitValue::parse(text).unwrap().value(), value, "{text}");
        }
        for bad in ["", "GiB", "4Gib", "-1", "0", "1.5GiB", "99999999999TiB", "4 GiB extra"] {
            assert!(LimitValue::parse(bad).is_err(), "{bad}");
        }
    }
}
