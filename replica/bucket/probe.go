package bucket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// ErrUnfit says that a bucket does not keep what the log needs from it. The text says what it did.
// Another product, or a newer version of it, may.
var ErrUnfit = errors.New("the bucket is unfit for a replica")

const (
	probeRacers = 8
	probeRounds = 4 // of each race
)

// Probe uses a bucket for a moment, and returns ErrUnfit if it breaks what Bucket says: if a
// condition is ignored, if of several Puts at the same time more than one succeeds, or if a read or
// a listing shows what was before. It makes about 80 requests, to keys of its own below "probe/", and
// removes them. Another error says that it does not know. A bucket that passes may still be wrong
// at times.
func Probe(ctx context.Context, b Bucket) error {
	p := &probe{ctx: ctx, b: b, at: "probe/" + randomPart() + "/"}
	err := p.run()
	if cerr := b.Delete(ctx, p.keys...); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("probe the bucket: %w", err)
	}
	return nil
}

// randomPart is a part of a key that nobody else has.
func randomPart() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x", b)
}

// probe is a Probe under way.
type probe struct {
	ctx  context.Context
	b    Bucket
	at   string
	keys []string // that it has put, in order
}

func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUnfit}, args...)...)
}

func (p *probe) run() error {
	for round := range probeRounds {
		key := fmt.Sprintf("%s%d", p.at, round)
		p.keys = append(p.keys, key)
		tag, err := p.race(key, Condition{IfAbsent: true})
		if err != nil {
			return err
		}
		if err := p.conditions(key, tag); err != nil {
			return err
		}
		if _, err = p.race(key, Condition{IfMatch: tag}); err != nil {
			return err
		}
		if err := p.listing(p.keys); err != nil {
			return err
		}
	}
	return p.names()
}

// race lets several put under a condition that holds for one, and returns the tag of what is there.
func (p *probe) race(key string, cond Condition) (ETag, error) {
	// A content that was there before would have its tag, and the condition hold again.
	racer := func(i int) string { return fmt.Sprintf("%s after %q: racer %d", key, cond.IfMatch, i) }
	tags, errs, start := [probeRacers]ETag{}, [probeRacers]error{}, make(chan struct{})
	var all sync.WaitGroup
	for i := range probeRacers {
		all.Go(func() {
			<-start
			tags[i], errs[i] = p.b.Put(p.ctx, key, NewBody([]byte(racer(i))), cond)
		})
	}
	close(start)
	all.Wait()
	won := slices.IndexFunc(errs[:], func(err error) bool { return err == nil })
	text, tag, err := p.get(key)
	if errors.Is(err, ErrUnfit) && won < 0 {
		return "", errors.Join(errs[:]...) // nobody got through
	}
	if err != nil {
		return "", err
	}
	for i, err := range errs {
		mine := text == racer(i)
		switch {
		case err == nil && (!mine || tags[i] != tag):
			return "", unfit("of %d puts at the same time under a condition that holds for one, several succeeded, "+
				"or the one that did is not there with its tag", probeRacers)
		case errors.Is(err, ErrCondition) && mine:
			return "", unfit("a put was refused by its condition, and has stored its object")
		case errors.Is(err, ErrRefused):
			return "", err
		}
	}
	return tag, nil
}

// get returns a whole object.
func (p *probe) get(key string) (string, ETag, error) {
	o, err := p.b.Get(p.ctx, key, GetOptions{})
	if errors.Is(err, ErrNotFound) {
		return "", "", unfit("an object that was put is not found")
	}
	if err != nil {
		return "", "", err
	}
	text, err := io.ReadAll(io.LimitReader(o.Body, 1<<10))
	return string(text), o.ETag, errors.Join(err, o.Body.Close())
}

// conditions puts under conditions that do not hold, and gets what is not modified.
func (p *probe) conditions(key string, tag ETag) error {
	before, _, err := p.get(key)
	if err != nil {
		return err
	}
	missing := p.at + "missing"
	for what, put := range map[string]struct {
		key  string
		cond Condition
	}{
		"create of what is there":  {key, Condition{IfAbsent: true}},
		"overwrite of another tag": {key, Condition{IfMatch: "\"00000000000000000000000000000000\""}},
		"overwrite of nothing":     {missing, Condition{IfMatch: tag}},
	} {
		if _, err := p.b.Put(p.ctx, put.key, NewBody([]byte("x")), put.cond); err == nil {
			p.keys = append(p.keys, put.key)
			return unfit("a put succeeded that is a conditional %s", what)
		} else if !errors.Is(err, ErrCondition) {
			return err
		}
	}
	if after, _, err := p.get(key); err != nil {
		return err
	} else if after != before {
		return unfit("a put that failed by its condition has changed the object, or a get shows an old one")
	}
	if o, err := p.b.Get(p.ctx, key, GetOptions{IfNoneMatch: tag}); err == nil {
		return errors.Join(unfit("a get with If-None-Match of what is not modified returned it"), o.Body.Close())
	} else if !errors.Is(err, ErrNotModified) {
		return err
	}
	return nil
}

// listing compares the listing with what was put.
func (p *probe) listing(want []string) error {
	page, err := p.b.List(p.ctx, p.at, "")
	if err != nil {
		return err
	}
	var got []string
	for _, e := range page {
		got = append(got, e.Key)
	}
	if !slices.Equal(got, want) {
		return unfit("it lists %q, and %q are there: the listing is late or out of order", got, want)
	}
	return nil
}

// names puts keys whose order is not that of directories, and looks whether a listing follows
// what is put and deleted.
func (p *probe) names() error {
	for _, name := range []string{"z-a", "z/a", "z0"} {
		if _, err := p.b.Put(p.ctx, p.at+name, NewBody(nil), Condition{}); err != nil {
			return err
		}
		p.keys = append(p.keys, p.at+name)
	}
	if err := p.listing(p.keys); err != nil {
		return err
	}
	doomed, rest := p.keys[0], p.keys[1:]
	if err := p.b.Delete(p.ctx, doomed); err != nil {
		return err
	}
	if o, err := p.b.Get(p.ctx, doomed, GetOptions{}); err == nil {
		return errors.Join(unfit("a get shows an object that was deleted"), o.Body.Close())
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	return p.listing(rest)
}
