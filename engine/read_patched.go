package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stele-go/stele/base/delta"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
)

// readChain makes the value at chain[0] from the patches of chain and the last value in it, which is
// whole. The result is a fresh slice. Its checksum is checked too: each step has its own, which does
// not show that the steps belong together.
func (s *Store) readChain(r *Reader, fam *index.Family, chain []index.ValueLoc) ([]byte, error) {
	if r == nil {
		r = &Reader{s: s, held: new(recent)} // the patches may lie in one block
	}
	patches := make([]*delta.Patch, len(chain)-1)
	for i := range patches {
		var err error
		if patches[i], err = s.readPatch(r, chain[i].Loc); err != nil {
			return nil, costing(fam, chain[i].Ref, err)
		}
	}
	last := chain[len(chain)-1]
	root, err := s.readRoot(r, last.Loc, false)
	if err != nil {
		return nil, costing(fam, last.Ref, err)
	}
	s.resolved.Add(int64(len(patches)))
	b, err := delta.Resolve(patches, root)
	if err == nil {
		if got := valueSum(b); got != patches[0].Sum {
			err = fmt.Errorf("checksum is %016x, expected %016x", got, patches[0].Sum)
		}
	}
	if err == nil {
		return b, nil
	}
	if _, rerr := s.readAt(r, last.Loc, false); rerr != nil { // readRoot may not have checked it
		return nil, costing(fam, last.Ref, rerr)
	}
	return nil, s.chainDamage(chain[0], err)
}

// readPatch reads the patch at loc.
func (s *Store) readPatch(r *Reader, loc index.Loc) (*delta.Patch, error) {
	if loc.InLog() {
		if p, ok := s.cache.getPatch(keyOf(loc)); ok {
			return p, nil
		}
		if b, ok := r.inLog(loc); ok {
			if p, err := delta.Decode(b); err == nil {
				return p, nil
			}
		}
	}
	h, err := s.Files.Acquire(loc.File)
	if err != nil {
		return nil, err
	}
	defer s.Files.Release(h)
	var b []byte
	if loc.InLog() {
		b, err = readLogValue(h, loc)
	} else if b, _, err = s.readInBlock(r, h, loc); r.revisions {
		b = slices.Clone(b) // otherwise the versions that are kept would hold the block
	}
	if err != nil {
		return nil, err
	}
	p, err := delta.Decode(b)
	switch {
	case errors.Is(err, fault.ErrVersion):
		return nil, fmt.Errorf("%s at offset %d: %w", h.Kind.Name(h.Num), loc.Off, err)
	case err != nil:
		return nil, &fault.CorruptionError{File: h.Kind.Name(h.Num), Kind: "patch", Offset: int64(loc.Off), Len: int64(loc.Len), Err: err}
	}
	if loc.InLog() && !r.readsOnce() {
		s.cache.addPatch(keyOf(loc), p)
	}
	return p, nil
}

// readRoot reads the bytes at loc, which the caller shares with others and must not change. With kept
// they hold no larger block in memory. In a segment they are part of a block that was checked, but they
// are not compared with loc's own checksum: the value made of them is.
func (s *Store) readRoot(r *Reader, loc index.Loc, kept bool) ([]byte, error) {
	if loc.InLog() {
		if b, ok := r.inLog(loc); ok {
			return b, nil
		}
		if b, ok := s.keptInLog(r, loc); ok {
			return b, nil
		}
	}
	h, err := s.Files.Acquire(loc.File)
	if err != nil {
		return nil, err
	}
	defer s.Files.Release(h)
	if loc.InLog() {
		b, err := readLogValue(h, loc)
		if err == nil {
			s.keepOfLog(r, loc, b)
		}
		return b, err
	}
	b, ok := r.kept(loc)
	whole := false
	if !ok {
		block, _, err := s.readBlock(r, h, loc)
		if err != nil {
			return nil, err
		}
		if b, ok = (blockPart{bytes: block}).cut(loc); !ok {
			return h.Segment.Value(segmentLoc(loc), block) // its error says what is wrong
		}
		whole = len(b) == len(block)
	}
	if kept && !whole {
		b = slices.Clone(b)
	}
	return b, nil
}

// baseError is the cause under a CorruptionError for damaged bytes that more than one value is made of.
// It names the values that are lost.
type baseError struct {
	damaged index.Ref
	costs   []index.Ref // in order, Damaged among them
	err     error       // what is wrong with the bytes; may be nil
}

// maxNamedValues bounds how many values the text of an error names.
const maxNamedValues = 200

// Error names the values.
func (e *baseError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "value %d.%d is a base; the damage costs %d values:", e.damaged.LSN, e.damaged.Ord, len(e.costs))
	for _, r := range e.costs[:min(len(e.costs), maxNamedValues)] {
		fmt.Fprintf(&b, " %d.%d", r.LSN, r.Ord)
	}
	if len(e.costs) > maxNamedValues {
		b.WriteString(" …")
	}
	if e.err != nil {
		b.WriteString(": " + e.err.Error())
	}
	return b.String()
}

// Unwrap returns the underlying cause.
func (e *baseError) Unwrap() error { return e.err }

// costing adds to a damage error for the bytes of r which values are lost. It returns other errors as
// they are.
func costing(fam *index.Family, r index.Ref, err error) error {
	var ce *fault.CorruptionError
	if !errors.As(err, &ce) {
		return err
	}
	costs := fam.Costs(r)
	if len(costs) < 2 {
		return err
	}
	named := *ce
	named.Err = &baseError{damaged: r, costs: costs, err: ce.Err}
	return &named
}

// endlessChain returns the error for a chain that does not end with a whole value: a base is missing,
// or there are too many patches.
func (s *Store) endlessChain(chain []index.ValueLoc, end index.Ref) error {
	last := chain[len(chain)-1]
	if len(chain) > index.MaxSteps {
		return s.chainDamage(chain[0], fmt.Errorf("more than %d patches lead to it", index.MaxSteps))
	}
	return s.chainDamage(last, fmt.Errorf("it is a patch against %d.%d, which is not there", end.LSN, end.Ord))
}

func (s *Store) chainDamage(v index.ValueLoc, err error) error {
	return &fault.CorruptionError{File: s.Files.Name(v.Loc.File), Kind: "value", Offset: int64(v.Loc.Off), Len: int64(v.Loc.Len),
		Detail: fmt.Sprintf("value %d.%d", v.Ref.LSN, v.Ref.Ord), Err: err}
}
