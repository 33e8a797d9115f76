//! How ids and counts are described.

use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{KnownFormat, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

/// An id as text.
#[derive(Debug)]
pub(super) struct IdText;

/// A count as text.
#[derive(Debug)]
pub(super) struct CountText;

/// A string or a number in an operation or item, where what it means is checked one by one.
#[derive(Debug)]
pub(super) struct Loose;

impl PartialSchema for IdText {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .description(Some("An id: a whole number from 1 to 9223372036854775807, in decimal digits"))
            .pattern(Some(id_pattern()))
            .examples(["10086", "9223372036854775807"])
            .into()
    }
}

impl PartialSchema for CountText {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .description(Some("A count, in decimal digits"))
            .pattern(Some("^-?[0-9]{1,19}$"))
            .examples(["128"])
            .into()
    }
}

impl PartialSchema for Loose {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Number]))
            .description(Some(
                "A string or an integer. One that is no id, or no configured target type, is refused with its \
                 operation or item; the others are carried out",
            ))
            .examples([serde_json::json!("1"), serde_json::json!(1)])
            .into()
    }
}

impl ToSchema for IdText {
    fn name() -> std::borrow::Cow<'static, str> {
        "Id".into()
    }
}

impl ToSchema for CountText {
    fn name() -> std::borrow::Cow<'static, str> {
        "CountText".into()
    }
}

impl ToSchema for Loose {
    fn name() -> std::borrow::Cow<'static, str> {
        "IdOrCode".into()
    }
}

/// Exactly the decimal spellings of 1 to 9223372036854775807: up to 18 digits, or 19 digits of which the first that
/// differs from the largest is smaller.
fn id_pattern() -> String {
    let largest = i64::MAX.to_string();
    let mut forms = vec!["[1-9][0-9]{0,17}".to_owned()];
    for (at, digit) in largest.char_indices() {
        let (before, after) = (&largest[..at], largest.len() - at - 1);
        let least = if at == 0 { '1' } else { '0' };
        if digit > least {
            let below = char::from_u32(u32::from(digit) - 1).unwrap_or(least);
            forms.push(format!("{before}[{least}-{below}][0-9]{{{after}}}"));
        }
    }
    format!("^({}|{largest})$", forms.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Id;

    /// As much of a regular expression as the pattern uses.
    fn matches(pattern: &str, text: &str) -> bool {
        let forms = pattern.strip_prefix("^(").and_then(|rest| rest.strip_suffix(")$")).unwrap();
        forms.split('|').any(|form| matches_form(form, text))
    }

    fn matches_form(form: &str, text: &str) -> bool {
        let Some(first) = form.chars().next() else { return text.is_empty() };
        let (class, rest) = match form.strip_prefix('[') {
            Some(rest) => rest.split_once(']').unwrap(),
            None => form.split_at(first.len_utf8()),
        };
        let (least, most) = (class.chars().next().unwrap(), class.chars().last().unwrap());
        let (times, rest) = match rest.strip_prefix('{') {
            Some(rest) => rest.split_once('}').unwrap(),
            None => ("1", rest),
        };
        let (low, high) = times.split_once(',').unwrap_or((times, times));
        (low.parse().unwrap()..=high.parse().unwrap()).any(|n: usize| {
            text.get(..n).is_some_and(|head| head.chars().all(|c| (least..=most).contains(&c)))
                && matches_form(rest, &text[n..])
        })
    }

    #[test]
    fn the_pattern_is_that_of_an_id() {
        let pattern = id_pattern();
        let mut texts: Vec<String> = ["", "0", "00", "01", "-1", "+1", "1.0", "1e3", "a"].map(String::from).into();
        let largest = u128::try_from(i64::MAX).unwrap();
        let powers = (0..21).flat_map(|digits| [10_u128.pow(digits), 10_u128.pow(digits) + 1]);
        let near = (0..19).flat_map(|digits| {
            let step = 10_u128.pow(digits);
            [largest - step, largest + step, largest / step * step, largest / step * step + step]
        });
        texts.extend(powers.chain(near).chain([largest, 1, 2, 9_007_199_254_740_993]).map(|n| n.to_string()));
        for text in texts {
            assert_eq!(matches(&pattern, &text), text.parse::<Id>().is_ok(), "{text}");
        }
    }
}
