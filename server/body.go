package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"time"

	"github.com/stele-go/stele/base/jsontext"
)

// body is the JSON of a request that has the shape of its route.
type body map[string]any

func (b body) text(name string) string {
	s, _ := b[name].(string)
	return s
}

func (b body) flag(name string) bool {
	f, _ := b[name].(bool)
	return f
}

// integer is a whole number, or what stands for one that is missing.
func (b body) integer(name string, missing int) int {
	switch n := b[name].(type) {
	case int64:
		return int(n)
	case float64:
		if isInteger(n) {
			return int(n)
		}
	}
	return missing
}

// object is an object; nil if it is missing.
func (b body) object(name string) map[string]any {
	m, _ := b[name].(map[string]any)
	return m
}

// texts is a list of strings, or a single one.
func (b body) texts(name string) []string {
	switch x := b[name].(type) {
	case string:
		return []string{x}
	case []any:
		out := make([]string, 0, len(x))
		for _, e := range x {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// encode is v as compact JSON.
func encode(v any) ([]byte, error) {
	if text, ok := jsontext.Append(make([]byte, 0, 128), v, false); ok {
		return text, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// merged is a with the entries of the others over it, one after the other.
func merged(a map[string]any, others ...map[string]any) map[string]any {
	n := len(a)
	for _, m := range others {
		n += len(m)
	}
	out := make(map[string]any, n)
	maps.Copy(out, a)
	for _, m := range others {
		maps.Copy(out, m)
	}
	return out
}

// bodyReader reads the bodies of requests: most bytes, which begin to come within a time.
type bodyReader struct {
	most    int64
	timeout time.Duration
}

// read reads the body of a request, and checks that it has the shape of its route.
func (s bodyReader) read(c *call) error {
	if c.r.ContentLength > s.most { // also for a client that asks first, by Expect
		return errLargeBody(s.most)
	}
	rc := http.NewResponseController(c.w)
	until := time.Now().Add(s.timeout)
	_ = rc.SetReadDeadline(until) // Authenticate may have taken long
	text, err := io.ReadAll(&timed{Reader: http.MaxBytesReader(c.w, c.r.Body, s.most), rc: rc, until: until})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fail(http.StatusRequestTimeout, "The body took too long to come")
	}
	_ = rc.SetReadDeadline(time.Time{}) // that the client leaves is noticed by a read
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return errLargeBody(large.Limit)
	}
	if err != nil {
		return fail(http.StatusBadRequest, "The body could not be read")
	}
	if len(text) == 0 && c.route.optional {
		return nil
	}
	if c.in, err = decode(text); err != nil {
		return err
	}
	if err := c.route.in.check(c.in); err != nil {
		return err
	}
	if m, ok := c.in.(map[string]any); ok {
		c.body = m
	}
	return nil
}

func errLargeBody(most int64) error {
	return fail(http.StatusRequestEntityTooLarge, "The body has more than %d bytes", most)
}

// timed reads a body that has the more time the more of it has come.
type timed struct {
	io.Reader
	rc    *http.ResponseController
	until time.Time
	grace int // bytes that came since until was moved
}

// bodyRate is how many bytes of a body give it a second more.
const bodyRate = 32 << 10

// Read implements io.Reader.
func (t *timed) Read(p []byte) (int, error) {
	if more := t.grace / bodyRate; more > 0 {
		t.grace -= more * bodyRate
		t.until = t.until.Add(time.Duration(more) * time.Second)
		_ = t.rc.SetReadDeadline(t.until)
	}
	n, err := t.Reader.Read(p)
	t.grace += n
	return n, err
}
