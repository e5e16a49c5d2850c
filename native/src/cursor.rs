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

    /// Goes on by bytes that were looked at.
    #[inline(always)]
    pub fn step(&mut self, count: usize) {
        self.position = self.position.wrapping_add(count); // at most the length of the bytes
    }

    /// A number of at most so many bytes, still zig-zagged.
    #[inline(always)]
    fn varint(&mut self, most: usize) -> Result<u64, Fault> {
        if let Some([first, second]) = self.ahead::<2>() {
            if first & second < CONTINUES {
                return Ok(self.one_or_two(0, *first, *second));
            }
        }
        self.long_varint(most)
    }

    /// A number of these bytes, of which the second may not belong to it; `before` bytes are read with it.
    ///
    /// Whether there is a second byte is as good as random: no branch of the processor, which would often be mistaken.
    #[inline(always)]
    fn one_or_two(&mut self, before: usize, first: u8, second: u8) -> u64 {
        let more = first >> 7;
        self.step(before + 1 + usize::from(more));
        u64::from(first & 0x7f) | (u64::from(second) << 7) * u64::from(more)
    }

    /// One of up to eight bytes, if eight are left, is read at once.
    #[inline(never)]
    fn long_varint(&mut self, most: usize) -> Result<u64, Fault> {
        if let Some(chunk) = self.ahead::<8>() {
            let word = u64::from_le_bytes(*chunk);
            let ends = !word & 0x8080_8080_8080_8080;
            if ends != 0 {
                let bits = ends.trailing_zeros() + 1;
                self.step(bits as usize / 8);
                return Ok(joined(word & (u64::MAX >> (64 - bits))));
            }
        }
        let mut raw = 0u64;
        for place in 0..most {
            let [byte] = self.array()?;
            if place == 9 && byte > 1 {
                return Err(Fault::Wide);
            }
            raw |= u64::from(byte & 0x7f) << (7 * place);
            if byte < CONTINUES {
                return Ok(raw);
            }
        }
        Err(Fault::Wide)
    }

    /// A branch of a union of two types, and a number of one or two bytes. None, and nothing is read, if it is another
    /// branch or a longer number, or near the end.
    #[inline(always)]
    pub fn short_number_of(&mut self, branch: i64) -> Option<i64> {
        let [tag, first, second] = *self.ahead::<3>()?;
        if i64::from(tag) != branch << 1 || first & second >= CONTINUES {
            return None;
        }
        Some(unzigzagged(self.one_or_two(1, first, second)))
    }

    /// A branch of a union of two types, and the length of a text of at most `N` bytes, with the `N` bytes from where it
    /// begins. None, and nothing is read, if it is another branch or a longer text, or near the end.
    #[inline(always)]
    pub fn short_text_of<const N: usize>(&mut self, branch: i64) -> Option<(usize, &'a [u8; N])> {
        let rest = self.data.get(self.position..)?;
        let ([tag, length], text) = rest.split_first_chunk::<2>()?;
        let text = text.first_chunk::<N>()?;
        let length_of_text = usize::from(length >> 1);
        if i64::from(*tag) != branch << 1 || length & 1 == 1 || length_of_text > N {
            return None;
        }
        self.step(2 + length_of_text);
        Some((length_of_text, text))
    }

    /// The branch of a union of two types.
    #[inline(always)]
    pub fn branch_of_two(&mut self) -> Result<i64, Fault> {
        match self.data.get(self.position) {
            Some(0) => {
                self.step(1);
                Ok(0)
            }
            Some(2) => {
                self.step(1);
                Ok(1)
            }
            _ => self.within(0, 1),
        }
    }

    /// A long, of at most ten bytes.
    #[inline(always)]
    pub fn long(&mut self) -> Result<i64, Fault> {
        self.varint(10).map(unzigzagged)
    }

    /// Any other number. It fits into five bytes; the decoder in Python reads nine.
    #[inline(always)]
    pub fn number(&mut self) -> Result<i64, Fault> {
        self.varint(9).map(unzigzagged)
    }

    /// An int, the index of a symbol or a branch, within bounds.
    #[inline(always)]
    pub fn within(&mut self, low: i64, high: i64) -> Result<i64, Fault> {
        let number = self.number()?;
        if number < low || number > high {
            return Err(Fault::Outside(low, high));
        }
        Ok(number)
    }

    /// The length of bytes, which must not be negative.
    #[inline(always)]
    pub fn length(&mut self) -> Result<usize, Fault> {
        usize::try_from(self.number()?).map_err(|_| Fault::Impossible)
    }
}

/// The lower seven bits of each byte, one after the other.
#[inline(always)]
fn joined(bytes: u64) -> u64 {
    let pairs = (bytes & 0x007f_007f_007f_007f) | ((bytes & 0x7f00_7f00_7f00_7f00) >> 1);
    let fours = (pairs & 0x0000_3fff_0000_3fff) | ((pairs & 0x3fff_0000_3fff_0000) >> 2);
    (fours & 0x0fff_ffff) | ((fours & 0x0fff_ffff_0000_0000) >> 4)
}

#[inline(always)]
fn unzigzagged(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_lengths_come_back_wherever_the_bytes_end() {
        for shift in 0..64 {
            for number in [1i64 << shift, -(1i64 << shift.min(62)), (1i64 << shift).wrapping_sub(1)] {
                let mut raw = ((number << 1) ^ (number >> 63)) as u64;
                let mut bytes = vec![];
                while raw >= 0x80 {
                    bytes.push(raw as u8 | 0x80);
                    raw >>= 7;
                }
                bytes.push(raw as u8);
                let length = bytes.len();
                for more in 0..12 {
                    bytes.resize(length + more, 0xff);
                    let mut cursor = Cursor::new(&bytes);
                    assert_eq!(cursor.long(), Ok(number));
                    assert_eq!(cursor.left(), more);
                }
            }
        }
    }

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
