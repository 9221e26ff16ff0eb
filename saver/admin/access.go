package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/layout"
)

// Access says how stores are read and written. The zero value is the file system, no
// keys, and the default serializer.
type Access struct {
	// Options are those of disk.Open that say how bytes are read: Serializer, Keys,
	// CacheBytes, Logger, Clock; and Replica for those that write to the store. Each function
	// sets the modes (ReadOnly, AllowDamage, ManualWork) itself.
	Options disk.Options
}

func (a Access) engine() engine.Options {
	o := a.Options
	o.ReadOnly, o.AllowDamage, o.ManualWork, o.Replica = false, false, false, disk.Replica{}
	return o.EngineOptions()
}

// sim is the simulated environment of the store, in tests.
func (a *Access) sim() *disk.Simulation { return &a.Options.Simulation }

func (a Access) fs() vfs.FS {
	if f := a.sim().FS; f != nil {
		return f
	}
	return vfs.OS{}
}

// in opens dir and returns an Access that reads only from it, until done is called. So all
// reads are of one directory, even if its path leads to another meanwhile. If dir does not
// exist, the error is fault.ErrNotStore.
func (a Access) in(dir string) (held Access, done func(), err error) {
	d, err := vfs.Hold(a.fs(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", fault.ErrNotStore, err)
	}
	if err != nil {
		return a, nil, err
	}
	a.sim().FS = d
	return a, func() { _ = d.Close() }, nil // only read from
}

// Open opens a store for reading, without its lock. With allowDamage it opens a damaged store,
// too.
func (a Access) Open(dir string, allowDamage bool) (*disk.Saver, error) {
	o := a.Options
	o.ReadOnly, o.AllowDamage, o.Replica = true, allowDamage, disk.Replica{}
	return disk.Open(dir, o)
}

// Progress says how far a long piece of work is.
type Progress struct {
	Step  string // such as "segments"
	File  string // the current file; may be empty
	Done  int64  // out of Total
	Total int64  // 0 if unknown
}

// Finding is something wrong at a place in a store.
type Finding struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`           // -1: the file as a whole
	Length int64  `json:"length,omitempty"` // bytes; 0 if unknown
	Kind   string `json:"kind"`             // what was being read: "log frame", "segment block", …
	Detail string `json:"detail"`
	// Threads are some of the threads that it affects.
	Threads []string `json:"threads,omitempty"`
}

// String is the finding in one line, beginning with file:offset.
func (f Finding) String() string {
	place := f.File
	if f.Offset >= 0 {
		place += ":" + strconv.FormatInt(f.Offset, 10)
	}
	s := place + ": " + f.Kind
	if f.Length > 0 {
		s += fmt.Sprintf(" (%d bytes)", f.Length)
	}
	return s + ": " + f.Detail
}

// within reports whether the place of f lies in the range of g.
func (f Finding) within(g Finding) bool {
	return f.File != "" && f.File == g.File && f.Offset >= g.Offset && f.Offset < g.Offset+max(g.Length, 1)
}

// findingOf makes a Finding from an error that reports damage.
func findingOf(err error) Finding {
	var c *fault.CorruptionError
	if !errors.As(err, &c) {
		return Finding{Offset: -1, Kind: "content", Detail: err.Error()}
	}
	f := Finding{File: c.File, Offset: c.Offset, Length: c.Len, Kind: c.Kind, Detail: c.Detail}
	if c.Err != nil {
		if f.Detail != "" {
			f.Detail += ": "
		}
		f.Detail += c.Err.Error()
	}
	if f.Detail == "" {
		f.Detail = "damaged"
	}
	return f
}

// threadName names a partition of the engine for people: the id of a thread, "run ID", or the
// quoted key of a partition of another kind.
func threadName(id string) string {
	name, kind := SplitThread(id)
	switch kind {
	case "thread":
		return name
	case "run":
		return "run " + name
	}
	return strconv.Quote(id)
}

func threadNames(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = threadName(id)
	}
	return out
}

// SplitThread returns the kind of a partition of the engine, "thread", "run" or "other", and
// its name.
func SplitThread(id string) (name, kind string) {
	if name, ok := strings.CutPrefix(id, layout.SpaceThread); ok {
		return name, "thread"
	}
	if name, ok := strings.CutPrefix(id, layout.SpaceRun); ok {
		return name, "run"
	}
	return id, "other"
}
