package graph_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestInputOf: of a struct the fields that are not zero are input, under their keys, wherever the
// input goes; anything else stays.
func TestInputOf(t *testing.T) {
	type base struct {
		Owner string `json:"owner"`
	}
	type job struct {
		base
		Base  base `json:"base"`
		Name  string
		Count int       `json:"count"`
		When  time.Time `json:"when"`
		Skip  string    `json:"-"`
	}
	in := job{Name: "x", Skip: "y"}
	want := map[string]any{"Name": "x"}
	day := time.Now()
	said := message.Human("hi")
	for i, c := range []struct{ in, want any }{
		{in, want}, {&in, want},
		{pregel.Command{Update: in, Resume: 1}, pregel.Command{Update: want, Resume: 1}},
		{&pregel.Command{Update: &in}, pregel.Command{Update: want}},
		{nil, nil}, {(*job)(nil), (*job)(nil)}, {map[string]any{"a": 0}, map[string]any{"a": 0}}, {"text", "text"}, {7, 7}, {day, day}, {said, said},
	} {
		if got := graph.InputOf(c.in); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d: %#v, want %#v", i, got, c.want)
		}
	}
}
