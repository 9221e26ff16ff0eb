package serde

import (
	"maps"

	"github.com/tinylib/msgp/msgp"
)

// guide gives the order of map keys when a value is written that was decoded before. It walks
// the bytes that the value was decoded from, in parallel with the encoder. It never provides
// content, so it may differ from a value that has changed. Keys that it does not have are
// written last, sorted. Where the shapes differ, it is not used until both are past the
// difference.
//
// Each byte is walked once.
type guide struct {
	c   cursor
	on  bool
	own bool // c stands at the third element of the extension, not at its head
}

// intoNamed returns the guide for the third element of an extension of codes 0-5. g is at the
// head of the extension.
func (g guide) intoNamed(code int8) guide {
	if !g.on || g.own {
		g.own = false
		return g
	}
	it, err := g.c.next()
	if err != nil || it.class != cExt || it.code != code {
		return guide{}
	}
	g.c.end = g.c.off + it.n
	if head, err := g.c.next(); err != nil || head.class != cArray || head.n < 3 {
		return guide{}
	}
	for range 2 { // module and name
		if g.c.skip() != nil {
			return guide{}
		}
	}
	return g
}

// intoDelta does the same for a delta snapshot, whose payload is the value.
func (g guide) intoDelta() guide {
	if !g.on || g.own {
		return guide{}
	}
	it, err := g.c.next()
	if err != nil || it.class != cExt || it.code != ExtDelta {
		return guide{}
	}
	g.c.end = g.c.off + it.n
	return g
}

// guided writes v with the guide and moves the guide past the counterpart of v.
func (e *encoder) guided(v any) error {
	g := e.guide
	head := g.c
	it, err := head.next()
	if err != nil {
		e.guide.on = false
		return e.plain(v)
	}
	switch v := v.(type) {
	case map[string]any:
		if it.class == cMap {
			return e.guidedMap(v, head, it.n)
		}
	case map[any]any:
		if it.class == cMap {
			return e.guidedAnyMap(v, head, it.n)
		}
	case fieldList:
		if it.class == cMap {
			return e.guidedFields(v, head, it.n)
		}
	case []any:
		if it.class == cArray {
			return e.guidedSlice(v, head, it.n)
		}
	}
	if it.class != cExt {
		e.guide.on = false // the value may be a container; its parts have no counterpart here
	}
	err = e.plain(v) // an extension takes the guide with it, see named
	e.guide = g.past(1)
	return err
}

// past returns the guide after n values, or an unused one if there are fewer.
func (g guide) past(n int) guide {
	for range n {
		if g.c.skip() != nil {
			return guide{}
		}
	}
	return g
}

func (e *encoder) guidedSlice(v []any, head cursor, n int) error {
	if err := e.enter(); err != nil {
		return e.fail(v, err)
	}
	e.guide.c = head
	e.buf = msgp.AppendArrayHeader(e.buf, uint32(len(v)))
	for i, x := range v {
		var err error
		if i < n {
			err = e.value(x)
		} else {
			g := e.guide
			e.guide.on = false
			err = e.value(x)
			e.guide = g
		}
		if err != nil {
			return within(err, indexSegment(i))
		}
	}
	if n > len(v) && e.guide.on {
		e.guide = e.guide.past(n - len(v))
	}
	e.leave()
	return nil
}

func (e *encoder) guidedMap(m map[string]any, head cursor, n int) error {
	if err := e.enter(); err != nil {
		return e.fail(m, err)
	}
	e.guide.c = head
	e.buf = msgp.AppendMapHeader(e.buf, uint32(len(m)))
	written, walked := 0, 0
	for ; walked < n && e.guide.on; walked++ {
		key, ok := e.guide.strKey()
		val, have := m[string(key)]
		if !ok || !have {
			e.guide = e.guide.past(1)
			continue
		}
		e.buf = msgp.AppendStringFromBytes(e.buf, key)
		if err := e.value(val); err != nil {
			return within(err, keySegment(string(key)))
		}
		written++
	}
	if written < len(m) {
		if err := e.remainder(m, head, walked); err != nil {
			return err
		}
	}
	e.leave()
	return nil
}

// guidedFields writes fields in the order of their type. It guides their values as long as the
// names agree.
func (e *encoder) guidedFields(f fieldList, head cursor, n int) error {
	if err := e.enter(); err != nil {
		return e.fail(f, err)
	}
	e.guide.c = head
	e.buf = msgp.AppendMapHeader(e.buf, uint32(len(f)))
	for i, p := range f {
		if i >= n {
			e.guide.on = false
		}
		if e.guide.on {
			if key, ok := e.guide.strKey(); !ok || string(key) != p.key {
				e.guide.on = false
			}
		}
		if err := e.keyed(p.key, p.val); err != nil {
			return err
		}
	}
	if n > len(f) {
		e.guide = e.guide.past(2 * (n - len(f)))
	}
	e.leave()
	return nil
}

// strKey steps over a map key and returns it. ok is false if it is not a string.
func (g *guide) strKey() (key []byte, ok bool) {
	start := g.c
	it, err := g.c.next()
	if err == nil && it.class == cStr {
		return g.c.body(it), true
	}
	g.c = start
	*g = g.past(1)
	return nil, false
}

// remainder writes the pairs of m that are not among the first n at head,
// sorted.
func (e *encoder) remainder(m map[string]any, head cursor, n int) error {
	had := make(map[string]bool, len(m))
	for g, i := (guide{on: true, c: head}), 0; i < n && g.on; i++ {
		if key, ok := g.strKey(); ok {
			had[string(key)] = true
		}
		g = g.past(1)
	}
	base := len(e.pairs)
	for k, v := range m {
		if !had[k] {
			e.pairs = append(e.pairs, pair{k, v})
		}
	}
	g := e.guide
	e.guide.on = false
	err := e.popSorted(base)
	e.guide = g
	return err
}

// guidedAnyMap is guidedMap for keys of any kind.
func (e *encoder) guidedAnyMap(m map[any]any, head cursor, n int) error {
	rest := maps.Clone(m)
	if err := e.enter(); err != nil {
		return e.fail(m, err)
	}
	e.guide.c = head
	e.buf = msgp.AppendMapHeader(e.buf, uint32(len(m)))
	d := decoder{c: e.c}
	for i := 0; i < n && e.guide.on; i++ {
		d.cur = e.guide.c
		k, err := d.key()
		if err != nil {
			e.guide.on = false
			break
		}
		e.guide.c = d.cur
		val, have := rest[k]
		if !have {
			e.guide = e.guide.past(1)
			continue
		}
		delete(rest, k)
		key, err := e.key(k)
		if err != nil {
			return err
		}
		e.buf = key.append(e.buf)
		if err := e.value(val); err != nil {
			return within(err, keySegment(key.String()))
		}
	}
	g := e.guide
	e.guide.on = false
	if err := e.restOfAny(rest); err != nil {
		return err
	}
	e.guide = g
	e.leave()
	return nil
}
