//! Numbers in the configuration.
//!
//! The `config` crate converts what it is asked for: `1.5` rounds to the integer 2 and `true` is 1. These types take
//! what is written and refuse what is not a number; a text is parsed, because that is what a variable holds.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};

/// A whole number.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Whole(pub(super) i64);

/// Any finite number.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Number(pub(super) f64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take;

        impl Visitor<'_> for Take {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Whole, E> {
                Ok(Whole(value))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Whole, E> {
                text.trim().parse().map(Whole).map_err(|_| E::custom("this text is not a whole number"))
            }
        }

        deserializer.deserialize_any(Take)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take;

        impl Visitor<'_> for Take {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
                i32::try_from(value)
                    .map(|value| Number(value.into()))
                    .map_err(|_| E::custom("this number is too large"))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Number, E> {
                if value.is_finite() { Ok(Number(value)) } else { Err(E::custom("this is not a finite number")) }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                let value = text.trim().parse().map_err(|_| E::custom("this text is not a number"))?;
                self.visit_f64(value)
            }
        }

        deserializer.deserialize_any(Take)
    }
}
