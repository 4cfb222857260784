//! The wire format: fields of messages as bytes. *(pure)*

mod reader;
mod writer;

pub(crate) use reader::{Payload, Reader};
pub(crate) use writer::Writer;

/// The maximum length of a varint, in bytes.
const MAX_VARINT: usize = 10;

#[cfg(test)]
mod tests {
    use super::{Payload, Reader, Writer};
    use crate::error::DecodeProblem;

    #[test]
    fn a_written_message_can_be_read() {
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
            (&[0x08][..], DecodeProblem::Truncated),
            (&[0x08, 0x80], DecodeProblem::Truncated),
            (&[0x0a, 0x05, 0x00], DecodeProblem::Truncated),
            (
                &[
                    0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
                ],
                DecodeProblem::Truncated,
            ),
            (
                &[
                    0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00,
                ],
                DecodeProblem::Varint,
            ),
            (&[0x00, 0x00], DecodeProblem::FieldNumber),
            (&[0x0c], DecodeProblem::EndOfGroup),
            (&[0x0b, 0x0b, 0x0c], DecodeProblem::Truncated),
            (&[0x0e], DecodeProblem::WireType(6)),
            (&[0x09, 0x00], DecodeProblem::Truncated),
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
