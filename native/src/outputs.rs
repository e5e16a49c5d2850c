//! Where values go: outputs of words (ints, floats, ends of texts), of longs (and doubles), and of bytes.

use crate::fault::Fault;
use crate::read::{Column, Leaf};

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

/// The values that a column has in the last rows, as bits of 64, 32 or one.
///
/// The processor writes them faster to these few bytes than to the ends of as many long outputs.
#[derive(Clone, Copy)]
pub struct Gathered {
    /// Which values are not null.
    pub valid: u64,
    pub values: [u64; ROWS],
}

impl Gathered {
    pub fn new() -> Self {
        Gathered { valid: 0, values: [0; ROWS] }
    }

    /// Appends the values of so many rows.
    pub fn move_to(&mut self, outputs: &mut Outputs, rows: usize, column: &Column) -> Result<(), Fault> {
        let values = &self.values[..rows];
        if let Some((valid, _)) = column.nullable {
            extend(&mut outputs.bytes[valid], &self.valid.to_le_bytes())?;
            self.valid = 0;
        }
        match column.leaf {
            Leaf::Int { words, .. } | Leaf::Float { words } | Leaf::Text { words, .. } => {
                let mut narrow = [0u32; ROWS];
                for (word, value) in narrow.iter_mut().zip(values) {
                    *word = *value as u32;
                }
                extend(&mut outputs.words[words], &narrow[..rows])
            }
            Leaf::Long { longs } | Leaf::Double { longs } => extend(&mut outputs.longs[longs], values),
            Leaf::Boolean { bytes } => {
                let bits = values.iter().rev().fold(0u64, |bits, value| bits << 1 | value);
                extend(&mut outputs.bytes[bytes], &bits.to_le_bytes())
            }
            Leaf::Fixed { .. } => Err(Fault::Impossible), // no column: a null would have bytes
        }
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

/// Appends values of `N` bytes each, of which `data` has whole ones.
pub fn extend_by<T, const N: usize>(output: &mut Vec<T>, data: &[u8], value: fn([u8; N]) -> T) -> Result<(), Fault> {
    let chunks = data.chunks_exact(N);
    reserve(output, chunks.len())?;
    output.extend(chunks.map(|chunk| value(chunk.try_into().unwrap_or([0; N]))));
    Ok(())
}

#[cold]
#[inline(never)]
fn reserve<T>(output: &mut Vec<T>, more: usize) -> Result<(), Fault> {
    output.try_reserve(more).map_err(|_| Fault::Memory)
}
