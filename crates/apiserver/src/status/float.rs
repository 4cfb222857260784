//! Numbers in messages, as Go prints them. *(pure)*

/// Prints a float like `%v`: in the shortest form, with an exponent from `1e+21` on.
pub(crate) fn float_text(float: f64) -> String {
    let size = float.abs();
    if size == 0.0 || (1e-4..1e21).contains(&size) {
        return float.to_string();
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, power) = match exponent.strip_prefix('-') {
                Some(power) => ('-', power),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{power:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::float_text;

    #[test]
    fn numbers_are_printed_as_go_prints_them() {
        assert_eq!(float_text(3.0), "3");
        assert_eq!(float_text(1.5), "1.5");
        assert_eq!(float_text(1e21), "1e+21");
        assert_eq!(float_text(1.5e-7), "1.5e-07");
    }
}
