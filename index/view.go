package index

// Partition returns the partition as it was, or nil. An error is that of reading its row.
func (v View) Partition(id string) (*Partition, error) {
	key := keys.Get().(*Partition)
	key.ID = id
	t, _ := v.partitions.Get(key)
	keys.Put(key)
	return resolve(t, v.tables, v.fams, id)
}

// Parts returns where the pages of a family lay; none if no image knew it.
func (v View) Parts(family uint64) ([]Part, error) { return v.tables.parts(family) }

// Len is the number of partitions.
func (v View) Len() int { return v.n }

// Tombstones are the deleted partitions remembered; only of a ViewTombstones or ViewDirty.
func (v View) Tombstones() []Tombstone { return v.tombs }

// Ascend calls fn for the partitions from id on, in the order of ids, until fn
// returns false. An error is that of reading a table; fn has seen the partitions before.
func (v View) Ascend(from string, fn func(*Partition) bool) error {
	return v.Rows(from, func(r *Row, t *Partition) bool {
		if t == nil {
			t = r.cold(v.fams)
		}
		return fn(t)
	})
}

// Cold returns a cold partition made of a row that Rows gave without one.
func (v View) Cold(r *Row) *Partition { return r.cold(v.fams) }

// Rows is Ascend for callers that need only the rows of most partitions. The partition is nil if only
// the tables have it. The row is valid during the call.
func (v View) Rows(from string, fn func(r *Row, t *Partition) bool) error {
	l := v.tables.rows(from)
	var r Row
	stopped := false
	show := func(t *Partition) bool {
		stopped = !fn(&r, t)
		return !stopped
	}
	// below shows the rows of the tables below id. If they cannot be read, it shows no more rows: some
	// before the next would be missing.
	below := func(id string, bounded bool) bool {
		for ; l.ok() && (!bounded || string(l.key) < id); l.next() {
			var ok bool
			if r, ok = readRow(string(l.key), l.payload); ok && !r.Deleted && !show(nil) {
				return false
			}
		}
		return l.err == nil
	}
	going := true
	v.partitions.AscendGreaterOrEqual(&Partition{ID: from}, func(t *Partition) bool {
		if going = below(t.ID, true); !going {
			return false
		}
		if l.ok() && string(l.key) == t.ID {
			l.next()
		}
		if !t.removed {
			r = RowOf(t)
			going = show(t)
		}
		return going
	})
	if going {
		below("", false)
	}
	if stopped {
		return nil
	}
	return l.err
}

// Families calls fn for the families the tables know, in the order of ids, until fn
// returns false. Errors are those of Ascend.
func (v View) Families(fn func(id uint64, parts []Part) bool) error { return v.tables.eachFamily(fn) }
