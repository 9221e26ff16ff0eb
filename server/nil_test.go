package server_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stele-go/stele/server"
)

// TestNoServer: a server that New has not made, or could not make, says so to whoever calls it.
func TestNoServer(t *testing.T) {
	for name, s := range map[string]*server.Server{"zero": {}, "nil": nil} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", "/ok", nil))
		if err := s.Close(); err == nil || w.Code != 500 || s.Routes() != nil {
			t.Errorf("%s: %v, status %d", name, err, w.Code)
		}
	}
	var cfg server.Config
	open(t, t.TempDir(), func(c *server.Config) { cfg = *c })
	cfg.Auth = server.Bearer(nil)
	if s, err := server.New(cfg); err == nil {
		s.Close()
		t.Error("an Auth without a lookup was taken")
	}
}
