//! Fields of a message as bytes. *(pure)*

use crate::error::Problem;

/// Reads the fields of a message, one by one.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

/// The value of a field, as its wire type says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,

    /// A group of fields, which no Kubernetes message has.
    Group,
}

/// Writes a message from its last byte to its first.
///
/// So the length of a part is known when it has to be written, without a second pass.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// The bytes so far, the last one first.
    reversed: Vec<u8>,
}

/// How many bytes a varint has at most.
const MAX_VARINT: usize = 10;

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field: its number and its value; `None` at the end of the message.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, Problem> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        let payload = match wire_type {
            3 => {
                self.skip_group()?;
                Payload::Group
            }
            4 => return Err(Problem::EndOfGroup),
            wire_type => self.payload(wire_type)?,
        };
        Ok(Some((number, payload)))
    }

    fn tag(&mut self) -> Result<(u32, u8), Problem> {
        let tag = self.varint()?;
        let number = i32::try_from(tag >> 3)
            .ok()
            .and_then(|it| it.try_into().ok());
        let number = number.filter(|number| *number > 0);
        let wire_type = (tag & 7) as u8;
        Ok((number.ok_or(Problem::FieldNumber)?, wire_type))
    }

    fn payload(&mut self, wire_type: u8) -> Result<Payload<'a>, Problem> {
        Ok(match wire_type {
            0 => Payload::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?;
                let bytes: [u8; 8] = bytes.try_into().map_err(|_| Problem::Truncated)?;
                Payload::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| Problem::Truncated)?;
                Payload::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Payload::Fixed32
            }
            other => return Err(Problem::WireType(other)),
        })
    }

    /// Skips to the end of the group that has begun, with the groups in it.
    fn skip_group(&mut self) -> Result<(), Problem> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.tag()?.1 {
                3 => depth = depth.saturating_add(1),
                4 => depth -= 1,
                wire_type => {
                    self.payload(wire_type)?;
                }
            }
        }
        Ok(())
    }

    /// The next varint of a packed list; `None` at its end.
    pub(crate) fn packed_varint(&mut self) -> Result<Option<u64>, Problem> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.varint().map(Some)
    }

    /// The next number of a packed list of doubles; `None` at its end.
    pub(crate) fn packed_fixed64(&mut self) -> Result<Option<u64>, Problem> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        match self.payload(1)? {
            Payload::Fixed64(bits) => Ok(Some(bits)),
            _ => Ok(None),
        }
    }

    fn varint(&mut self) -> Result<u64, Problem> {
        let mut value = 0_u64;
        for (at, byte) in self.rest.iter().take(MAX_VARINT).enumerate() {
            // Bits beyond the 64th are dropped, as Go drops them.
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(if self.rest.len() < MAX_VARINT {
            Problem::Truncated
        } else {
            Problem::Varint
        })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Problem::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
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

#[cfg(test)]
mod tests {
    use super::{Payload, Problem, Reader, Writer};

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::default();
        let end = writer.len();
        writer.bytes_field(2, b"inner");
        writer.close_field(3, end);
        writer.double_field(2, 1.5);
        writer.varint_field(1, u64::MAX);
        let bytes = writer.finish();

        let mut reader = Reader::new(&bytes);
        assert!(matches!(
            reader.next(),
            Ok(Some((1, Payload::Varint(u64::MAX))))
        ));
        let Ok(Some((2, Payload::Fixed64(bits)))) = reader.next() else {
            panic!("no double");
        };
        assert_eq!(bits, 1.5_f64.to_bits());
        let Ok(Some((3, Payload::Bytes(inner)))) = reader.next() else {
            panic!("no bytes");
        };
        let inner = Reader::new(inner).next();
        assert!(matches!(inner, Ok(Some((2, Payload::Bytes(b"inner"))))));
        assert!(matches!(reader.next(), Ok(None)));
    }

    #[test]
    fn malformed_bytes_are_refused() {
        for (bytes, expected) in [
            (&[0x08][..], Problem::Truncated),
            (&[0x08, 0x80], Problem::Truncated),
            (&[0x0a, 0x05, 0x00], Problem::Truncated),
            (
                &[
                    0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
                ],
                Problem::Truncated,
            ),
            (
                &[
                    0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00,
                ],
                Problem::Varint,
            ),
            (&[0x00, 0x00], Problem::FieldNumber),
            (&[0x0c], Problem::EndOfGroup),
            (&[0x0b, 0x0b, 0x0c], Problem::Truncated),
            (&[0x0e], Problem::WireType(6)),
            (&[0x09, 0x00], Problem::Truncated),
        ] {
            assert_eq!(
                Reader::new(bytes).next().err(),
                Some(expected),
                "{bytes:x?}"
            );
        }
    }

    #[test]
    fn a_group_is_skipped_with_the_groups_in_it() {
        let bytes = [0x0b, 0x13, 0x14, 0x10, 0x01, 0x0c, 0x08, 0x01];
        let mut reader = Reader::new(&bytes);
        assert!(matches!(reader.next(), Ok(Some((1, Payload::Group)))));
        assert!(matches!(reader.next(), Ok(Some((1, Payload::Varint(1))))));
        assert!(matches!(reader.next(), Ok(None)));
    }
}
