package admin

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/stele-go/stele/saver/serde"
)

// Plain converts a decoded value (see serde.Serializer) to a value that encoding/json can
// write. What JSON has no form for becomes an object with a key that begins with "$":
// {"$bytes": base64}, {"$float": "NaN"}, {"$type": "module.Name", "value": …} for a Python
// object, {"$go": "…"} for anything else.
func Plain(v any) any {
	switch v := v.(type) {
	case nil, bool, int64, uint64, int, json.Number:
		return v
	case string:
		if utf8.ValidString(v) {
			return v
		}
		return map[string]any{"$bytes": base64.StdEncoding.EncodeToString([]byte(v))}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return map[string]any{"$float": fmt.Sprint(v)}
		}
		return v
	case []byte:
		return map[string]any{"$bytes": base64.StdEncoding.EncodeToString(v)}
	case serde.ByteArray:
		return map[string]any{"$bytes": base64.StdEncoding.EncodeToString(v)}
	case []any:
		return plainList(v)
	case serde.Set:
		return map[string]any{"$set": plainList(v)}
	case serde.FrozenSet:
		return map[string]any{"$set": plainList(v)}
	case serde.Deque:
		return map[string]any{"$deque": plainList(v)}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = Plain(e)
		}
		return out
	case map[any]any:
		pairs := make([]any, 0, len(v))
		for k, e := range v {
			pairs = append(pairs, []any{Plain(k), Plain(e)})
		}
		sortPlain(pairs)
		return map[string]any{"$map": pairs}
	}
	return plainNative(v)
}

func plainList(list []any) []any {
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = Plain(e)
	}
	return out
}

// plainNative is Plain for LangGraph's own types, and for all others.
func plainNative(v any) any {
	switch v := v.(type) {
	case *serde.Ext:
		return plainExt(v)
	case serde.Send:
		return map[string]any{"$type": "Send", "node": v.Node, "arg": Plain(v.Arg)}
	case serde.Interrupt:
		return map[string]any{"$type": "Interrupt", "id": v.ID, "value": Plain(v.Value)}
	case serde.Overwrite:
		return map[string]any{"$type": "Overwrite", "value": Plain(v.Value)}
	case serde.DeltaSnapshot:
		return map[string]any{"$type": "DeltaSnapshot", "value": Plain(v.Value)}
	case serde.Command:
		return map[string]any{"$type": "Command", "graph": v.Graph, "update": Plain(v.Update), "resume": Plain(v.Resume), "goto": Plain(v.Goto)}
	case fmt.Stringer:
		return map[string]any{"$type": fmt.Sprintf("%T", v), "value": v.String()}
	}
	// Types registered by a program may know how to write themselves.
	if b, err := json.Marshal(v); err == nil {
		return json.RawMessage(b)
	}
	return map[string]any{"$go": fmt.Sprintf("%T: %v", v, v)}
}

func plainExt(x *serde.Ext) any {
	if x == nil {
		return nil
	}
	if x.Data != nil {
		return map[string]any{"$ext": x.Code, "data": base64.StdEncoding.EncodeToString(x.Data)}
	}
	out := map[string]any{"$type": x.Module + "." + x.Name, "value": Plain(x.Value)}
	if x.Method != "" {
		out["method"] = x.Method
	}
	return out
}
