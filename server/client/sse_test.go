package client

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func readFrames(t *testing.T, r io.Reader, limit int64) (all []frame, err error) {
	t.Helper()
	for fs := newFrames(r, limit); ; {
		fr, err := fs.next()
		if err != nil {
			return all, err
		}
		all = append(all, fr)
	}
}

func TestFrames(t *testing.T) {
	const text = "\xef\xbb\xbf: hello\r\n\r\nevent: a\r\ndata: 1\r\nid: 7\r\n\r\n" + // lines of all three ends
		"event:b\ndata:2\ndata: 3\n\n" +
		"data\rdata: x\rid: bad\x00id\r\r" +
		"event: none\n\n" + // without data there is no event
		"id\ndata: {\"a\": \"b: c\"}\nretry: 5\n\n" +
		"event: cut\ndata: off"
	want := []frame{
		{id: "7", hasID: true, name: "a", data: []byte("1")},
		{id: "7", name: "b", data: []byte("2\n3")},
		{id: "7", data: []byte("\nx")},
		{id: "", hasID: true, data: []byte(`{"a": "b: c"}`)},
	}
	for name, r := range map[string]io.Reader{"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
		got, err := readFrames(t, r, 1000)
		if err != io.EOF || len(got) != len(want) {
			t.Fatalf("%s: %d frames, %v: %+v", name, len(got), err, got)
		}
		for i, w := range want {
			g := got[i]
			if g.id != w.id || g.hasID != w.hasID || g.name != w.name || string(g.data) != string(w.data) {
				t.Errorf("%s: frame %d is %+v, want %+v", name, i, g, w)
			}
		}
	}
}

// An event may have as much as the limit and no more, in one line or in many.
func TestFrameLimit(t *testing.T) {
	line := "data: " + strings.Repeat("x", 94) + "\n"
	if got, err := readFrames(t, strings.NewReader(line+"\n"+line+"\n"), 100); err != io.EOF || len(got) != 2 {
		t.Errorf("%d frames, %v", len(got), err)
	}
	for _, text := range []string{"data: " + strings.Repeat("x", 95) + "\n\n", strings.Repeat("data: x\n", 15) + "\n", ":" + strings.Repeat(" ", 1000)} {
		_, err := readFrames(t, strings.NewReader(text), 100)
		var l *LimitError
		if !errors.As(err, &l) || l.Limit != 100 || !errors.Is(err, ErrLimit) {
			t.Errorf("%.10q…: %v", text, err)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("event: a\r\ndata: 1\r\nid: 7\r\n\r\n"))
	f.Add([]byte("\xef\xbb\xbfdata\rdata: x\r\r: c\n\nid\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		const limit = 64
		whole, err := readFrames(t, strings.NewReader(string(text)), limit)
		pieces, err2 := readFrames(t, iotest.OneByteReader(strings.NewReader(string(text))), limit)
		if (err == io.EOF) != (err2 == io.EOF) || len(whole) != len(pieces) {
			t.Fatalf("%d frames, %v at once; %d, %v byte by byte", len(whole), err, len(pieces), err2)
		}
		for i, w := range whole {
			if p := pieces[i]; p.id != w.id || p.name != w.name || string(p.data) != string(w.data) {
				t.Fatalf("frame %d is %+v at once, %+v byte by byte", i, w, p)
			}
			if len(w.data) > limit {
				t.Fatalf("a frame has %d bytes", len(w.data))
			}
		}
	})
}
