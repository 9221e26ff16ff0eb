package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestSilentIssuer: who asks for a key is told that there is none to be had, though the issuer says nothing
// and neither the request nor the HTTP client has a bound.
func TestSilentIssuer(t *testing.T) {
	over := make(chan struct{})
	issuer := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer issuer.Close()
	defer close(over)
	keys, err := newKeySet(issuer.URL, &http.Client{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := keys.named(context.Background(), "k")
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrAuthUnavailable) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the key is waited for as long as the issuer is silent")
	}
}
