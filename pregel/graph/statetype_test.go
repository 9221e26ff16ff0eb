package graph_test

import (
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// compiles makes a graph of one node over S.
func compiles[S any](fields ...graph.Field) error {
	_, err := graph.For[S](fields...).Node("a", quiet[S]).Edge(graph.Start, "a").Compile(graph.Options{})
	return err
}

type (
	base   struct{ ID string }
	secret struct{ key string }
	tree   struct {
		Name string
		Kids []tree
	}
	halfText struct{}
	noted    struct {
		message.ToolCall
		Note string
	}
	dated struct {
		time.Time
		Note string
	}
)

var _ = secret{}.key // it is there to be refused

func (halfText) MarshalText() ([]byte, error) { return nil, nil }

// A struct that cannot be a state is refused by Compile, with the name of the field.
func TestStatesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		what string
		err  error
		want string // in the error, the field first
	}{
		{"no struct", compiles[int](), "a state is a struct, not int"},
		{"a pointer", compiles[*base](), "a state is a struct"},
		{"no fields", compiles[struct{}](), "has no keys"},
		{"channel", compiles[struct{ Done chan int }](), "Done: is a chan int"},
		{"func", compiles[struct{ F func() }](), "F: is a func()"},
		{"func in a list", compiles[struct{ L []struct{ F func() } }](), "L: holds [].F, which is a func()"},
		{"channel in a map", compiles[struct{ M map[string]chan int }](), "M: holds [], which is a chan int"},
		{"complex", compiles[struct{ C complex128 }](), "C: is a complex128"},
		{"interface", compiles[struct{ R io.Reader }](), "R: is an interface with methods (io.Reader)"},
		{"error", compiles[struct{ Err error }](), "Err: is an error"},
		{"unexported", compiles[struct{ secret string }](), "secret: is not exported"},
		{"unexported inside", compiles[struct{ S secret }](), "S: holds .key, which is not exported"},
		{"mutex", compiles[struct{ Mu sync.Mutex }](), "Mu: holds ."},
		{"text one way", compiles[struct{ H []halfText }](), "H: holds [], which is a graph_test.halfText, which is stored as text and cannot be read back"},
		{"text through a pointer", compiles[struct{ N big.Int }](), "N: is a big.Int, which is stored as text through a pointer; use *big.Int"},
		{"embedded in a field", compiles[struct{ C []noted }](), "C: holds [], which is a struct that loses fields: EncodeValue of graph_test.noted is that of the embedded ToolCall, so field Note would be lost"},
		{"embedded in the state", compiles[noted](), "field Note would be lost"},
		{"a text embedded", compiles[struct{ At dated }](), "At: is a struct that loses fields: MarshalText of graph_test.dated"},
		{"map keys", compiles[struct{ M map[base]int }](), "M: is a map with keys of type graph_test.base"},
		{"no size", compiles[struct{ E struct{} }](), "E: has no size"},
		{"embedded under a name", compiles[struct {
			base `json:"base"`
		}](), "base: is not exported"},
		{"embedded pointer", compiles[struct{ *base }](), "base: is an embedded pointer"},
		{"one name", compiles[struct {
			A int `stele:"x"`
			B int `stele:"x"`
		}](), `B: has the key "x", and so has field A`},
		{"one name, embedded", compiles[struct {
			base
			ID int
		}](), `ID: has the key "ID", and so has field base.ID`},
		{"one name inside", compiles[struct {
			In struct {
				A int `stele:"x"`
				B int `stele:"x"`
			}
		}](), `In: holds .B, which has the key "x", and so has A`},
		{"unknown reducer", compiles[struct {
			L []int `state:"apend"`
		}](), "L: has the tag `state:\"apend\"`: there is no such reducer"},
		{"two reducers", compiles[struct {
			L []int `state:"append,add"`
		}](), "L: has the tag"},
		{"empty alias", compiles[struct {
			L []int `state:"alias="`
		}](), "L: has the tag"},
		{"append to a number", compiles[struct {
			N int `state:"append"`
		}](), "N: has the tag `state:\"append\"`: append needs a slice"},
		{"add to a list", compiles[struct {
			N []int `state:"add"`
		}](), "add needs a number or a string"},
		{"merge a list", compiles[struct {
			N []int `state:"merge"`
		}](), "merge needs a map"},
		{"messages of another type", compiles[struct {
			M []string `state:"messages"`
		}](), "M: has type []string, but its channel holds []channel.Message"},
		{"reducer of another type", compiles[struct{ N int }](graph.Key("N", channel.Reduce(channel.Append[string]))), "N: has type int, but its channel holds []string"},
		{"last value of another type", compiles[struct{ N int }](graph.Key("N", channel.LastValue[string]())), "N: has type int, but its channel holds string"},
		{"no such field", compiles[struct{ N int }](graph.Key("n", nil)), `"n": is no field of`},
		{"declared twice", compiles[struct{ N int }](graph.Key("N", nil), graph.Key("N", nil)), "is declared twice"},
		{"reducer twice", compiles[struct {
			L []int `state:"append"`
		}](graph.Key("L", channel.Reduce(channel.Append[int]))), "L: has a reducer in its tag, and one in the call of For"},
		{"alias of a field", compiles[struct {
			A int `state:"alias=B"`
			B int
		}](), `A: has the alias "B", which is a field`},
		{"one alias twice", compiles[struct {
			A int `state:"alias=old"`
			B int `state:"alias=old"`
		}](), `A: has the alias "old", and so has field B`},
	} {
		var refused *pregel.GraphError
		if !errors.As(c.err, &refused) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want a GraphError with %q", c.what, c.err, c.want)
		}
	}
}

// These are fine.
func TestStatesThatAreTaken(t *testing.T) {
	for what, err := range map[string]error{
		"left out": compiles[struct {
			N    int
			mu   sync.Mutex `json:"-"` //nolint:govet // the tag leaves it out
			Done chan int   `json:"-"`
		}](),
		"embedded":  compiles[struct{ base }](),
		"recursive": compiles[struct{ T tree }](),
		"all kinds": compiles[struct {
			A any
			B []byte
			C json.RawMessage
			D time.Duration
			E *time.Time
			F netip.Addr
			G *big.Int
			H map[int]map[string][]*tree
			I [2]float32
			J map[netip.Addr]bool
			K map[string]struct{}
			L channel.Message
		}](),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
