//! Reads the fields of a message. *(pure)*

use super::MAX_VARINT;
use crate::error::DecodeProblem;

/// Reads the fields of a message, one by one.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

/// The value of a field, by its wire type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,

    /// A group of fields. No Kubernetes message has one.
    Group,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the number and value of the next field. `None` at the end of the message.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, DecodeProblem> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        let payload = match wire_type {
            3 => {
                self.skip_group()?;
                Payload::Group
            }
            4 => return Err(DecodeProblem::EndOfGroup),
            wire_type => self.payload(wire_type)?,
        };
        Ok(Some((number, payload)))
    }

    fn tag(&mut self) -> Result<(u32, u8), DecodeProblem> {
        let tag = self.varint()?;
        let number = i32::try_from(tag >> 3)
            .ok()
            .and_then(|it| it.try_into().ok());
        let number = number.filter(|number| *number > 0);
        let wire_type = (tag & 7) as u8;
        Ok((number.ok_or(DecodeProblem::FieldNumber)?, wire_type))
    }

    fn payload(&mut self, wire_type: u8) -> Result<Payload<'a>, DecodeProblem> {
        Ok(match wire_type {
            0 => Payload::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?;
                let bytes: [u8; 8] = bytes.try_into().map_err(|_| DecodeProblem::Truncated)?;
                Payload::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| DecodeProblem::Truncated)?;
                Payload::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Payload::Fixed32
            }
            other => return Err(DecodeProblem::WireType(other)),
        })
    }

    /// Skips to the end of the current group, including nested groups.
    fn skip_group(&mut self) -> Result<(), DecodeProblem> {
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

    /// Returns the next varint of a packed list. `None` at its end.
    pub(crate) fn packed_varint(&mut self) -> Result<Option<u64>, DecodeProblem> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.varint().map(Some)
    }

    /// Returns the next number of a packed list of doubles. `None` at its end.
    pub(crate) fn packed_fixed64(&mut self) -> Result<Option<u64>, DecodeProblem> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        match self.payload(1)? {
            Payload::Fixed64(bits) => Ok(Some(bits)),
            _ => Ok(None),
        }
    }

    fn varint(&mut self) -> Result<u64, DecodeProblem> {
        let mut value = 0_u64;
        for (at, byte) in self.rest.iter().take(MAX_VARINT).enumerate() {
            // Like Go, this drops bits beyond the 64th.
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(if self.rest.len() < MAX_VARINT {
            DecodeProblem::Truncated
        } else {
            DecodeProblem::Varint
        })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeProblem> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(DecodeProblem::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}
