package parity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// names are what stele answered in the places where the reference server's recording has
// placeholders. The first answer binds a placeholder; later ones must be the same. Requests are
// filled in with what is bound.
type names struct{ bound map[string]string }

// placeholder matches all placeholders; recorder.py says what they stand for.
var placeholder = regexp.MustCompile(`<(?:time|ms|event|(?:id|hex|event|seq)\d+)>`)

// shapes are what may stand in the place of a placeholder, by the letters of its name.
var shapes = map[string]string{
	"time":  `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)`,
	"ms":    `\d{13}`,
	"event": `.+`,
	"id":    `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`,
	"hex":   `[0-9a-f]{32}`,
	"seq":   `\d+`,
}

func bare(name string) string { return strings.Trim(name, "<>0123456789") }

// text matches a recorded text with an answer, and binds.
func (n *names) text(want, got string) bool {
	found := placeholder.FindAllStringIndex(want, -1)
	if found == nil {
		return want == got
	}
	var pattern strings.Builder
	var groups []string
	at := 0
	for _, f := range found {
		name := want[f[0]:f[1]]
		pattern.WriteString(regexp.QuoteMeta(want[at:f[0]]))
		if value, ok := n.bound[name]; ok {
			pattern.WriteString(regexp.QuoteMeta(value))
		} else {
			pattern.WriteString("(" + shapes[bare(name)] + ")")
			groups = append(groups, name)
		}
		at = f[1]
	}
	m := regexp.MustCompile("^" + pattern.String() + regexp.QuoteMeta(want[at:]) + "$").FindStringSubmatch(got)
	if m == nil {
		return false
	}
	for i, name := range groups {
		if name[len(name)-2] >= '0' && name[len(name)-2] <= '9' { // numbered ones are bound
			if value, ok := n.bound[name]; ok && value != m[i+1] {
				return false
			}
			n.bound[name] = m[i+1]
		}
	}
	return true
}

// fill puts what is bound into a text of a request.
func (n *names) fill(s string) string {
	return placeholder.ReplaceAllStringFunc(s, func(name string) string {
		if value, ok := n.bound[name]; ok {
			return value
		}
		if number, ok := strings.CutPrefix(name, "<seq"); ok { // a number that no answer had
			return strings.TrimSuffix(number, ">")
		}
		return name
	})
}

// fillValue puts what is bound into the body of a request.
func (n *names) fillValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			out[n.fill(k)] = n.fillValue(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = n.fillValue(x)
		}
		return out
	case string:
		if bare(v) == "seq" {
			return json.Number(n.fill(v))
		}
		return n.fill(v)
	}
	return v
}

// difference is a place where stele's answer is not the recorded one.
type difference struct{ path, want, got string }

func (d difference) String() string { return fmt.Sprintf("%s: want %s, got %s", d.path, d.want, d.got) }

const absent = "nothing"

func show(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	text := bytes.TrimSpace(b.Bytes())
	if len(text) > 500 {
		text = append(text[:500], "…"...)
	}
	return string(text)
}

// key is the key of an answer that stands for a key with placeholders: the first one that has
// the recorded value, or else the first that can be it.
func (n *names) key(want string, value any, in map[string]any, dropped []string) (key string, ok bool) {
	for _, other := range slices.Sorted(maps.Keys(in)) {
		try := &names{maps.Clone(n.bound)}
		if !try.text(want, other) {
			continue
		}
		if len(try.value("", value, in[other], dropped)) == 0 {
			return other, true
		}
		if !ok {
			key, ok = other, true
		}
	}
	return key, ok
}

// value compares an answer with the recorded one. Keys that are dropped are not looked at.
func (n *names) value(path string, want, got any, dropped []string) (out []difference) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		rest := maps.Clone(g)
		maps.DeleteFunc(rest, func(k string, _ any) bool { return slices.Contains(dropped, k) })
		for _, k := range slices.Sorted(maps.Keys(w)) {
			if slices.Contains(dropped, k) {
				continue
			}
			at := path + "." + k
			key, ok := k, false
			if _, ok = rest[k]; !ok && placeholder.MatchString(k) {
				if key, ok = n.key(k, w[k], rest, dropped); ok {
					n.text(k, key)
				}
			}
			if !ok {
				out = append(out, difference{at, show(w[k]), absent})
				continue
			}
			out = append(out, n.value(at, w[k], rest[key], dropped)...)
			delete(rest, key)
		}
		for _, k := range slices.Sorted(maps.Keys(rest)) {
			out = append(out, difference{path + "." + k, absent, show(rest[k])})
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		for i := range max(len(w), len(g)) {
			at := fmt.Sprintf("%s[%d]", path, i)
			switch {
			case i >= len(g):
				out = append(out, difference{at, show(w[i]), absent})
			case i >= len(w):
				out = append(out, difference{at, absent, show(g[i])})
			default:
				out = append(out, n.value(at, w[i], g[i], dropped)...)
			}
		}
		return out
	case string:
		switch g := got.(type) {
		case string:
			if n.text(w, g) {
				return nil
			}
		case json.Number:
			if kind := bare(w); (kind == "ms" || kind == "seq") && n.text(w, g.String()) {
				return nil
			}
		}
	default:
		if want == got {
			return nil
		}
	}
	return []difference{{path, show(want), show(got)}}
}
