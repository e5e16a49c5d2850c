//! Programs from the tuples that Python gives: a name, and what the value of that name has.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::read::{Column, Leaf, Read};
use crate::skip::{Skip, Step};

pub fn reads(code: &Bound<'_, PyAny>) -> PyResult<Vec<Read>> {
    code.try_iter()?.map(|value| read(&value?)).collect()
}

pub fn skips(code: &Bound<'_, PyAny>) -> PyResult<Vec<Skip>> {
    code.try_iter()?.map(|value| skip(&value?)).collect()
}

fn read(value: &Bound<'_, PyAny>) -> PyResult<Read> {
    let given = value.cast::<PyTuple>()?;
    let at = |place: usize| given.get_item(place);
    Ok(match at(0)?.extract::<String>()?.as_str() {
        "column" => Read::Column(Column { leaf: leaf(&at(1)?)?, nullable: at(2)?.extract()? }),
        "nullable" => Read::Nullable { valid: at(1)?.extract()?, present: at(2)?.extract()?, value: reads(&at(3)?)? },
        "union" => Read::Union {
            longs: at(1)?.extract()?,
            branches: at(2)?.try_iter()?.map(|branch| reads(&branch?)).collect::<PyResult<_>>()?,
        },
        "items" => Read::Items {
            longs: at(1)?.extract()?,
            item: reads(&at(2)?)?,
            empty: at(3)?.extract()?,
            item_bytes: at(4)?.extract()?,
        },
        "unwanted" => Read::Unwanted(skips(&at(1)?)?),
        _ => Read::Leaf(leaf(value)?),
    })
}

fn leaf(value: &Bound<'_, PyAny>) -> PyResult<Leaf> {
    let given = value.cast::<PyTuple>()?;
    let at = |place: usize| given.get_item(place);
    let place = || at(1)?.extract();
    Ok(match at(0)?.extract::<String>()?.as_str() {
        "int" => Leaf::Int { words: place()?, low: at(2)?.extract()?, high: at(3)?.extract()? },
        "long" => Leaf::Long { longs: place()? },
        "boolean" => Leaf::Boolean { bytes: place()? },
        "float" => Leaf::Float { words: place()? },
        "double" => Leaf::Double { longs: place()? },
        "fixed" => Leaf::Fixed { bytes: place()?, size: at(2)?.extract()? },
        "text" => Leaf::Text { words: place()?, bytes: at(2)?.extract()? },
        other => return Err(PyValueError::new_err(format!("there is no value {other:?} to read"))),
    })
}

fn skip(value: &Bound<'_, PyAny>) -> PyResult<Skip> {
    let given = value.cast::<PyTuple>()?;
    let at = |place: usize| given.get_item(place);
    Ok(match at(0)?.extract::<String>()?.as_str() {
        "nullable" => Skip::Nullable { present: at(1)?.extract()?, step: step(&at(2)?)? },
        "union" => Skip::Union(at(1)?.try_iter()?.map(|branch| skips(&branch?)).collect::<PyResult<_>>()?),
        "items" => Skip::Items(skips(&at(1)?)?),
        "record" => Skip::Record(at(1)?.extract()?),
        _ => Skip::Step(step(value)?),
    })
}

fn step(value: &Bound<'_, PyAny>) -> PyResult<Step> {
    let given = value.cast::<PyTuple>()?;
    let at = |place: usize| given.get_item(place);
    Ok(match at(0)?.extract::<String>()?.as_str() {
        "long" => Step::Long,
        "within" => Step::Within { low: at(1)?.extract()?, high: at(2)?.extract()? },
        "fixed" => Step::Fixed(at(1)?.extract()?),
        "text" => Step::Text,
        other => return Err(PyValueError::new_err(format!("there is no value {other:?} to step over"))),
    })
}
