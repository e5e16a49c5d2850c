//! Reads Avro datums into buffers of which Arrow arrays are made: the compiled form of the Forth machine that
//! `arrow_avro.decoding` drives. It knows neither schemas nor Arrow; `arrow_avro.decoding.native_program` writes its programs.

mod cursor;
mod fault;
mod outputs;
mod parse;
mod read;
mod skip;

use std::sync::Mutex;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cursor::Cursor;
use crate::fault::Fault;
use crate::outputs::{Gathered, Outputs};
use crate::read::{Read, Run};
use crate::skip::Skip;

type Outcome = (Option<(&'static str, i64, i64)>, Vec<usize>, Vec<usize>);

/// Memory that a program keeps for its next run, in bytes.
const MOST_SPARE: usize = 32 << 20;

/// Reads datums of one type.
#[pyclass(frozen)]
struct Program {
    code: Vec<Read>,
    records: Vec<Vec<Skip>>,
    counts: (usize, usize, usize),
    /// Those of the last run until they are taken, then their memory for the next run.
    outputs: Mutex<Outputs>,
}

#[pymethods]
impl Program {
    /// code, records: tuples of values to read, and to step over. counts: how many outputs there are of words, longs, bytes.
    #[new]
    fn new(code: &Bound<'_, PyAny>, records: &Bound<'_, PyAny>, counts: (usize, usize, usize)) -> PyResult<Self> {
        let records = records.try_iter()?.map(|record| parse::skips(&record?)).collect::<PyResult<_>>()?;
        let code = parse::reads(code)?;
        Ok(Program { code, records, counts, outputs: Mutex::default() })
    }

    /// Reads the datums of some bodies, of each so many as `rows` says. A body is given with the
    /// bytes that it is a part of, which can be read without the interpreter's lock.
    /// `budget` is what items may take, in bytes.
    ///
    /// Returns the fault if there is one, its name and the bounds of a number; where the datums of each body end; and how
    /// many bytes each output has. `take` gives the bytes, once.
    fn run<'py>(
        &self,
        py: Python<'py>,
        bodies: Vec<(Bound<'py, PyBytes>, PyBuffer<u8>)>,
        rows: Vec<u64>,
        budget: Option<u64>,
    ) -> PyResult<Outcome> {
        let cut = bodies.iter().map(|(whole, body)| located(whole.as_bytes(), body)).collect::<PyResult<Vec<_>>>()?;
        match py.detach(|| self.scan(&cut, &rows, budget)) {
            Ok((ends, outputs)) => {
                let sizes = outputs.stored().map(<[u8]>::len).collect();
                self.keep(outputs);
                Ok((None, ends, sizes))
            }
            Err(Fault::Memory) => Err(PyMemoryError::new_err("there is no memory for the values of a batch")),
            Err(fault) => Ok((Some(fault.named()), vec![], vec![])),
        }
    }

    /// Copies each output of the last run to a buffer of its size.
    fn take<'py>(&self, py: Python<'py>, buffers: Vec<PyBuffer<u8>>) -> PyResult<()> {
        let mut outputs = self.kept();
        for (stored, buffer) in outputs.stored().zip(&buffers) {
            buffer.copy_from_slice(py, stored)?;
        }
        outputs.clear();
        if outputs.capacity() <= MOST_SPARE {
            self.keep(outputs);
        }
        Ok(())
    }
}

impl Program {
    fn scan(&self, bodies: &[&[u8]], rows: &[u64], budget: Option<u64>) -> Result<(Vec<usize>, Outputs), Fault> {
        let (words, longs, bytes) = self.counts;
        let mut outputs = self.kept();
        outputs.clear();
        outputs.words.resize_with(words, Vec::new);
        outputs.longs.resize_with(longs, Vec::new);
        outputs.bytes.resize_with(bytes, Vec::new);
        let columns = self.code.iter().filter(|value| matches!(value, Read::Column(_))).count();
        let mut run = Run {
            cursor: Cursor::new(&[]),
            outputs,
            gathered: vec![Gathered::new(); columns],
            row: 0,
            calls: vec![],
            records: &self.records,
            budget,
        };
        let mut ends = Vec::with_capacity(rows.len());
        for (body, &count) in bodies.iter().zip(rows) {
            run.cursor = Cursor::new(body);
            run.rows(count, &self.code)?;
            ends.push(run.cursor.position());
        }
        run.move_rows(&self.code)?;
        Ok((ends, run.outputs))
    }

    fn kept(&self) -> Outputs {
        self.outputs.lock().map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default()
    }

    fn keep(&self, outputs: Outputs) {
        if let Ok(mut kept) = self.outputs.lock() {
            *kept = outputs;
        }
    }
}

/// The part of some bytes that a buffer of the same memory shows.
fn located<'a>(whole: &'a [u8], body: &PyBuffer<u8>) -> PyResult<&'a [u8]> {
    let start = (body.buf_ptr() as usize).checked_sub(whole.as_ptr() as usize);
    let found = start.and_then(|start| whole.get(start..)?.get(..body.len_bytes()));
    match found {
        Some(found) => Ok(found),
        None if body.len_bytes() == 0 => Ok(&[]),
        None => Err(PyValueError::new_err("a body is not within its bytes")),
    }
}

#[pymodule]
fn pyspark_azureblob_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Program>()
}
