package client_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/wire/client"
	"github.com/stele-go/stele/wire/internal/calls"
	"github.com/stele-go/stele/wire/server"
)

// TestGroupCommit: many clients share syncs.
func TestGroupCommit(t *testing.T) {
	d, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	at, err := server.ListenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := server.New(server.Options{Saver: d, Store: "disk"})
	go func() { ended <- s.Serve(ctx, at.Listener) }()
	const clients, each = 64, 20
	before := d.Metrics().Log
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c := client.Dir(dir, client.Options{})
			for n := range each {
				if _, err := c.Put(ctx, saver.Config{ThreadID: fmt.Sprint(i)}, saver.Checkpoint{V: 4, ID: fmt.Sprintf("%04d", n)}, nil, nil); err != nil {
					t.Error(err)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	after := d.Metrics().Log
	commits, syncs := after.Records-before.Records, after.Syncs-before.Syncs
	t.Logf("%d commits, %d syncs", commits, syncs)
	if commits != clients*each || syncs > commits/2 {
		t.Errorf("%d commits of %d took %d syncs", commits, clients*each, syncs)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := at.Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkPut is a put of 4 KB that is not synced: in process, in process with its call
// remembered, and over a unix socket. The last is what a client in Go waits for.
func BenchmarkPut(b *testing.B) {
	value := make([]byte, 4<<10)
	if _, err := rand.Read(value); err != nil {
		b.Fatal(err)
	}
	open := func(b *testing.B, dir string) *disk.Saver {
		d, err := disk.Open(dir, disk.Options{Sync: disk.SyncNever})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := d.Close(); err != nil {
				b.Error(err)
			}
		})
		return d
	}
	run := func(b *testing.B, put func(ctx context.Context, cfg saver.Config, cp saver.Checkpoint, v map[string]saver.Version) error, ctx func(n int) context.Context) {
		for n := 0; b.Loop(); n++ {
			versions := map[string]saver.Version{"messages": saver.IntVersion(int64(n + 1))}
			cp := saver.Checkpoint{V: 4, ID: fmt.Sprintf("%08d", n%1000), Values: map[string]saver.Value{"messages": saver.ValueOf(value)}, Versions: versions}
			if err := put(ctx(n), saver.Config{ThreadID: fmt.Sprint(n / 1000)}, cp, versions); err != nil {
				b.Fatal(err)
			}
		}
	}
	plain := func(int) context.Context { return context.Background() }
	b.Run("in process", func(b *testing.B) {
		d := open(b, b.TempDir())
		run(b, func(ctx context.Context, cfg saver.Config, cp saver.Checkpoint, v map[string]saver.Version) error {
			_, err := d.Put(ctx, cfg, cp, nil, v)
			return err
		}, plain)
	})
	b.Run("remembered", func(b *testing.B) {
		d := open(b, b.TempDir())
		run(b, func(ctx context.Context, cfg saver.Config, cp saver.Checkpoint, v map[string]saver.Version) error {
			_, err := d.Put(ctx, cfg, cp, nil, v)
			return err
		}, func(n int) context.Context {
			return calls.With(context.Background(), calls.ID{Slot: uint16(n % 4), Number: uint64(n + 1)}, func(any) []byte { return nil })
		})
	})
	b.Run("unix socket", func(b *testing.B) {
		dir := b.TempDir()
		d := open(b, dir)
		at, err := server.ListenDir(dir)
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		s := server.New(server.Options{Saver: d, Store: "disk"})
		go func() { ended <- s.Serve(ctx, at.Listener) }()
		c := client.Dir(dir, client.Options{Retry: time.Second})
		run(b, func(ctx context.Context, cfg saver.Config, cp saver.Checkpoint, v map[string]saver.Version) error {
			_, err := c.Put(ctx, cfg, cp, nil, v)
			return err
		}, plain)
		if err := c.Close(); err != nil {
			b.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		if err := at.Close(); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkRead is a get, and a listing of 100 tuples, over a unix socket.
func BenchmarkRead(b *testing.B) {
	d, err := disk.Open(b.TempDir(), disk.Options{Sync: disk.SyncNever})
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	at, err := server.ListenDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := server.New(server.Options{Saver: d, Store: "disk"})
	go func() { ended <- s.Serve(ctx, at.Listener) }()
	c := client.Dir(dir, client.Options{Retry: time.Second})
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		if err := at.Close(); err != nil {
			b.Error(err)
		}
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	var cfg saver.Config
	for n := range 100 {
		versions := map[string]saver.Version{"messages": saver.IntVersion(int64(n + 1)), "branch:to:agent": saver.IntVersion(int64(n + 1))}
		values := map[string]saver.Value{"messages": saver.ValueOf(fmt.Sprint("message ", n)), "branch:to:agent": saver.ValueOf(nil)}
		cp := saver.Checkpoint{V: 4, ID: fmt.Sprintf("%08d", n), TS: "2026-01-02T03:04:06+00:00", Values: values, Versions: versions, Seen: map[string]map[string]saver.Version{"agent": versions}, Updated: []string{"messages"}}
		cfg.ThreadID = "t"
		if cfg, err = d.Put(ctx, cfg, cp, saver.Metadata{"source": "loop", "step": n, "run_id": "1f0f5200-24f1-6001-8000-bde4e02ab92b"}, versions); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.GetTuple(ctx, saver.Config{ThreadID: "t"}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range c.List(ctx, saver.Query{ThreadID: "t"}) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
