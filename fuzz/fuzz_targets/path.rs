//! Names: what is accepted leads nowhere else, and what is shown can
//! move no cursor.

#![no_main]

use haul_model::{Name, escape_bytes, escape_text};
use libfuzzer_sys::fuzz_target;
use std::path::{Component, Path};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(name) = Name::new(bytes) {
        assert_eq!(name.as_bytes(), bytes);
        let mut components = Path::new(name.as_os_str()).components();
        assert!(matches!(components.next(), Some(Component::Normal(it)) if it == name.as_os_str()));
        assert_eq!(components.next(), None);
    }
    let shown = escape_bytes(bytes);
    assert!(!shown.contains(char::is_control));
    assert!(shown.len() <= 8 * bytes.len());
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert_eq!(escape_text(text), shown);
    }
});
