package client_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/savertest"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/storetest"
	"github.com/stele-go/stele/wire/client"
	"github.com/stele-go/stele/wire/server"
)

// served serves a store in a fresh directory for as long as the test runs, and returns a
// client of it.
func served(t *testing.T, o server.Options) *client.Client {
	t.Helper()
	dir := t.TempDir()
	at, err := server.ListenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, ended := server.New(o), make(chan error, 1)
	go func() { ended <- s.Serve(ctx, at.Listener) }()
	c := client.Dir(dir, client.Options{})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := at.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return c
}

// inMemory opens a store on disk in a simulated file system.
func inMemory(t *testing.T, o disk.Options) *disk.Saver {
	t.Helper()
	d, err := disk.Open("store", o.In(disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestDisk: a store on disk at the other end of a wire has every behaviour of savers.
func TestDisk(t *testing.T) {
	savertest.Run(t, func(t *testing.T) saver.Saver {
		return served(t, server.Options{Saver: inMemory(t, disk.Options{}), Store: "disk"})
	})
}

// TestMemory is TestDisk for a store that remembers no calls itself.
func TestMemory(t *testing.T) {
	savertest.Run(t, func(t *testing.T) saver.Saver {
		return served(t, server.Options{Saver: memory.New(memory.Options{}), Store: "memory"})
	})
}

const onlyAtTheServer = "stores are moved, and keep an order, where they are, and not over the wire"

// TestItems: a long-term store at the other end of a wire has every behaviour of stores.
func TestItems(t *testing.T) {
	storetest.RunWith(t, func(t *testing.T, o store.Options) store.Store {
		d := inMemory(t, disk.Options{Clock: o.Clock})
		items, err := store.On(d, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := items.Close(); err != nil {
				t.Error(err)
			}
		})
		return served(t, server.Options{Saver: d, Items: items, Store: "disk"}).Items()
	}, storetest.Options{Except: map[string]string{
		"vectors/unusable vectors are refused":                           "the embedder's own error stays with the server",
		"restore/an item keeps its times and its life":                   onlyAtTheServer,
		"restore/a restored item replaces, and is put again like any":    onlyAtTheServer,
		"restore/an item that has expired is restored as that":           onlyAtTheServer,
		"restore/all or nothing, and bad items are refused":              onlyAtTheServer,
		"move/an item moves as it is":                                    onlyAtTheServer,
		"move/what is in the way stays":                                  onlyAtTheServer,
		"move/what has expired is in nobody's way":                       onlyAtTheServer,
		"move/many items, and bad namespaces":                            onlyAtTheServer,
		"append/the order is that of the calls, whatever the clock does": onlyAtTheServer,
		"append/once":                      onlyAtTheServer,
		"append/many at once":              onlyAtTheServer,
		"append/bad arguments are refused": onlyAtTheServer,
		"over/an item that was replaced or removed is not put over": onlyAtTheServer,
		"over/of several callers one wins":                          onlyAtTheServer,
	}})
}
