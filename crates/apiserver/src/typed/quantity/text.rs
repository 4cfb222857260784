//! The text of a quantity: parses it, and formats it in the canonical form.

use std::cmp::Ordering;
use std::fmt;

use super::{DIGITS, MAX, MILLI, NANO, Notation, Quantity};

/// The parts of the text of a quantity.
struct Parts<'a> {
    /// The digits before the point, without leading zeros.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

/// The suffixes for powers of 1,000, beginning with billionths.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// The suffixes for powers of 1,024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Parses a quantity.
    ///
    /// # Errors
    ///
    /// The error message of Kubernetes.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const BAD_NUMBER: &str = "unable to parse numeric part of quantity";
        const BAD_SUFFIX: &str = "unable to parse quantity's suffix";

        let parts = Parts::of(text).ok_or(Self::MALFORMED)?;
        let (form, scale) = scale(parts.suffix).ok_or(BAD_SUFFIX)?;
        let (whole, fraction) = (parts.whole.len().max(1), parts.fraction.len());
        let shift = i32::try_from(fraction).unwrap_or(i32::MAX);
        // Kubernetes has a fast path for most quantities. Only the fast path keeps the text, and
        // reads a suffix without a number as zero.
        let is_short = match form {
            Notation::Binary => {
                let suffix = usize::try_from(scale * 3).unwrap_or_default();
                fraction == 0 && whole + suffix < 15
            }
            _ => whole + fraction <= 18 && scale.saturating_sub(shift) >= NANO,
        };
        let number = &text[..text.len() - parts.suffix.len()];
        if !is_short && !number.contains(|c: char| c.is_ascii_digit()) {
            return Err(BAD_NUMBER);
        }
        let mut quantity = Self::of(&parts, form, scale);
        quantity.is_kept = is_short
            && match form {
                Notation::Binary => parts.is_odd(),
                _ => parts.is_canonical(scale.saturating_sub(shift)),
            };
        if text.starts_with('-') {
            quantity.number = -quantity.number;
        }
        Ok(quantity)
    }

    /// Returns the text that Kubernetes stores for `text`. `rounds` rounds up to thousandths, as in
    /// resource lists.
    ///
    /// # Errors
    ///
    /// The error message of Kubernetes.
    pub(crate) fn stored(text: &str, rounds: bool) -> Result<String, &'static str> {
        let text = text.trim();
        let mut quantity = Self::parse(text)?;
        if rounds && quantity.power < MILLI {
            quantity.round_up(MILLI);
            quantity.is_kept = false;
        }
        if quantity.is_kept {
            return Ok(text.to_owned());
        }
        Ok(quantity.to_string())
    }

    /// Returns the quantity of `parts`, without the sign.
    fn of(parts: &Parts<'_>, form: Notation, scale: i32) -> Self {
        // More digits would overflow after the multiplication by the largest suffix.
        let most = if form == Notation::Binary { 20 } else { DIGITS };
        let digits = format!("{}{}", parts.whole, parts.fraction);
        let digits = digits.trim_start_matches('0');
        let kept = &digits[..digits.len().min(most)];
        let cut = i32::try_from(digits.len() - kept.len()).unwrap_or(i32::MAX);
        let shift = i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
        let mut quantity = Self {
            number: kept.parse().unwrap_or_default(),
            power: cut.saturating_sub(shift),
            form,
            is_kept: false,
        };
        if form == Notation::Binary {
            for _ in 0..scale {
                quantity.number = quantity.number.saturating_mul(1024);
            }
            let max = Self {
                number: MAX,
                power: 0,
                ..quantity
            };
            if quantity.compare(max) == Ordering::Greater {
                quantity = max;
            }
        } else {
            quantity.power = quantity.power.saturating_add(scale);
        }
        quantity.round_up(NANO);
        // Kubernetes prints a binary quantity below one in the decimal form.
        if form == Notation::Binary && quantity.power < 0 && quantity.size() <= 0 {
            quantity.form = Notation::Decimal;
        }
        quantity
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut number, mut power) = (self.number, self.power);
        if number == 0 {
            return f.write_str("0");
        }
        if let Some(whole) = self.whole().filter(|it| it.abs() >= 1024)
            && self.form == Notation::Binary
        {
            let (mut number, mut power) = (whole, 0);
            while number % 1024 == 0 && power + 1 < BINARY.len() {
                number /= 1024;
                power += 1;
            }
            return write!(f, "{number}{}", BINARY[power]);
        }
        while number % 10 == 0 {
            number /= 10;
            power = power.saturating_add(1);
        }
        while power % 3 != 0 {
            number = number.saturating_mul(10);
            power -= 1;
        }
        write!(f, "{number}")?;
        if self.form == Notation::Exponent {
            return if power == 0 {
                Ok(())
            } else {
                write!(f, "e{power}")
            };
        }
        // Above `E`, Kubernetes has no suffix and prints none.
        let suffix = usize::try_from(power.saturating_sub(NANO) / 3).ok();
        f.write_str(suffix.and_then(|at| DECIMAL.get(at)).unwrap_or(&""))
    }
}

// === impl Parts ===

impl<'a> Parts<'a> {
    /// Splits a text. `None` if it is malformed.
    fn of(text: &'a str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let split = |text: &'a str| {
            let end = text.find(|c: char| !c.is_ascii_digit());
            text.split_at(end.unwrap_or(text.len()))
        };
        let (whole, rest) = split(unsigned);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split(rest),
            None => ("", rest),
        };
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let is_number = exponent.bytes().all(|byte| byte.is_ascii_digit());
        (!text.is_empty() && is_number).then_some(Self {
            whole: whole.trim_start_matches('0'),
            fraction,
            suffix,
        })
    }

    /// Whether the whole part is not a multiple of eight.
    fn is_odd(&self) -> bool {
        let number: u64 = self.whole.parse().unwrap_or_default();
        !number.is_multiple_of(8)
    }

    /// Whether a number at this power of ten is nearly in the canonical form of Kubernetes.
    fn is_canonical(&self, power: i32) -> bool {
        let digits = format!("{}{}", self.whole, self.fraction);
        power % 3 == 0 && !self.whole.is_empty() && !digits.ends_with("000")
    }
}

/// The factor of a suffix: a power of ten, or of 1,024.
fn scale(suffix: &str) -> Option<(Notation, i32)> {
    if let Some(at) = DECIMAL.iter().position(|known| *known == suffix) {
        return Some((Notation::Decimal, i32::try_from(at).ok()? * 3 + NANO));
    }
    if let Some(at) = BINARY.iter().position(|known| *known == suffix) {
        return Some((Notation::Binary, i32::try_from(at).ok()?));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((Notation::Exponent, exponent.parse().ok()?))
}
