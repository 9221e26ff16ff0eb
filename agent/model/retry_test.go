package model_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
)

// TestRefused: what a status and the headers of a provider mean.
func TestRefused(t *testing.T) {
	at := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		status    int
		header    map[string]string
		temporary bool
		after     time.Duration
	}{
		{429, nil, true, 0},
		{408, nil, true, 0},
		{409, nil, true, 0},
		{500, nil, true, 0},
		{529, nil, true, 0},
		{400, nil, false, 0},
		{401, nil, false, 0},
		{429, map[string]string{"x-should-retry": "false"}, false, 0},
		{400, map[string]string{"x-should-retry": "true"}, true, 0},
		{429, map[string]string{"Retry-After": "2"}, true, 2 * time.Second},
		{429, map[string]string{"Retry-After": "9", "retry-after-ms": "1500"}, true, 1500 * time.Millisecond},
		{429, map[string]string{"Retry-After": "-1"}, true, 0},
		{429, map[string]string{"Retry-After": "NaN"}, true, 0},
		{429, map[string]string{"Retry-After": "1e300"}, true, 1e9 * time.Second},
		{429, map[string]string{"Retry-After": "soon"}, true, 0},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		if e := model.Refused("p", c.status, h, "", "", nil); e.Temporary != c.temporary || e.RetryAfter() != c.after {
			t.Errorf("%d %v: temporary %v, after %v", c.status, c.header, e.Temporary, e.After)
		}
	}
	h := http.Header{"Retry-After": {at}}
	if d := model.Refused("p", 429, h, "", "", nil).After; d < 59*time.Minute || d > time.Hour {
		t.Errorf("after %v for %s", d, at)
	}
	cause := errors.New("cause")
	e := model.Refused("p", 429, nil, "rate_limit", "slow down", cause)
	if e.Error() != "p: 429 Too Many Requests: rate_limit: slow down" || !errors.Is(e, cause) {
		t.Error(e)
	}
}

// TestBroken: an answer that cannot be read is not asked for again.
func TestBroken(t *testing.T) {
	syntax := json.Unmarshal([]byte("{nope"), new(any))
	cut := json.Unmarshal([]byte(`{"a`), new(any))
	for err, temporary := range map[error]bool{cut: true, io.ErrUnexpectedEOF: true, errors.New("reset"): true, syntax: false, bufio.ErrTooLong: false, fmt.Errorf("in: %w", syntax): false} {
		if e := model.Broken("p", err); e.Temporary != temporary || !errors.Is(e, err) {
			t.Errorf("%v: %+v", err, e)
		}
	}
}

// TestRetryStops: an error that is not the provider's is not tried again, and a call that yields on
// behind its error is not heard.
func TestRetryStops(t *testing.T) {
	boom := errors.New("boom")
	calls, said := 0, 0
	for _, err := range (model.Retry{}).Stream(t.Context(), func(yield func(message.Chunk, error) bool) {
		calls++
		if yield(message.Chunk{}, boom) {
			t.Error("asked to go on")
		}
		yield(message.Chunk{}, nil)
	}) {
		if said++; !errors.Is(err, boom) {
			t.Error(err)
		}
	}
	if calls != 1 || said != 1 {
		t.Errorf("%d calls, %d errors", calls, said)
	}
	if err := (model.Retry{MaxDelay: -1}).Check(); !errors.Is(err, model.ErrRequest) {
		t.Error(err)
	}
}

// TestCutOff: half of a tool call is an invalid call.
func TestCutOff(t *testing.T) {
	chunk := message.Chunk{Message: message.AI(""), ToolCallChunks: []message.ToolCallChunk{{Name: "pay", ID: "1", Args: `{"to": "Ada", "sum": 1`}}}
	got, err := model.Call(ctx, model.NewScripted(model.Answer{Chunks: []message.Chunk{chunk}}), ask("pay"))
	if err != nil || len(got.ToolCalls) > 0 || len(got.InvalidToolCalls) != 1 {
		t.Errorf("%+v %v", got, err)
	}
}

// TestRetry: a call is tried again before its first chunk, as often as allowed, and not if the
// provider asks for too long a pause.
func TestRetry(t *testing.T) {
	busy := model.Refused("p", 503, nil, "", "", nil)
	long := model.Refused("p", 429, http.Header{"Retry-After": {"7200"}}, "", "", nil)
	soon := model.Refused("p", 429, http.Header{"Retry-After": {"0.000001"}}, "", "", nil)
	refused := model.Refused("p", 400, nil, "", "", nil)
	part := message.Chunk{Message: message.AI("a")}
	for _, c := range []struct {
		name  string
		retry model.Retry
		first []error // of the calls, in order; nil is a chunk and the end
		shown bool    // a chunk comes before the first error
		calls int
		err   error
	}{
		{"at once", model.Retry{}, []error{nil}, false, 1, nil},
		{"again", model.Retry{Delay: 1}, []error{busy, busy, nil}, false, 3, nil},
		{"bounded", model.Retry{Delay: 1}, []error{busy, busy, busy, nil}, false, 3, busy},
		{"once more", model.Retry{Delay: 1, Retries: 1}, []error{busy, busy, nil}, false, 2, busy},
		{"never", model.Retry{Retries: -1}, []error{busy, nil}, false, 1, busy},
		{"refused", model.Retry{}, []error{refused, nil}, false, 1, refused},
		{"shown", model.Retry{Delay: 1}, []error{busy, nil}, true, 1, busy},
		{"too long", model.Retry{Delay: 1}, []error{long, nil}, false, 1, long},
		{"soon", model.Retry{Delay: time.Hour, MaxDelay: time.Hour}, []error{soon, nil}, false, 2, nil},
	} {
		calls := 0
		var last error
		for _, err := range c.retry.Stream(t.Context(), func(yield func(message.Chunk, error) bool) {
			err := c.first[calls]
			calls++
			if (err == nil || c.shown) && !yield(part, nil) {
				return
			}
			if err != nil {
				yield(message.Chunk{}, err)
			}
		}) {
			last = err
		}
		if calls != c.calls || !errors.Is(last, c.err) || c.err == nil && last != nil {
			t.Fatalf("%s: %d calls, error %v", c.name, calls, last) // the next may wait for an hour
		}
	}
}
