package engine

// Change is what Commit takes, bundled: a layer above made it ready, and it can be a
// commit of its own or a part of one.
type Change struct {
	Partitions []string        // what Do reads or changes
	Size       int64           // about how many bytes it adds to the record
	Urgent     bool            // it only frees space; see Hint
	Do         func(*Tx) error // runs on the committer and must not block
}

// Prepared is a Change for the store of Engine, which a saver stores with a checkpoint.
type Prepared struct {
	Engine *Engine
	Change
}

// StoreChange implements saver.Change.
func (Prepared) StoreChange() {}

// Now is the clock's time in unix µs, as commits see it.
func (e *Engine) Now() int64 { return e.opts.Clock().UnixMicro() }
