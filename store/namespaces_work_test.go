package store

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver/disk"
)

// countedView counts the namespaces that are looked at.
type countedView struct {
	view
	n *int
}

func (v countedView) spaces(prefix, from string, fn func(space) (bool, error)) error {
	return v.view.spaces(prefix, from, func(sp space) (bool, error) {
		*v.n++
		return fn(sp)
	})
}

// TestNamespacesSkip: a listing of the first labels looks at two namespaces below each, however many there are.
func TestNamespacesSkip(t *testing.T) {
	d, err := disk.Open("store", disk.Options{Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	onDisk, err := On(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	inMemory, err := NewMemory(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Local{"disk": onDisk, "memory": inMemory} {
		for _, first := range []string{"a", "a\x00", "a\x01", "b", "z\xff"} {
			for i := range 100 {
				if err := s.Put(t.Context(), Namespace{first, fmt.Sprint(i), "x"}, "k", map[string]any{"n": i}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, c := range []struct {
			q    NamespaceQuery
			want []Namespace
			most int
		}{
			{NamespaceQuery{MaxDepth: 1}, []Namespace{{"a"}, {"a\x00"}, {"a\x01"}, {"b"}, {"z\xff"}}, 10},
			{NamespaceQuery{MaxDepth: 1, Limit: 2, Offset: 1}, []Namespace{{"a\x00"}, {"a\x01"}}, 5},
			{NamespaceQuery{MaxDepth: 1, Match: []Match{{MatchPrefix, Namespace{"b"}}}}, []Namespace{{"b"}}, 2},
			{NamespaceQuery{MaxDepth: 1, Match: []Match{{MatchSuffix, Namespace{"7", "x"}}}}, []Namespace{{"a"}, {"a\x00"}, {"a\x01"}, {"b"}, {"z\xff"}}, 500},
			{NamespaceQuery{MaxDepth: 2, Limit: 3}, []Namespace{{"a", "0"}, {"a", "1"}, {"a", "10"}}, 3},
		} {
			v, err := s.back.view(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			got, err := s.namespaces(t.Context(), countedView{v, &n}, c.q)
			v.release()
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %+v: %q, %v", name, c.q, got, err)
			}
			if n > c.most {
				t.Errorf("%s: %+v looks at %d namespaces", name, c.q, n)
			}
		}
	}
}
