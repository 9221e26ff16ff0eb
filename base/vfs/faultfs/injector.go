package faultfs

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Rule makes operations fail or wait. The zero value fails the first operation
// of any kind with EIO.
type Rule struct {
	// Op is the kind of the operations the rule speaks of.
	Op Op
	// PathGlob limits the rule to files whose path, or base name, matches it
	// (filepath.Match). Empty matches all. A rename is matched by its old name
	// and by its new one.
	PathGlob string
	// From and To limit the rule to reads of any of the bytes from From to To: a bad sector.
	// A To of 0 is no limit.
	From, To int64
	// N says which of the matching operations meets the rule, counted from 1;
	// 0 is 1. Operations that another rule failed count as well.
	N int
	// Sticky: all later ones meet it, too.
	Sticky bool
	// Err is the error: EIO, ENOSPC, EINTR, …. Nil is EIO, or io.ErrShortWrite
	// or io.ErrUnexpectedEOF with Short, or no error at all with Latency.
	Err error
	// Short: half of a read or write is done before it fails. Other operations
	// just fail.
	Short bool
	// After: the operation is done, then the error is reported.
	After bool
	// LoseData: a Sync or SyncData that fails by this rule marks the pages of
	// the file clean, as common file systems do. A later sync succeeds without
	// writing them; DropLost shows what that means.
	LoseData bool
	// Latency is how long the operation waits first.
	Latency time.Duration
}

// Fault is the error of an operation that a rule failed. It unwraps to the
// error of the rule.
type Fault struct {
	Op   Op
	Name string // path as given by the caller
	Seq  int    // how many-eth operation of its kind, from 1
	Err  error
}

// Error names the operation and says that the fault is not real.
func (f *Fault) Error() string {
	return fmt.Sprintf("injected fault: %v %s (#%d): %v", f.Op, f.Name, f.Seq, f.Err)
}

// Unwrap returns the error of the rule.
func (f *Fault) Unwrap() error { return f.Err }

// Injector decides which operations fail, and counts. It is safe for concurrent
// use and may serve several file systems, for example before and after a
// reopening.
type Injector struct {
	mu    sync.Mutex
	rules []*armed
	ops   [numOps]int
	count int
	last  error
}

type armed struct {
	Rule
	matched int
}

// NewInjector returns an injector with the given rules. Of several rules that
// an operation meets, the first one with an error fails it; the latencies of
// all add up. A malformed PathGlob panics.
func NewInjector(rules ...Rule) *Injector {
	i := &Injector{}
	i.Set(rules...)
	return i
}

// Set replaces the rules; they start counting now. Count, Last and Ops go on.
func (i *Injector) Set(rules ...Rule) {
	armedRules := make([]*armed, len(rules))
	for k, r := range rules {
		if _, err := filepath.Match(r.PathGlob, ""); err != nil {
			panic(fmt.Sprintf("faultfs: path glob %q: %v", r.PathGlob, err))
		}
		armedRules[k] = &armed{Rule: r}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules = armedRules
}

// Count is the number of operations that were failed. If it grew during a call
// that returned nil, an error was swallowed.
func (i *Injector) Count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.count
}

// Last is the most recent *Fault, or nil.
func (i *Injector) Last() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.last
}

// Ops is the number of operations of each kind so far, failed ones included;
// it tells a test which N there are to fail. Kinds that did not occur are not
// in the map.
func (i *Injector) Ops() map[Op]int {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := map[Op]int{}
	for op, n := range i.ops {
		if n > 0 {
			m[Op(op)] = n
		}
	}
	return m
}

// Writes is the number of operations so far that are writes: the largest N
// that means anything in a rule for OpAnyWrite.
func (i *Injector) Writes() int {
	n := 0
	for op, c := range i.Ops() {
		if op.IsWrite() {
			n += c
		}
	}
	return n
}

// verdict is the fault that an operation gets.
type verdict struct {
	fault *Fault
	rule  Rule
}

// judge counts an operation, lets it wait, and returns its verdict: nil if it
// may go ahead.
func (i *Injector) judge(op Op, names ...string) *verdict { return i.judgeRange(op, 0, 0, names...) }

// judgeRange is judge for an operation on the bytes from one offset to another.
func (i *Injector) judgeRange(op Op, from, to int64, names ...string) *verdict {
	v, wait := i.decide(op, from, to, names)
	if wait > 0 {
		time.Sleep(wait)
	}
	return v
}

// decide counts an operation on the bytes [from, to) of the named files, and returns the fault that a rule has
// for it, nil for none, and how long the operation is to wait before.
func (i *Injector) decide(op Op, from, to int64, names []string) (v *verdict, wait time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ops[op]++
	for _, r := range i.rules {
		if !r.Op.covers(op) || !r.matches(names) || r.To > 0 && (op != OpReadAt || to <= r.From || from >= r.To) {
			continue
		}
		r.matched++
		if n := max(r.N, 1); r.matched < n || r.matched > n && !r.Sticky {
			continue
		}
		wait += r.Latency
		if err := r.err(op); err != nil && v == nil {
			v = &verdict{fault: &Fault{Op: op, Name: names[0], Seq: i.ops[op], Err: err}, rule: r.Rule}
		}
	}
	if v != nil {
		i.count++
		i.last = v.fault
	}
	return v, wait
}

func (r *Rule) matches(names []string) bool {
	if r.PathGlob == "" {
		return true
	}
	for _, name := range names {
		path, _ := filepath.Match(r.PathGlob, name) // checked by Set
		base, _ := filepath.Match(r.PathGlob, filepath.Base(name))
		if path || base {
			return true
		}
	}
	return false
}

func (r *Rule) err(op Op) error {
	switch {
	case r.Err != nil:
		return r.Err
	case r.Short && op == OpWriteAt:
		return io.ErrShortWrite
	case r.Short && op == OpReadAt:
		return io.ErrUnexpectedEOF
	case r.Latency > 0 && !r.Short && !r.After && !r.LoseData:
		return nil
	}
	return syscall.EIO
}
