package serde

import "bytes"

// extState is what a decoder knows about the extension it is in.
type extState struct {
	// unsorted: a map was met whose keys are not in the order the encoder would
	// write them. repeated: a map was met with a key twice.
	unsorted, repeated bool
	// depth counts the extensions around the cursor. from and to bound the
	// payload of the outermost; copied is a copy of it, made when it is first
	// needed, and shared by every order within.
	depth    int
	from, to int
	copied   []byte
	// raw are the extensions whose Data still aliases the input. Their Data is copied at
	// the end, when those in discarded values are gone. Otherwise payloads that fail at
	// every level would be copied at every level.
	raw []*Ext
}

func (s *extState) settle() {
	for _, x := range s.raw {
		x.Data = cloneBytes(x.Data)
	}
}

// copyOf returns bytes [from, to) of a copy of the extension, which is made once.
func (s *extState) copyOf(data []byte, from, to int) []byte {
	if s.copied == nil {
		s.copied = bytes.Clone(data[s.from:s.to])
	}
	return s.copied[from-s.from : to-s.from : to-s.from]
}

// extension reads the payload of an extension. It never fails: a payload without the form of
// its code is kept as bytes.
func (d *decoder) extension(it item) any {
	outer := *d
	start, end := d.cur.off, d.cur.off+it.n
	d.cur.end = end
	d.promised = 0
	d.ext.unsorted, d.ext.repeated = false, false
	if d.ext.depth == 0 {
		d.ext.from, d.ext.to, d.ext.copied = start, end, nil
	}
	d.ext.depth++

	var v any
	err := ErrDepth
	if d.depth < MaxDepth {
		d.depth++
		v, err = d.payload(it.code)
	}
	if err == nil && d.cur.off != end {
		err = errTrailing
	}

	inner := d.ext
	d.cur.off, d.cur.end = end, outer.cur.end
	d.promised, d.depth = outer.promised, outer.depth
	d.ext.depth--
	d.ext.unsorted = outer.ext.unsorted || inner.unsorted
	d.ext.repeated = outer.ext.repeated || inner.repeated
	if err != nil {
		d.ext.raw = inner.raw[:len(outer.ext.raw)]
		x := &Ext{Code: it.code, Data: d.cur.data[start:end:end]}
		d.ext.raw = append(d.ext.raw, x)
		if d.c.opts.Plain {
			return cloneBytes(x.Data)
		}
		return x
	}
	return v
}

// payload reads the payload of code, which ends at the cursor's end.
func (d *decoder) payload(code int8) (any, error) {
	if _, ok := namedPayload(code); ok {
		return d.named(code)
	}
	switch code {
	case ExtDelta:
		v, err := d.value()
		return DeltaSnapshot{Value: v}, err
	case ExtNDArray:
		return d.ndarray()
	}
	return nil, errForm
}

func (d *decoder) named(code int8) (any, error) {
	elements, _ := namedPayload(code)
	head, err := d.cur.next()
	if err != nil {
		return nil, err
	}
	if head.class != cArray || head.n != elements {
		return nil, errForm
	}
	x := &Ext{Code: code}
	if x.Module, err = d.name(); err != nil {
		return nil, err
	}
	if x.Name, err = d.name(); err != nil {
		return nil, err
	}
	from := d.cur.off
	if x.Value, err = d.value(); err != nil {
		return nil, err
	}
	to := d.cur.off
	if elements == 4 {
		if x.Method, err = d.name(); err != nil {
			return nil, err
		}
	}
	if d.cur.off != d.cur.end {
		return nil, errTrailing
	}
	v := d.c.resolve(x, &d.budget)
	if v == any(x) && d.ext.unsorted && !d.ext.repeated {
		x.order = d.ext.copyOf(d.cur.data, from, to)
	}
	return v, nil
}

// name reads a string that is not empty.
func (d *decoder) name() (string, error) {
	it, err := d.cur.next()
	if err != nil {
		return "", err
	}
	if it.class != cStr || it.n == 0 {
		return "", errForm
	}
	return d.str(it)
}

func (d *decoder) ndarray() (any, error) {
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	parts, _ := v.([]any)
	if len(parts) != 4 {
		return nil, errForm
	}
	dtype, ok0 := parts[0].(string)
	axes, ok1 := parts[1].([]any)
	order, ok2 := parts[2].(string)
	data, ok3 := parts[3].([]byte)
	if !ok0 || !ok1 || !ok2 || !ok3 || order == "" {
		return nil, errForm
	}
	a := NDArray{DType: dtype, Shape: make([]int64, len(axes)), Order: order, Data: data}
	for i, axis := range axes {
		n, ok := axis.(int64)
		if !ok {
			return nil, errForm
		}
		a.Shape[i] = n
	}
	return a, nil
}

// resolve decides what an extension of codes 0-5 becomes: bare data, a native
// value, a registered Go type within b, or x itself.
func (c *Codec) resolve(x *Ext, b *budget) any {
	if c.opts.Plain {
		return plainValue(x)
	}
	name := TypeName{x.Module, x.Name}
	if x.Code == ExtMethod && (x.Method != "fromisoformat" || name != TypeName{"datetime", "datetime"}) {
		c.report(Event{Kind: EventMethodBlocked, Module: x.Module, Name: x.Name, Method: x.Method})
		if c.opts.Strict {
			return x.Value
		}
		return x
	}
	if safeTypes[name] {
		if v, ok := nativeValue(x); ok {
			return v
		}
		return x
	}
	reg := c.opts.Registry.byName[name]
	switch {
	case reg != nil && reg.goType != nil:
		if v, ok := reg.build(x, b); ok {
			return v
		}
		return x
	case reg != nil:
		return x
	case c.opts.Strict:
		c.report(Event{Kind: EventBlocked, Module: x.Module, Name: x.Name})
		return x.Value
	}
	c.report(Event{Kind: EventUnregistered, Module: x.Module, Name: x.Name})
	return x
}

// plainValue is LangGraph's JSON view of an extension.
func plainValue(x *Ext) any {
	v, ok := nativeValue(x)
	if ok {
		switch v := v.(type) {
		case UUID:
			return v.String()
		case Send:
			return v
		}
	}
	return x.Value
}
