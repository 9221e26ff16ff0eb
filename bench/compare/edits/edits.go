// Package edits makes one edit to the log of a store that was killed, opens it
// again, and sees who notices. All logs hold the same records, each synced and
// acknowledged before the next; a log is right if it returns all of them or says
// that something is wrong. The one record that may be missing is a torn last one.
package edits

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

const (
	records = 100
	size    = 400 // bytes of a record's payload
)

// Outcome is what came of one edit.
type Outcome struct {
	Text  string
	Right bool
}

// log is a log that is edited.
type log struct {
	name string
	// write makes records, each durable before the next, and calls after between them
	// and behind the last, with their number, while the log is open and idle. Then it
	// closes it.
	write func(dir string, payloads [][]byte, after func(n int) error) error
	// read opens the log as after a crash and returns its records, nil for one that
	// is not there.
	read func(dir string) ([][]byte, error)
}

var logs = []log{
	{"stele", writeStele, readStele},
	{"raft-wal", writeRaft, readRaft},
	{"tidwall/wal", writeTidwall, readTidwall},
	{"etcd wal", writeEtcd, readEtcd},
	{"Pebble", writePebble, readPebble},
}

// edit is a change to a log file. at holds the offsets of the payloads; apply may
// change and return b.
type edit struct {
	name string
	// torn: what a power cut does to the record that is being written. All files but
	// that of the records are as they were before it was, since nobody was told of it.
	torn  bool
	apply func(b []byte, at []int) []byte
	// traceless edits leave no later record whole and in its place: what is left is
	// what a log looks like that was never longer.
	traceless bool
}

var all = []edit{
	{"last record cut short", true, func(b []byte, at []int) []byte { return b[:at[99]+size/2] }, false},
	{"last record zero from its middle on", true, func(b []byte, at []int) []byte { return zero(b, at[99]+size/2, len(b)) }, false},
	{"1 bit of the payload of #30", false, func(b []byte, at []int) []byte { return flip(b, at[30]+size/2) }, false},
	{"1 bit before the payload of #30", false, func(b []byte, at []int) []byte { return flip(b, at[30]-2) }, false},
	{"1 bit of the payload of #95", false, func(b []byte, at []int) []byte { return flip(b, at[95]+size/2) }, false},
	{"8 B before the payload of #30 zero", false, func(b []byte, at []int) []byte { return zero(b, at[30]-8, at[30]) }, false},
	{"all between #29 and #30 zero", false, func(b []byte, at []int) []byte { return zero(b, at[29]+size, at[30]) }, false},
	{"512 B at #30 zero", false, func(b []byte, at []int) []byte { return zero(b, at[30], at[30]+512) }, false},
	{"4 KiB at #30 zero", false, func(b []byte, at []int) []byte { return zero(b, at[30], at[30]+4096) }, false},
	{"512 B at #30 random", false, func(b []byte, at []int) []byte { return scramble(b, at[30], 512) }, false},
	{"#30 again in the place of #31", false, func(b []byte, at []int) []byte { return again(b, at[30], at[31]) }, false},
	{"#30 twice", false, func(b []byte, at []int) []byte { return twice(b, at[29]+size, at[30]+size) }, true},
	{"#30 taken out", false, func(b []byte, at []int) []byte { return append(b[:at[29]+size], b[at[30]+size:]...) }, true},
	{"cut short within #50", false, func(b []byte, at []int) []byte { return b[:at[50]+size/2] }, true},
	{"zero from #50 on", false, func(b []byte, at []int) []byte { return zero(b, at[50], len(b)) }, true},
}

func flip(b []byte, at int) []byte {
	b[at] ^= 0x10
	return b
}

func zero(b []byte, from, to int) []byte {
	clear(b[from:to])
	return b
}

func scramble(b []byte, from, n int) []byte {
	r := rand.New(rand.NewPCG(5, 42))
	for i := range n {
		b[from+i] = byte(r.Uint32())
	}
	return b
}

// again copies what begins as one record's payload does over another's.
func again(b []byte, from, to int) []byte {
	copy(b[to:to+size], b[from:from+size])
	return b
}

func twice(b []byte, from, to int) []byte {
	return append(b[:to:to], append(bytes.Clone(b[from:to]), b[to:]...)...)
}

// Print edits all logs and prints a table.
func Print(w io.Writer) error {
	columns := make([]map[string]Outcome, len(logs))
	head, line := "| edit |", "|---|"
	for i, l := range logs {
		var err error
		if columns[i], err = outcomes(l); err != nil {
			return err
		}
		head, line = head+" "+l.name+" |", line+"---|"
	}
	fmt.Fprintf(w, "%d records of %d B, each synced; one edit to the log of a killed process, to the file that holds the records; then it is opened.\nA bold outcome is wrong: data are missing or changed and nobody is told, or a torn tail is fatal.\nEdits marked * leave no later record whole and in its place.\n\n%s\n%s\n", records, size, head, line)
	for _, e := range all {
		mark := ""
		if e.traceless {
			mark = " *"
		}
		fmt.Fprintf(w, "| %s%s |", e.name, mark)
		for i := range logs {
			o := columns[i][e.name]
			if o.Right {
				fmt.Fprintf(w, " %s |", o.Text)
			} else {
				fmt.Fprintf(w, " **%s** |", o.Text)
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	for i, l := range logs {
		wrong := 0
		for _, o := range columns[i] {
			if !o.Right {
				wrong++
			}
		}
		fmt.Fprintf(w, "%s: %d of %d right\n", l.name, len(all)-wrong, len(all))
	}
	return nil
}

// outcomes makes every edit to a log of its own.
func outcomes(l log) (map[string]Outcome, error) {
	dir, err := os.MkdirTemp("", "stele-edits-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	live, dead, before := filepath.Join(dir, "live"), filepath.Join(dir, "dead"), filepath.Join(dir, "before")
	if err := os.Mkdir(live, 0o777); err != nil {
		return nil, err
	}
	payloads := makePayloads()
	err = l.write(live, payloads, func(n int) error {
		switch n {
		case records - 1:
			return os.CopyFS(before, os.DirFS(live))
		case records:
			return os.CopyFS(dead, os.DirFS(live))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: write: %w", l.name, err)
	}
	file, at, err := find(dead, payloads)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.name, err)
	}
	out := map[string]Outcome{}
	for i, e := range append([]edit{{name: "nothing", apply: func(b []byte, _ []int) []byte { return b }}}, all...) {
		copied := filepath.Join(dir, fmt.Sprint(i))
		from := dead
		if e.torn {
			from = before
		}
		if err := os.CopyFS(copied, os.DirFS(from)); err != nil {
			return nil, err
		}
		path := filepath.Join(copied, file)
		b, err := os.ReadFile(filepath.Join(dead, file))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, e.apply(b, at), 0o666); err != nil {
			return nil, err
		}
		out[e.name] = classify(e, payloads, l, copied)
	}
	if o := out["nothing"]; o.Text != "all" {
		return nil, fmt.Errorf("%s: unedited, it returns: %s", l.name, o.Text)
	}
	delete(out, "nothing")
	return out, nil
}

func makePayloads() [][]byte {
	r, payloads := rand.New(rand.NewPCG(4, 42)), make([][]byte, records)
	for i := range payloads {
		payloads[i] = make([]byte, size)
		for k := range payloads[i] {
			payloads[i][k] = byte(r.Uint32())
		}
	}
	return payloads
}

// find returns the file that holds the payloads, and where.
func find(dir string, payloads [][]byte) (name string, at []int, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || at != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var found []int
		for _, p := range payloads {
			i := locate(b, p)
			if i < 0 {
				return nil
			}
			found = append(found, i)
		}
		at = found
		name, err = filepath.Rel(dir, path)
		return err
	})
	if err == nil && at == nil {
		err = fmt.Errorf("no file holds all %d payloads", len(payloads))
	}
	return name, at, err
}

// locate returns where a payload begins. Some logs split one at the end of a block,
// so that a part of it has to do.
func locate(b, payload []byte) int {
	const part = 64
	for from := 0; from+part <= len(payload); from += part {
		if i := bytes.Index(b, payload[from:from+part]); i >= 0 {
			return max(0, i-from)
		}
	}
	return -1
}

// classify opens an edited log and compares.
func classify(e edit, want [][]byte, l log, dir string) Outcome {
	got, err := readSafely(l, dir)
	n := 0
	for i, b := range got {
		if b == nil {
			continue // lost
		}
		if n++; err == nil && (i >= len(want) || !bytes.Equal(b, want[i])) {
			return Outcome{fmt.Sprintf("%d, #%d wrong, no error", len(got), i), false}
		}
	}
	switch {
	case err != nil && e.torn:
		return Outcome{"error: " + brief(err), false}
	case err != nil:
		return Outcome{"error: " + brief(err), true}
	case n == len(want):
		return Outcome{"all", true}
	case e.torn && n == len(want)-1:
		return Outcome{fmt.Sprint(n), true}
	default:
		return Outcome{fmt.Sprintf("%d, %d lost, no error", n, len(want)-n), false}
	}
}

// readSafely makes an error of a panic.
func readSafely(l log, dir string) (got [][]byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return l.read(dir)
}

// brief is an error in a table: its end, which names the cause.
func brief(err error) string {
	text := strings.NewReplacer("\n", " ", "|", "/").Replace(err.Error())
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	return text[:min(len(text), 60)]
}
