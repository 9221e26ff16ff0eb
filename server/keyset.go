package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// ErrAuthUnavailable is the error of an Authenticate that cannot identify users at the moment, and of
// an Authorize that cannot decide what a user may do. The request is refused with 503, and the reason
// is logged.
var ErrAuthUnavailable = errors.New("authentication is not available")

// The times and sizes that the documentation of JWT states.
const (
	keysFresh = 10 * time.Minute // how long keys are used without looking for others
	keysUsed  = time.Hour        // how long they are used if others cannot be had
	keysPause = 10 * time.Second // the time between two fetches
	keysTime  = 10 * time.Second // how long a fetch may take
	keysMost  = 1 << 20          // bytes of a key set
)

// keySet has the public keys of an issuer. It runs one fetch at a time, for all who wait. A request
// waits for a fetch only if its key is not known: so a slow issuer stops nobody whose key is known.
type keySet struct {
	url    string
	client *http.Client

	mu      sync.Mutex
	keys    map[string][]jose.JSONWebKey // by id
	fetched time.Time                    // when keys were fetched
	tried   time.Time                    // when a fetch ended
	failed  error                        // why the last fetch failed
	under   chan struct{}                // closed when the fetch under way has ended; nil if there is none
}

func newKeySet(address string, client *http.Client) (*keySet, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("server: JWT: KeysURL %q is no URL", address)
	}
	ip, _ := netip.ParseAddr(u.Hostname())
	if u.Scheme != "https" && (u.Scheme != "http" || u.Hostname() != "localhost" && !ip.IsLoopback()) {
		return nil, fmt.Errorf("server: JWT: KeysURL %q is not https", address)
	}
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &keySet{url: address, client: client}, nil
}

// named returns the keys with an id; none if the issuer has no such key. It returns ErrAuthUnavailable
// if that is not known: the keys could not be fetched, or ctx ended first.
func (s *keySet) named(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	for waited := false; ; waited = true {
		s.mu.Lock()
		found, age := s.keys[id], time.Since(s.fetched)
		usable := len(found) > 0 && age < keysUsed
		if (!usable || age >= keysFresh) && s.under == nil && time.Since(s.tried) >= keysPause {
			s.under = make(chan struct{})
			go s.fetch()
		}
		under, failed := s.under, s.failed
		s.mu.Unlock()
		switch {
		case usable:
			return found, nil
		case under == nil || waited:
			if failed != nil {
				return nil, fmt.Errorf("%w: %w", ErrAuthUnavailable, failed)
			}
			return nil, nil
		}
		select {
		case <-under:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrAuthUnavailable, context.Cause(ctx))
		}
	}
}

// fetch gets the keys from the issuer. It does not use the context of a request, so that a client that
// leaves does not end it for the others.
func (s *keySet) fetch() {
	keys, err := s.ask()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried = time.Now(); err == nil {
		s.keys, s.fetched = keys, s.tried
	}
	s.failed = err
	close(s.under)
	s.under = nil
}

func (s *keySet) ask() (map[string][]jose.JSONWebKey, error) {
	ctx, done := context.WithTimeout(context.Background(), keysTime)
	defer done()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	res, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, keysMost+1))
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", s.url, res.Status)
	case len(text) > keysMost:
		return nil, fmt.Errorf("%s: more than %d bytes", s.url, keysMost)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.url, err)
	}
	return keys, nil
}

// parseKeys reads a key set. It has the public keys that signatures are checked with; others,
// and those of kinds that are not known, are left out.
func parseKeys(text []byte) (map[string][]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, err
	}
	keys := map[string][]jose.JSONWebKey{}
	for _, one := range set.Keys {
		var k jose.JSONWebKey
		if err := k.UnmarshalJSON(one); err != nil || k.KeyID == "" || !k.IsPublic() || !k.Valid() || k.Use != "" && k.Use != "sig" {
			continue
		}
		keys[k.KeyID] = append(keys[k.KeyID], k)
	}
	if len(keys) == 0 {
		return nil, errors.New("there are no keys in it")
	}
	return keys, nil
}
