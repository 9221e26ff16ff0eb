package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stele-go/stele/base/methods"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// plausibleArgs are arguments with which calls get as far as they can.
var plausibleArgs = []any{store.Namespace{"a"}, store.PutOp{Namespace: store.Namespace{"a"}, Key: "key", Value: map[string]any{"n": 1}}, store.Item{Namespace: store.Namespace{"a"}, Key: "key", Value: map[string]any{"n": 1}, CreatedAt: time.Unix(1, 0), UpdatedAt: time.Unix(1, 0)}, "key", map[string]any{"n": 1}, store.GetOp{Namespace: store.Namespace{"a"}, Key: "key"}, store.Query{Prefix: store.Namespace{"a"}}}

func diskOpened(t *testing.T) *disk.Saver {
	d, err := disk.Open("store", disk.Options{}.In(disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func localsOpened(t *testing.T) map[string]*store.Local {
	d := diskOpened(t)
	on, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*store.Local{"disk": on, "memory": mem}
}

// TestAfterClose: every method of a store whose saver was closed says so, and none panics or waits. Close
// of the store itself ends only what it does by itself.
func TestAfterClose(t *testing.T) {
	d := diskOpened(t)
	s, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	methods.Closed(t, s, map[string]string{
		"Move": "is refused before, as both namespaces are one here", "Close": "a second one does nothing", "Check": "looks at its arguments alone", "Prepare": "stores nothing; the commit of the saver tells",
	}, plausibleArgs, saver.ErrClosed)
}

// TestEndedContext: every call whose context has ended fails, and none panics or waits, with arguments
// that make sense and with none.
func TestEndedContext(t *testing.T) {
	for name, s := range localsOpened(t) {
		defer s.Close()
		t.Run(name, func(t *testing.T) {
			methods.Ended(t, s, map[string]string{"Close": "ends the store"}, plausibleArgs)
		})
	}
}

// TestOnNothing: a saver that is nil is refused.
func TestOnNothing(t *testing.T) {
	if s, err := store.On(nil, store.Options{}); s != nil || !errors.Is(err, saver.ErrInvalid) {
		t.Errorf("%v, %v", s, err)
	}
}
