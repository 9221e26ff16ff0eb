//go:build unix

package postgres_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stele-go/stele/base/port"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"

	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgtest"
)

// certificate makes one for 127.0.0.1, and its key, as PEM.
func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	public, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	secret, keyErr := x509.MarshalPKCS8PrivateKey(private)
	if err := errors.Join(err, keyErr); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// Setup, the saver and its queue, which listens on a connection of its own, work with a server
// that takes nothing but TLS. Who is not the server that the program trusts gets no statement.
func TestTLS(t *testing.T) {
	free, err := port.Free()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer("listen_addresses='127.0.0.1'", fmt.Sprint("port=", free))
	if err != nil {
		pgtest.Need(t, err)
	}
	t.Cleanup(s.Close)
	cert, key := certificate(t)
	other, _ := certificate(t)
	dir, err := os.Stat(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(s.Dir, name) }
	for name, text := range map[string][]byte{
		"server.crt": cert, "server.key": key, "other.crt": other,
		"data/pg_hba.conf": []byte("local all all trust\nhostssl all all 127.0.0.1/32 trust\n"),
	} {
		err := os.WriteFile(path(name), text, 0o600)
		if err == nil { // the server refuses a key of somebody else's
			err = os.Chown(path(name), int(dir.Sys().(*syscall.Stat_t).Uid), -1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	admin := fmt.Sprintf("%s port=%d", s.URL("postgres"), free)
	s.Exec(t, admin, "ALTER SYSTEM SET ssl_cert_file = '"+path("server.crt")+"'", "ALTER SYSTEM SET ssl_key_file = '"+path("server.key")+"'",
		"ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")

	url := func(rest string) string {
		return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=postgres %s", free, rest)
	}
	trusting := url("sslmode=verify-full sslrootcert=" + path("server.crt"))
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) { // the server reads its settings when it gets to it
		if err = postgres.Setup(t.Context(), trusting, postgres.Options{}); err == nil {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal(err)
		}
	}
	for _, refused := range []string{"sslmode=disable", "sslmode=verify-full sslrootcert=" + path("other.crt")} {
		if _, err := postgres.Open(t.Context(), url(refused), postgres.Options{}); err == nil {
			t.Errorf("%s: opened", refused)
		}
	}
	sv := open(t, trusting, postgres.Options{})
	q, second := pgqueue.Open(sv, pgqueue.Options{PollEvery: time.Hour}), pgqueue.Open(open(t, trusting, postgres.Options{}), pgqueue.Options{})
	defer q.Close()
	defer second.Close()
	changed, stop := q.Watch("")
	defer stop()
	submitted, err := second.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "thread", Graph: "g"}})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Error("no hint")
	}
	put(t, sv, "thread", "", map[string]any{"a": "b"})
	if r, err := q.Get(t.Context(), submitted.ID); err != nil || r.ThreadID != "thread" {
		t.Error(r, err)
	}
	get(t, sv, saver.Config{ThreadID: "thread"})
	clear := pgtest.Column(t, pgtest.Connect(t, admin), `SELECT query FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'stele' AND NOT ssl`)
	if len(clear) > 0 {
		t.Errorf("not encrypted: %v", clear)
	}
}
