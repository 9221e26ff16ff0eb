package crashfs

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/internal/sparse"
)

// model has the durable state and the uncertain operations after the first `at` operations. It only
// moves forward; the cost of an operation depends on the bytes that it changes.
type model struct {
	at     int
	inodes map[int]*inode
	dirs   map[string]*dir // by clean path; the roots come into being when used
}

// inode is the contents of a file, independent of its name.
type inode struct {
	synced  *sparse.Data
	pending []int // indices of the writes and truncations since
}

// dir is the names in one directory. Whether the directory itself exists after
// a crash is a matter of the directory above it.
type dir struct {
	synced  map[string]entry // by base name; replaced, not changed, once shared
	pending []int            // indices of the name operations since
}

type entry struct {
	ino   int
	isDir bool
}

func newModel(base vfs.MemImage) *model {
	m := &model{inodes: map[int]*inode{}, dirs: map[string]*dir{}}
	for _, d := range base.Dirs {
		m.dir(filepath.Dir(d)).synced[filepath.Base(d)] = entry{isDir: true}
		m.dir(d)
	}
	for ino, name := range slices.Sorted(maps.Keys(base.Files)) { // numbered as newFrom does
		m.inodes[ino] = &inode{synced: base.Files[name].Clone()}
		m.dir(filepath.Dir(name)).synced[filepath.Base(name)] = entry{ino: ino}
	}
	return m
}

func (m *model) dir(path string) *dir {
	d := m.dirs[path]
	if d == nil {
		d = &dir{synced: map[string]entry{}}
		m.dirs[path] = d
	}
	return d
}

// advance takes the model to a later cut.
func (m *model) advance(log []op, cut int) {
	for ; m.at < cut; m.at++ {
		o := &log[m.at]
		switch o.kind {
		case opCreate:
			m.inodes[o.ino] = &inode{synced: new(sparse.Data)}
			m.addName(o)
		case opMkdir:
			m.dir(o.path)
			m.addName(o)
		case opRename, opRemove:
			m.addName(o)
		case opWrite, opTruncate:
			// A file without any name left may still be open; see freeze.
			if n := m.inodes[o.ino]; n != nil {
				n.pending = append(n.pending, m.at)
			}
		case opSync, opSyncData:
			n := m.inodes[o.ino]
			if n == nil {
				continue
			}
			c := content{Data: n.synced, size: n.synced.Size()}
			for _, i := range n.pending {
				c.apply(&log[i], fate{how: applied})
			}
			n.synced, n.pending = c.finish(), nil
		case opSyncDir:
			d := m.dir(o.path)
			d.synced = maps.Clone(d.synced) // a moment may hold the old one
			for _, i := range d.pending {
				applyName(d.synced, &log[i], fate{how: applied})
			}
			d.pending = nil
		}
	}
}

func (m *model) addName(o *op) {
	d := m.dir(filepath.Dir(o.path))
	d.pending = append(d.pending, m.at)
}

// moment is a frozen model: the certain part, shared with every state built
// from it, and the list of open operations. Safe for concurrent use.
type moment struct {
	cut   int
	log   []op
	label string // last mark at or before the cut

	files map[int]*sparse.Data // certain contents; never written
	dirs  map[string]map[string]entry
	names [][]int // open name operations, one list per directory with any
	data  []int   // open writes and truncations, in log order
}

// freeze takes the moment out of a model.
func (m *model) freeze(log []op) *moment {
	t := &moment{
		cut:   m.at,
		log:   log[:m.at:m.at],
		files: make(map[int]*sparse.Data, len(m.inodes)),
		dirs:  make(map[string]map[string]entry, len(m.dirs)),
	}
	reachable := map[int]bool{}
	for _, path := range slices.Sorted(maps.Keys(m.dirs)) {
		d := m.dirs[path]
		t.dirs[path] = d.synced
		for _, e := range d.synced {
			reachable[e.ino] = reachable[e.ino] || !e.isDir
		}
		for _, i := range d.pending {
			reachable[log[i].ino] = reachable[log[i].ino] || log[i].kind != opMkdir
		}
		if len(d.pending) > 0 {
			t.names = append(t.names, slices.Clone(d.pending))
		}
	}
	for ino, n := range m.inodes {
		if !reachable[ino] {
			delete(m.inodes, ino) // its names are gone for good, and a handle cannot give it one
			continue
		}
		t.files[ino] = n.synced.Clone()
		t.data = append(t.data, n.pending...)
	}
	slices.Sort(t.data)
	return t
}

// build makes the disk on which every open operation met its fate. Operations
// without one are dropped.
func (t *moment) build(fates map[int]fate) vfs.MemImage {
	dirs := t.dirs
	if len(t.names) > 0 {
		dirs = maps.Clone(t.dirs)
		for _, list := range t.names {
			path := filepath.Dir(t.log[list[0]].path)
			names := maps.Clone(dirs[path])
			for _, i := range list {
				applyName(names, &t.log[i], fates[i])
			}
			dirs[path] = names
		}
	}
	open := map[int]*content{}
	for _, i := range t.data {
		o, f := &t.log[i], fates[i]
		if f.how == dropped {
			continue
		}
		c := open[o.ino]
		if c == nil {
			d := t.files[o.ino]
			c = &content{Data: d.Clone(), size: d.Size()}
			open[o.ino] = c
		}
		c.apply(o, f)
	}
	finished := make(map[int]*sparse.Data, len(open))
	for ino, c := range open {
		finished[ino] = c.finish()
	}
	img := vfs.MemImage{Files: map[string]*sparse.Data{}}
	var walk func(path string)
	walk = func(path string) {
		for base, e := range dirs[path] {
			name := filepath.Join(path, base)
			if e.isDir {
				img.Dirs = append(img.Dirs, name)
				walk(name)
				continue
			}
			d := finished[e.ino]
			if d == nil {
				d = t.files[e.ino]
			}
			img.Files[name] = d
		}
	}
	for path := range dirs {
		if filepath.Dir(path) == path {
			walk(path)
		}
	}
	slices.Sort(img.Dirs)
	return img
}

// applyName gives one name operation its fate. Each name is a slot of its own
// in the directory: the last operation on it that survives decides, whatever
// file an earlier one would have put there.
func applyName(names map[string]entry, o *op, f fate) {
	if f.how == dropped {
		return
	}
	base := filepath.Base(o.path)
	switch o.kind {
	case opCreate:
		names[base] = entry{ino: o.ino}
	case opMkdir:
		names[base] = entry{isDir: true}
	case opRename:
		names[filepath.Base(o.to)] = entry{ino: o.ino}
		if f.how != both {
			delete(names, base)
		}
	case opRemove:
		delete(names, base)
	}
}
