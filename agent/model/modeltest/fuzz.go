package modeltest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
)

// canned is a transport that answers every request with the same body.
type canned struct{ kind, body string }

// RoundTrip implements http.RoundTripper.
func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {c.kind}}, Body: io.NopCloser(strings.NewReader(c.body)), ContentLength: -1,
	}, nil
}

// Fuzz gives a model answers of any bytes, in parts or whole. The model must return an AI message or a
// typed error, and must not panic.
func Fuzz(f *testing.F, make func(t *testing.T, client *http.Client, whole bool) model.Model, seeds ...string) {
	for _, s := range seeds {
		f.Add(s, strings.HasPrefix(s, "{"))
	}
	f.Fuzz(func(t *testing.T, body string, whole bool) {
		kind := "text/event-stream"
		if whole {
			kind = "application/json"
		}
		got, err := model.Collect(t.Context(), make(t, &http.Client{Transport: canned{kind, body}}, whole), Ask())
		var refused *model.ProviderError
		switch {
		case err == nil && got.Type == message.TypeAI:
		case errors.As(err, &refused), errors.Is(err, message.ErrMerge):
		default:
			t.Errorf("%+v, error %v", got, err)
		}
	})
}
