package server

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/wire"
)

// LevelAccess is the level at which every call is logged: below slog.LevelDebug.
const LevelAccess = slog.LevelDebug - 4

// method says how a method of the protocol is served.
type method struct {
	run func(*call) ([]byte, error)
	// whole: it ends soon, and neither a cancel nor the end of the connection cuts it off.
	whole bool
	// waits: it may wait for ever.
	waits bool
	// there reports whether a server has the method; nil: always.
	there func(*Server) bool
}

func erases(s *Server) bool { _, ok := s.opts.Saver.(saver.Eraser); return ok }

// allMethods are the methods of the protocol but hello.
var allMethods = map[string]method{
	"put":             {run: with(put), whole: true},
	"put_writes":      {run: with(putWrites), whole: true},
	"get":             {run: with(get)},
	"list":            {run: with(listTuples), waits: true},
	"delete_thread":   {run: with(deleteThread), whole: true},
	"copy_thread":     {run: with(copyThread), whole: true},
	"delete_for_runs": {run: with(deleteForRuns), whole: true},
	"prune":           {run: with(prune), whole: true},
	"threads":         {run: with(threads), waits: true},
	"delta_history":   {run: with(deltaHistory)},
	"retain":          {run: with(retain), waits: true},
	"set_ttl":         {run: with(setTTL), whole: true},
	"sweep":           {run: with(sweep), waits: true},
	"erase":           {run: with(erase), waits: true, there: erases},
	"sync":            {run: with(syncStore)},
	"own":             {run: with(own), waits: true},
	"release":         {run: with(release), whole: true},
	"count_attempt":   {run: with(countAttempt), whole: true},
	"store_batch":     {run: with(storeBatch), whole: true, there: hasItems},
	"store_scan":      {run: with(storeScan), waits: true, there: scansItems},
	"store_sweep":     {run: with(storeSweep), waits: true, there: sweepsItems},
	"stats":           {run: with(stats), there: func(s *Server) bool { return s.opts.Stats != nil }},
	"ping":            {run: ping},
}

// available are the methods of this server, and their names.
func (s *Server) available() (map[string]method, []string) {
	out, names := map[string]method{}, []string{"hello"}
	for name, m := range allMethods {
		if m.there == nil || m.there(s) {
			out[name], names = m, append(names, name)
		}
	}
	slices.Sort(names)
	return out, names
}

// with serves a method whose parameters are a T.
func with[T any](serve func(*call, T) ([]byte, error)) func(*call) ([]byte, error) {
	return func(c *call) ([]byte, error) {
		p, err := wire.DecodeParams[T](c.name, c.body)
		if errors.Is(err, wire.ErrMalformed) {
			err = &wire.Error{Code: wire.CodeBadRequest, Message: err.Error()}
		}
		if err != nil {
			return nil, err
		}
		return serve(c, p)
	}
}

func ping(*call) ([]byte, error) { return nil, nil }

func put(c *call, p wire.Put) ([]byte, error) {
	return c.once(p.Call, effect{do: func(ctx context.Context) (any, error) {
		if p.DeferSync {
			ctx = saver.DeferSync(ctx)
		}
		return c.c.s.opts.Saver.PutRequest(ctx, p.Request())
	}, answer: func(any) ([]byte, error) {
		return wire.Encode(wire.PutAnswer{Thread: p.Thread, NS: p.NS, ID: p.Checkpoint.ID})
	}})
}

func putWrites(c *call, p wire.PutWrites) ([]byte, error) {
	return c.once(p.Call, effect{do: func(ctx context.Context) (any, error) {
		if p.DeferSync {
			ctx = saver.DeferSync(ctx)
		}
		return nil, c.c.s.opts.Saver.PutWrites(ctx, p.Config, p.Writes, p.Task, p.Path)
	}, answer: nothing})
}

// nothing is the answer of a method that answers nothing.
func nothing(any) ([]byte, error) { return nil, nil }

// moved is how often a checkpoint may be replaced while it is read.
const moved = 16

func get(c *call, p wire.At) ([]byte, error) {
	for try := 0; ; try++ {
		t, err := c.c.s.opts.Saver.GetTuple(c.ctx, p.Config)
		if errors.Is(err, saver.ErrNotFound) {
			return wire.Encode(wire.Got{})
		}
		if err != nil {
			return nil, err
		}
		b, err := wire.Encode(wire.Got{Tuple: wire.TupleOf(t)})
		if errors.Is(err, saver.ErrNotFound) && try < moved {
			continue // it was removed or replaced before its values were read
		}
		return b, err
	}
}

func listTuples(c *call, q saver.Query) ([]byte, error) {
	return stream(c, c.c.s.opts.Saver.List(c.ctx, q), func(t *saver.Tuple) ([]byte, error) {
		b, err := wire.Encode(wire.TupleOf(t))
		if errors.Is(err, saver.ErrNotFound) {
			return nil, nil // it was removed since the listing began
		}
		return b, err
	})
}

const (
	batchItems = 64       // items of a batch
	batchBytes = 64 << 10 // after which a batch is sent
)

// stream sends what seq yields in batches, as far as the client has asked for them.
func stream[T any](c *call, seq iter.Seq2[T, error], encode func(T) ([]byte, error)) ([]byte, error) {
	n, size := 0, 0
	batch := wire.Items{Call: c.id}
	flush := func() error {
		if len(batch.Items) == 0 {
			return nil
		}
		if err := c.spend(); err != nil {
			return err
		}
		err := c.c.notify("items", batch)
		batch.Items, size = batch.Items[:0], 0
		return err
	}
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		b, err := encode(v)
		if err != nil {
			return nil, err
		}
		if b == nil {
			continue
		}
		if size+len(b) > c.c.s.opts.MaxFrame/2 {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		batch.Items, size, n = append(batch.Items, b), size+len(b), n+1
		if len(batch.Items) >= batchItems || size >= batchBytes {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return wire.Encode(wire.Counted{Count: n})
}
