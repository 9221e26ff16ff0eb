package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine/backup"
	"github.com/stele-go/stele/wal"
)

// DumpEntry explains a range of bytes of a file.
type DumpEntry struct {
	Offset int64   `json:"offset"`
	Size   int64   `json:"size"`
	Kind   string  `json:"kind"`             // "header", "record", "head block", …, "damage", "zeros"
	Fields []Field `json:"fields,omitempty"` // what the header says
	Lines  []Line  `json:"lines,omitempty"`  // what the content says
	Error  string  `json:"error,omitempty"`
}

// Field is a name and its value.
type Field struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// Line is one line of decoded content; Depth is how far it is indented.
type Line struct {
	Depth int    `json:"depth"`
	Text  string `json:"text"`
}

func (e *DumpEntry) field(name string, value any) { e.Fields = append(e.Fields, Field{name, value}) }

func (e *DumpEntry) line(depth int, format string, args ...any) {
	e.Lines = append(e.Lines, Line{depth, fmt.Sprintf(format, args...)})
}

func (e *DumpEntry) fail(err error) { e.Kind, e.Error = "damage", err.Error() }

// dumper explains one file.
type dumper struct {
	ctx   context.Context
	a     Access
	f     vfs.File
	name  string // base name
	size  int64
	yield func(DumpEntry) error
}

// Dump explains any file of a store or of a backup, from the first byte to the last: headers,
// frames and their content. It needs only the file. It reports damage and continues after
// it. It recognizes the kind of file by its content. An error of the device is yielded last.
// If the file is not one of a store, the error is fault.ErrNotStore.
func Dump(ctx context.Context, path string, a Access) iter.Seq2[DumpEntry, error] {
	return func(yield func(DumpEntry, error) bool) {
		err := dump(ctx, path, a, func(e DumpEntry) error {
			if !yield(e, nil) {
				return errStop
			}
			return ctx.Err()
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(DumpEntry{}, err)
		}
	}
}

func dump(ctx context.Context, path string, a Access, yield func(DumpEntry) error) error {
	f, err := a.fs().Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	d := &dumper{ctx: ctx, a: a, f: f, name: filepath.Base(path), size: size, yield: yield}
	magic, err := readSome(a.fs(), path, 16)
	if err != nil {
		return err
	}
	switch kindOfFile(d.name, string(magic)) {
	case "log":
		return d.log()
	case "segment":
		return d.segment()
	case "image":
		return d.image()
	case "manifest":
		return d.manifest()
	case "backup":
		return d.backup(path)
	case "lock":
		return d.text(path)
	case "mark":
		return d.mark()
	}
	return fmt.Errorf("%s is no file of a store: %w", path, fault.ErrNotStore)
}

// kindOfFile recognizes a file by its content or, if that is damaged, by its name.
func kindOfFile(name, magic string) string {
	for prefix, kind := range map[string]string{"SWAL": "log", "steleSEG": "segment", "steleIMG": "image", "steleMAN": "manifest",
		"stele-backup": "backup", "SDUR": "mark"} {
		if strings.HasPrefix(magic, prefix) {
			return kind
		}
	}
	switch {
	case name == "LOCK":
		return "lock"
	case name == wal.MarkName:
		return "mark"
	case name == backup.Name:
		return "backup"
	case strings.HasPrefix(name, "MANIFEST-"):
		return "manifest"
	}
	return map[string]string{".log": "log", ".seg": "segment", ".img": "image"}[filepath.Ext(name)]
}

// text explains a text file.
func (d *dumper) text(path string) error {
	b, err := readSome(d.a.fs(), path, 4<<10)
	if err != nil {
		return err
	}
	e := DumpEntry{Size: d.size, Kind: "text"}
	for line := range strings.Lines(strings.TrimRight(string(b), "\x00")) {
		e.line(0, "%s", strings.TrimRight(line, "\n"))
	}
	return d.yield(e)
}

func (d *dumper) backup(path string) error {
	list, err := backup.Read(d.a.fs(), filepath.Dir(path))
	e := DumpEntry{Size: d.size, Kind: "backup list"}
	if err != nil {
		if !errors.Is(err, fault.ErrCorrupt) {
			return err
		}
		e.fail(err)
		return d.yield(e)
	}
	e.field("store", hexID(list.StoreID))
	e.field("created", list.Created)
	e.field("lsn", list.LSN)
	for _, f := range list.Files {
		e.line(0, "%s: %d bytes, xxh64 %s, stored as %s", f.Name, f.Size, f.Sum, f.Stored)
	}
	return d.yield(e)
}

// zeros explains bytes that belong to no frame. They are free space, or damage if used is not
// 0.
func zeros(off, size, used int64, what string) DumpEntry {
	e := DumpEntry{Offset: off, Size: size, Kind: "zeros"}
	if used > 0 {
		e.Kind, e.Error = "damage", fmt.Sprintf("no valid %s; %d bytes up to the last that is not zero", what, used)
	}
	return e
}
