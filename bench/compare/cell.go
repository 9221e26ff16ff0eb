package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/stele-go/stele/bench/compare/peer"
)

// cell is one measurement of one engine.
type cell struct {
	Work   string
	Engine string
	Mode   peer.Mode
	Dir    string
	Size   sizes
}

// figures are what a cell measured, by name.
type figures map[string]float64

// sizes are those of the workloads.
type sizes struct {
	ChatSteps, Writers, ManySteps, Threads, Reads  int
	OpenThreads, OpenEach, Killed, Items, Searches int

	FleetThreads int // of the realistic fill
}

var (
	fullSizes  = sizes{200, 64, 100, 10_000, 10_000, 2_000, 50, 2_000, 100_000, 20, 2_000}
	quickSizes = sizes{200, 64, 20, 1_000, 1_000, 400, 50, 400, 20_000, 5, 100}
)

// works are the cells there are. Those whose names begin with a small letter
// prepare a directory or measure the machine.
var works = map[string]func(cell) (figures, error){
	"W1": func(c cell) (figures, error) { return c.chat(false) }, "W1raw": func(c cell) (figures, error) { return c.chat(true) },
	"W1engine": cell.chatOfEngine, "W2": cell.many, "W3": cell.latest, "W4": cell.history, "W5close": cell.reopen, "W5kill": cell.reopen,
	"itemput": cell.putItems, "itemget": cell.getItems, "itemsearch": cell.searchItems, "vector": cell.vector,
	"fillW3": cell.fillLatest, "fillW4": cell.fillHistory, "fillW5": cell.fillOpen, "fillItems": cell.fillItems,
	"compact": cell.compactDir, "kill": cell.kill, "lost": cell.lost, "floors": cell.floors, "copies": cell.freshCopies,
	"scale": cell.scaleCell, "beside": cell.beside,
	"W2/realistic": cell.manyRealistic, "fill/realistic": cell.fillRealistic, "W5close/realistic": cell.reopenRealistic,
	"W5kill/realistic": cell.reopenRealistic, "fillW5/realistic": cell.fillOpenRealistic, "kill/realistic": cell.killRealistic,
	"lost/realistic": cell.lostRealistic,
}

func (c cell) run() (figures, error) {
	fn, ok := works[c.Work]
	if !ok {
		return nil, fmt.Errorf("no workload %q", c.Work)
	}
	// A program that keeps agents has a heap; in an empty one the collector would
	// run all the time, and be most of what is measured.
	ballast := make([]byte, 64<<20)
	out, err := fn(c)
	runtime.KeepAlive(ballast)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", c.Work, c.Engine, err)
	}
	return out, nil
}

func (c cell) options() peer.Options { return peer.Options{Dir: c.Dir, Mode: c.Mode, Writers: 1} }

func (c cell) open() (peer.Store, error) { return c.openWith(c.options()) }

func (c cell) openWith(o peer.Options) (peer.Store, error) {
	e, err := peer.Find(c.Engine)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return nil, err
	}
	return e.Open(o)
}

// compactDir leaves the store in the directory compacted and closed.
func (c cell) compactDir() (figures, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	if err := s.Compact(); err != nil {
		return nil, err
	}
	n, err := c.closeSized(s)
	return figures{"disk B": float64(n)}, err
}

// closeSized closes a store and returns what it takes on disk.
func (c cell) closeSized(s peer.Store) (n int64, err error) {
	sizer, ok := s.(peer.Sizer)
	if ok {
		n, err = sizer.Size()
	}
	if err = errors.Join(err, s.Close()); err != nil || ok {
		return n, err
	}
	return diskBytes(c.Dir)
}

// diskBytes is what the files of a directory take, holes not counted.
func diskBytes(dir string) (int64, error) {
	var n int64
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n += allocated(info)
		return nil
	})
	return n, err
}
