//! Quantities of resources, such as `1500m` and `2Gi`, and the one way to write each.

use std::fmt;

/// A quantity, to a billionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    /// Billionths.
    nanos: i128,
    form: Form,
}

/// In which form a quantity was written, and is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `5M`.
    Decimal,
    /// `5e6`.
    Exponent,
    /// `5Mi`.
    Binary,
}

const NANOS: i128 = 1_000_000_000;

/// The largest quantity of Kubernetes; what is larger becomes this.
const MAX: i128 = (i64::MAX as i128) * NANOS;

/// The suffixes for powers of 1,000, beginning with billionths.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// The suffixes for powers of 1,024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

// === impl Quantity ===

impl Quantity {
    /// What Kubernetes says of a text that has not the form of a quantity.
    pub(crate) const MALFORMED: &'static str = "quantities must match the regular expression \
        '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

    /// Reads a quantity.
    ///
    /// # Errors
    ///
    /// Why Kubernetes refuses the text.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const BAD_NUMBER: &str = "unable to parse numeric part of quantity";
        const BAD_SUFFIX: &str = "unable to parse quantity's suffix";

        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
        let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = letters.strip_prefix(['+', '-']).unwrap_or(letters);
        if text.is_empty() || !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Self::MALFORMED);
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') {
            return Err(Self::MALFORMED);
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(BAD_NUMBER);
        }
        let (form, scale) = scale(suffix).ok_or(BAD_SUFFIX)?;
        let mut nanos = magnitude(whole, fraction, form, scale);
        if text.starts_with('-') {
            nanos = -nanos;
        }
        Ok(Self { nanos, form })
    }

    /// Whether it is less than nothing.
    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// The quantity in billionths.
    pub(crate) fn nanos(self) -> i128 {
        self.nanos
    }

    /// A number of objects.
    pub(crate) fn count(count: usize) -> Self {
        let count = i128::try_from(count).unwrap_or(MAX);
        Self {
            nanos: count.saturating_mul(NANOS).min(MAX),
            form: Form::Decimal,
        }
    }

    /// The sum, in the form of the first quantity that is not zero.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos).min(MAX),
            form: if self.nanos == 0 {
                other.form
            } else {
                self.form
            },
        }
    }

    /// The difference, or zero if `other` is larger.
    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(other.nanos).max(0),
            ..self
        }
    }

    /// The larger of both.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.nanos > self.nanos {
            other
        } else {
            self
        }
    }

    /// The next whole number that is not smaller.
    pub(crate) fn rounded_up(self) -> Self {
        let rest = self.nanos.rem_euclid(NANOS);
        let missing = if rest == 0 { 0 } else { NANOS - rest };
        Self {
            nanos: self.nanos.saturating_add(missing),
            ..self
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole = self.nanos / NANOS;
        let is_whole = self.nanos % NANOS == 0;
        if self.form == Form::Binary && is_whole && whole.abs() >= 1024 {
            let (mut number, mut power) = (whole, 0);
            while number % 1024 == 0 && power + 1 < BINARY.len() {
                number /= 1024;
                power += 1;
            }
            return write!(f, "{number}{}", BINARY[power]);
        }
        let (mut number, mut power) = (self.nanos, 0);
        while number % 1000 == 0 && power + 1 < DECIMAL.len() {
            number /= 1000;
            power += 1;
        }
        if self.form == Form::Exponent {
            let mut exponent = i64::try_from(power).unwrap_or_default() * 3 - 9;
            while number % 1000 == 0 {
                number /= 1000;
                exponent += 3;
            }
            return match exponent {
                0 => write!(f, "{number}"),
                _ => write!(f, "{number}e{exponent}"),
            };
        }
        write!(f, "{number}{}", DECIMAL[power])
    }
}

/// What a suffix multiplies by: a power of ten, or of 1,024.
fn scale(suffix: &str) -> Option<(Form, i32)> {
    if let Some(at) = DECIMAL.iter().position(|known| *known == suffix) {
        return Some((Form::Decimal, i32::try_from(at).ok()? * 3 - 9));
    }
    if let Some(at) = BINARY.iter().position(|known| *known == suffix) {
        return Some((Form::Binary, i32::try_from(at).ok()?));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((Form::Exponent, exponent.parse().ok()?))
}

/// The number in billionths, rounded up, and no more than there may be.
fn magnitude(whole: &str, fraction: &str, form: Form, scale: i32) -> i128 {
    // More digits than these make a number that is too large anyway, or change nothing.
    const DIGITS: usize = 30;

    let whole = whole.trim_start_matches('0');
    if whole.len() > DIGITS {
        return MAX;
    }
    let fraction = &fraction[..fraction.len().min(DIGITS - whole.len())];
    let digits = format!("{whole}{fraction}");
    let mut number: i128 = digits.parse().unwrap_or_default();
    if number == 0 {
        return 0;
    }
    let mut power = 9 - i32::try_from(fraction.len()).unwrap_or_default();
    if form == Form::Binary {
        for _ in 0..scale {
            number = number.saturating_mul(1024);
        }
    } else {
        power = power.saturating_add(scale);
    }
    let mut has_rest = false;
    while power > 0 && number < i128::MAX {
        number = number.saturating_mul(10);
        power -= 1;
    }
    while power < 0 && number > 0 {
        has_rest |= number % 10 != 0;
        number /= 10;
        power += 1;
    }
    (number + i128::from(has_rest)).min(MAX)
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn each_quantity_has_one_text() {
        for (text, canonical) in [
            ("0", "0"),
            ("0Mi", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("1500m", "1500m"),
            ("2000m", "2"),
            ("1000", "1k"),
            ("1100", "1100"),
            ("100M", "100M"),
            ("1000M", "1G"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("12e-1", "1200e-3"),
            ("-1Gi", "-1Gi"),
            ("0.0000000001", "1n"),
            ("1e100", "9223372036854775807"),
            (
                "99999999999999999999999999999999999999999",
                "9223372036854775807",
            ),
            ("1E", "1E"),
        ] {
            let parsed = Quantity::parse(text).expect(text);
            assert_eq!(parsed.to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn malformed_quantities_are_rejected() {
        for text in [
            "", "zz", "1.2.3", "Mi", "1Q", "1 Gi", "1kk", "--1", "1e", "1m3x",
        ] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }
}
