//! Reads values that are wanted, and writes them to outputs.

use crate::cursor::Cursor;
use crate::fault::Fault;
use crate::outputs::{extend, extend_by, push, Gathered, Outputs, ROWS};
use crate::skip::{skip, Call, Skip};

/// Items without bytes (nulls, records without fields) that one array may claim to have.
const MOST_EMPTY_ITEMS: u64 = 1 << 20;

/// Short texts are copied at once with what follows them, which is then cut off.
const SHORT: usize = 32;

const INT_MAX: i64 = i32::MAX as i64;

/// A value without parts, and the outputs it goes to.
#[derive(Debug)]
pub enum Leaf {
    /// An int or the index of a symbol, within bounds.
    Int { words: usize, low: i64, high: i64 },
    Long { longs: usize },
    Boolean { bytes: usize },
    Float { words: usize },
    Double { longs: usize },
    /// Bytes or a string: where it ends, and itself.
    Text { words: usize, bytes: usize },
    Fixed { bytes: usize, size: usize },
}

impl Leaf {
    /// The bytes of each value, if all have as many.
    fn width(&self) -> Option<usize> {
        match self {
            Leaf::Boolean { .. } => Some(1),
            Leaf::Float { .. } => Some(4),
            Leaf::Double { .. } => Some(8),
            Leaf::Fixed { size, .. } => Some(*size),
            Leaf::Int { .. } | Leaf::Long { .. } | Leaf::Text { .. } => None,
        }
    }
}

/// A value that each row has once. If it is `nullable`: the output of its validity, and the branch that is not null. A null
/// has a zero, or a text without bytes, as its value.
#[derive(Debug)]
pub struct Column {
    pub leaf: Leaf,
    pub nullable: Option<(usize, i64)>,
}

/// Reads one value.
#[derive(Debug)]
pub enum Read {
    /// A value of the row itself.
    Column(Column),
    Leaf(Leaf),
    /// A union of null and another type. `valid` gets 1 if the branch is `present`, else 0.
    Nullable { valid: usize, present: i64, value: Vec<Read> },
    /// Any other union: the branch and its value.
    Union { longs: usize, branches: Vec<Vec<Read>> },
    /// An array or a map: the number of its items, and each item. `item_bytes` is what one takes of the budget.
    Items { longs: usize, item: Vec<Read>, empty: bool, item_bytes: u64 },
    /// Values that nobody wants.
    Unwanted(Vec<Skip>),
}

/// One run of a program over some bytes.
pub struct Run<'a> {
    pub cursor: Cursor<'a>,
    pub outputs: Outputs,
    /// For each column of the row.
    pub gathered: Vec<Gathered>,
    /// How many rows are gathered.
    pub row: usize,
    pub calls: Vec<Call<'a>>,
    pub records: &'a [Vec<Skip>],
    /// What items may still take; None if it is not counted.
    pub budget: Option<u64>,
}

impl<'a> Run<'a> {
    /// Reads `count` rows.
    pub fn rows(&mut self, count: u64, code: &'a [Read]) -> Result<(), Fault> {
        for _ in 0..count {
            let mut place = 0;
            for value in code {
                let Read::Column(column) = value else {
                    self.value(value)?;
                    continue;
                };
                let Run { cursor, outputs, gathered, row, .. } = self;
                column.read(cursor, outputs, &mut gathered[place], *row % ROWS)?;
                place += 1;
            }
            self.row += 1;
            if self.row == ROWS {
                self.move_rows(code)?;
            }
        }
        Ok(())
    }

    /// Appends the rows that are gathered to the outputs.
    pub fn move_rows(&mut self, code: &[Read]) -> Result<(), Fault> {
        let columns = code.iter().filter_map(|value| if let Read::Column(column) = value { Some(column) } else { None });
        for (column, gathered) in columns.zip(&mut self.gathered) {
            gathered.move_to(&mut self.outputs, self.row, column)?;
        }
        self.row = 0;
        Ok(())
    }

    /// Reads the values of an item, or of a branch, one after the other.
    fn read(&mut self, code: &'a [Read]) -> Result<(), Fault> {
        code.iter().try_for_each(|value| self.value(value))
    }

    fn value(&mut self, value: &'a Read) -> Result<(), Fault> {
        match value {
            Read::Leaf(leaf) => self.leaf(leaf),
            Read::Nullable { valid, present, value } => {
                let is_present = self.cursor.branch_of_two()? == *present;
                push(&mut self.outputs.bytes[*valid], u8::from(is_present))?;
                if is_present { self.read(value) } else { Ok(()) }
            }
            Read::Union { longs, branches } => {
                let tag = self.cursor.within(0, branches.len() as i64 - 1)? as u64;
                push(&mut self.outputs.longs[*longs], tag)?;
                self.read(&branches[tag as usize])
            }
            Read::Items { longs, item, empty, item_bytes } => self.items(*longs, item, *empty, *item_bytes),
            Read::Unwanted(code) => skip(&mut self.cursor, code, self.records, &mut self.calls),
            Read::Column(_) => Err(Fault::Impossible), // columns are values of the row itself
        }
    }

    fn leaf(&mut self, leaf: &Leaf) -> Result<(), Fault> {
        let Run { cursor, outputs, .. } = self;
        match leaf {
            Leaf::Int { words, low, high } => push(&mut outputs.words[*words], cursor.within(*low, *high)? as u32),
            Leaf::Long { longs } => push(&mut outputs.longs[*longs], cursor.long()? as u64),
            Leaf::Text { words, bytes } => {
                text(cursor, &mut outputs.bytes[*bytes])?;
                push(&mut outputs.words[*words], end(&outputs.bytes[*bytes])?)
            }
            Leaf::Boolean { bytes } => push(&mut outputs.bytes[*bytes], boolean(cursor)?),
            Leaf::Float { words } => push(&mut outputs.words[*words], u32::from_le_bytes(cursor.array()?)),
            Leaf::Double { longs } => push(&mut outputs.longs[*longs], u64::from_le_bytes(cursor.array()?)),
            Leaf::Fixed { bytes, size } => extend(&mut outputs.bytes[*bytes], cursor.bytes(*size)?),
        }
    }

    /// Copies so many values of one width, which follow each other, as a whole.
    fn packed(&mut self, leaf: &Leaf, count: usize) -> Result<(), Fault> {
        let Run { cursor, outputs, .. } = self;
        let size = leaf.width().and_then(|width| width.checked_mul(count)).ok_or(Fault::End)?;
        let data = cursor.bytes(size)?;
        match leaf {
            Leaf::Float { words } => extend_by(&mut outputs.words[*words], data, u32::from_le_bytes),
            Leaf::Double { longs } => extend_by(&mut outputs.longs[*longs], data, u64::from_le_bytes),
            Leaf::Boolean { bytes } => {
                if data.iter().any(|byte| *byte > 1) {
                    return Err(Fault::Outside(0, 1));
                }
                extend(&mut outputs.bytes[*bytes], data)
            }
            Leaf::Fixed { bytes, .. } => extend(&mut outputs.bytes[*bytes], data),
            Leaf::Int { .. } | Leaf::Long { .. } | Leaf::Text { .. } => Err(Fault::Impossible), // they have no width
        }
    }

    fn items(&mut self, longs: usize, item: &'a [Read], empty: bool, item_bytes: u64) -> Result<(), Fault> {
        let mut total = 0i64;
        loop {
            let mut count = self.cursor.number()?;
            if count == 0 {
                break;
            }
            if count < 0 {
                count = count.checked_neg().ok_or(Fault::Impossible)?;
                self.cursor.length()?; // the size of the block
            }
            let items = count.unsigned_abs();
            let most = if empty { MOST_EMPTY_ITEMS } else { self.cursor.left() as u64 };
            if items > most {
                return Err(Fault::Impossible);
            }
            if let Some(left) = self.budget {
                self.budget = Some(left.checked_sub(items.saturating_mul(item_bytes)).ok_or(Fault::Budget)?);
            }
            total = total.checked_add(count).filter(|total| *total <= INT_MAX).ok_or(Fault::Outside(0, INT_MAX))?;
            match item {
                _ if empty => {}
                [Read::Leaf(leaf)] if leaf.width().is_some() => self.packed(leaf, items as usize)?,
                _ => (0..items).try_for_each(|_| self.read(item))?,
            }
        }
        push(&mut self.outputs.longs[longs], total as u64)
    }
}

impl Column {
    #[inline(always)]
    fn read(
        &self,
        cursor: &mut Cursor,
        outputs: &mut Outputs,
        gathered: &mut Gathered,
        row: usize,
    ) -> Result<(), Fault> {
        let mut is_null = false;
        if let Some((_, present)) = self.nullable {
            if let Some(value) = self.short(cursor, outputs, present)? {
                gathered.valid |= 1 << row;
                gathered.values[row] = value;
                return Ok(());
            }
            is_null = cursor.branch_of_two()? != present;
            gathered.valid |= u64::from(!is_null) << row;
        }
        let value = match &self.leaf {
            Leaf::Text { bytes, .. } => {
                let output = &mut outputs.bytes[*bytes];
                if !is_null {
                    text(cursor, output)?;
                }
                u64::from(end(output)?)
            }
            _ if is_null => 0,
            Leaf::Int { low, high, .. } => cursor.within(*low, *high)? as u64,
            Leaf::Long { .. } => cursor.long()? as u64,
            Leaf::Boolean { .. } => u64::from(boolean(cursor)?),
            Leaf::Float { .. } => u64::from(u32::from_le_bytes(cursor.array()?)),
            Leaf::Double { .. } => u64::from_le_bytes(cursor.array()?),
            Leaf::Fixed { .. } => return Err(Fault::Impossible), // no column: a null would have bytes
        };
        gathered.values[row] = value;
        Ok(())
    }

    /// A value of few bytes that is not null, which most are: its branch, its length and itself are read as one.
    #[inline(always)]
    fn short(&self, cursor: &mut Cursor, outputs: &mut Outputs, present: i64) -> Result<Option<u64>, Fault> {
        match &self.leaf {
            Leaf::Int { low, high, .. } => match cursor.short_number_of(present) {
                Some(number) if number < *low || number > *high => Err(Fault::Outside(*low, *high)),
                found => Ok(found.map(|number| number as u64)),
            },
            Leaf::Long { .. } => Ok(cursor.short_number_of(present).map(|number| number as u64)),
            Leaf::Text { bytes, .. } => match cursor.short_text_of::<SHORT>(present) {
                Some((length, chunk)) => {
                    let output = &mut outputs.bytes[*bytes];
                    append(output, chunk, length)?;
                    Ok(Some(u64::from(end(output)?)))
                }
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

fn boolean(cursor: &mut Cursor) -> Result<u8, Fault> {
    let [byte] = cursor.array()?;
    if byte > 1 { Err(Fault::Outside(0, 1)) } else { Ok(byte) }
}

/// Appends the bytes of one text to those of others.
#[inline(always)]
fn text(cursor: &mut Cursor, output: &mut Vec<u8>) -> Result<(), Fault> {
    let length = cursor.number()?;
    let length = usize::try_from(length).map_err(|_| Fault::Outside(0, INT_MAX))?;
    if length <= SHORT {
        if let Some(chunk) = cursor.ahead::<SHORT>() {
            append(output, chunk, length)?;
            cursor.step(length);
            return Ok(());
        }
    }
    extend(output, cursor.bytes(length)?)
}

/// Appends the first bytes of some, of all of which it is faster to copy all.
#[inline(always)]
fn append(output: &mut Vec<u8>, chunk: &[u8; SHORT], length: usize) -> Result<(), Fault> {
    let end = output.len() + length;
    extend(output, chunk)?;
    output.truncate(end);
    Ok(())
}

/// Where the last text ends.
#[inline(always)]
fn end(output: &[u8]) -> Result<u32, Fault> {
    if output.len() > i32::MAX as usize {
        return Err(Fault::Arrow);
    }
    Ok(output.len() as u32)
}
