//! Why bytes are no datums.

/// Why a run stopped. The texts are those of the pure decoder, so that both give the same errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes end within a value.
    End,
    /// A varint of more than 64 bits.
    Wide,
    /// A length, a count or a branch that cannot be.
    Impossible,
    /// A number outside these bounds, both inclusive.
    Outside(i64, i64),
    /// Items take more than the budget of the run.
    Budget,
    /// Records that contain themselves are nested too deeply to be skipped.
    Depth,
    /// More bytes of texts than Arrow's offsets of 32 bits can count.
    Arrow,
    /// There is no more memory.
    Memory,
}

impl Fault {
    /// A short name, and the bounds of a number.
    pub fn named(self) -> (&'static str, i64, i64) {
        match self {
            Fault::End => ("end", 0, 0),
            Fault::Wide => ("wide", 0, 0),
            Fault::Impossible => ("impossible", 0, 0),
            Fault::Outside(low, high) => ("outside", low, high),
            Fault::Budget => ("budget", 0, 0),
            Fault::Depth => ("depth", 0, 0),
            Fault::Arrow => ("arrow", 0, 0),
            Fault::Memory => ("memory", 0, 0),
        }
    }
}
