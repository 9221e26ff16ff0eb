package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/stele-go/stele/saver"
)

// filterUsage explains the values of --filter, which parseFilter reads.
const filterUsage = `KEY=TEXT: metadata that is this text; KEY:=JSON: this number, true, false, null, "text", list or map`

// parseFilter reads the values of --filter. All of them must hold. What follows = is text,
// whatever it looks like: n=1 is the text, n:=1 the number.
func parseFilter(args []string) (map[string]any, error) {
	filter := map[string]any{}
	for _, arg := range args {
		key, text, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, badFilter(arg, "it has no =; use KEY=TEXT or KEY:=JSON")
		}
		var v any = text
		if k, isJSON := strings.CutSuffix(key, ":"); isJSON {
			var err error
			if v, err = parseJSON(text); err != nil {
				return nil, badFilter(arg, err.Error()+`; text is KEY=TEXT, or KEY:="TEXT"`)
			}
			key = k
		}
		if _, twice := filter[key]; twice {
			return nil, badFilter(arg, "the key is given twice")
		}
		filter[key] = v
	}
	return filter, (saver.Query{Filter: filter}).Validate()
}

// filterHint is shown when nothing matches. It says which filter compares text although it
// looks like JSON; "" if none does.
func filterHint(args []string) string {
	for _, arg := range args {
		key, text, _ := strings.Cut(arg, "=")
		if v, err := parseJSON(text); err == nil && !strings.HasSuffix(key, ":") {
			return fmt.Sprintf("%s compares the text %q; for the %s say %s:=%s", arg, text, jsonKind(v), key, text)
		}
	}
	return ""
}

func jsonKind(v any) string {
	switch v.(type) {
	case int64, uint64, float64:
		return "number"
	case nil, bool:
		return "value"
	}
	return "JSON"
}

func badFilter(arg, reason string) error {
	return &saver.InvalidError{Field: fmt.Sprintf("filter %q", arg), Reason: reason}
}

// parseJSON reads one JSON value. Integers are exact: a float would change large ones.
func parseJSON(text string) (any, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, errors.New("it is no JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON")
	}
	return plainNumbers(v)
}

// plainNumbers replaces each json.Number in v by an int64, uint64 or float64, as metadata
// has them.
func plainNumbers(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n, nil
		}
		if n, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return n, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, errors.New("a number is too large")
		}
		return f, nil
	case []any:
		for i := range v {
			if v[i], err = plainNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = plainNumbers(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// parsePrefix reads a namespace prefix: labels separated by dots. If a label contains dots,
// the prefix is a JSON list of labels.
func parsePrefix(text string) ([]string, error) {
	bad := func(reason string) error {
		return &saver.InvalidError{Field: fmt.Sprintf("items %q", text), Reason: reason}
	}
	if strings.HasPrefix(text, "[") {
		var labels []string
		if err := json.Unmarshal([]byte(text), &labels); err != nil {
			return nil, bad(`it is no JSON list of labels, such as ["users","ada"]`)
		}
		if slices.Contains(labels, "") {
			return nil, bad("a label is empty")
		}
		return labels, nil
	}
	labels := strings.Split(text, ".")
	if slices.Contains(labels, "") {
		return nil, bad("a label is empty; use labels with dots between, such as users.ada")
	}
	return labels, nil
}

// prefixText writes a prefix so that parsePrefix can read it.
func prefixText(labels []string) string {
	text := strings.Join(labels, ".")
	if again, err := parsePrefix(text); err != nil || len(again) != len(labels) || strings.HasPrefix(text, "[") {
		return compact(labels, 0)
	}
	return printable(text)
}
