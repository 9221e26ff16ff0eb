package parity

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

//go:embed fixtures
var recordings embed.FS

// formatVersion is the format version of fixtures that this package reads.
const formatVersion = 1

// Fixture is one recorded conversation. It is immutable and may be replayed by
// several goroutines at once.
type Fixture struct {
	Name  string
	About string // one sentence on the program
	// Lines is the number of lines of the file; calls are named by their line,
	// counted from 1.
	Lines   int
	Answers int // calls whose answer a replay compares
	blobs   []serde.Typed
	tuples  []*tuple
	calls   []numbered
}

// numbered is a call with its line.
type numbered struct {
	line int
	call call
}

// tuple is a recorded checkpoint tuple.
type tuple struct {
	config   saver.Config
	cp       saver.Checkpoint // without values
	values   map[string]serde.Typed
	metadata saver.Metadata
	parent   *saver.Config
	writes   []write
	// meant is set where LangGraph's answer mixes the values of two branches:
	// the values the checkpoint was put with.
	meant map[string]serde.Typed
}

// write is a recorded pending write.
type write struct {
	task, channel string
	value         serde.Typed
}

// All loads every recorded fixture, in the order of their names.
func All() ([]*Fixture, error) {
	entries, err := recordings.ReadDir("fixtures")
	if err != nil {
		return nil, fmt.Errorf("list fixtures: %w", err)
	}
	var all []*Fixture
	for _, e := range entries {
		f, err := open(e.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// Load loads one fixture by its name, without extension.
func Load(name string) (*Fixture, error) {
	for _, ext := range []string{".jsonl", ".jsonl.gz"} {
		if _, err := recordings.Open(path.Join("fixtures", name+ext)); err == nil {
			return open(name + ext)
		}
	}
	return nil, fmt.Errorf("no fixture %q", name)
}

func open(file string) (*Fixture, error) {
	data, err := recordings.ReadFile(path.Join("fixtures", file))
	if err != nil {
		return nil, fmt.Errorf("open fixture: %w", err)
	}
	var r io.Reader = bytes.NewReader(data)
	if strings.HasSuffix(file, ".gz") {
		if r, err = gzip.NewReader(r); err != nil {
			return nil, fmt.Errorf("open fixture %s: %w", file, err)
		}
	}
	f, err := parse(r)
	if err != nil {
		return nil, fmt.Errorf("fixture %s: %w", file, err)
	}
	return f, nil
}

// maxLine is longer than any line: the largest value, in base64.
const maxLine = 1 << 20

func parse(r io.Reader) (*Fixture, error) {
	f := &Fixture{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		f.Lines++
		if err := f.add(lines.Bytes()); err != nil {
			return nil, fmt.Errorf("line %d: %w", f.Lines, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if f.Name == "" {
		return nil, errors.New("no header")
	}
	return f, nil
}

// add takes the next line into the fixture.
func (f *Fixture) add(data []byte) error {
	var line rawLine
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(&line); err != nil {
		return err
	}
	switch line.Op {
	case "fixture":
		if line.Format != formatVersion {
			return fmt.Errorf("format version %d, this package reads %d", line.Format, formatVersion)
		}
		f.Name, f.About = line.Name, line.About
		return nil
	case "note":
		return nil
	case "blob":
		if line.N != len(f.blobs) {
			return fmt.Errorf("blob %d comes as number %d", line.N, len(f.blobs))
		}
		f.blobs = append(f.blobs, serde.Typed{Kind: line.Kind, Data: line.B64})
		return nil
	case "tuple":
		if line.N != len(f.tuples) {
			return fmt.Errorf("tuple %d comes as number %d", line.N, len(f.tuples))
		}
		t, err := f.tuple(&line)
		f.tuples = append(f.tuples, t)
		return err
	}
	c, err := f.call(&line)
	if err != nil {
		return fmt.Errorf("%s: %w", line.Op, err)
	}
	if c.answers() {
		f.Answers++
	}
	f.calls = append(f.calls, numbered{line: f.Lines, call: c})
	return nil
}

// Writes are the lines of the calls that change the saver, in order.
func (f *Fixture) Writes() []int {
	var lines []int
	for _, c := range f.calls {
		if c.call.changes() {
			lines = append(lines, c.line)
		}
	}
	return lines
}

// lastWrite is the line of the last call that changes the saver.
func (f *Fixture) lastWrite() int {
	writes := f.Writes()
	if len(writes) == 0 {
		return 0
	}
	return writes[len(writes)-1]
}
