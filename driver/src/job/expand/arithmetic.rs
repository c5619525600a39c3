//! What operators make of numbers: whole ones of 64 bits, which overflow silently.

use super::error::ExpandError;

/// The number that `text` is, zero if it is none; the nearest one if it is too large.
pub(super) fn number(text: &str) -> i64 {
    let text = text.trim();
    let (digits, is_negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text.strip_prefix('+').unwrap_or(text), false),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return 0;
    }
    let limit = if is_negative { i64::MIN } else { i64::MAX };
    text.parse().unwrap_or(limit)
}

/// `value` with a sign before it.
pub(super) fn signed(sign: char, value: i64) -> i64 {
    match sign {
        '!' => i64::from(value == 0),
        '~' => !value,
        '-' => value.wrapping_neg(),
        _ => value,
    }
}

/// What `operator` makes of two numbers.
pub(super) fn result(left: i64, operator: &'static str, right: i64) -> Result<i64, ExpandError> {
    if right == 0 && matches!(operator, "/" | "%") {
        return Err(ExpandError::DivisionByZero);
    }
    Ok(match operator {
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" => left.wrapping_div(right),
        "%" => left.wrapping_rem(right),
        "**" => power(left, right),
        "<<" => shift_left(left, right),
        ">>" => shift_right(left, right),
        "&" => left & right,
        "|" => left | right,
        "^" => left ^ right,
        "&&" => i64::from(left != 0 && right != 0),
        "||" => i64::from(left != 0 || right != 0),
        "==" => i64::from(left == right),
        "!=" => i64::from(left != right),
        "<" => i64::from(left < right),
        ">" => i64::from(left > right),
        "<=" => i64::from(left <= right),
        ">=" => i64::from(left >= right),
        "," => right,
        operator => return Err(ExpandError::Operator(operator)),
    })
}

fn power(base: i64, exponent: i64) -> i64 {
    let (mut base, mut exponent, mut value) = (base, exponent, 1_i64);
    while exponent > 0 {
        if exponent & 1 == 1 {
            value = value.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    value
}

/// By less than nothing, or by more than all bits, nothing is left.
fn shift_left(value: i64, bits: i64) -> i64 {
    let bits = u32::try_from(bits).unwrap_or(u32::MAX);
    value.checked_shl(bits).unwrap_or(0)
}

/// As [`shift_left`], but the sign is left.
fn shift_right(value: i64, bits: i64) -> i64 {
    let bits = u32::try_from(bits).unwrap_or(u32::MAX);
    value.checked_shr(bits).unwrap_or(value >> 63)
}
