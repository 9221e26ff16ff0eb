package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/bench/compare/peer"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// item is the n-th item: about 1 KB, with fields to filter by.
func item(d *bench.Data, n int) peer.Item {
	return peer.Item{Key: fmt.Sprintf("item-%07d", n), Value: map[string]any{"text": d.Text(900),
		"kind": [...]string{"fact", "plan", "event"}[n%3], "age": n % 1000, "score": float64(n%97) / 97}}
}

const itemSpace = "users"

func (c cell) openItems(writers int) (peer.Store, peer.Items, error) {
	e, err := peer.Find(c.Engine)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return nil, nil, err
	}
	s, err := e.OpenItems(peer.Options{Dir: c.Dir, Mode: c.Mode, Writers: writers})
	if err != nil {
		return nil, nil, err
	}
	items, ok := s.(peer.Items)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("%s keeps no items", c.Engine), s.Close())
	}
	return s, items, nil
}

// fillItems stores the items that are read, a thousand in each commit.
func (c cell) fillItems() (figures, error) {
	s, items, err := c.openItems(1)
	if err != nil {
		return nil, err
	}
	d := bench.NewData(11)
	var batch []peer.Item
	for i := range c.Size.Items {
		batch = append(batch, item(d, i))
		if len(batch) == 1000 || i == c.Size.Items-1 {
			if err := items.PutItems(itemSpace, batch); err != nil {
				return nil, err
			}
			batch = batch[:0]
		}
	}
	return figures{}, s.Close()
}

// putItems puts items one by one, by all writers at once.
func (c cell) putItems() (figures, error) {
	s, items, err := c.openItems(c.Size.Writers)
	if err != nil {
		return nil, err
	}
	d, values := bench.NewData(12), make([]peer.Item, 64)
	for i := range values {
		values[i] = item(d, i)
	}
	out, each := figures{}, 2*c.Size.ManySteps
	took, errs := make([]latencies, c.Size.Writers), make([]error, c.Size.Writers)
	m := startMeter(c.Dir, s)
	var wg sync.WaitGroup
	for w := range c.Size.Writers {
		wg.Go(func() {
			for i := range each {
				start := time.Now()
				it := peer.Item{Key: fmt.Sprint("k", i), Value: values[i%len(values)].Value}
				if errs[w] = items.PutItems(fmt.Sprint("user-", w), []peer.Item{it}); errs[w] != nil {
					return
				}
				took[w].since(start)
			}
		})
	}
	wg.Wait()
	m.stop(out, each*c.Size.Writers)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out["puts/s"] = float64(each*c.Size.Writers) / out["s"]
	return out, s.Close()
}

// getItems reads random items, decoded.
func (c cell) getItems() (figures, error) {
	s, items, err := c.openItems(1)
	if err != nil {
		return nil, err
	}
	r, out := rand.New(rand.NewPCG(1, 2)), figures{}
	get := func() error {
		_, err := items.GetItem(itemSpace, fmt.Sprintf("item-%07d", r.IntN(c.Size.Items)))
		return err
	}
	if err := get(); err != nil { // opens what is opened at the first use
		return nil, err
	}
	m := startMeter(c.Dir, s)
	for range c.Size.Reads {
		if err := get(); err != nil {
			return nil, err
		}
	}
	m.stop(out, c.Size.Reads)
	out["gets/s"] = float64(c.Size.Reads) / out["s"]
	return out, s.Close()
}

// searchItems searches all items with one filter that one of a hundred passes.
func (c cell) searchItems() (figures, error) {
	s, _, err := c.openItems(1)
	if err != nil {
		return nil, err
	}
	search, ok := s.(peer.Searcher)
	if !ok {
		return nil, fmt.Errorf("%s cannot search", c.Engine)
	}
	var took latencies
	out := figures{}
	for i := range c.Size.Searches + 1 {
		start := time.Now()
		keys, err := search.Search(itemSpace, "age", 990)
		if err != nil {
			return nil, err
		}
		if len(keys) != 10 {
			return nil, fmt.Errorf("found %d", len(keys))
		}
		if i > 0 { // the first one loads
			took.since(start)
		}
	}
	took.report(out, "search")
	return out, s.Close()
}

const vectorDims = 384

// vector finds the ten nearest of all vectors, and compares with the time reading
// as much memory takes.
func (c cell) vector() (figures, error) {
	rng := rand.New(rand.NewPCG(3, 4))
	random := func() []float32 {
		v := make([]float32, vectorDims)
		for i := range v {
			v[i] = rng.Float32() - 0.5
		}
		return v
	}
	embed := func(_ context.Context, texts []string) ([][]float32, error) {
		vectors := make([][]float32, len(texts))
		for i := range vectors {
			vectors[i] = random()
		}
		return vectors, nil
	}
	d, err := disk.Open(c.Dir, disk.Options{Sync: disk.SyncNever})
	if err != nil {
		return nil, err
	}
	s, err := store.On(d, store.Options{Index: &store.Index{Dims: vectorDims, Embed: embed, Fields: []string{"kind"}}})
	if err != nil {
		return nil, err
	}
	var ops []store.Op
	for i := range c.Size.Items {
		ops = append(ops, store.PutOp{Namespace: store.Namespace{itemSpace}, Key: fmt.Sprint(i), Value: map[string]any{"kind": "fact"}})
		if len(ops) == 1000 || i == c.Size.Items-1 {
			if _, err := s.Batch(context.Background(), ops...); err != nil {
				return nil, err
			}
			ops = ops[:0]
		}
	}
	var took, floor latencies
	for i := range c.Size.Searches + 1 {
		start := time.Now()
		found, err := s.Search(context.Background(), store.Query{Prefix: store.Namespace{itemSpace}, Vector: random()})
		if err != nil {
			return nil, err
		}
		if len(found) != 10 {
			return nil, fmt.Errorf("found %d", len(found))
		}
		if i > 0 { // the first one loads
			took.since(start)
			floor = append(floor, readMemory(4*c.Size.Items*vectorDims))
		}
	}
	out := figures{}
	took.report(out, "search")
	floor.report(out, "floor")
	return out, errors.Join(s.Close(), d.Close())
}
