package saver

// Source is the metadata's source: "input", "loop", "update" or "fork"; "" if
// absent.
func (md Metadata) Source() string {
	s, _ := md["source"].(string)
	return s
}

// Step is the metadata's step: −1 for the first input, 0 for the first
// superstep. ok is false if it is absent or not an integer.
func (md Metadata) Step() (step int, ok bool) {
	n, ok := asInt(md["step"])
	return int(n), ok
}

// RunID is the id of the run that stored the checkpoint; "" if unknown.
func (md Metadata) RunID() string {
	s, _ := md["run_id"].(string)
	return s
}

func asInt(v any) (int64, bool) {
	switch x := v.(type) {
	case int:
		return int64(x), true
	case int64:
		return x, true
	case int32:
		return int64(x), true
	}
	return 0, false
}
