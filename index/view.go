package index

// Thread returns the thread as it was, or nil.
func (v View) Thread(id string) *Thread {
	t, _ := v.threads.Get(&Thread{ID: id})
	return resolve(t, v.tables, v.fams, id)
}

// Parts returns where the pages of a family lay; none if no image knew it.
func (v View) Parts(family uint64) []Part {
	parts, _ := v.tables.parts(family)
	return parts
}

// Len is the number of threads.
func (v View) Len() int { return v.n }

// Memos are the deleted threads remembered; only of a ViewMemos or ViewDirty.
func (v View) Memos() []Memo { return v.memos }

// Ascend calls fn for the threads from id on, in the order of ids, until fn
// returns false.
func (v View) Ascend(from string, fn func(*Thread) bool) {
	v.Rows(from, func(r *Row, t *Thread) bool {
		if t == nil {
			t = r.cold(v.fams)
		}
		return fn(t)
	})
}

// Cold makes a row that Rows gave without a thread into one.
func (v View) Cold(r *Row) *Thread { return r.cold(v.fams) }

// Rows is Ascend for who needs little of most threads. The thread is nil if it is
// known from the tables alone. The row is valid during the call.
func (v View) Rows(from string, fn func(r *Row, t *Thread) bool) {
	l := v.tables.rows(from)
	var r Row
	// below calls fn for the rows of the tables below id.
	below := func(id string, bounded bool) bool {
		for ; l.ok() && (!bounded || string(l.key) < id); l.next() {
			var ok bool
			if r, ok = readRow(string(l.key), l.payload); ok && !r.Deleted && !fn(&r, nil) {
				return false
			}
		}
		return true
	}
	going := true
	v.threads.AscendGreaterOrEqual(&Thread{ID: from}, func(t *Thread) bool {
		if going = below(t.ID, true); !going {
			return false
		}
		if l.ok() && string(l.key) == t.ID {
			l.next()
		}
		if !t.removed {
			r = RowOf(t)
			going = fn(&r, t)
		}
		return going
	})
	if going {
		below("", false)
	}
}

// Families calls fn for the families the tables know, in the order of ids, until fn
// returns false.
func (v View) Families(fn func(id uint64, parts []Part) bool) { v.tables.eachFamily(fn) }
