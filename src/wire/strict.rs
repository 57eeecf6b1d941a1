//! Finds fields that the host does not know in the bytes of a directive.
//!
//! The decoder skips unknown fields without a word, so the bytes are read once more: only keys and lengths are
//! looked at, and only where a directive is. What is known comes from the descriptor set of `proto/`, so no list
//! is kept by hand. If that set could not be read, nothing would be known and every directive refused.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use prost::Message as _;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

use super::proto::{DESCRIPTOR_SET, v1 as pb};

/// The cause of a directive whose bytes held an unknown field; its path is then the reason, and the body is gone.
/// An engine that sends this itself is refused just the same, since a directive needs a body.
const MARK: &str = "\u{1}unknown field";
/// As deep as the decoder goes.
const DEPTH: usize = 100;

static SHAPES: LazyLock<Shapes> = LazyLock::new(Shapes::read);

struct Field {
    name: String,
    message: Option<String>,
}

/// The fields of every message, by the message's full name with a leading dot.
#[derive(Default)]
struct Shapes(BTreeMap<String, BTreeMap<u32, Field>>);

impl Shapes {
    fn read() -> Self {
        let mut shapes = Self::default();
        match FileDescriptorSet::decode(DESCRIPTOR_SET) {
            Ok(set) => {
                for file in set.file {
                    let scope = format!(".{}", file.package());
                    for message in &file.message_type {
                        shapes.add(&scope, message);
                    }
                }
            }
            Err(error) => {
                tracing::error!(%error, "descriptor set does not decode; every directive is refused")
            }
        }
        shapes
    }

    fn add(&mut self, scope: &str, message: &DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for nested in &message.nested_type {
            self.add(&name, nested);
        }
        let fields = message
            .field
            .iter()
            .filter_map(|f| {
                let message = (f.r#type() == Type::Message).then(|| f.type_name().to_owned());
                let name = f.name().to_owned();
                Some((u32::try_from(f.number()).ok()?, Field { name, message }))
            })
            .collect();
        self.0.insert(name, fields);
    }

    /// Appends the path of the first unknown field to `path` and says whether there is one.
    fn has_unknown(&self, message: &str, bytes: &[u8], path: &mut String, depth: usize) -> bool {
        let Some(fields) = self.0.get(message).filter(|_| depth > 0) else {
            return true;
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            // Bytes that do not parse were refused by the decoder before.
            let Some((number, value)) = next(&mut rest) else {
                return true;
            };
            let Some(field) = fields.get(&number) else {
                // Writing to a string cannot fail.
                let _ = write!(path, ".{number}");
                return true;
            };
            if let (Some(inner), Some(value)) = (&field.message, value) {
                let length = path.len();
                path.push('.');
                path.push_str(&field.name);
                if self.has_unknown(inner, value, path, depth - 1) {
                    return true;
                }
                path.truncate(length);
            }
        }
        false
    }
}

/// Reads one field: its number, and its bytes if it has a length.
fn next<'a>(rest: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    let key = varint(rest)?;
    let number = u32::try_from(key >> 3).ok()?;
    let mut skip = |length: usize| {
        let (value, after) = rest.split_at_checked(length)?;
        *rest = after;
        Some(value)
    };
    match key & 7 {
        0 => varint(rest).map(|_| (number, None)),
        1 => skip(8).map(|_| (number, None)),
        5 => skip(4).map(|_| (number, None)),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            let (value, after) = rest.split_at_checked(length)?;
            *rest = after;
            Some((number, Some(value)))
        }
        _ => None,
    }
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Returns the path of an unknown field of a directive, where `field` is the directive's number in the message.
fn find(bytes: &[u8], field: u32) -> Option<String> {
    let mut rest = bytes;
    while let Some((number, value)) = next(&mut rest) {
        let mut path = "directive".to_owned();
        if number == field
            && let Some(value) = value
            && SHAPES.has_unknown(".signalbox.engine.v1.Directive", value, &mut path, DEPTH)
        {
            return Some(path);
        }
    }
    None
}

/// Marks the directive of a stream's message if its bytes hold unknown fields.
pub(super) fn check_frame(message: &mut pb::ConnectRequest, bytes: &[u8]) {
    if let Some(pb::connect_request::Body::Directive(directive)) = &mut message.body
        && let Some(path) = find(bytes, 2)
    {
        mark(directive, path);
    }
}

/// Marks the directive of a call if its bytes hold unknown fields.
pub(super) fn check_submit(message: &mut pb::SubmitDirectiveRequest, bytes: &[u8]) {
    if let Some(directive) = &mut message.directive
        && let Some(path) = find(bytes, 2)
    {
        mark(directive, path);
    }
}

fn mark(directive: &mut pb::Directive, path: String) {
    directive.body = None;
    directive.cause = MARK.to_owned();
    directive.reason = path;
}

/// Returns the path of the unknown field if the directive was marked.
pub(super) fn marked(directive: &pb::Directive) -> Option<&str> {
    (directive.body.is_none() && directive.cause == MARK).then_some(directive.reason.as_str())
}
