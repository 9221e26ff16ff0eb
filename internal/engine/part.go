package engine

// Part is a change that can be a commit, or a part of one, made by a layer above:
// what Commit takes, bundled.
type Part struct {
	Threads []string        // what Do reads or changes
	Size    int64           // about how many bytes it adds to the record
	Urgent  bool            // it only frees space; see Hint
	Do      func(*Tx) error // runs on the committer and must not block
}

// Now is the clock's time in unix µs, as commits see it.
func (e *Engine) Now() int64 { return e.opts.Clock().UnixMicro() }
