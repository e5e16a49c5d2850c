//! Where values go: outputs of words (ints, floats, ends of texts), of longs (and doubles), and of bytes.

use crate::fault::Fault;

/// Rows whose values are gathered before they are appended to the outputs. Their validity is one word.
pub const ROWS: usize = 64;

/// Values that are read, in the order of the bytes.
#[derive(Default)]
pub struct Outputs {
    pub words: Vec<Vec<u32>>,
    pub longs: Vec<Vec<u64>>,
    pub bytes: Vec<Vec<u8>>,
}

impl Outputs {
    /// The bytes of all outputs: of words, of longs, of bytes.
    pub fn stored(&self) -> impl Iterator<Item = &[u8]> {
        let words = self.words.iter().map(|each| bytemuck::cast_slice(each));
        let longs = self.longs.iter().map(|each| bytemuck::cast_slice(each));
        words.chain(longs).chain(self.bytes.iter().map(Vec::as_slice))
    }

    /// The bytes of memory that the outputs have.
    pub fn capacity(&self) -> usize {
        let words: usize = self.words.iter().map(Vec::capacity).sum();
        let longs: usize = self.longs.iter().map(Vec::capacity).sum();
        4 * words + 8 * longs + self.bytes.iter().map(Vec::capacity).sum::<usize>()
    }

    /// Forgets all values, but not their memory.
    pub fn clear(&mut self) {
        self.words.iter_mut().for_each(Vec::clear);
        self.longs.iter_mut().for_each(Vec::clear);
        self.bytes.iter_mut().for_each(Vec::clear);
    }
}

/// Which outputs have exactly one value for each row. Of bytes it is one bit for each row.
#[derive(Default)]
pub struct RowOutputs {
    pub words: Vec<usize>,
    pub longs: Vec<usize>,
    pub bits: Vec<usize>,
}

/// The values of the last rows, by the number of the output.
///
/// The processor writes them faster to these few bytes than to the ends of as many long outputs.
pub struct Gathered {
    /// The number of the next row.
    pub row: usize,
    pub words: Vec<[u32; ROWS]>,
    pub longs: Vec<[u64; ROWS]>,
    pub bits: Vec<u64>,
}

impl Gathered {
    pub fn new(outputs: &Outputs) -> Self {
        Gathered {
            row: 0,
            words: vec![[0; ROWS]; outputs.words.len()],
            longs: vec![[0; ROWS]; outputs.longs.len()],
            bits: vec![0; outputs.bytes.len()],
        }
    }

    /// Appends the rows to the outputs.
    pub fn move_to(&mut self, outputs: &mut Outputs, of_rows: &RowOutputs) -> Result<(), Fault> {
        for &place in &of_rows.words {
            extend(&mut outputs.words[place], &self.words[place][..self.row])?;
        }
        for &place in &of_rows.longs {
            extend(&mut outputs.longs[place], &self.longs[place][..self.row])?;
        }
        for &place in &of_rows.bits {
            extend(&mut outputs.bytes[place], &self.bits[place].to_le_bytes())?;
            self.bits[place] = 0;
        }
        self.row = 0;
        Ok(())
    }
}

/// Appends a value. Memory that is not there is a fault: a vector by itself would end the process.
#[inline(always)]
pub fn push<T>(output: &mut Vec<T>, value: T) -> Result<(), Fault> {
    if output.len() == output.capacity() {
        reserve(output, 1)?;
    }
    output.push(value);
    Ok(())
}

/// Appends values.
#[inline(always)]
pub fn extend<T: Copy>(output: &mut Vec<T>, values: &[T]) -> Result<(), Fault> {
    if output.capacity() - output.len() < values.len() {
        reserve(output, values.len())?;
    }
    output.extend_from_slice(values);
    Ok(())
}

#[cold]
#[inline(never)]
fn reserve<T>(output: &mut Vec<T>, more: usize) -> Result<(), Fault> {
    output.try_reserve(more).map_err(|_| Fault::Memory)
}
