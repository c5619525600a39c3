//! Escapes in `$'…'`.

/// `text` with its escapes replaced; what follows a NUL is dropped, as C would.
pub(super) fn resolved(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&letter) = letters.get(at) {
        at += 1;
        let escape = match (letter, letters.get(at)) {
            ('\\', Some(&kind)) => kind,
            _ => {
                push(&mut bytes, letter);
                continue;
            }
        };
        let simple = match escape {
            'a' => Some(7),
            'b' => Some(8),
            'e' | 'E' => Some(27),
            'f' => Some(12),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(11),
            '\\' | '\'' | '"' | '?' => u8::try_from(escape).ok(),
            _ => None,
        };
        if let Some(byte) = simple {
            bytes.push(byte);
            at += 1;
            continue;
        }
        let (start, most, radix) = match escape {
            '0'..='7' => (at, 3, 8),
            'x' => (at + 1, 2, 16),
            'u' => (at + 1, 4, 16),
            'U' => (at + 1, 8, 16),
            _ => (at, 0, 16),
        };
        let digits: Vec<u32> = letters
            .iter()
            .skip(start)
            .take(most)
            .map_while(|digit| digit.to_digit(radix))
            .collect();
        if digits.is_empty() {
            bytes.push(b'\\');
            continue;
        }
        at = start + digits.len();
        let number = digits.iter().fold(0_u32, |number, digit| {
            number.wrapping_mul(radix).wrapping_add(*digit)
        });
        if number == 0 {
            break;
        }
        match escape {
            'u' | 'U' => push(&mut bytes, char::from_u32(number).unwrap_or('\u{fffd}')),
            // A byte, which makes a letter with those beside it.
            _ => bytes.push(u8::try_from(number & 0xff).unwrap_or_default()),
        }
    }
    super::values::text(&bytes)
}

fn push(bytes: &mut Vec<u8>, letter: char) {
    bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
}
