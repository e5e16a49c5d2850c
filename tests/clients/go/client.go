// Writes the cases with hamba/avro and linkedin/goavro, and reads files with both.
//
//	go run . write CASES.json FOLDER     FOLDER/hamba, FOLDER/goavro
//	go run . read FOLDER PACKAGE         prints {file: rows as they are stored, or an error}
package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/hamba/avro/v2"
	"github.com/hamba/avro/v2/ocf"
	"github.com/linkedin/goavro/v2"
)

type testCase struct {
	Schema       json.RawMessage `json:"schema"`
	Rows         []any           `json:"rows"`
	RowsPerBlock *int            `json:"rowsPerBlock"`
	EveryCodec   bool            `json:"everyCodec"`
}

// A library has its own Go types for some of Avro's.
type library struct {
	label func(avro.Schema) string // how a branch of a union is named
	fixed func(avro.Schema, []byte) any
	union func(string, any) any
	local bool // whether it knows local timestamps
}

var hamba = library{
	label: func(schema avro.Schema) string {
		if named, ok := schema.(avro.NamedSchema); ok {
			return named.FullName()
		}
		return string(schema.Type())
	},
	fixed: func(schema avro.Schema, data []byte) any {
		array := reflect.New(reflect.ArrayOf(len(data), reflect.TypeOf(byte(0)))).Elem()
		reflect.Copy(array, reflect.ValueOf(data))
		return array.Interface()
	},
	union: func(label string, value any) any { return map[string]any{label: value} },
	local: true,
}

var linkedin = library{
	label: hamba.label,
	fixed: func(_ avro.Schema, data []byte) any { return data },
	union: func(label string, value any) any { return goavro.Union(label, value) },
}

func (lib library) value(schema avro.Schema, node any) any {
	if reference, ok := schema.(*avro.RefSchema); ok {
		schema = reference.Schema()
	}
	if typed, ok := schema.(avro.LogicalTypeSchema); ok && typed.Logical() != nil &&
		(lib.local || !strings.HasPrefix(string(typed.Logical().Type()), "local-")) {
		if value := logical(typed.Logical(), node); value != nil {
			return value
		}
	}
	switch schema := schema.(type) {
	case *avro.UnionSchema:
		for index, value := range node.(map[string]any) {
			place, _ := strconv.Atoi(index)
			branch := schema.Types()[place]
			if branch.Type() == avro.Null {
				return nil
			}
			return lib.union(lib.label(deref(branch)), lib.value(branch, value))
		}
	case *avro.RecordSchema:
		row := map[string]any{}
		for place, field := range schema.Fields() {
			row[field.Name()] = lib.value(field.Type(), node.([]any)[place])
		}
		return row
	case *avro.ArraySchema:
		items := []any{}
		for _, item := range node.([]any) {
			items = append(items, lib.value(schema.Items(), item))
		}
		return items
	case *avro.MapSchema:
		entries := map[string]any{}
		for key, item := range node.(map[string]any) {
			entries[key] = lib.value(schema.Values(), item)
		}
		return entries
	case *avro.FixedSchema:
		data, _ := hex.DecodeString(node.(string))
		return lib.fixed(schema, data)
	}
	switch schema.Type() {
	case avro.Int:
		return int(node.(float64))
	case avro.Long:
		number, _ := strconv.ParseInt(node.(string), 10, 64)
		return number
	case avro.Float:
		return float32(node.(float64))
	case avro.Bytes:
		data, _ := hex.DecodeString(node.(string))
		return data
	}
	return node
}

// Both libraries have Go's own types for these.
func logical(kind avro.LogicalSchema, node any) any {
	number := func() int64 {
		if text, ok := node.(string); ok {
			value, _ := strconv.ParseInt(text, 10, 64)
			return value
		}
		return int64(node.(float64))
	}
	switch kind.Type() {
	case avro.Date:
		return time.Unix(number()*86400, 0).UTC()
	case avro.TimeMillis:
		return time.Duration(number()) * time.Millisecond
	case avro.TimeMicros:
		return time.Duration(number()) * time.Microsecond
	case avro.TimestampMillis, avro.LocalTimestampMillis:
		return time.UnixMilli(number()).UTC()
	case avro.TimestampMicros, avro.LocalTimestampMicros:
		return time.UnixMicro(number()).UTC()
	case avro.Decimal:
		data, _ := hex.DecodeString(node.(string))
		unscaled := new(big.Int).SetBytes(data)
		if len(data) > 0 && data[0] > 127 {
			unscaled.Sub(unscaled, new(big.Int).Lsh(big.NewInt(1), uint(8*len(data))))
		}
		scale := kind.(*avro.DecimalLogicalSchema).Scale()
		return new(big.Rat).SetFrac(unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
	}
	return nil
}

func deref(schema avro.Schema) avro.Schema {
	if reference, ok := schema.(*avro.RefSchema); ok {
		return reference.Schema()
	}
	return schema
}

func writeHamba(one testCase, codec string, out *bytes.Buffer) error {
	options := []ocf.EncoderFunc{ocf.WithCodec(ocf.CodecName(codec))}
	if one.RowsPerBlock != nil {
		options = append(options, ocf.WithBlockLength(*one.RowsPerBlock))
	}
	encoder, err := ocf.NewEncoder(string(one.Schema), out, options...)
	if err != nil {
		return err
	}
	schema := avro.MustParse(string(one.Schema))
	for _, row := range one.Rows {
		if err := encoder.Encode(hamba.value(schema, row)); err != nil {
			return err
		}
	}
	return encoder.Close()
}

func writeLinkedin(one testCase, codec string, out *bytes.Buffer) error {
	writer, err := goavro.NewOCFWriter(goavro.OCFConfig{W: out, Schema: string(one.Schema), CompressionName: codec})
	if err != nil {
		return err
	}
	schema := avro.MustParse(string(one.Schema))
	size := max(1, len(one.Rows))
	if one.RowsPerBlock != nil {
		size = *one.RowsPerBlock
	}
	rows := []any{}
	for _, row := range one.Rows {
		rows = append(rows, linkedin.value(schema, row))
	}
	for begin := 0; begin < len(rows); begin += size {
		if err := writer.Append(rows[begin:min(begin+size, len(rows))]); err != nil { // one block
			return err
		}
	}
	return nil
}

func readHamba(data []byte) ([]any, error) {
	decoder, err := ocf.NewDecoder(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	rows := []any{}
	for decoder.HasNext() {
		var row any
		if err := decoder.Decode(&row); err != nil {
			return nil, err
		}
		rows = append(rows, stored(row))
	}
	return rows, decoder.Error()
}

func readLinkedin(data []byte) ([]any, error) {
	reader, err := goavro.NewOCFReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	rows := []any{}
	for reader.Scan() {
		row, err := reader.Read()
		if err != nil {
			return nil, err
		}
		rows = append(rows, stored(row))
	}
	return rows, reader.Err()
}

// The row without the names of branches; times and decimals in Go's text.
func stored(value any) any {
	switch value := value.(type) {
	case []byte:
		return hex.EncodeToString(value)
	case int64:
		return strconv.FormatInt(value, 10)
	case time.Time:
		return value.UTC().Format("2006-01-02T15:04:05.000000")
	case time.Duration:
		return value.String()
	case *big.Rat:
		return value.RatString()
	case []any:
		items := []any{}
		for _, item := range value {
			items = append(items, stored(item))
		}
		return items
	case map[string]any:
		entries := map[string]any{}
		for key, item := range value {
			entries[key] = stored(item)
		}
		if len(entries) == 1 {
			for key, item := range entries {
				if branches[strings.SplitN(key, ".", 2)[0]] || strings.HasPrefix(key, "row_v") {
					return item
				}
			}
		}
		return entries
	}
	if array := reflect.ValueOf(value); array.IsValid() && array.Kind() == reflect.Array {
		data := make([]byte, array.Len())
		reflect.Copy(reflect.ValueOf(data), array)
		return hex.EncodeToString(data)
	}
	return value
}

// Types without a name; those with one begin with `row_v` in blobs of the sink.
var branches = map[string]bool{
	"boolean": true, "int": true, "long": true, "float": true, "double": true, "bytes": true, "string": true,
	"array": true, "map": true,
}

func main() {
	if os.Args[1] == "write" {
		write(os.Args[2], os.Args[3])
		return
	}
	read := map[string]func([]byte) ([]any, error){"hamba": readHamba, "goavro": readLinkedin}[os.Args[3]]
	found := map[string]any{}
	files, _ := filepath.Glob(filepath.Join(os.Args[2], "*.avro"))
	for _, file := range files {
		found[filepath.Base(file)] = attempt(read, file)
	}
	text, err := json.Marshal(found)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func attempt(read func([]byte) ([]any, error), file string) (found any) {
	defer func() {
		if problem := recover(); problem != nil {
			found = map[string]any{"error": fmt.Sprint(problem)}
		}
	}()
	data, _ := os.ReadFile(file)
	rows, err := read(data)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return rows
}

func write(path string, folder string) {
	text, _ := os.ReadFile(path)
	cases := map[string]testCase{}
	if err := json.Unmarshal(text, &cases); err != nil {
		panic(err)
	}
	writers := map[string]func(testCase, string, *bytes.Buffer) error{"hamba": writeHamba, "goavro": writeLinkedin}
	codecs := map[string][]string{"hamba": {"null", "deflate", "snappy", "zstandard"}, "goavro": {"null", "deflate", "snappy"}}
	for name, writer := range writers {
		os.MkdirAll(filepath.Join(folder, name), 0o755)
		for title, one := range cases {
			for _, codec := range codecs[name] {
				if codec != "null" && !one.EveryCodec {
					continue
				}
				out := &bytes.Buffer{}
				if err := writer(one, codec, out); err != nil {
					fmt.Printf("%s: %s: %v\n", name, title, err)
				} else {
					os.WriteFile(filepath.Join(folder, name, title+"-"+codec+".avro"), out.Bytes(), 0o644)
				}
			}
		}
	}
}
