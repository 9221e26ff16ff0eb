package saver

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/engine"
)

const (
	// spaceErased, and the hash of the id after it, is the memory of an erased thread.
	spaceErased = "x"
	// originThread has an item for each store that this one was salvaged from; the key
	// is its number. Threads erased there are remembered by hashes with that number.
	originThread = "o"
)

// memoFormat is the first byte of what is remembered of a deleted thread; the
// greatest checkpoint id follows.
const memoFormat = 1

func encodeMemo(greatestID string) []byte { return append([]byte{memoFormat}, greatestID...) }

// decodeMemo reads what encodeMemo wrote; thread names it in errors.
func decodeMemo(thread string, m index.Memo) (Deleted, error) {
	switch {
	case m.Data[0] == 0:
		return Deleted{}, &base.CorruptionError{File: "index", Kind: "memory of a deleted thread", Offset: -1, Detail: fmt.Sprintf("of thread %q: it has no format", thread)}
	case m.Data[0] > memoFormat:
		return Deleted{}, &base.VersionError{File: fmt.Sprintf("memory of deleted thread %q", thread), Have: uint32(m.Data[0]), Supported: memoFormat}
	}
	return Deleted{GreatestID: string(m.Data[1:]), At: time.UnixMicro(m.At).UTC()}, nil
}

// deletedMemory is what is remembered of a deleted or erased thread, if it still
// counts. One that cannot be read, as a newer build wrote it, is an error: without
// it a late write could bring the thread back in pieces.
func (s *Disk) deletedMemory(tx *engine.Tx, threadID string) (d Deleted, ok bool, err error) {
	if !tx.RemembersAny() { // most stores: spare them the hashes
		return Deleted{}, false, nil
	}
	for _, store := range s.origins {
		if m, found := tx.Memo(erasedThread(store, threadID)); found && len(m.Data) > 0 {
			d, err = decodeMemo(threadID, m)
			return d, err == nil, err
		}
	}
	m, found := tx.Memo(threadKey(threadID))
	if !found || len(m.Data) == 0 {
		return Deleted{}, false, nil
	}
	d, err = decodeMemo(threadID, m)
	return d, err == nil, err
}

// erasedHash stands for the id of a thread erased in the store with a number.
func erasedHash(store uint64, threadID string) string {
	b := binary.BigEndian.AppendUint64([]byte("stele erased\x00"), store)
	sum := sha256.Sum256(append(b, threadID...))
	return hex.EncodeToString(sum[:])
}

// erasedThread is the engine's thread that remembers the erasure of a thread in the
// store with a number.
func erasedThread(store uint64, threadID string) string {
	return spaceErased + erasedHash(store, threadID)
}

// loadOrigins notes the numbers that erased threads are remembered under.
func (s *Disk) loadOrigins() error {
	s.origins = []uint64{s.e.StoreID()}
	t, err := s.e.Thread(originThread)
	if errors.Is(err, base.ErrCorrupt) && s.opts.AllowDamage {
		return nil // the engine lists the damage
	}
	if err != nil || t == nil {
		return err
	}
	t.Ascend("", func(it *index.Item) bool {
		if len(it.Key) == 8 {
			s.origins = append(s.origins, binary.BigEndian.Uint64([]byte(it.Key)))
		}
		return true
	})
	return nil
}

// AdoptErasures makes a store that was salvaged from another one know the threads
// erased there; it does nothing if none is remembered. For this module's own packages,
// before any other call. It is durable when it returns nil.
func (s *Disk) AdoptErasures(ctx context.Context, from *Disk) error {
	if !from.e.Remembers(spaceErased) {
		return nil
	}
	key := string(binary.BigEndian.AppendUint64(nil, from.e.StoreID()))
	err := s.e.Commit(ctx, []string{originThread}, func(tx *engine.Tx) error { return tx.Put(originThread, key, 0, nil) })
	if err == nil {
		err = s.e.Sync(ctx)
	}
	if err != nil {
		return fmt.Errorf("adopt erasures: %w", err)
	}
	return s.loadOrigins()
}
