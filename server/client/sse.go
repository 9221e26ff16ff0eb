package client

import (
	"bufio"
	"bytes"
	"io"
)

// frame is a server-sent event.
type frame struct {
	id    string // the last that was sent, also with an earlier frame
	hasID bool   // this frame has an id of its own
	name  string
	data  []byte
}

// frames reads server-sent events, as the HTML standard says.
type frames struct {
	r     *bufio.Reader
	limit int64
	begun bool
	cr    bool // the last line ended with CR: an LF that follows belongs to it
	id    string
}

func newFrames(r io.Reader, limit int64) *frames {
	return &frames{r: bufio.NewReaderSize(r, 32<<10), limit: limit}
}

// next is the next frame that has data. At the end of the stream the error is io.EOF; what
// came of a frame before the end is dropped, since it may be a part of one.
func (f *frames) next() (frame, error) {
	fr := frame{}
	any, size := false, int64(0)
	for {
		line, err := f.line(f.limit - size)
		if err != nil {
			return frame{}, err
		}
		if len(line) == 0 {
			if any {
				fr.id = f.id
				return fr, nil
			}
			fr, size = frame{}, 0
			continue
		}
		size += int64(len(line))
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			fr.name = string(value)
		case "data":
			if any {
				fr.data = append(fr.data, '\n')
			}
			fr.data, any = append(fr.data, value...), true
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				f.id, fr.hasID = string(value), true
			}
		}
	}
}

// line is the next line without its end, which is CR LF, LF or CR.
func (f *frames) line(most int64) ([]byte, error) {
	if !f.begun {
		f.begun = true
		if mark, err := f.r.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
			_, _ = f.r.Discard(3) // they are there
		}
	}
	var line []byte
	for {
		if _, err := f.r.Peek(1); err != nil {
			return nil, err
		}
		part, _ := f.r.Peek(f.r.Buffered()) // they are there
		if f.cr {
			f.cr = false
			if part[0] == '\n' {
				_, _ = f.r.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(part, "\r\n")
		take := end
		if end < 0 {
			take = len(part)
		}
		if int64(len(line)+take) > most {
			return nil, &LimitError{Limit: f.limit}
		}
		line = append(line, part[:take]...)
		if end < 0 {
			_, _ = f.r.Discard(take)
			continue
		}
		f.cr = part[end] == '\r'
		_, _ = f.r.Discard(end + 1)
		return line, nil
	}
}
