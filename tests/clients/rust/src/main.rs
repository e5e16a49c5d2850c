//! Writes the cases with the crate apache-avro, and reads files with it.
//!
//!     cargo run -- write CASES.json FOLDER     FOLDER/rust
//!     cargo run -- read FOLDER                 prints {file: rows as they are stored, or an error}

use apache_avro::schema::{Name, ResolvedSchema, Schema};
use apache_avro::types::Value;
use apache_avro::{Bzip2Settings, Codec, Days, DeflateSettings, Duration, Millis, Months, Reader, Writer, XzSettings, ZstandardSettings};
use serde_json::{json, Map, Value as Json};
use std::collections::HashMap;
use std::path::Path;
use std::{env, fs};

type Failure = Box<dyn std::error::Error>;
type Names<'a> = HashMap<Name, &'a Schema>;

fn codecs() -> Vec<(&'static str, Codec)> {
    vec![
        ("null", Codec::Null),
        ("deflate", Codec::Deflate(DeflateSettings::default())),
        ("snappy", Codec::Snappy),
        ("zstandard", Codec::Zstandard(ZstandardSettings::default())),
        ("bzip2", Codec::Bzip2(Bzip2Settings::default())),
        ("xz", Codec::Xz(XzSettings::default())),
    ]
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = env::args().skip(1).collect();
    if words[0] == "write" {
        return write(&words[1], &Path::new(&words[2]).join("rust"));
    }
    let mut found = Map::new();
    for entry in fs::read_dir(&words[1])? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "avro") {
            let rows = read(&path).map_or_else(|error| json!({"error": error.to_string()}), Json::Array);
            found.insert(path.file_name().unwrap().to_string_lossy().into(), rows);
        }
    }
    println!("{}", Json::Object(found));
    Ok(())
}

fn write(cases: &str, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)?;
    let cases: Map<String, Json> = serde_json::from_str(&fs::read_to_string(cases)?)?;
    for (title, case) in &cases {
        let every = case["everyCodec"] == true;
        for (name, codec) in codecs().into_iter().filter(|(name, _)| every || *name == "null") {
            match container_file(case, codec) {
                Ok(data) => fs::write(folder.join(format!("{title}-{name}.avro")), data)?,
                Err(error) => println!("rust: {title}: {error}"),
            }
        }
    }
    Ok(())
}

fn container_file(case: &Json, codec: Codec) -> Result<Vec<u8>, Failure> {
    let schema = Schema::parse(&case["schema"])?;
    let resolved = ResolvedSchema::try_from(&schema)?;
    let names: Names = resolved.get_names().iter().map(|(name, one)| (name.clone(), *one)).collect();
    let mut writer = Writer::with_codec(&schema, Vec::new(), codec);
    for (place, row) in case["rows"].as_array().unwrap().iter().enumerate() {
        if case["rowsPerBlock"].as_u64().is_some_and(|size| place as u64 % size == 0) {
            writer.flush()?;
        }
        writer.append(value(&schema, row, &names))?;
    }
    Ok(writer.into_inner()?)
}

fn long(node: &Json) -> i64 {
    node.as_str().map_or_else(|| node.as_i64().unwrap(), |text| text.parse().unwrap())
}

fn bytes(node: &Json) -> Vec<u8> {
    hex::decode(node.as_str().unwrap()).unwrap()
}

fn value(schema: &Schema, node: &Json, names: &Names) -> Value {
    match schema {
        Schema::Null => Value::Null,
        Schema::Boolean => Value::Boolean(node.as_bool().unwrap()),
        Schema::Int => Value::Int(long(node) as i32),
        Schema::Long => Value::Long(long(node)),
        Schema::Float => Value::Float(node.as_f64().unwrap() as f32),
        Schema::Double => Value::Double(node.as_f64().unwrap()),
        Schema::Bytes => Value::Bytes(bytes(node)),
        Schema::String => Value::String(node.as_str().unwrap().into()),
        Schema::Date => Value::Date(long(node) as i32),
        Schema::TimeMillis => Value::TimeMillis(long(node) as i32),
        Schema::TimeMicros => Value::TimeMicros(long(node)),
        Schema::TimestampMillis => Value::TimestampMillis(long(node)),
        Schema::TimestampMicros => Value::TimestampMicros(long(node)),
        Schema::LocalTimestampMillis => Value::LocalTimestampMillis(long(node)),
        Schema::LocalTimestampMicros => Value::LocalTimestampMicros(long(node)),
        Schema::Decimal(_) => Value::Decimal(bytes(node).into()),
        Schema::Uuid => Value::Uuid(apache_avro::Uuid::parse_str(node.as_str().unwrap()).unwrap()),
        Schema::Duration => {
            let data = bytes(node);
            let part = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().unwrap());
            Value::Duration(Duration::new(Months::new(part(0)), Days::new(part(4)), Millis::new(part(8))))
        }
        Schema::Fixed(fixed) => Value::Fixed(fixed.size, bytes(node)),
        Schema::Enum(one) => {
            let symbol = node.as_str().unwrap();
            let place = one.symbols.iter().position(|each| each == symbol).unwrap();
            Value::Enum(place as u32, symbol.into())
        }
        Schema::Array(array) => {
            Value::Array(node.as_array().unwrap().iter().map(|item| value(&array.items, item, names)).collect())
        }
        Schema::Map(map) => Value::Map(
            node.as_object().unwrap().iter().map(|(key, item)| (key.clone(), value(&map.types, item, names))).collect(),
        ),
        Schema::Union(union) => {
            let (place, inner) = node.as_object().unwrap().iter().next().unwrap();
            let place: usize = place.parse().unwrap();
            Value::Union(place as u32, Box::new(value(&union.variants()[place], inner, names)))
        }
        Schema::Record(record) => Value::Record(
            (record.fields.iter().zip(node.as_array().unwrap()))
                .map(|(field, item)| (field.name.clone(), value(&field.schema, item, names)))
                .collect(),
        ),
        Schema::Ref { name } => value(names[name], node, names),
        other => panic!("{other:?} is in no case"),
    }
}

fn read(path: &Path) -> Result<Vec<Json>, Failure> {
    let data = fs::read(path)?;
    let mut rows = Vec::new();
    for row in Reader::new(&data[..])? {
        rows.push(stored(row?));
    }
    Ok(rows)
}

fn stored(value: Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Boolean(one) => json!(one),
        Value::Int(one) | Value::Date(one) | Value::TimeMillis(one) => json!(one),
        Value::Long(one)
        | Value::TimeMicros(one)
        | Value::TimestampMillis(one)
        | Value::TimestampMicros(one)
        | Value::LocalTimestampMillis(one)
        | Value::LocalTimestampMicros(one) => json!(one.to_string()),
        Value::Float(one) => json!(one),
        Value::Double(one) => json!(one),
        Value::Bytes(data) | Value::Fixed(_, data) => json!(hex::encode(data)),
        Value::String(text) | Value::Enum(_, text) => json!(text),
        Value::Decimal(one) => json!(hex::encode(Vec::<u8>::try_from(one).unwrap())),
        Value::Uuid(one) => json!(one.to_string()),
        Value::Array(items) => Json::Array(items.into_iter().map(stored).collect()),
        Value::Map(entries) => Json::Object(entries.into_iter().map(|(key, one)| (key, stored(one))).collect()),
        Value::Record(fields) => Json::Object(fields.into_iter().map(|(key, one)| (key, stored(one))).collect()),
        Value::Union(_, one) => stored(*one),
        other => json!(format!("{other:?}")),
    }
}
