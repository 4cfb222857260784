//! Writes the fields of a message. *(pure)*

use super::MAX_VARINT;

/// Writes a message from its last byte to its first.
///
/// The length of a part is then known when it has to be written, without a second pass.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// The written bytes in reverse order.
    reversed: Vec<u8>,
}

// === impl Writer ===

impl Writer {
    /// The number of written bytes.
    pub(crate) fn len(&self) -> usize {
        self.reversed.len()
    }

    /// Returns the message.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.reversed.reverse();
        self.reversed
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.reversed.extend(bytes.iter().rev());
    }

    /// Writes a field with a number.
    pub(crate) fn varint_field(&mut self, number: u32, value: u64) {
        self.varint(value);
        self.tag(number, 0);
    }

    /// Writes a field with a double.
    pub(crate) fn double_field(&mut self, number: u32, value: f64) {
        self.raw(&value.to_le_bytes());
        self.tag(number, 1);
    }

    /// Writes a field with a string or bytes.
    pub(crate) fn bytes_field(&mut self, number: u32, bytes: &[u8]) {
        let end = self.len();
        self.raw(bytes);
        self.close_field(number, end);
    }

    /// Makes the bytes that were written since the length `end` the value of a field.
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
