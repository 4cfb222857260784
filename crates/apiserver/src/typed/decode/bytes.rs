//! Values of type `[]byte`: base64, and lists of numbers, as Go reads them.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use super::Decoder;
use crate::json::type_name;

/// Base64 as Go reads it: the unused bits of the last digit can have any value.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

impl Decoder {
    /// Checks base64, and removes line ends from it, as Go does.
    pub(super) fn base64(&mut self, text: &mut String) {
        let joined = text.replace(['\r', '\n'], "");
        if let Ok(bytes) = BASE64.decode(joined) {
            *text = BASE64.encode(bytes);
        } else {
            let at = first_bad_byte(text.as_bytes());
            self.remember(format!("illegal base64 data at input byte {at}"));
        }
    }

    /// Decodes a list of numbers, which Go accepts for bytes too.
    pub(super) fn bytes(&mut self, items: &[Value]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(items.len());
        for item in items {
            let byte = item.as_u64().and_then(|number| u8::try_from(number).ok());
            if byte.is_none() && !item.is_null() {
                let found = match item {
                    Value::Number(number) => format!("number {number}"),
                    other => type_name(other).to_owned(),
                };
                let error = self.mistyped(&found, "uint8");
                self.remember(error);
            }
            bytes.push(byte.unwrap_or_default());
        }
        bytes
    }
}

/// The position at which Go's base64 decoder stops: the first byte that is not a digit, or the
/// beginning of an incomplete group of four.
pub(super) fn first_bad_byte(text: &[u8]) -> usize {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let mut digits = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'\r' | b'\n' => {}
            byte if is_digit(*byte) => digits += 1,
            b'=' if digits % 4 >= 2 => {
                let rest = &text[at + 1..];
                let wanted = usize::from(digits % 4 == 2);
                return match rest.first() {
                    Some(b'=') | None => (at + wanted + 1).min(text.len()),
                    Some(_) if wanted == 1 => at,
                    Some(_) => at + 1,
                };
            }
            _ => return at,
        }
    }
    text.len() - digits % 4
}
