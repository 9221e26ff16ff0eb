package bolt

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

var threadsName, deletedName, infoName = []byte("threads"), []byte("deleted"), []byte("info")

// spacePrefix begins the names of namespaces. They may be empty, and names of buckets may not.
const spacePrefix = "n"

// load decodes what b has at key; found is false if that is nothing.
func load[T any](b *bbolt.Bucket, key []byte) (v T, found bool, err error) {
	data := b.Get(key)
	if data == nil {
		return v, false, nil
	}
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&v); err != nil {
		return v, false, fmt.Errorf("%T at %q: %w: %w", v, key, saver.ErrCorrupt, err)
	}
	return v, true, nil
}

// store puts v into b, as load reads it.
func store(b *bbolt.Bucket, key []byte, v any) error {
	var data bytes.Buffer
	if err := gob.NewEncoder(&data).Encode(v); err != nil {
		return err
	}
	return b.Put(key, data.Bytes())
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// threadInfo is about a thread as a whole.
type threadInfo struct {
	Updated int64 // last write, in microseconds
	TTL     time.Duration
}

func (i threadInfo) updated() time.Time { return time.UnixMicro(i.Updated).UTC() }

// threadOf is the bucket of a thread; nil if there is none.
func threadOf(tx *bbolt.Tx, id string) *bbolt.Bucket {
	return tx.Bucket(threadsName).Bucket([]byte(id))
}

// threadIDs are the ids of all threads, ascending.
func threadIDs(tx *bbolt.Tx) []string { return bucketNames(tx.Bucket(threadsName)) }

// bucketNames are the names of the buckets in b, ascending.
func bucketNames(b *bbolt.Bucket) []string {
	var names []string
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if v == nil {
			names = append(names, string(k))
		}
	}
	return names
}

// space is a namespace of a thread.
type space struct {
	thread, ns                            string
	checkpoints, values, writes, attempts *bbolt.Bucket
}

// spaceOf finds a namespace; nil if there is none.
func spaceOf(tx *bbolt.Tx, thread, ns string) *space {
	t := threadOf(tx, thread)
	if t == nil {
		return nil
	}
	b := t.Bucket([]byte(spacePrefix + ns))
	if b == nil {
		return nil
	}
	sub := func(name string) *bbolt.Bucket { return b.Bucket([]byte(name)) }
	return &space{thread, ns, sub("checkpoints"), sub("values"), sub("writes"), sub("attempts")}
}

// spacesOf are the namespaces of a thread, ascending.
func spacesOf(tx *bbolt.Tx, thread string) []*space {
	t := threadOf(tx, thread)
	if t == nil {
		return nil
	}
	var all []*space
	for _, name := range bucketNames(t) {
		all = append(all, spaceOf(tx, thread, name[len(spacePrefix):]))
	}
	return all
}

// touch notes a write to a thread, and makes thread and namespace if they are not there.
func (s *Saver) touch(tx *bbolt.Tx, thread, ns string) (*space, error) {
	t, err := tx.Bucket(threadsName).CreateBucketIfNotExists([]byte(thread))
	if err != nil {
		return nil, err
	}
	if err := s.touchInfo(t); err != nil {
		return nil, err
	}
	b, err := t.CreateBucketIfNotExists([]byte(spacePrefix + ns))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"checkpoints", "values", "writes", "attempts"} {
		if _, err := b.CreateBucketIfNotExists([]byte(name)); err != nil {
			return nil, err
		}
	}
	return spaceOf(tx, thread, ns), nil
}

func (s *Saver) touchInfo(t *bbolt.Bucket) error {
	info, _, err := load[threadInfo](t, infoName)
	if err != nil {
		return err
	}
	info.Updated = s.now().UnixMicro()
	return store(t, infoName, info)
}

// head is the greatest id of a checkpoint, "" for none. A nil space has none.
func (n *space) head() string {
	if n == nil {
		return ""
	}
	id, _ := n.checkpoints.Cursor().Last()
	return string(id)
}

// has reports whether there is a checkpoint. A nil space has none.
func (n *space) has(id string) bool {
	return n != nil && id != "" && n.checkpoints.Get([]byte(id)) != nil
}

// checkpoint reads one; nil if there is none.
func (n *space) checkpoint(id string) (*checkpoint, error) {
	if !n.has(id) {
		return nil, nil
	}
	cp, _, err := load[*checkpoint](n.checkpoints, []byte(id))
	return cp, err
}

// ids are the ids of the checkpoints, ascending.
func (n *space) ids() []string {
	var ids []string
	c := n.checkpoints.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		ids = append(ids, string(k))
	}
	return ids
}

// calls are those that wrote against a checkpoint, in commit order.
func (n *space) calls(id string) ([]rules.WritesPlan, error) {
	b := n.writes.Bucket([]byte(id))
	if b == nil {
		return nil, nil
	}
	var calls []rules.WritesPlan
	c := b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		call, _, err := load[rules.WritesPlan](b, k)
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}

// write stores a call, unless it has no writes.
func (n *space) write(call rules.WritesPlan) error {
	if len(call.Channels) == 0 {
		return nil
	}
	b, err := n.writes.CreateBucketIfNotExists([]byte(call.CheckpointID))
	if err != nil {
		return err
	}
	i, err := b.NextSequence()
	if err != nil {
		return err
	}
	return store(b, number(i), call)
}

// value reads the value with a number; found is false if it is gone.
func (n *space) value(i uint64) (t serde.Typed, found bool, err error) {
	if n == nil {
		return t, false, nil
	}
	return load[serde.Typed](n.values, number(i))
}
