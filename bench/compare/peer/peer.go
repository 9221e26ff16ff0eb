// Package peer puts one face on the stores that are compared: stele, and the
// databases a Go program would keep checkpoints in. All of them store a checkpoint
// the same way, one row for each channel version, and return the same tuples; a
// test holds them to that.
package peer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// Mode says when a call returns.
type Mode string

// The modes. A store without an interval of its own has only the other two.
const (
	Durable  Mode = "durable"  // after a sync: the data survive power loss
	Interval Mode = "interval" // synced within a second
	Relaxed  Mode = "relaxed"  // synced when the store likes
)

// ErrNotFound is what reading a checkpoint or an item that is not there returns.
var ErrNotFound = errors.New("not found")

// Tuple is a checkpoint as a store returns it. Values are serialised, in memory of
// their own.
type Tuple struct {
	ID, Parent string
	Metadata   saver.Metadata
	Values     map[string]saver.Value
	Writes     []Write // by task and index
	// Record is what else the checkpoint holds, its versions too; nothing is paid for it unless
	// it is called.
	Record func() Record
}

// Write is one pending write of a tuple.
type Write struct {
	Task, Channel string
	Index         int
	Value         saver.Value
}

// Raw takes all values out, serialised, and returns how many bytes they are.
func (t *Tuple) Raw() (int, error) {
	n := 0
	return n, t.each(func(v saver.Value) error {
		typed, err := v.Typed()
		n += len(typed.Data)
		return err
	})
}

// Decode decodes all values to plain data.
func (t *Tuple) Decode() error {
	return t.each(func(v saver.Value) error {
		_, err := v.Any()
		return err
	})
}

func (t *Tuple) each(fn func(saver.Value) error) error {
	for _, v := range t.Values {
		if err := fn(v); err != nil {
			return err
		}
	}
	for _, w := range t.Writes {
		if err := fn(w.Value); err != nil {
			return err
		}
	}
	return nil
}

// Store is a store of checkpoints. All methods but Close may be called by many
// goroutines.
type Store interface {
	// Put stores a step of a thread upon its parent, which is "" for the first.
	Put(thread, parent string, s *bench.Step) error
	// PutWrites stores what a task wrote against a checkpoint.
	PutWrites(thread, id, task string, writes []saver.Write) error
	// Get returns the checkpoint with an id, or the newest if id is "".
	Get(thread, id string) (*Tuple, error)
	// List calls each with the newest checkpoints of a thread, newest first; all if
	// limit is 0. Without values, only id, parent, metadata and record are there.
	List(thread string, limit int, values bool, each func(*Tuple) error) error
	// Flush writes what is only in the store's log to where it stays.
	Flush() error
	// Compact makes the store as small as it can make itself.
	Compact() error
	// Syncs is how often the store synced its log; false if it does not say.
	Syncs() (int64, bool)
	// Close closes the store; nothing may be called after it.
	Close() error
}

// Sizer is a store that says itself how large it is: where the directory holds more
// than the checkpoints.
type Sizer interface {
	// Size is the size of tables and indexes, in bytes.
	Size() (int64, error)
}

// Server is a store in processes of its own.
type Server interface {
	// Used is the processor time they used so far, and the memory they have, in MB.
	Used() (cpu time.Duration, mb float64)
}

// Items is a long-term store.
type Items interface {
	// PutItems stores items of a namespace; with one item it is one durable commit.
	PutItems(ns string, items []Item) error
	// GetItem returns the value of an item, decoded.
	GetItem(ns, key string) (map[string]any, error)
}

// Searcher is a long-term store that can search.
type Searcher interface {
	// Search returns the keys of the ten newest items of a namespace whose field is
	// at least a number.
	Search(ns, field string, least float64) ([]string, error)
}

// Item is a value under a key.
type Item struct {
	Key   string
	Value map[string]any
}

// Options open a store.
type Options struct {
	Dir     string
	Mode    Mode
	Writers int          // goroutines that will write at once; at least 1
	Replica disk.Replica // of stele
}

// Engine is a kind of store.
type Engine struct {
	Name  string
	Quick bool // part of the quick run
	Modes []Mode
	Open  func(Options) (Store, error)
	// OpenItems is nil if there is no long-term store.
	OpenItems func(Options) (Store, error)
	// Missing says why the engine cannot be used here; nil if it always can.
	Missing func() error
}

// Why returns why the engine cannot be used here, or nil.
func (e Engine) Why() error {
	if e.Missing == nil {
		return nil
	}
	return e.Missing()
}

// Engines returns all engines in the order of the tables.
func Engines() []Engine {
	both := []Mode{Durable, Relaxed}
	return []Engine{
		{"stele", true, []Mode{Durable, Interval, Relaxed}, openStele, openSteleItems, nil},
		{"sqlite-mattn", true, both, openMattn, openMattn, nil},
		{"bbolt", true, both, openBolt, openBolt, nil},
		{"pebble", true, both, openPebble, nil, nil},
		{"badger", true, both, openBadger, openBadger, nil},
		{"sqlite-modernc", false, both, openModernc, nil, nil},
		{"sqlite-langgraph", false, both, openWhole, nil, nil},
		{"postgres", false, both, openPostgres, nil, missingPostgres},
	}
}

// Find returns the engine with a name.
func Find(name string) (Engine, error) {
	all := Engines()
	if i := slices.IndexFunc(all, func(e Engine) bool { return e.Name == name }); i >= 0 {
		return all[i], nil
	}
	return Engine{}, fmt.Errorf("no engine %q", name)
}

var codec = serde.Default()
