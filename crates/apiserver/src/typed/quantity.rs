//! Quantities of resources, such as `1500m` and `2Gi`, and the texts that Kubernetes stores.
//!
//! Kubernetes stores some texts unchanged (`1.`, `+1`), and all others in their canonical form.
//!
//! Source: apimachinery `pkg/api/resource/quantity.go`, Kubernetes v1.36.3. Only the first 30
//! digits of a number are kept (20 before a binary suffix).

use std::cmp::Ordering;

mod text;

/// A quantity, with a precision of one billionth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    /// The quantity is `number * 10^power`: `number` has at most 37 digits, `power` is at least -9.
    number: i128,
    power: i32,
    form: Notation,
    /// Whether Kubernetes stores the text of the client unchanged.
    is_kept: bool,
}

/// The form in which a quantity was written. It is printed in the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// `5M`.
    Decimal,
    /// `5e6`.
    Exponent,
    /// `5Mi`.
    Binary,
}

/// The power of ten of the smallest quantities: billionths.
const NANO: i32 = -9;

/// The power of ten to which quantities in resource lists are rounded up: thousandths.
const MILLI: i32 = -3;

/// The largest binary quantity. Larger ones are replaced by it.
const MAX: i128 = i64::MAX as i128;

/// The number of digits that are kept of a number.
const DIGITS: usize = 30;

// === impl Quantity ===

impl Quantity {
    /// The error message of Kubernetes for a malformed quantity.
    pub(crate) const MALFORMED: &'static str = "quantities must match the regular expression \
        '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

    /// Rounds away from zero, so that a value above zero does not become zero.
    fn round_up(&mut self, power: i32) {
        let (one, mut has_rest) = (self.number.signum(), false);
        while self.power < power && self.number != 0 {
            has_rest |= self.number % 10 != 0;
            self.number /= 10;
            self.power += 1;
        }
        if has_rest {
            self.number += one;
        }
        self.power = self.power.max(power);
    }

    /// Whether the quantity is negative.
    pub(crate) fn is_negative(self) -> bool {
        self.number < 0
    }

    /// Whether the quantity is positive.
    pub(crate) fn is_positive(self) -> bool {
        self.number > 0
    }

    /// Returns the quantity as an integer. `None` if it has a fraction or is too large.
    pub(crate) fn whole(self) -> Option<i128> {
        if self.power >= 0 {
            let factor = 10_i128.checked_pow(self.power.unsigned_abs())?;
            return self.number.checked_mul(factor);
        }
        let factor = 10_i128.checked_pow(self.power.unsigned_abs())?;
        (self.number % factor == 0).then(|| self.number / factor)
    }

    /// Rounds to an integer, away from zero.
    pub(crate) fn rounded(mut self) -> i64 {
        self.round_up(0);
        let limit = if self.is_negative() {
            i64::MIN
        } else {
            i64::MAX
        };
        let whole = self.whole().and_then(|it| i64::try_from(it).ok());
        whole.unwrap_or(limit)
    }

    /// Whether the quantity has no fraction.
    pub(crate) fn is_whole(self) -> bool {
        self.power >= 0 || self.whole().is_some()
    }

    /// Returns the quantity in billionths, at most the largest `i128`.
    pub(crate) fn nanos(self) -> i128 {
        let mut nanos = self.number;
        for _ in 0..self.power.saturating_sub(NANO).min(40) {
            nanos = nanos.saturating_mul(10);
        }
        nanos
    }

    /// The number of digits before the point; negative for leading zeros after it.
    fn size(self) -> i32 {
        let digits = self.number.unsigned_abs().checked_ilog10();
        digits.map_or(i32::MIN, |digits| {
            i32::try_from(digits).unwrap_or_default() + 1 + self.power
        })
    }

    /// Compares the values of two quantities, whatever their forms.
    pub(crate) fn compare(self, other: Self) -> Ordering {
        let signs = self.number.signum().cmp(&other.number.signum());
        if signs != Ordering::Equal {
            return signs;
        }
        let sizes = self.size().cmp(&other.size()).then_with(|| {
            // With the same number of digits, the powers differ by less than 40.
            let power = self.power.min(other.power);
            let aligned = |it: Self| {
                let factor = 10_u128.saturating_pow(it.power.abs_diff(power));
                it.number.unsigned_abs().saturating_mul(factor)
            };
            aligned(self).cmp(&aligned(other))
        });
        if self.is_negative() {
            sizes.reverse()
        } else {
            sizes
        }
    }

    /// The quantity `count`, without a suffix.
    pub(crate) fn count(count: usize) -> Self {
        Self {
            number: i128::try_from(count).unwrap_or(MAX),
            power: 0,
            form: Notation::Decimal,
            is_kept: false,
        }
    }

    /// The sum, in the form of the first quantity that is not zero.
    pub(crate) fn plus(self, other: Self) -> Self {
        let (number, more, power) = self.aligned(other);
        let form = if self.number == 0 {
            other.form
        } else {
            self.form
        };
        Self {
            number: number.saturating_add(more),
            power,
            form,
            is_kept: false,
        }
    }

    /// The difference, or zero if `other` is larger.
    pub(crate) fn minus(self, other: Self) -> Self {
        let (number, less, power) = self.aligned(other);
        Self {
            number: number.saturating_sub(less).max(0),
            power,
            form: self.form,
            is_kept: false,
        }
    }

    /// The larger of the two quantities.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.compare(self) == Ordering::Greater {
            other
        } else {
            self
        }
    }

    /// Rounds to a whole number, away from zero.
    pub(crate) fn rounded_up(mut self) -> Self {
        self.round_up(0);
        self
    }

    /// The numbers of both quantities at the same power of ten, and this power.
    fn aligned(self, other: Self) -> (i128, i128, i32) {
        let power = self.power.min(other.power);
        let number = |it: Self| {
            // Forty more digits exceed the largest number.
            let digits = it.power.saturating_sub(power).min(40);
            (0..digits).fold(it.number, |number, _| number.saturating_mul(10))
        };
        (number(self), number(other), power)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.compare(*other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::Quantity;

    #[test]
    fn each_quantity_has_a_canonical_text() {
        for (text, canonical) in [
            ("0", "0"),
            ("0Mi", "0"),
            ("1", "1"),
            ("+1", "+1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1."),
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
            ("1E3", "1E3"),
            ("12e-1", "1200e-3"),
            ("-1Gi", "-1Gi"),
            ("0.0000000001", "1n"),
            ("1e100", "10e99"),
            ("9223372036854775808", "9223372036854775808"),
            ("9223372036854775807Ki", "9223372036854775807"),
            ("10E", "10E"),
            ("0.0010", "1m"),
            ("1001n", "1001n"),
            ("2048Ki", "2Mi"),
            ("1025Ki", "1025Ki"),
            ("1.0001Ki", "1024102400u"),
            ("0.5Mi", "512Ki"),
            ("0.1Ki", "102400m"),
            ("-1.5", "-1500m"),
            ("Mi", "0"),
            (".", "0"),
            ("-", "0"),
            (" 5 ", "5"),
            ("1e2000000000", "100e1999999998"),
            ("1E", "1E"),
        ] {
            let stored = Quantity::stored(text, false).expect(text);
            assert_eq!(stored, canonical, "{text}");
        }
    }

    #[test]
    fn malformed_quantities_are_rejected() {
        for text in [
            "", "zz", "1.2.3", "Pi", "1Q", "1 Gi", "+-1", ".e-20", "1kk", "--1", "1e", "1m3x",
        ] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn quantities_compare_by_value() {
        let order = [
            "-1e30", "-1", "-1m", "0", "1n", "999m", "1", "1001m", "1Ki", "1e18", "1e30",
        ];
        for (at, less) in order.iter().enumerate() {
            for (other, more) in order.iter().enumerate() {
                let [less, more] = [less, more].map(|text| Quantity::parse(text).expect(text));
                assert_eq!(less.compare(more), at.cmp(&other), "{less} {more}");
            }
        }
        let [one, thousand] = ["1", "1000m"].map(|text| Quantity::parse(text).expect(text));
        assert_eq!(one.compare(thousand), Ordering::Equal);
        assert!(thousand.is_whole() && !thousand.is_negative());
    }

    #[test]
    fn quantities_in_lists_of_resources_are_rounded_up() {
        for (text, rounded) in [
            ("1n", "1m"),
            ("1001u", "2m"),
            ("1e-9", "1e-3"),
            ("-1n", "-1m"),
        ] {
            assert_eq!(
                Quantity::stored(text, true).as_deref(),
                Ok(rounded),
                "{text}"
            );
        }
    }
}
