//! Bytes to move.

/// `size` bytes that compress badly and repeat late; the same each time.
#[must_use]
pub fn noise(size: usize) -> Vec<u8> {
    let mut state = 1_u32;
    (0..size)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}
