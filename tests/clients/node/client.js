// Writes the cases with avsc, and reads files with it.
//
//   node client.js write CASES.json FOLDER     FOLDER/avsc
//   node client.js read FOLDER                 prints {file: rows as they are stored, or an error}

'use strict';

const fs = require('fs');
const path = require('path');
const avro = require('avsc');
const snappy = require('snappyjs');

/** Longs of 64 bits. */
const long = avro.types.LongType.__with({
  fromBuffer: (data) => data.readBigInt64LE(),
  toBuffer: (value) => { const data = Buffer.alloc(8); data.writeBigInt64LE(value); return data; },
  fromJSON: BigInt,
  toJSON: String,
  isValid: (value) => typeof value === 'bigint',
  compare: (one, other) => (one < other ? -1 : one > other ? 1 : 0),
});

const options = () => ({
  wrapUnions: true, registry: { long }, typeHook: (schema) => (schema.type === 'long' ? long : undefined),
});

const crcTable = Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value >>> 0;
});

function crc32(data) {
  let value = 0xffffffff;
  for (const byte of data) value = crcTable[(value ^ byte) & 255] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}

/** The codec that avsc leaves to its users. */
function compress(data, done) {
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(data));
  done(null, Buffer.concat([Buffer.from(snappy.compress(data)), checksum]));
}

function decompress(data, done) {
  done(null, Buffer.from(snappy.uncompress(data.subarray(0, data.length - 4))));
}

/** A row in the form that avsc takes: unions are wrapped by the name of the branch. */
function value(type, json, names) {
  const given = names.take(type);
  if (Array.isArray(given)) {
    const [index, inner] = Object.entries(json)[0];
    const branch = given[index];
    return branch === 'null' ? null : { [names.label(branch)]: value(branch, inner, names) };
  }
  const kind = typeof given === 'string' ? given : given.type;
  switch (kind) {
    case 'long': return BigInt(json);
    case 'bytes': case 'fixed': return Buffer.from(json, 'hex');
    case 'array': return json.map((item) => value(given.items, item, names));
    case 'map':
      return Object.fromEntries(Object.entries(json).map(([key, item]) => [key, value(given.values, item, names)]));
    case 'record':
      return Object.fromEntries(given.fields.map((field, place) => [field.name, value(field.type, json[place], names)]));
    default: return json;
  }
}

class Names {
  constructor() {
    this.known = new Map();
  }

  take(type) {
    if (typeof type === 'string') return this.known.get(type) || type;
    if (type.name) {
      this.known.set(type.name, type);
      if (type.namespace) this.known.set(`${type.namespace}.${type.name}`, type);
    }
    return type;
  }

  label(type) {
    if (typeof type === 'string') return type;
    return type.name ? (type.namespace ? `${type.namespace}.${type.name}` : type.name) : type.type;
  }
}

function write(one, codec, file) {
  return new Promise((done, failed) => {
    const encoder = new avro.streams.BlockEncoder(avro.parse(one.schema, options()), {
      codec, codecs: { null: (data, cb) => cb(null, data), deflate: require('zlib').deflateRaw, snappy: compress },
      blockSize: one.rowsPerBlock ? 600 : 65536,
    });
    encoder.on('error', failed);
    const names = new Names();
    for (const row of one.rows) encoder.write(value(one.schema, row, names));
    encoder.end();
    encoder.pipe(fs.createWriteStream(file)).on('finish', done);
  });
}

function stored(json) {
  return JSON.parse(JSON.stringify(json, function replace(key) {
    const raw = this[key];
    if (typeof raw === 'bigint') return String(raw);
    return Buffer.isBuffer(raw) ? raw.toString('hex') : raw;
  }));
}

function unwrapped(type, row) {
  if (type.typeName && type.typeName.startsWith('union')) {
    if (row === null) return null;
    const [name, inner] = Object.entries(row)[0];
    return unwrapped(type.types.find((each) => (each.branchName || each.name || each.typeName) === name), inner);
  }
  if (Buffer.isBuffer(row)) return row;
  switch (type.typeName) {
    case 'array': return row.map((item) => unwrapped(type.itemsType, item));
    case 'map': return Object.fromEntries(Object.entries(row).map(([key, item]) => [key, unwrapped(type.valuesType, item)]));
    case 'record':
      return Object.fromEntries(type.fields.map((field) => [field.name, unwrapped(field.type, row[field.name])]));
    default: return row;
  }
}

function read(file) {
  return new Promise((done) => {
    const rows = [];
    let type = null;
    const failed = (error) => done({ error: String(error) });
    try {
      const decoder = avro.createFileDecoder(file, {
        codecs: { null: (data, cb) => cb(null, data), deflate: require('zlib').inflateRaw, snappy: decompress },
        parseHook: (schema) => avro.parse(schema, options()),
      });
      decoder.on('metadata', (found) => { type = found; })
        .on('data', (row) => { try { rows.push(stored(unwrapped(type, row))); } catch (error) { failed(error); } })
        .on('error', failed).on('end', () => done(rows));
    } catch (error) {
      failed(error);
    }
  });
}

async function main([action, first, second]) {
  if (action === 'write') {
    const folder = path.join(second, 'avsc');
    fs.mkdirSync(folder, { recursive: true });
    for (const [title, one] of Object.entries(JSON.parse(fs.readFileSync(first, 'utf8')))) {
      for (const codec of one.everyCodec ? ['null', 'deflate', 'snappy'] : ['null']) {
        await write(one, codec, path.join(folder, `${title}-${codec}.avro`));
      }
    }
  } else {
    const found = {};
    for (const file of fs.readdirSync(first).filter((name) => name.endsWith('.avro'))) {
      found[file] = await read(path.join(first, file));
    }
    console.log(JSON.stringify(found));
  }
}

main(process.argv.slice(2));
