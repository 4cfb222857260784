//! Writes the fields of a message. *(pure)*

use super::MAX_VARINT;

/// Writes a message from its last byte to its first.
///
/// So the length of a part is known when it has to be written, without a second pass.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// The bytes so far, the last one first.
    reversed: Vec<u8>,
}

// === impl Writer ===

impl Writer {
    /// How many bytes have been written.
    pub(crate) fn len(&self) -> usize {
        self.reversed.len()
    }

    /// The message.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.reversed.reverse();
        self.reversed
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.reversed.extend(bytes.iter().rev());
    }

    /// A field that holds a number.
    pub(crate) fn varint_field(&mut self, number: u32, value: u64) {
        self.varint(value);
        self.tag(number, 0);
    }

    /// A field that holds a double.
    pub(crate) fn double_field(&mut self, number: u32, value: f64) {
        self.raw(&value.to_le_bytes());
        self.tag(number, 1);
    }

    /// A field that holds a string or bytes.
    pub(crate) fn bytes_field(&mut self, number: u32, bytes: &[u8]) {
        let end = self.len();
        self.raw(bytes);
        self.close_field(number, end);
    }

    /// Makes all that was written since the length was `end` the value of a field.
    pub(crate) fn close_field(&mut self, number: u32, end: usize) {
        let length = self.len().saturating_sub(end);
        self.varint(length as u64);
        self.tag(number, 2);
    }

    fn tag(&mut self, number: u32, wire_type: u64) {
        self.varint(u64::from(number) << 3 | wire_type);
    }

    fn varint(&mut self, mut value: u64) {
        let mut bytes = [0; MAX_VARINT];
        let mut length = 0;
        for byte in &mut bytes {
            length += 1;
            *byte = (value & 0x7f) as u8;
            value >>= 7;
            if value == 0 {
                break;
            }
            *byte |= 0x80;
        }
        self.raw(bytes.get(..length).unwrap_or_default());
    }
}
