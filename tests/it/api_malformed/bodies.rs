//! Bodies that are refused as a whole, and ones whose every operation or item is.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

/// Field names and JSON texts: unlike in a map, a name may be there twice, and a number have any form.
type Fields = Vec<(String, String)>;

/// What a body is for: the name of its list, if it has one, and a good element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Batch,
    Query,
    View,
}

impl Form {
    fn list(self) -> Option<&'static str> {
        match self {
            Self::Batch => Some("ops"),
            Self::Query => Some("items"),
            Self::View => None,
        }
    }

    fn good(self) -> Fields {
        let fields: &[_] = match self {
            Self::Batch => &[("op", "\"set\""), ("interaction", "\"like\""), ("target_type", "1")],
            Self::Query => &[("interaction", "\"like\""), ("target_type", "1")],
            Self::View => &[("viewer", "\"somebody\"")],
        };
        let ids: &[_] = if self == Self::View { &[] } else { &[("target_id", "77"), ("user_id", "\"78\"")] };
        fields.iter().chain(ids).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// The whole, of elements; of the first one when there is no list.
    fn document(self, elements: &[Fields]) -> String {
        match self.list() {
            Some(name) => format!("{{\"{name}\":[{}]}}", elements.iter().map(object).collect::<Vec<_>>().join(",")),
            None => elements.first().map(object).unwrap_or_default(),
        }
    }
}

fn object(fields: &Fields) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
    format!("{{{}}}", fields.join(","))
}

/// A body of this form that is no JSON, or not of the form, among good elements: 400 for the whole.
pub fn refused(form: Form) -> BoxedStrategy<Vec<u8>> {
    let of_form = (element(form), 0..3_usize, 0..3_usize).prop_map(move |(bad, before, after)| {
        let good = |times| std::iter::repeat_n(form.good(), times);
        let elements: Vec<Fields> =
            if form.list().is_some() { good(before).chain([bad]).chain(good(after)).collect() } else { vec![bad] };
        form.document(&elements).into_bytes()
    });
    prop_oneof![
        4 => of_form,
        3 => text(form),
        1 => wrapped(form),
        1 => json_value().prop_map(|value| value.to_string().into_bytes()),
        1 => vec(any::<u8>(), 0..200),
        1 => deep(form),
    ]
    .boxed()
}

/// One element that is not of its form.
fn element(form: Form) -> impl Strategy<Value = Fields> {
    let wrong_type = prop_oneof![
        select(vec!["null", "true", "false", "[]", "{}", "[1]", "{\"a\":1}"]).prop_map(str::to_owned),
        json_value().prop_filter("an array or object", |v| v.is_array() || v.is_object()).prop_map(|v| v.to_string()),
    ];
    let name = "[a-z_]{0,12}|\\PC{0,8}";
    let numbers_too = select(vec!["1", "-1.5e3", "\"flip\"", "{\"set\":null}"]).prop_map(str::to_owned);
    prop_oneof![
        // An unknown field.
        (name, json_value(), any::<Index>()).prop_filter_map("unknown", move |(name, value, at)| {
            let mut fields = form.good();
            if fields.iter().any(|(known, _)| *known == name) {
                return None;
            }
            fields.insert(at.index(fields.len() + 1), (name, value.to_string()));
            Some(fields)
        }),
        // One of another type.
        (wrong_type, any::<Index>()).prop_map(move |(value, at)| {
            let mut fields = form.good();
            let at = at.index(fields.len());
            fields[at].1 = value;
            fields
        }),
        // One twice.
        any::<Index>().prop_map(move |at| {
            let mut fields = form.good();
            let twice = fields[at.index(fields.len())].clone();
            fields.push(twice);
            fields
        }),
        // One missing; the last one may be missing in a query.
        any::<Index>().prop_map(move |at| {
            let mut fields = form.good();
            fields.remove(at.index(if form == Form::Query { 3 } else { fields.len() }));
            fields
        }),
        // The first one, which is a string with few values or any length.
        numbers_too.prop_map(move |value| {
            let mut fields = form.good();
            let value = match form {
                Form::Batch => value,
                Form::Query => "1".to_owned(),
                Form::View => json!(value.repeat(150)).to_string(),
            };
            fields[0].1 = value;
            fields
        }),
    ]
}

/// A good text, damaged.
fn text(form: Form) -> impl Strategy<Value = Vec<u8>> {
    let good = move || form.document(&[form.good(), form.good()]);
    let tail = select(vec!["x", "{}", ",", "]", "}", "\0", "null", "\u{feff}", "//", "\u{a0}"]);
    let not_utf8 =
        select(vec![&b"\xff"[..], b"\xc3\x28", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xc0\xaf", b"\x80"]);
    let spelled = select(vec![
        ("\"", "'"),
        (":", "="),
        ("{", "{,"),
        ("}", ",}"),
        ("\"", ""),
        ("{", "[{"),
        ("{\"", "{/**/\""),
        ("{\"", "\u{feff}{\""),
    ]);
    prop_oneof![
        any::<Index>().prop_map(move |at| {
            let text = good();
            text.as_bytes()[..at.index(text.len())].to_vec()
        }),
        tail.prop_map(move |tail| (good() + tail).into_bytes()),
        // Within a string: the interaction, or the viewer.
        (not_utf8, any::<bool>()).prop_map(move |(bytes, long)| {
            let text = good();
            let word = if form == Form::View { "somebody" } else { "like" };
            let at = text.find(word).unwrap() + 2;
            let bytes = if long { bytes.repeat(2000) } else { bytes.to_vec() };
            [&text.as_bytes()[..at], &bytes, &text.as_bytes()[at..]].concat()
        }),
        spelled.prop_map(move |(from, to)| good().replacen(from, to, 1).into_bytes()),
        select(vec!["\\ud800", "\\x41", "\\u12", "\u{1}", "\n"]).prop_map(move |escape| {
            let word = if form == Form::View { "somebody" } else { "like" };
            good().replacen(word, escape, 1).into_bytes()
        }),
        // Two bytes a character, as some clients of old send it.
        Just(()).prop_map(move |()| good().encode_utf16().flat_map(u16::to_le_bytes).collect()),
    ]
}

/// Good elements in something else than they belong in.
fn wrapped(form: Form) -> impl Strategy<Value = Vec<u8>> {
    let good = object(&form.good());
    let list = form.list().unwrap_or("viewer");
    let values: Vec<String> = form.good().into_iter().map(|(_, value)| value).collect();
    let values = values.join(",");
    select(vec![
        format!("[{good}]"),
        format!("[{values}]"),
        format!("{{\"{list}\":[[{values}]]}}"),
        format!("{{\"{list}\":{good}}}"),
        format!("{{\"{list}\":[[{good}]]}}"),
        format!("{{\"{list}\":[{good}],\"{list}\":[{good}]}}"),
        format!("{{\"{list}\":[{good}],\"dry_run\":false}}"),
        format!("{{\"{}\":[{good}]}}", list.to_uppercase()),
        format!("{{\"{list}\":[{good},null]}}"),
        format!("{{\"{list}\":{}}}", json!(good.repeat(10))),
        format!("{{\"{list}\":null}}"),
        json!(good).to_string(),
    ])
    .prop_map(String::into_bytes)
}

/// Nested as deep as it goes.
fn deep(form: Form) -> impl Strategy<Value = Vec<u8>> {
    let opening = select(vec!["[", "{\"a\":", "[{\"ops\":", "{\"ops\":[{\"target_id\":"]);
    (opening, 1..20_000_usize, any::<bool>()).prop_map(move |(opening, depth, inside)| {
        let nested = opening.repeat(depth);
        if inside { form.document(&[form.good()]).replacen(":\"", &format!(":{nested}\""), 1) } else { nested }
            .into_bytes()
    })
}

/// Well formed, and no operation or item is good: 200, and an error for each.
pub fn refused_one_by_one(form: Form) -> BoxedStrategy<Vec<u8>> {
    let bad_id = prop_oneof![
        select(vec![
            "0",
            "-1",
            "-0",
            "1.0",
            "1e3",
            "1E400",
            "9223372036854775808",
            "1e-7",
            "\"1.0\"",
            "\"01\"",
            "\"+1\""
        ])
        .prop_map(str::to_owned),
        any::<f64>().prop_filter("JSON", |n| n.is_finite()).prop_map(|number| format!("{number:e}")),
        (20..5000_usize).prop_map(|digits| "9".repeat(digits)),
        any::<String>()
            .prop_filter("no id", |s| !super::requests::is_id(s.as_bytes()))
            .prop_map(|s| json!(s).to_string()),
        "\"[1-9][0-9]{0,17}[ \\u{0}a-f:%.]\"".prop_map(|text: String| text.replace('\0', "\\u0000")),
    ];
    let bad_type = prop_oneof![
        select(vec!["0", "5", "99999999999999999999", "1.0", "\"01\"", "\"Note\"", "\"\"", "-1"])
            .prop_map(str::to_owned),
        "[a-z]{0,3}[0-9A-Z]\\PC{0,20}"
            .prop_filter("unknown", |text| !super::requests::TYPES.contains(&text.as_str()))
            .prop_map(|text| json!(text).to_string()),
    ];
    let bad_interaction = prop_oneof![
        select(vec!["view", "Like", "", "likes", "l\u{131}ke", "users", "batch"])
            .prop_map(|text| json!(text).to_string()),
        "[a-z]{0,3}[0-9A-Z]\\PC{0,20}".prop_map(|text| json!(text).to_string()),
        (1000..5000_usize).prop_map(|length| json!("like".repeat(length)).to_string()),
    ];
    let value = prop_oneof![
        4 => (bad_id, select(vec!["target_id", "user_id"])).prop_map(|(value, field)| (field, value)),
        1 => bad_type.prop_map(|value| ("target_type", value)),
        1 => bad_interaction.prop_map(|value| ("interaction", value)),
    ];
    let element = (value, any::<Index>(), any::<bool>()).prop_map(move |((field, value), at, cancel)| {
        let mut fields = form.good();
        for (name, text) in &mut fields {
            match name.as_str() {
                "op" if cancel => "\"cancel\"".clone_into(text),
                name if name == field => text.clone_from(&value),
                _ => {}
            }
        }
        let first = at.index(fields.len());
        fields.rotate_left(first);
        fields
    });
    vec(element, 1..8).prop_map(move |elements| form.document(&elements).into_bytes()).boxed()
}

/// More than is taken at once: in elements, or in bytes.
pub fn too_large(form: Form) -> BoxedStrategy<Vec<u8>> {
    let elements = (1001..1500_usize).prop_map(move |times| form.document(&vec![form.good(); times]).into_bytes());
    let bytes = (1..1000_usize)
        .prop_map(move |more| [form.document(&[form.good()]).into_bytes(), vec![b' '; (1 << 20) + more]].concat());
    if form.list().is_some() { prop_oneof![elements, bytes].boxed() } else { bytes.boxed() }
}

/// Any JSON, without the names that something could come of.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map("[a-z_]{0,6}!", inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}
