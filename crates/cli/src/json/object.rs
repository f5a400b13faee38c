//! A JSON object that is written field by field.

use haul_model::is_unsafe_to_show;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;
use std::io;

/// An object. Its fields have the order in which they are added.
#[derive(Debug, Default)]
pub(crate) struct Object(Vec<u8>);

impl Object {
    /// Starts a line of the type `kind`.
    pub(crate) fn line(kind: &str) -> Self {
        Self(Vec::with_capacity(256)).with("type", kind)
    }

    /// Adds a field.
    pub(crate) fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.begin(name);
        value
            .serialize(&mut Serializer::with_formatter(&mut self.0, Escaped))
            .expect("numbers, strings and lists of them have a JSON form");
        self
    }

    /// Adds a field, unless it has no value.
    pub(crate) fn with_some(self, name: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds bytes as text, unless there are none. If they are not UTF-8, the text is approximate,
    /// and a second field, whose name ends with `_hex`, has all bytes as hexadecimal digits.
    pub(crate) fn with_some_bytes(self, name: &str, bytes: Option<&[u8]>) -> Self {
        let Some(bytes) = bytes else { return self };
        let object = self.with(name, String::from_utf8_lossy(bytes));
        if str::from_utf8(bytes).is_ok() {
            return object;
        }
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        object.with(&format!("{name}_hex"), hex)
    }

    /// Adds the field `path`, and `path_hex` if the path is not UTF-8.
    pub(crate) fn with_path(self, path: &[u8]) -> Self {
        self.with_some_bytes("path", Some(path))
    }

    /// Adds an object, unless there is none.
    pub(crate) fn with_object(mut self, name: &str, object: Option<Self>) -> Self {
        if let Some(object) = object {
            self.begin(name);
            self.0.extend(object.into_bytes());
        }
        self
    }

    /// Adds a list of objects.
    pub(crate) fn with_list(mut self, name: &str, objects: impl IntoIterator<Item = Self>) -> Self {
        self.begin(name);
        let objects: Vec<_> = objects.into_iter().map(Self::into_bytes).collect();
        self.0.push(b'[');
        self.0.extend(objects.join(&b','));
        self.0.push(b']');
        self
    }

    fn begin(&mut self, name: &str) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        self.0.extend(format!("\"{name}\":").as_bytes());
    }

    fn into_bytes(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }

    /// The bytes of the line, including the line end.
    pub(crate) fn into_line(self) -> Vec<u8> {
        let mut line = self.into_bytes();
        line.push(b'\n');
        line
    }
}

/// Escapes characters that could act on a terminal, although JSON allows them: DEL, C1, and
/// characters that reorder or hide text.
struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unsafe_to_show) {
            let (safe, from) = rest.split_at(at);
            let unsafe_char = from.chars().next().expect("it was found");
            // All these characters are below U+10000, and need no surrogates.
            write!(writer, "{safe}\\u{:04x}", u32::from(unsafe_char))?;
            rest = &from[unsafe_char.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}
