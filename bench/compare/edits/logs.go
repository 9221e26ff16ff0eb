package edits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/raft"
	raftwal "github.com/hashicorp/raft-wal"
	tidwall "github.com/tidwall/wal"
	etcdwal "go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// idle calls after when n records were written, and where that matters once the log
// had the time to do what an idle log does, such as to mark its last sync.
func idle(n int, after func(n int) error) error {
	if n >= records-1 {
		time.Sleep(50 * time.Millisecond)
	}
	return after(n)
}

func writeStele(dir string, payloads [][]byte, after func(n int) error) error {
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return err
	}
	cfg := saver.Config{ThreadID: "t"}
	for i, p := range payloads {
		v := saver.IntVersion(int64(i + 1))
		cp := saver.Checkpoint{V: 4, ID: bench.CheckpointID(i), Values: map[string]saver.Value{"v": saver.ValueTyped(serde.Typed{Kind: "bytes", Data: p})},
			Versions: map[string]saver.Version{"v": v}}
		if cfg, err = s.Put(context.Background(), cfg, cp, nil, cp.Versions); err != nil {
			return errors.Join(err, s.Close())
		}
		if err := idle(i+1, after); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return s.Close()
}

func readStele(dir string) (got [][]byte, err error) {
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for i := range records {
		t, err := s.GetTuple(context.Background(), saver.Config{ThreadID: "t", CheckpointID: bench.CheckpointID(i)})
		if errors.Is(err, saver.ErrNotFound) {
			got = append(got, nil)
			continue
		}
		if err != nil {
			return got, err
		}
		v, err := t.Checkpoint.Values["v"].Typed()
		if err != nil {
			return got, err
		}
		got = append(got, v.Data)
	}
	return got, nil
}

func writeRaft(dir string, payloads [][]byte, after func(n int) error) error {
	w, err := raftwal.Open(dir)
	if err != nil {
		return err
	}
	for i, p := range payloads {
		if err := w.StoreLog(&raft.Log{Index: uint64(i + 1), Data: p}); err != nil {
			return errors.Join(err, w.Close())
		}
		if err := idle(i+1, after); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return w.Close()
}

func readRaft(dir string) (got [][]byte, err error) {
	w, err := raftwal.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	last, err := w.LastIndex()
	if err != nil {
		return nil, err
	}
	for i := uint64(1); i <= last; i++ {
		var l raft.Log
		if err := w.GetLog(i, &l); err != nil {
			return got, err
		}
		got = append(got, l.Data)
	}
	return got, nil
}

func writeTidwall(dir string, payloads [][]byte, after func(n int) error) error {
	w, err := tidwall.Open(dir, nil)
	if err != nil {
		return err
	}
	for i, p := range payloads {
		if err := w.Write(uint64(i+1), p); err != nil {
			return errors.Join(err, w.Close())
		}
		if err := idle(i+1, after); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return w.Close()
}

func readTidwall(dir string) (got [][]byte, err error) {
	w, err := tidwall.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	last, err := w.LastIndex()
	if err != nil {
		return nil, err
	}
	for i := uint64(1); i <= last; i++ {
		b, err := w.Read(i)
		if err != nil {
			return got, err
		}
		got = append(got, b)
	}
	return got, nil
}

func writeEtcd(dir string, payloads [][]byte, after func(n int) error) error {
	if err := os.Remove(dir); err != nil { // it wants to make it
		return err
	}
	w, err := etcdwal.Create(zap.NewNop(), dir, nil)
	if err != nil {
		return err
	}
	for i, p := range payloads {
		n := uint64(i + 1)
		if err := w.Save(raftpb.HardState{Term: 1, Commit: n}, []raftpb.Entry{{Term: 1, Index: n, Data: p}}); err != nil {
			return errors.Join(err, w.Close())
		}
		if err := idle(i+1, after); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return w.Close()
}

// readEtcd repairs what it may, as etcd's server does.
func readEtcd(dir string) ([][]byte, error) {
	got, err := etcdEntries(dir)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		if !etcdwal.Repair(zap.NewNop(), dir) {
			return got, fmt.Errorf("repair failed: %w", err)
		}
		return etcdEntries(dir)
	}
	return got, err
}

func etcdEntries(dir string) (got [][]byte, err error) {
	w, err := etcdwal.Open(zap.NewNop(), dir, walpb.Snapshot{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	_, _, entries, err := w.ReadAll()
	for _, e := range entries {
		got = append(got, e.Data)
	}
	return got, err
}

// quiet is a logger that says nothing.
type quiet struct{}

// Infof says nothing.
func (quiet) Infof(string, ...any) {}

// Errorf says nothing.
func (quiet) Errorf(string, ...any) {}

// Fatalf says nothing.
func (quiet) Fatalf(string, ...any) {}

func pebbleOptions() *pebble.Options {
	return &pebble.Options{Logger: quiet{}, FormatMajorVersion: pebble.FormatNewest}
}

func writePebble(dir string, payloads [][]byte, after func(n int) error) error {
	db, err := pebble.Open(dir, pebbleOptions())
	if err != nil {
		return err
	}
	for i, p := range payloads {
		if err := db.Set(fmt.Appendf(nil, "%03d", i), p, pebble.Sync); err != nil {
			return errors.Join(err, db.Close())
		}
		if err := idle(i+1, after); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	return db.Close()
}

func readPebble(dir string) (got [][]byte, err error) {
	db, err := pebble.Open(dir, pebbleOptions())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for i := range records {
		v, closer, err := db.Get(fmt.Appendf(nil, "%03d", i))
		if errors.Is(err, pebble.ErrNotFound) {
			got = append(got, nil)
			continue
		}
		if err != nil {
			return got, err
		}
		got = append(got, append([]byte{}, v...))
		if err := closer.Close(); err != nil {
			return got, err
		}
	}
	return got, nil
}
