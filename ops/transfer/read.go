package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// Errors of a file of NDJSON as a whole. Match with errors.Is.
var (
	// ErrFormat: the file does not begin as docs/format/ndjson.md says, or a newer release
	// wrote it.
	ErrFormat = errors.New("not NDJSON that this release reads")
	// ErrTruncated: the file ends without its last line, or lines are missing. The lines that were read
	// are valid, but incomplete.
	ErrTruncated = errors.New("the file is not whole")
	// ErrLine is the reason of a Rejected line that is no line of the format.
	ErrLine = errors.New("not a line of the format")
)

// MaxLine is the longest line that is read, in bytes. A checkpoint with as many values as a
// saver stores in one call fits.
const MaxLine = 384 << 20

// maxParts is the largest number of commas and brackets outside of strings in a line: what
// bounds the memory that decoding takes beside that of the strings.
const maxParts = 4 << 20

// NDJSON is a file of NDJSON as a source of checkpoints and of items.
type NDJSON struct {
	open    func() (io.ReadCloser, error)
	maxLine int
}

var (
	_ Source     = (*NDJSON)(nil)
	_ ItemSource = (*NDJSON)(nil)
)

// FromNDJSON is a file of NDJSON. open opens it; it is called once for each iteration, and
// twice if the Selection has Metadata, because a thread is selected by any of its checkpoints.
//
// A line that cannot be read is a Rejected with its bytes. Checkpoints that share values with
// the one on it are then rejected by Copy. After the last line the iteration ends with
// ErrTruncated if the file is not whole.
func FromNDJSON(open func() (io.ReadCloser, error)) *NDJSON { return &NDJSON{open, MaxLine} }

// Check reads the beginning of the file. It returns ErrFormat if that is no NDJSON that this
// release reads.
func (s *NDJSON) Check() error {
	f, err := s.open()
	if err != nil {
		return err
	}
	defer f.Close() // only read from
	_, err = s.begin(f)
	return err
}

// Tuples implements Source.
func (s *NDJSON) Tuples(ctx context.Context, sel Selection) iter.Seq2[*Tuple, error] {
	return func(yield func(*Tuple, error) bool) {
		var matching map[string]bool
		if len(sel.Metadata) > 0 {
			if err := (saver.Query{Filter: sel.Metadata}).Validate(); err != nil {
				yield(nil, err)
				return
			}
			matching = map[string]bool{}
			err := s.each(ctx, func(l decoded, err error) bool {
				if err == nil && l.tuple != nil && l.tuple.Metadata.Match(sel.Metadata) {
					matching[l.tuple.Config.ThreadID] = true
				}
				return true
			})
			if err != nil && !errors.Is(err, ErrTruncated) {
				yield(nil, err)
				return
			}
		}
		err := s.each(ctx, func(l decoded, err error) bool {
			switch tup := l.tuple; {
			case err != nil:
				return yield(nil, err)
			case tup == nil || !sel.has(tup.Config.ThreadID) || matching != nil && !matching[tup.Config.ThreadID]:
				return true
			default:
				return yield(tup, nil)
			}
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// Items implements ItemSource. Lines that cannot be read are reported by Tuples only.
func (s *NDJSON) Items(ctx context.Context, below store.Namespace) iter.Seq2[*store.Item, error] {
	return func(yield func(*store.Item, error) bool) {
		err := s.each(ctx, func(l decoded, err error) bool {
			it := l.item
			if err != nil || it == nil || len(it.Namespace) < len(below) || !slices.Equal(it.Namespace[:len(below)], below) {
				return true
			}
			return yield(it, nil)
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// has reports whether Threads and Prefix select a thread.
func (s *Selection) has(threadID string) bool {
	return strings.HasPrefix(threadID, s.Prefix) && (s.Threads == nil || slices.Contains(s.Threads, threadID))
}

// errStopped: who takes the tuples wants no more.
var errStopped = errors.New("stopped")

// begin reads the header, and returns a reader of the lines behind it.
func (s *NDJSON) begin(f io.Reader) (*lineReader, error) {
	r := &lineReader{r: bufio.NewReaderSize(f, 64<<10), max: s.maxLine}
	line, err := r.next()
	if err != nil && !errors.Is(err, errLongLine) {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return r, readHeader(line)
}

// each calls do for every checkpoint and item of the file, or with a Rejected.
func (s *NDJSON) each(ctx context.Context, do func(decoded, error) bool) error {
	f, err := s.open()
	if err != nil {
		return err
	}
	defer f.Close() // only read from
	r, err := s.begin(f)
	if err != nil {
		return err
	}
	lines := 0
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: it has no last line", ErrTruncated)
		case err != nil && !errors.Is(err, errLongLine):
			return err
		}
		l, lerr := decodeLine(line)
		if err = errors.Join(err, lerr); err == nil && l.end != nil {
			if had := l.end.Checkpoints + l.end.Items; had != lines {
				return fmt.Errorf("%w: it had %d checkpoints and items, and has %d", ErrTruncated, had, lines)
			}
			if _, err := r.next(); !errors.Is(err, io.EOF) {
				return fmt.Errorf("%w: something follows the last line", ErrFormat)
			}
			return nil
		}
		lines++
		if err != nil {
			l, err = decoded{}, &Rejected{What: "line", Name: fmt.Sprint(r.n), Raw: bytes.Clone(line), Reason: fmt.Errorf("%w: %w", ErrLine, err)}
		}
		if !do(l, err) {
			return errStopped
		}
	}
}

func readHeader(line []byte) error {
	var h headerLine
	if err := json.Unmarshal(line, &h); err != nil || h.Kind != kindHeader {
		return fmt.Errorf("%w: the first line is no header", ErrFormat)
	}
	if h.Format != format {
		return fmt.Errorf("%w: it has format %d", ErrFormat, h.Format)
	}
	return nil
}

// decoded is a line after the header: one of these.
type decoded struct {
	end   *endLine
	tuple *Tuple
	item  *store.Item
}

// decodeLine reads a line after the header.
func decodeLine(line []byte) (d decoded, err error) {
	if err := checkParts(line); err != nil {
		return d, err
	}
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return d, err
	}
	switch kind.Kind {
	case kindEnd:
		d.end = &endLine{}
		return d, strict(line, d.end)
	case kindCheckpoint:
		var l checkpointLine
		if err := strict(line, &l); err != nil {
			return d, err
		}
		d.tuple, err = l.tuple()
		return d, err
	case kindItem:
		var l itemLine
		if err := strict(line, &l); err != nil {
			return d, err
		}
		d.item, err = l.item()
		return d, err
	}
	return d, fmt.Errorf("kind %q is unknown", kind.Kind)
}

// checkParts refuses a line of too many parts.
func checkParts(line []byte) error {
	parts, inString := 0, false
	for i := 0; i < len(line); i++ {
		switch b := line[i]; {
		case inString && b == '\\':
			i++
		case b == '"':
			inString = !inString
		case !inString && (b == ',' || b == '[' || b == '{'):
			parts++
		}
	}
	if parts > maxParts {
		return fmt.Errorf("it has %d parts, the limit is %d", parts, maxParts)
	}
	return nil
}

// errLongLine comes with the beginning of a line that is too long. The next line can be read.
var errLongLine = errors.New("the line is too long")

// lineReader reads lines of a bounded length.
type lineReader struct {
	r   *bufio.Reader
	max int
	n   int // of the line that was read last, from 1
	buf []byte
}

// next is the next line, without its end. It is valid until the next call. A last line
// without an end is a line.
func (l *lineReader) next() ([]byte, error) {
	l.n++
	if cap(l.buf) > 1<<20 {
		l.buf = nil // of a line that was large
	}
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if room := l.max - len(l.buf); len(bytes.TrimSuffix(part, []byte("\n"))) > room {
			part, long = part[:room], true
		}
		l.buf = append(l.buf, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(l.buf) == 0:
			return nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case long:
			return l.buf, errLongLine
		}
		return bytes.TrimSuffix(l.buf, []byte("\n")), nil
	}
}
