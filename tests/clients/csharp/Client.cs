// Writes the cases with Avro's C# library, and reads files with it.
//
//   mono client.exe write CASES.json FOLDER     FOLDER/csharp
//   mono client.exe read FOLDER                 prints {file: rows as they are stored, or an error}
//
// The library is in no registry that is used here. Debian has mono-mcs and libnewtonsoft-json5.0-cil; in a checkout of
// apache/avro (commit 87212a6d47), lang/csharp/src/apache/main without IO/Parsing, IO/Parsing*coder.cs, IO/Json*,
// IO/*.notnetstandard2.0.cs, Reflect and Protocol/Message.cs, which Mono's compiler does not know or which are not needed:
//
//   mcs -langversion:latest -target:library -out:Avro.dll -d:NETSTANDARD2_0 -r:Newtonsoft.Json.dll -r:System.Numerics *.cs
//   mcs -langversion:latest -out:client.exe -r:Avro.dll -r:Newtonsoft.Json.dll -r:System.Numerics Client.cs

using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Numerics;
using Avro;
using Avro.File;
using Avro.Generic;
using Newtonsoft.Json;
using Newtonsoft.Json.Linq;

public static class Client
{
    static readonly DateTime Epoch = new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc);

    public static void Main(string[] words)
    {
        if (words[0] == "write")
            Write(Load(File.ReadAllText(words[1])), Path.Combine(words[2], "csharp"));
        else
            Console.WriteLine(ReadAll(words[1]).ToString(Formatting.None));
    }

    static JObject Load(string text)
    {
        return (JObject)JsonConvert.DeserializeObject(text, new JsonSerializerSettings { DateParseHandling = DateParseHandling.None });
    }

    static void Write(JObject cases, string folder)
    {
        Directory.CreateDirectory(folder);
        foreach (var one in cases.Properties())
        {
            var codecs = (bool)one.Value["everyCodec"] ? new[] { "null", "deflate" } : new[] { "null" };
            foreach (var codec in codecs)
            {
                var file = Path.Combine(folder, one.Name + "-" + codec + ".avro");
                try
                {
                    WriteFile((JObject)one.Value, codec, file);
                }
                catch (Exception error)
                {
                    File.Delete(file);
                    Console.WriteLine("csharp: " + one.Name + ": " + error.Message);
                }
            }
        }
    }

    static void WriteFile(JObject one, string codec, string file)
    {
        var schema = Schema.Parse(one["schema"].ToString());
        using (var writer = DataFileWriter<object>.OpenWriter(
            new GenericDatumWriter<object>(schema), file, Codec.CreateCodecFromString(codec)))
        {
            var written = 0;
            foreach (var row in one["rows"])
            {
                writer.Append(Value(schema, row));
                if (one["rowsPerBlock"].Type == JTokenType.Integer && ++written % (int)one["rowsPerBlock"] == 0)
                    writer.Sync();
            }
        }
    }

    static object Value(Schema schema, JToken node)
    {
        switch (schema.Tag)
        {
            case Schema.Type.Null: return null;
            case Schema.Type.Boolean: return (bool)node;
            case Schema.Type.Int: return (int)node;
            case Schema.Type.Long: return long.Parse((string)node);
            case Schema.Type.Float: return (float)node;
            case Schema.Type.Double: return (double)node;
            case Schema.Type.String: return (string)node;
            case Schema.Type.Bytes: return Bytes(node);
            case Schema.Type.Fixed: return new GenericFixed((FixedSchema)schema, Bytes(node));
            case Schema.Type.Enumeration: return new GenericEnum((EnumSchema)schema, (string)node);
            case Schema.Type.Logical: return Logical((LogicalSchema)schema, node);
            case Schema.Type.Array:
                return node.Select(item => Value(((ArraySchema)schema).ItemSchema, item)).ToArray();
            case Schema.Type.Map:
                return ((JObject)node).Properties().ToDictionary(
                    entry => entry.Name, entry => Value(((MapSchema)schema).ValueSchema, entry.Value));
            case Schema.Type.Union:
                var branch = ((JObject)node).Properties().Single();
                return Value(((UnionSchema)schema).Schemas[int.Parse(branch.Name)], branch.Value);
            default:
                var record = (RecordSchema)schema;
                var row = new GenericRecord(record);
                foreach (var field in record.Fields)
                    row.Add(field.Name, Value(field.Schema, node[field.Pos]));
                return row;
        }
    }

    static object Logical(LogicalSchema schema, JToken node)
    {
        switch (schema.LogicalTypeName)
        {
            case "date": return Epoch.AddDays((int)node);
            case "time-millis": return TimeSpan.FromMilliseconds((int)node);
            case "time-micros": return new TimeSpan(long.Parse((string)node) * 10);
            case "timestamp-millis": case "local-timestamp-millis": return Epoch.AddMilliseconds(long.Parse((string)node));
            case "timestamp-micros": case "local-timestamp-micros": return Epoch.AddTicks(long.Parse((string)node) * 10);
            case "uuid": return Guid.Parse((string)node);
            case "decimal":
                var unscaled = new BigInteger(Bytes(node).Reverse().ToArray());
                return new AvroDecimal(unscaled, int.Parse(schema.GetProperty("scale")));
            default: return Value(schema.BaseSchema, node);
        }
    }

    static byte[] Bytes(JToken node)
    {
        var text = (string)node;
        return Enumerable.Range(0, text.Length / 2).Select(at => Convert.ToByte(text.Substring(2 * at, 2), 16)).ToArray();
    }

    static JObject ReadAll(string folder)
    {
        return new JObject(
            Directory.GetFiles(folder, "*.avro").Select(file => new JProperty(Path.GetFileName(file), Read(file))));
    }

    static JToken Read(string file)
    {
        try
        {
            using (var reader = DataFileReader<object>.OpenReader(file))
                return new JArray(reader.NextEntries.Select(Stored));
        }
        catch (Exception error)
        {
            return new JObject(new JProperty("error", error.GetType().Name + ": " + error.Message));
        }
    }

    static JToken Stored(object value)
    {
        if (value == null) return JValue.CreateNull();
        if (value is GenericRecord record)
            return new JObject(record.Schema.Fields.Select(field => new JProperty(field.Name, Stored(record[field.Name]))));
        if (value is IDictionary<string, object> map)
            return new JObject(map.Select(entry => new JProperty(entry.Key, Stored(entry.Value))));
        if (value is GenericFixed known) return Hex(known.Value);
        if (value is byte[] data) return Hex(data);
        if (value is Array items) return new JArray(items.Cast<object>().Select(Stored));
        if (value is GenericEnum symbol) return symbol.Value;
        if (value is long number) return number.ToString();
        if (value is DateTime at) return at.ToString("yyyy-MM-dd'T'HH:mm:ss.ffffff");
        if (value is TimeSpan span) return span.ToString("hh':'mm':'ss'.'ffffff");
        if (value is AvroDecimal exact)
            return Hex(exact.UnscaledValue.ToByteArray().Reverse().ToArray());
        return new JValue(value is float ? (double)(float)value : value);
    }

    static string Hex(byte[] data)
    {
        return string.Concat(data.Select(one => one.ToString("x2")));
    }
}
