package serde

import "strings"

// revive converts {"lc": 2, "type": "constructor", "id": [module…, name], "args", "kwargs"},
// the form of objects in LangGraph's JSON, to the value that msgpack gives for the same
// object. It does so only for safe and registered types; other maps stay unchanged. No method
// is ever called, so "method" is ignored, with one exception: a datetime was stored as its
// text, which stele reads although LangGraph itself no longer does.
func (c *Codec) revive(m map[string]any, b *budget) any {
	if m["lc"] != int64(2) || m["type"] != "constructor" {
		return m
	}
	id, _ := m["id"].([]any)
	if len(id) < 2 {
		return m
	}
	parts := make([]string, len(id))
	for i, p := range id {
		var ok bool
		if parts[i], ok = p.(string); !ok {
			return m
		}
	}
	name := TypeName{strings.Join(parts[:len(parts)-1], "."), parts[len(parts)-1]}
	reg := c.opts.Registry.byName[name]
	if !safeTypes[name] && reg == nil {
		return m
	}
	args, ok1 := optional[[]any](m["args"])
	kwargs, ok2 := optional[map[string]any](m["kwargs"])
	if !ok1 || !ok2 || (len(args) > 0 && len(kwargs) > 0) {
		return m // no LangGraph wrote both
	}
	x := legacyExt(name, args, kwargs)
	if c.opts.Plain {
		return plainValue(x)
	}
	if safeTypes[name] {
		if v, ok := nativeValue(x); ok {
			return v
		}
	} else if reg.goType != nil {
		if v, ok := reg.build(x, b); ok {
			return v
		}
	}
	return x
}

// optional is v as a T; a missing v is the zero T.
func optional[T any](v any) (T, bool) {
	t, ok := v.(T)
	return t, ok || v == nil
}

// legacyExt arranges arguments as LangGraph's msgpack does for the type.
func legacyExt(name TypeName, args []any, kwargs map[string]any) *Ext {
	x := &Ext{Module: name.Module, Name: name.Name}
	isModel := strings.HasPrefix(name.Module, "langchain_core.")
	switch {
	case name == TypeName{modTypes, nameSend} && len(kwargs) == 2 && has(kwargs, "node") && has(kwargs, "arg"):
		x.Code, x.Value = ExtPositional, []any{kwargs["node"], kwargs["arg"]}
	case isModel && len(args) == 0:
		x.Code, x.Value, x.Method = ExtPydanticV2, orEmpty(kwargs), pydanticMethod
	case len(kwargs) > 0:
		x.Code, x.Value = ExtKeyword, kwargs
	case len(args) == 1 && name == TypeName{"datetime", "datetime"}:
		x.Code, x.Value, x.Method = ExtMethod, args[0], "fromisoformat"
	case len(args) == 1 && name.Module != modTypes && name.Module != "datetime" && !strings.HasPrefix(name.Module, "pathlib"):
		x.Code, x.Value = ExtSingle, args[0]
	case len(args) == 0 && (name.Module == "builtins" || name.Module == "collections"): // set()
		x.Code, x.Value = ExtSingle, []any{}
	case args == nil:
		x.Code, x.Value = ExtPositional, []any{}
	default:
		x.Code, x.Value = ExtPositional, args
	}
	return x
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}
