//! Bytes that are read once, from left to right.

use crate::fault::Fault;

/// The bytes of a run, and how many of them have been read.
pub struct Cursor<'a> {
    data: &'a [u8],
    position: usize,
}

const CONTINUES: u8 = 0x80;

impl<'a> Cursor<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Cursor { data, position: 0 }
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn left(&self) -> usize {
        self.data.len() - self.position
    }

    /// The next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let rest = &self.data[self.position..];
        let taken = rest.get(..count).ok_or(Fault::End)?;
        self.position += count;
        Ok(taken)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let taken = self.data.get(self.position..).and_then(|rest| rest.first_chunk::<N>());
        let value = *taken.ok_or(Fault::End)?;
        self.position += N;
        Ok(value)
    }

    /// The `N` bytes from here on, not all of which need to be of the next value. None near the end.
    #[inline]
    pub fn ahead<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.data.get(self.position..)?.first_chunk::<N>()
    }

    #[inline]
    pub fn step(&mut self, count: usize) {
        self.position += count;
    }

    /// An int or a long, still zig-zagged.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, Fault> {
        if let Some([first, second]) = self.ahead::<2>() {
            if *first < CONTINUES {
                self.position += 1;
                return Ok(u64::from(*first));
            }
            if *second < CONTINUES {
                self.position += 2;
                return Ok(u64::from(*first & 0x7f) | u64::from(*second) << 7);
            }
        }
        self.long_varint()
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<u64, Fault> {
        let rest = &self.data[self.position..];
        let mut raw = 0u64;
        for (place, &byte) in rest.iter().take(10).enumerate() {
            if place == 9 && byte > 1 {
                return Err(Fault::Wide);
            }
            raw |= u64::from(byte & 0x7f) << (7 * place);
            if byte < CONTINUES {
                self.position += place + 1;
                return Ok(raw);
            }
        }
        Err(Fault::End)
    }

    /// An int or a long.
    #[inline(always)]
    pub fn long(&mut self) -> Result<i64, Fault> {
        self.varint().map(unzigzagged)
    }

    /// An int, the index of a symbol or a branch, within bounds.
    #[inline(always)]
    pub fn within(&mut self, low: i64, high: i64) -> Result<i64, Fault> {
        let number = self.long()?;
        if number < low || number > high {
            return Err(Fault::Outside(low, high));
        }
        Ok(number)
    }

    /// The length of bytes, which must not be negative.
    #[inline(always)]
    pub fn length(&mut self) -> Result<usize, Fault> {
        usize::try_from(self.long()?).map_err(|_| Fault::Impossible)
    }
}

#[inline(always)]
fn unzigzagged(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_of_varint() {
        for (bytes, number) in [
            (&[0x06u8][..], 3i64),
            (&[0x80, 0x01], 64),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], i64::MIN),
            (&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], i64::MAX),
        ] {
            let mut cursor = Cursor::new(bytes);
            assert_eq!(cursor.long(), Ok(number));
            assert_eq!(cursor.left(), 0);
        }
    }

    #[test]
    fn more_than_64_bits_and_cut_numbers_are_faults() {
        assert_eq!(Cursor::new(&[0xff; 12]).long(), Err(Fault::Wide));
        assert_eq!(Cursor::new(&[0x80; 9]).long(), Err(Fault::End));
        assert_eq!(Cursor::new(&[]).long(), Err(Fault::End));
    }
}
