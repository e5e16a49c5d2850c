// Writes the cases with Avro's Java library, Flink's and Kafka Connect's writers, and reads files with the first.
//
//   java -cp 'LIB/*' Client.java write CASES.json FOLDER      FOLDER/java, FOLDER/flink, FOLDER/connect
//   java -cp 'LIB/*' Client.java read FOLDER                  prints {file: rows as they are stored, or an error}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.apicurio.registry.utils.converter.avro.AvroData;
import java.io.File;
import java.io.OutputStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.avro.Schema;
import org.apache.avro.file.CodecFactory;
import org.apache.avro.file.DataFileReader;
import org.apache.avro.file.DataFileWriter;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.apache.flink.formats.avro.AvroWriters;
import org.apache.flink.formats.avro.RowDataToAvroConverters;
import org.apache.flink.formats.avro.typeutils.AvroSchemaConverter;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;

public class Client {
  static final ObjectMapper JSON = new ObjectMapper();
  static final HexFormat HEX = HexFormat.of();
  static final String[] CODECS = {"null", "deflate", "snappy", "zstandard", "bzip2", "xz"};

  public static void main(String[] words) throws Exception {
    if (words[0].equals("write")) {
      File folder = new File(words[2]);
      JsonNode cases = JSON.readTree(new File(words[1]));
      for (Map.Entry<String, JsonNode> each : cases.properties()) {
        writeCase(each.getKey(), each.getValue(), new File(folder, "java"));
      }
      writeAppended(new File(folder, "java"));
      writeFlink(new File(folder, "flink"));
      writeConnect(new File(folder, "connect"));
    } else {
      System.out.println(JSON.writeValueAsString(read(new File(words[1]))));
    }
  }

  // --- Avro's library

  static void writeCase(String name, JsonNode one, File folder) throws Exception {
    Schema schema = new Schema.Parser().parse(one.get("schema").toString());
    folder.mkdirs();
    for (String codec : one.get("everyCodec").asBoolean() ? CODECS : new String[] {"null"}) {
      try (DataFileWriter<Object> writer = new DataFileWriter<>(new GenericDatumWriter<>(schema))) {
        writer.setCodec(CodecFactory.fromString(codec));
        writer.create(schema, new File(folder, name + "-" + codec + ".avro"));
        int written = 0;
        for (JsonNode row : one.get("rows")) {
          writer.append(value(schema, row));
          if (one.get("rowsPerBlock").isInt() && ++written % one.get("rowsPerBlock").asInt() == 0) {
            writer.sync();
            writer.sync(); // what is empty is not written
          }
        }
      }
    }
  }

  /** A file that a second writer has continued, with metadata of its own and a marker that its author chose. */
  static void writeAppended(File folder) throws Exception {
    Schema schema = new Schema.Parser().parse(
        "{\"type\":\"record\",\"name\":\"Appended\",\"fields\":[{\"name\":\"id\",\"type\":\"long\"}]}");
    File file = new File(folder, "appended-deflate.avro");
    for (long id = 0; id < 3; id++) {
      try (DataFileWriter<Object> writer = new DataFileWriter<>(new GenericDatumWriter<>(schema))) {
        if (id == 0) {
          writer.setCodec(CodecFactory.deflateCodec(9));
          writer.setMeta("author", "é").setMeta("number", 7);
          writer.create(schema, new java.io.FileOutputStream(file), new byte[16]);
        } else {
          writer.appendTo(file);
        }
        GenericRecord row = new GenericData.Record(schema);
        row.put("id", id);
        writer.append(row);
      }
    }
  }

  static Object value(Schema schema, JsonNode node) {
    switch (schema.getType()) {
      case NULL: return null;
      case BOOLEAN: return node.asBoolean();
      case INT: return node.asInt();
      case LONG: return Long.parseLong(node.asText());
      case FLOAT: return (float) node.asDouble();
      case DOUBLE: return node.asDouble();
      case STRING: return node.asText();
      case BYTES: return ByteBuffer.wrap(HEX.parseHex(node.asText()));
      case FIXED: return new GenericData.Fixed(schema, HEX.parseHex(node.asText()));
      case ENUM: return new GenericData.EnumSymbol(schema, node.asText());
      case ARRAY: {
        List<Object> items = new ArrayList<>();
        node.forEach(item -> items.add(value(schema.getElementType(), item)));
        return items;
      }
      case MAP: {
        Map<String, Object> entries = new LinkedHashMap<>();
        node.properties().forEach(entry -> entries.put(entry.getKey(), value(schema.getValueType(), entry.getValue())));
        return entries;
      }
      case UNION: {
        Map.Entry<String, JsonNode> branch = node.properties().iterator().next();
        return value(schema.getTypes().get(Integer.parseInt(branch.getKey())), branch.getValue());
      }
      default: {
        GenericRecord row = new GenericData.Record(schema);
        for (Schema.Field field : schema.getFields()) {
          row.put(field.pos(), value(field.schema(), node.get(field.pos())));
        }
        return row;
      }
    }
  }

  static Map<String, Object> read(File folder) throws Exception {
    Map<String, Object> found = new TreeMap<>();
    for (File file : folder.listFiles((where, name) -> name.endsWith(".avro"))) {
      try (DataFileReader<Object> reader = new DataFileReader<>(file, new GenericDatumReader<>())) {
        ArrayNode rows = JSON.createArrayNode();
        for (Object row : reader) {
          rows.add(stored(row));
        }
        found.put(file.getName(), rows);
      } catch (Exception error) {
        found.put(file.getName(), Map.of("error", error.toString()));
      }
    }
    return found;
  }

  static JsonNode stored(Object value) {
    if (value instanceof GenericRecord record) {
      ObjectNode node = JSON.createObjectNode();
      record.getSchema().getFields().forEach(field -> node.set(field.name(), stored(record.get(field.pos()))));
      return node;
    } else if (value instanceof Map<?, ?> map) {
      ObjectNode node = JSON.createObjectNode();
      map.forEach((key, each) -> node.set(key.toString(), stored(each)));
      return node;
    } else if (value instanceof List<?> list) {
      ArrayNode node = JSON.createArrayNode();
      list.forEach(each -> node.add(stored(each)));
      return node;
    } else if (value instanceof ByteBuffer bytes) {
      byte[] copy = new byte[bytes.remaining()];
      bytes.duplicate().get(copy);
      return JSON.valueToTree(HEX.formatHex(copy));
    } else if (value instanceof GenericData.Fixed bytes) {
      return JSON.valueToTree(HEX.formatHex(bytes.bytes()));
    } else if (value instanceof Long number) {
      return JSON.valueToTree(number.toString());
    } else if (value instanceof CharSequence || value instanceof GenericData.EnumSymbol) {
      return JSON.valueToTree(value.toString());
    }
    return JSON.valueToTree(value);
  }

  // --- Flink: the schema, the values and the file are made by flink-avro, as in its table format `avro`

  static void writeFlink(File folder) throws Exception {
    folder.mkdirs();
    LogicalType type = DataTypes.ROW(
        DataTypes.FIELD("flag", DataTypes.BOOLEAN()),
        DataTypes.FIELD("tiny", DataTypes.TINYINT()),
        DataTypes.FIELD("number", DataTypes.BIGINT().notNull()),
        DataTypes.FIELD("money", DataTypes.DECIMAL(12, 3)),
        DataTypes.FIELD("text", DataTypes.STRING()),
        DataTypes.FIELD("data", DataTypes.BYTES()),
        DataTypes.FIELD("day", DataTypes.DATE()),
        DataTypes.FIELD("at_time", DataTypes.TIME(3)),
        DataTypes.FIELD("local", DataTypes.TIMESTAMP(3)),
        DataTypes.FIELD("tags", DataTypes.ARRAY(DataTypes.STRING())),
        DataTypes.FIELD("counts", DataTypes.MAP(DataTypes.STRING(), DataTypes.INT())),
        DataTypes.FIELD("inner", DataTypes.ROW(DataTypes.FIELD("x", DataTypes.DOUBLE())))).getLogicalType();
    Schema schema = AvroSchemaConverter.convertToSchema(type.copy(false));
    RowDataToAvroConverters.RowDataToAvroConverter converter = RowDataToAvroConverters.createConverter(type);
    RowData full = GenericRowData.of(
        true, (byte) -7, 5L, DecimalData.fromBigDecimal(new BigDecimal("-12.345"), 12, 3), StringData.fromString("é"),
        new byte[] {0, -1}, (int) LocalDate.of(2024, 2, 29).toEpochDay(), 45015123,
        TimestampData.fromLocalDateTime(LocalDateTime.of(2024, 2, 29, 12, 30, 15, 123000000)),
        new GenericArrayData(new Object[] {StringData.fromString("a"), null}),
        new GenericMapData(Map.of(StringData.fromString("k"), 1)), GenericRowData.of(0.5));
    GenericRowData empty = new GenericRowData(12);
    empty.setField(2, 6L);
    Path path = new Path(new File(folder, "rows-null.avro").toURI());
    try (var out = path.getFileSystem().create(path, FileSystem.WriteMode.OVERWRITE)) {
      var writer = AvroWriters.forGenericRecord(schema).create(out);
      for (RowData row : List.of(full, empty)) {
        writer.addElement((GenericRecord) converter.convert(schema, row));
      }
      writer.finish();
    }
  }

  // --- Kafka Connect: AvroData (Apicurio's, the open fork of Confluent's) and DataFileWriter, as Connect's sinks use them

  static void writeConnect(File folder) throws Exception {
    folder.mkdirs();
    org.apache.kafka.connect.data.Schema inner = SchemaBuilder.struct().name("org.example.Inner").optional()
        .field("x", org.apache.kafka.connect.data.Schema.FLOAT64_SCHEMA).build();
    org.apache.kafka.connect.data.Schema type = SchemaBuilder.struct().name("org.example.Value").version(3)
        .field("tiny", org.apache.kafka.connect.data.Schema.INT8_SCHEMA)
        .field("short", org.apache.kafka.connect.data.Schema.OPTIONAL_INT16_SCHEMA)
        .field("with_default", SchemaBuilder.int64().optional().defaultValue(9L).build())
        .field("money", Decimal.builder(2).parameter("connect.decimal.precision", "9").build())
        .field("day", org.apache.kafka.connect.data.Date.SCHEMA)
        .field("at_time", Time.SCHEMA)
        .field("at", Timestamp.builder().optional().build())
        .field("text", SchemaBuilder.string().doc("a text").parameter("k", "v").build())
        .field("data", org.apache.kafka.connect.data.Schema.OPTIONAL_BYTES_SCHEMA)
        .field("tags", SchemaBuilder.array(org.apache.kafka.connect.data.Schema.OPTIONAL_STRING_SCHEMA).build())
        .field("counts", SchemaBuilder.map(org.apache.kafka.connect.data.Schema.STRING_SCHEMA,
            org.apache.kafka.connect.data.Schema.INT32_SCHEMA).build())
        .field("by_number", SchemaBuilder.map(org.apache.kafka.connect.data.Schema.INT32_SCHEMA,
            org.apache.kafka.connect.data.Schema.STRING_SCHEMA).build())
        .field("inner", inner).build();
    Struct full = new Struct(type).put("tiny", (byte) -7).put("short", (short) 300).put("with_default", 1L)
        .put("money", new BigDecimal("-12.34")).put("day", new Date(19782L * 86400000)).put("at_time", new Date(45015123L))
        .put("at", new Date(1709209815123L)).put("text", "é").put("data", ByteBuffer.wrap(new byte[] {0, -1}))
        .put("tags", Arrays.asList("a", null)).put("counts", Map.of("k", 1)).put("by_number", Map.of(5, "five"))
        .put("inner", new Struct(inner).put("x", 0.5));
    Struct empty = new Struct(type).put("tiny", (byte) 1).put("money", new BigDecimal("0.01")).put("day", new Date(0))
        .put("at_time", new Date(0)).put("text", "").put("tags", List.of()).put("counts", Map.of())
        .put("by_number", Map.of());
    AvroData data = new AvroData(10);
    Schema schema = data.fromConnectSchema(type);
    for (String codec : List.of("null", "snappy")) {
      try (DataFileWriter<Object> writer = new DataFileWriter<>(new GenericDatumWriter<>())) {
        writer.setCodec(CodecFactory.fromString(codec));
        writer.create(schema, new File(folder, "values-" + codec + ".avro"));
        writer.append(data.fromConnectData(type, full));
        writer.append(data.fromConnectData(type, empty));
      }
    }
  }
}
