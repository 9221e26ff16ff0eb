package crashfs

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
)

// Options say which crash states of a cut are shown. Equal options show equal
// states in equal order.
type Options struct {
	// Seed of the random choices.
	Seed uint64
	// Random is the number of random combinations of fates to try.
	Random int
	// MaxTorn bounds the boundaries at which the last write is torn; where it
	// has more, they are spread evenly, the first and the last included.
	// 0 is 64, negative is none.
	MaxTorn int
	// MaxSingle bounds the operations that are dropped or applied alone, and
	// the places where the order of names is cut, to the most recent ones. 0 is
	// all of them. Long stretches without a sync need it, because the states of
	// all their cuts grow with the square.
	MaxSingle int
	// Adversarial lets any subset of the name operations of a directory
	// survive, not only a prefix.
	Adversarial bool
}

const defaultMaxTorn = 64

// States yields the disks that a crash after the first cut operations can
// leave, each set of bytes once: nothing of the open operations survives, all
// of them, all but one, only one, names without data and the reverse, sizes
// without data and the reverse, the last write torn and trashed, and random
// mixtures. There is always at least one. A cut beyond Len panics.
// States may be called concurrently, and while the file system is being used.
func (f *FS) States(cut int, o Options) iter.Seq[State] {
	t := f.moment(cut)
	return func(yield func(State) bool) {
		g := &generator{t: t, o: o, yield: yield, seen: map[uint64]bool{}}
		g.run()
	}
}

func (f *FS) moment(cut int) *moment {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cut < 0 || cut > len(f.log) {
		panic(fmt.Sprintf("crashfs: cut %d of a log of %d operations", cut, len(f.log)))
	}
	if f.cursor == nil || f.cursor.at > cut {
		f.cursor = newModel(f.base)
	}
	f.cursor.advance(f.log, cut)
	t := f.cursor.freeze(f.log)
	for _, m := range f.marks {
		if m.at <= cut {
			t.label = m.label
		}
	}
	return t
}

// generator walks the fates of one moment.
type generator struct {
	t       *moment
	o       Options
	yield   func(State) bool
	seen    map[uint64]bool // fingerprints
	index   int
	stopped bool
}

// all gives one fate to all operations on names and one to all writes of data. States are made
// by changing single fates.
func (g *generator) all(names, data how) map[int]fate {
	v := make(map[int]fate, len(g.t.data)+8)
	for _, list := range g.t.names {
		for _, i := range list {
			v[i] = fate{how: names}
		}
	}
	for _, i := range g.t.data {
		v[i] = fate{how: data}
	}
	return v
}

// try yields the state of these fates unless its bytes were seen.
func (g *generator) try(name string, fates map[int]fate) {
	if g.stopped {
		return
	}
	img := g.t.build(fates)
	s := State{t: g.t, o: g.o, fates: fates, img: img, sum: fingerprint(img), name: name, index: g.index}
	if g.seen[s.sum] {
		return
	}
	g.seen[s.sum] = true
	g.index++
	g.stopped = !g.yield(s)
}

func (g *generator) run() {
	g.try("all dropped", g.all(dropped, dropped))
	if len(g.t.names)+len(g.t.data) == 0 {
		return
	}
	g.try("all applied", g.all(applied, applied))
	g.try("names without data", g.all(applied, dropped))
	g.try("data without names", g.all(dropped, applied))
	g.try("sizes without data", g.all(applied, sizeOnly))
	g.try("data without sizes", g.all(applied, dataOnly))
	g.singles()
	g.nameOrders()
	g.lastWrite()
	for r := range g.o.Random {
		if g.stopped {
			return
		}
		g.random(r)
	}
}

// singles drops, and applies, each write and truncation alone. Names are
// applied, since without its name a file shows nothing.
func (g *generator) singles() {
	for _, i := range g.limit(g.t.data) {
		v := g.all(applied, applied)
		v[i] = fate{how: dropped}
		g.try(fmt.Sprintf("without #%d", i), v)
		v = g.all(applied, dropped)
		v[i] = fate{how: applied}
		g.try(fmt.Sprintf("only #%d", i), v)
	}
}

func (g *generator) limit(ops []int) []int {
	if n := g.o.MaxSingle; n > 0 && len(ops) > n {
		return ops[len(ops)-n:]
	}
	return ops
}

// nameOrders cuts the name operations of one directory short while the other
// directories have theirs; in adversarial mode it also takes single ones out,
// leaves single ones in, and lets a rename leave both names.
func (g *generator) nameOrders() {
	for _, list := range g.t.names {
		for k := len(list) - len(g.limit(list)); k < len(list); k++ {
			i := list[k]
			for _, data := range []how{applied, dropped} {
				v := g.all(applied, data)
				for _, j := range list[k:] {
					v[j] = fate{how: dropped}
				}
				g.try(fmt.Sprintf("names before #%d, data %v", i, fate{how: data}), v)
			}
		}
		if !g.o.Adversarial {
			continue
		}
		for _, i := range g.limit(list) {
			for _, data := range []how{applied, dropped} {
				v := g.all(applied, data)
				v[i] = fate{how: dropped}
				g.try(fmt.Sprintf("names without #%d, data %v", i, fate{how: data}), v)
				v = g.all(dropped, data)
				v[i] = fate{how: applied}
				g.try(fmt.Sprintf("only name #%d, data %v", i, fate{how: data}), v)
				if g.t.log[i].kind == opRename {
					v = g.all(applied, data)
					v[i] = fate{how: both}
					g.try(fmt.Sprintf("both names of #%d, data %v", i, fate{how: data}), v)
				}
			}
		}
	}
}

// lastWrite harms the most recent open write in every way. Since every write is
// the last one of some cut, all get their turn.
func (g *generator) lastWrite() {
	last := -1
	for _, i := range g.t.data {
		if g.t.log[i].kind == opWrite {
			last = i
		}
	}
	if last < 0 {
		return
	}
	with := func(f fate) {
		v := g.all(applied, applied)
		v[last] = f
		g.try(fmt.Sprintf("#%d %v", last, f), v)
	}
	limit := int64(g.o.MaxTorn)
	if limit == 0 {
		limit = defaultMaxTorn
	}
	n := tears(&g.t.log[last])
	for k := range max(0, min(limit, n)) {
		at := k + 1
		if n > limit && limit > 1 {
			at = 1 + k*(n-1)/(limit-1)
		}
		with(fate{how: torn, n: at})
		with(fate{how: tornSized, n: at})
	}
	with(fate{how: sizeOnly})
	with(fate{how: dataOnly})
	with(fate{how: allTrash, seed: g.o.Seed})
	if n > 0 {
		with(fate{how: headless})
		with(fate{how: trashed, seed: g.o.Seed})
		with(fate{how: scattered, seed: g.o.Seed})
	}
}

// random draws a fate for every operation.
func (g *generator) random(r int) {
	rng := rand.New(rand.NewPCG(g.o.Seed, uint64(g.t.cut)<<32|uint64(r)))
	v := g.all(dropped, dropped)
	for _, list := range g.t.names {
		if !g.o.Adversarial {
			for _, i := range list[:rng.IntN(len(list)+1)] {
				v[i] = fate{how: applied}
			}
			continue
		}
		for _, i := range list {
			f := fate{how: how(rng.IntN(2))} // dropped or applied
			if g.t.log[i].kind == opRename && rng.IntN(4) == 0 {
				f.how = both
			}
			v[i] = f
		}
	}
	keep := []float64{0.1, 0.5, 0.9}[rng.IntN(3)]
	for _, i := range g.t.data {
		switch {
		case rng.IntN(4) == 0:
			v[i] = randomHarm(rng, &g.t.log[i])
		case rng.Float64() < keep:
			v[i] = fate{how: applied}
		}
	}
	g.try(fmt.Sprintf("random %d", r), v)
}

func randomHarm(rng *rand.Rand, o *op) fate {
	f := fate{how: torn + how(rng.IntN(int(dataOnly-torn)+1)), seed: rng.Uint64()}
	if f.how == torn || f.how == tornSized {
		if n := tears(o); n > 0 {
			f.n = 1 + rng.Int64N(n)
		} else {
			f = fate{how: sizeOnly}
		}
	}
	return f
}

// fingerprint is a hash over names and bytes.
func fingerprint(img vfs.MemImage) uint64 {
	h := base.Checksum(1, []byte(strings.Join(img.Dirs, "\x00")))
	for _, name := range slices.Sorted(maps.Keys(img.Files)) {
		h = base.Checksum(h^img.Files[name].Sum(), []byte(name))
	}
	return h
}

// State is one disk that a crash can leave. It is immutable and safe for
// concurrent use.
type State struct {
	t     *moment
	o     Options
	fates map[int]fate
	img   vfs.MemImage
	sum   uint64
	name  string
	index int
}

// FS returns a recording file system that starts from this disk, everything on
// it durable, so that a crash of the recovery can be explored in turn. Each
// call returns a fresh one.
func (s State) FS() *FS { return newFrom(s.img) }

// Cut is the number of operations before the crash.
func (s State) Cut() int { return s.t.cut }

// Fingerprint is a hash over the names and bytes of the disk: equal disks have
// equal fingerprints, however they came about, so that distinct ones can be
// counted and repeated ones left out.
func (s State) Fingerprint() uint64 { return s.sum }

// String says how to get this state again and what became of every open
// operation.
func (s State) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "crash after %d operations", s.t.cut)
	if s.t.label != "" {
		fmt.Fprintf(&b, " (mark %q)", s.t.label)
	}
	fmt.Fprintf(&b, ", state %d: %s\n", s.index, s.name)
	fmt.Fprintf(&b, "repro: state %d of States(%d, crashfs.Options{Seed: %d, Random: %d, MaxTorn: %d, MaxSingle: %d, Adversarial: %t})\n",
		s.index, s.t.cut, s.o.Seed, s.o.Random, s.o.MaxTorn, s.o.MaxSingle, s.o.Adversarial)
	if s.t.cut > 0 {
		fmt.Fprintf(&b, "last operation: %v\n", &s.t.log[s.t.cut-1])
	}
	for _, i := range slices.Sorted(maps.Keys(s.fates)) {
		fmt.Fprintf(&b, "  #%d %v: %v\n", i, &s.t.log[i], s.fates[i])
	}
	return b.String()
}
