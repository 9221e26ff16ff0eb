package serde

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// goldens is testdata/langgraph.json, which testdata/gen.py writes by means of
// LangGraph itself.
type goldens struct {
	Cases []struct {
		Name    string
		Kind    string
		Hex     string
		Size    int
		SHA256  string
		Value   any
		Plain   any
		Strict  any
		Inexact bool
	}
	Encrypted []struct{ Name, Key, Nonce, Kind, Hex, Inner string }
	JSON      []struct {
		Name, Text string
		Value      any
	}
}

func loadGoldens(t testing.TB) *goldens {
	t.Helper()
	b, err := os.ReadFile("testdata/langgraph.json")
	if err != nil {
		t.Fatal(err)
	}
	var g goldens
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Cases) < 150 || len(g.Encrypted) < 20 || len(g.JSON) < 30 {
		t.Fatalf("testdata/langgraph.json holds %d, %d and %d cases: cut short?", len(g.Cases), len(g.Encrypted), len(g.JSON))
	}
	return &g
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustNew(t testing.TB, o Options) *Codec {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// differ shows both values if they differ. (go-cmp takes time exponential in
// the depth of nested interfaces.)
func differ(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return fmt.Sprintf("- %.2000s\n+ %.2000s", fmt.Sprint(want), fmt.Sprint(got))
}

func TestGoldenDecode(t *testing.T) {
	plain, strict := mustNew(t, Options{Plain: true}), mustNew(t, Options{Strict: true})
	for _, g := range loadGoldens(t).Cases {
		t.Run(g.Name, func(t *testing.T) {
			if g.Hex == "" {
				return // long: TestGoldenLong
			}
			in := Typed{Kind: g.Kind, Data: unhex(t, g.Hex)}
			v, err := Default().Decode(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := differ(g.Value, described(t, v)); diff != "" {
				t.Errorf("decoded (-LangGraph +stele):\n%s", diff)
			}
			out, err := Default().Encode(v)
			if err != nil {
				t.Fatal(err)
			}
			if same := out.Kind == g.Kind && hex.EncodeToString(out.Data) == g.Hex; same == g.Inexact {
				t.Errorf("written back:\n got %s %x\nwant %s %s", out.Kind, out.Data, g.Kind, g.Hex)
			}
			if g.Kind != KindMsgpack {
				return
			}
			for _, mode := range []struct {
				name string
				c    *Codec
				want any
			}{{"plain", plain, g.Plain}, {"strict", strict, g.Strict}} {
				v, err := mode.c.Decode(in)
				if err != nil {
					t.Fatal(err)
				}
				if diff := differ(mode.want, described(t, v)); diff != "" {
					t.Errorf("decoded %s (-LangGraph +stele):\n%s", mode.name, diff)
				}
			}
		})
	}
}

func TestGoldenLong(t *testing.T) {
	manyKeys := map[string]any{}
	for i := range 70000 {
		manyKeys[fmt.Sprintf("%05d", i)] = nil
	}
	values := map[string]any{
		"str 70000":        strings.Repeat("c", 70000),
		"bytearray nested": []any{[]byte("*"), []byte{}, []byte(strings.Repeat("x", 300)), []byte(strings.Repeat("y", 70000))},
		"list 70000":       slices.Repeat([]any{int64(0)}, 70000),
		"map 70000":        manyKeys,
	}
	for _, g := range loadGoldens(t).Cases {
		if g.Hex != "" || g.Size == 0 {
			continue
		}
		v, ok := values[g.Name]
		if !ok {
			t.Fatalf("no value for %q", g.Name)
		}
		delete(values, g.Name)
		out, err := Default().Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(out.Data); hex.EncodeToString(sum[:]) != g.SHA256 || len(out.Data) != g.Size {
			t.Errorf("%s: wrote %d bytes with sum %x; LangGraph %d with %s", g.Name, len(out.Data), sum, g.Size, g.SHA256)
		}
		back, err := Default().Decode(out)
		if diff := differ(v, back); diff != "" || err != nil {
			t.Errorf("%s: read back: %v\n%.500s", g.Name, err, diff)
		}
	}
	if len(values) > 0 {
		t.Errorf("%d values have no golden", len(values))
	}
}

func TestGoldenJSON(t *testing.T) {
	for _, g := range loadGoldens(t).JSON {
		t.Run(g.Name, func(t *testing.T) {
			v, err := Default().Decode(Typed{Kind: KindJSON, Data: []byte(g.Text)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := differ(g.Value, described(t, v)); diff != "" {
				t.Errorf("decoded (-LangGraph +stele):\n%s", diff)
			}
		})
	}
}

// described says what v is in the words of testdata/gen.py.
func described(t testing.TB, v any) any {
	t.Helper()
	var out any
	text, err := json.Marshal(describe(v))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

type word = map[string]any

func describe(v any) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case int64:
		return word{"int": strconv.FormatInt(v, 10)}
	case uint64:
		return word{"int": strconv.FormatUint(v, 10)}
	case float64:
		return word{"float": fmt.Sprintf("%016x", math.Float64bits(v))}
	case string:
		return word{"str": v}
	case []byte:
		return word{"bytes": hex.EncodeToString(v)}
	case ByteArray:
		return word{"bytearray": hex.EncodeToString(v)}
	case []any:
		return word{"list": describeAll(v)}
	case map[string]any:
		pairs := [][2]any{}
		for k, x := range v {
			pairs = append(pairs, [2]any{describe(k), describe(x)})
		}
		return describePairs(pairs)
	case map[any]any:
		pairs := [][2]any{}
		for k, x := range v {
			pairs = append(pairs, [2]any{describe(k), describe(x)})
		}
		return describePairs(pairs)
	case Key:
		return describe(v.Value())
	case *Ext:
		return describeExt(v)
	}
	return describeNative(v)
}

func describeAll(list []any) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = describe(x)
	}
	return out
}

// describePairs sorts as json.dumps of Python would print the pairs.
func describePairs(pairs [][2]any) any {
	text := func(p [2]any) string {
		b, _ := json.Marshal(p)
		s := strings.NewReplacer(`":`, `": `, `,`, `, `).Replace(string(b))
		var ascii strings.Builder
		for _, r := range s {
			if r < 0x80 {
				ascii.WriteRune(r)
			} else {
				fmt.Fprintf(&ascii, `\u%04x`, r)
			}
		}
		return ascii.String()
	}
	slices.SortFunc(pairs, func(a, b [2]any) int { return strings.Compare(text(a), text(b)) })
	return word{"map": pairs}
}

// describeExt also covers values of safe types that Go's types cannot hold.
func describeExt(x *Ext) any {
	switch x.Module + "." + x.Name {
	case "datetime.datetime":
		return word{"datetime": x.Value}
	case "datetime.timedelta":
		return word{"timedelta": x.Value}
	case "langgraph.types.TimeoutPolicy":
		f := x.Fields()
		return word{"timeout": []any{describe(f["run_timeout"]), describe(f["idle_timeout"]), f["refresh_on"]}}
	case "ipaddress.IPv6Address":
		return word{"ip": []any{x.Name, x.Value}}
	}
	return word{"ext": []any{x.Code, x.Module, x.Name, describe(x.Value), x.Method}}
}

func describeNative(v any) any {
	switch v := v.(type) {
	case time.Time:
		b, _ := appendISOTime(nil, v)
		return word{"datetime": string(b)}
	case NaiveDateTime:
		return word{"datetime": v.String()}
	case Date:
		return word{"date": v.String()}
	case TimeOfDay:
		return word{"time": []any{v.Hour, v.Minute, v.Second, v.Microsecond, describe(v.TZ), v.Fold}}
	case time.Duration:
		days, rest := new(big.Int).DivMod(big.NewInt(v.Microseconds()), big.NewInt(86_400_000_000), new(big.Int))
		return word{"timedelta": []any{days.Int64(), rest.Int64() / 1e6, rest.Int64() % 1e6}}
	case FixedOffset:
		args := []any{describe(v.Offset)}
		if v.Name != "" {
			args = append(args, describe(v.Name))
		}
		return word{"timezone": args}
	case ZoneInfo:
		return word{"zone": string(v)}
	case UUID:
		return word{"uuid": v.String()}
	case Decimal:
		return word{"decimal": string(v)}
	case Set:
		return word{"set": describeAll(v)}
	case FrozenSet:
		return word{"frozenset": describeAll(v)}
	case Deque:
		return word{"deque": describeAll(v)}
	case netip.Addr:
		return word{"ip": []any{addressClass(v.Is6(), "Address"), v.String()}}
	case netip.Prefix:
		return word{"ip": []any{addressClass(v.Addr().Is6(), "Network"), v.String()}}
	case IPInterface:
		return word{"ip": []any{addressClass(v.Addr().Is6(), "Interface"), v.String()}}
	case Path:
		return word{"path": []any{v.Module, v.Class, append([]string{}, v.Parts...)}}
	case Regexp:
		if v.Bytes {
			return word{"regex": []any{describe([]byte(v.Pattern)), v.Flags}}
		}
		return word{"regex": []any{describe(v.Pattern), v.Flags}}
	case NDArray:
		return word{"ndarray": []any{v.DType, v.Shape, v.Order, hex.EncodeToString(v.Data)}}
	}
	return describeGraph(v)
}

func describeGraph(v any) any {
	seconds := func(s float64) any {
		if s == 0 {
			return nil
		}
		return describe(s)
	}
	switch v := v.(type) {
	case Send:
		if v.Timeout == nil {
			return word{"send": []any{v.Node, describe(v.Arg), nil}}
		}
		return word{"send": []any{v.Node, describe(v.Arg), describe(*v.Timeout)}}
	case TimeoutPolicy:
		return word{"timeout": []any{seconds(v.RunTimeout), seconds(v.IdleTimeout), v.RefreshOn}}
	case Interrupt:
		return word{"interrupt": []any{describe(v.Value), v.ID, describe(v.ResponseSchema)}}
	case Command:
		var graph any
		if v.Graph != "" {
			graph = v.Graph
		}
		return word{"command": []any{graph, describe(v.Update), describe(v.Resume), describe(v.Goto)}}
	case Overwrite:
		return word{"overwrite": describe(v.Value)}
	case DeltaSnapshot:
		return word{"delta": describe(v.Value)}
	}
	return fmt.Sprintf("no description for %T", v)
}
