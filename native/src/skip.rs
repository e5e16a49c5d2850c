//! Steps over values that nobody wants, without recursion: records may contain themselves.

use crate::cursor::Cursor;
use crate::fault::Fault;
use crate::outputs::push;

/// Steps over a value without parts.
#[derive(Debug)]
pub enum Step {
    Long,
    /// An int or the index of a symbol, within bounds.
    Within { low: i64, high: i64 },
    Fixed(usize),
    Text,
}

/// Steps over one value.
#[derive(Debug)]
pub enum Skip {
    Step(Step),
    /// A union of null and a value without parts, whose branch is `present`.
    Nullable { present: i64, step: Step },
    /// Any other union.
    Union(Vec<Vec<Skip>>),
    /// An array or a map. Without code, items have no bytes.
    Items(Vec<Skip>),
    /// The record of this number, which contains itself.
    Record(usize),
}

impl Step {
    #[inline(always)]
    fn over(&self, cursor: &mut Cursor) -> Result<(), Fault> {
        match self {
            Step::Long => cursor.long().map(drop),
            Step::Within { low, high } => cursor.within(*low, *high).map(drop),
            Step::Fixed(size) => cursor.bytes(*size).map(drop),
            Step::Text => {
                let length = cursor.length()?;
                cursor.bytes(length).map(drop)
            }
        }
    }
}

/// Calls within each other: about three for each level of a record that contains itself.
const MOST_CALLS: usize = 1 << 20;

/// Code of which some has been done, to be done `times` more, this time included. Of items perhaps more blocks follow.
#[derive(Clone, Copy)]
pub struct Call<'p> {
    code: &'p [Skip],
    next: usize,
    times: u64,
    blocks: bool,
}

impl<'p> Call<'p> {
    fn once(code: &'p [Skip]) -> Self {
        Call { code, next: 0, times: 1, blocks: false }
    }
}

/// Steps over values of `code`. `records` is the code of records that contain themselves. `calls` is empty before and
/// after.
pub fn skip<'p>(
    cursor: &mut Cursor,
    code: &'p [Skip],
    records: &'p [Vec<Skip>],
    calls: &mut Vec<Call<'p>>,
) -> Result<(), Fault> {
    let mut call = Call::once(code);
    loop {
        let Some(value) = call.code.get(call.next) else {
            call.next = 0;
            call.times -= 1;
            if call.times == 0 && call.blocks {
                call.times = items(cursor, call.code.is_empty())?;
            }
            if call.times == 0 {
                match calls.pop() {
                    Some(outer) => call = outer,
                    None => return Ok(()),
                }
            }
            continue;
        };
        call.next += 1;
        let called = match value {
            Skip::Step(step) => {
                step.over(cursor)?;
                continue;
            }
            Skip::Nullable { present, step } => {
                if cursor.branch_of_two()? == *present {
                    step.over(cursor)?;
                }
                continue;
            }
            Skip::Union(branches) => {
                let branch = usize::try_from(cursor.number()?).ok().and_then(|tag| branches.get(tag));
                Call::once(branch.ok_or(Fault::Impossible)?)
            }
            Skip::Items(item) => match items(cursor, item.is_empty())? {
                0 => continue,
                times => Call { code: item, next: 0, times, blocks: true },
            },
            Skip::Record(number) => Call::once(&records[*number]),
        };
        if calls.len() == MOST_CALLS {
            calls.clear();
            return Err(Fault::Depth);
        }
        push(calls, call)?;
        call = called;
    }
}

/// How many items the next block has that must be read one by one; 0 after the last one.
///
/// A negative count says that the size of the block follows. Items without bytes need no time.
fn items(cursor: &mut Cursor, empty: bool) -> Result<u64, Fault> {
    loop {
        let count = cursor.number()?;
        if count == 0 {
            return Ok(0);
        }
        if count < 0 {
            let size = cursor.length()?;
            cursor.bytes(size)?;
        } else if !empty {
            return Ok(count.unsigned_abs());
        }
    }
}
