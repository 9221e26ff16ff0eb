package server_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/stele-go/stele/server"
)

// issuer is a server of keys, without a network.
type issuer struct {
	mu      sync.Mutex
	keys    []jose.JSONWebKey
	down    bool
	fetched atomic.Int32
}

// RoundTrip implements http.RoundTripper.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.fetched.Add(1)
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	if w.Code == http.StatusBadGateway {
		return nil, errors.New("no route to host")
	}
	return w.Result(), nil
}

// ServeHTTP implements http.Handler.
func (i *issuer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.down {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: i.keys})
}

func (i *issuer) set(down bool, keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down, i.keys = down, keys
}

var (
	rsaKey   = must(rsa.GenerateKey(rand.Reader, 2048))
	otherKey = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
)

func public(id string, key crypto.PublicKey) jose.JSONWebKey {
	return jose.JSONWebKey{KeyID: id, Key: key, Use: "sig"}
}

// claims are those of a good token, changed.
func claims(change ...any) object {
	c := object{"iss": "https://issuer.example/", "aud": "stele", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix(), "scope": "read write", "name": "Ann"}
	for i := 0; i < len(change); i += 2 {
		if c[change[i].(string)] = change[i+1]; change[i+1] == nil {
			delete(c, change[i].(string))
		}
	}
	return c
}

// signed is a token.
func signed(alg jose.SignatureAlgorithm, id string, key any, c object) string {
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", id)))
	return must(must(signer.Sign(must(json.Marshal(c)))).CompactSerialize())
}

// raw is a token whose head and signature are made by hand.
func raw(head string, c object, sign func(text []byte) []byte) string {
	b64 := base64.RawURLEncoding.EncodeToString
	text := b64([]byte(head)) + "." + b64(must(json.Marshal(c)))
	return text + "." + b64(sign([]byte(text)))
}

func ask(a *server.Auth, token string) (*server.User, error) {
	r := httptest.NewRequest("GET", "/threads", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return a.Authenticate(r)
}

func jwtOptions(i *issuer) server.JWTOptions {
	return server.JWTOptions{Issuer: "https://issuer.example/", Audience: []string{"stele", "other"}, KeysURL: "https://issuer.example/keys", Client: &http.Client{Transport: i}}
}

// TestJWT: a token that holds is taken, and each that does not is refused.
func TestJWT(t *testing.T) {
	i := &issuer{}
	i.set(false, public("a", &rsaKey.PublicKey), public("b", &otherKey.PublicKey), jose.JSONWebKey{KeyID: "secret", Key: []byte(strings.Repeat("k", 32))},
		jose.JSONWebKey{KeyID: "sealing", Key: &rsaKey.PublicKey, Use: "enc"}, jose.JSONWebKey{KeyID: "pinned", Key: &rsaKey.PublicKey, Algorithm: "RS512"})
	auth := must(server.JWT(jwtOptions(i)))
	for _, token := range []string{signed(jose.RS256, "a", rsaKey, claims()), signed(jose.ES256, "b", otherKey, claims("aud", []string{"x", "other"})),
		signed(jose.RS256, "a", rsaKey, claims("exp", time.Now().Add(-30*time.Second).Unix()))} {
		u, err := ask(auth, token)
		if err != nil || u.Identity != "ann" || u.DisplayName != "Ann" || fmt.Sprint(u.Permissions) != "[read write]" || u.Claims["iss"] != "https://issuer.example/" {
			t.Errorf("%+v, %v", u, err)
		}
	}
	if u, err := ask(auth, signed(jose.RS256, "a", rsaKey, claims("permissions", []string{"p"}))); err != nil || fmt.Sprint(u.Permissions) != "[p]" {
		t.Errorf("%+v, %v", u, err)
	}
	hmacWith := func(secret []byte) func([]byte) []byte {
		return func(text []byte) []byte {
			m := hmac.New(sha256.New, secret)
			m.Write(text)
			return m.Sum(nil)
		}
	}
	der := must(x509.MarshalPKIXPublicKey(&rsaKey.PublicKey))
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	stranger := must(rsa.GenerateKey(rand.Reader, 2048))
	jwk := must(json.Marshal(public("a", &stranger.PublicKey)))
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	unsigned := func([]byte) []byte { return nil }
	good := signed(jose.RS256, "a", rsaKey, claims())
	for name, token := range map[string]string{
		"nothing":                        "",
		"no token":                       "a.b",
		"alg none":                       raw(`{"alg":"none","kid":"a"}`, claims(), unsigned),
		"alg None":                       raw(`{"alg":"None","kid":"a"}`, claims(), unsigned),
		"no signature":                   good[:strings.LastIndex(good, ".")+1],
		"a key as a secret (PEM)":        raw(`{"alg":"HS256","kid":"a"}`, claims(), hmacWith(text)),
		"a key as a secret (DER)":        raw(`{"alg":"HS256","kid":"a"}`, claims(), hmacWith(der)),
		"a secret of the set":            raw(`{"alg":"HS256","kid":"secret"}`, claims(), hmacWith([]byte(strings.Repeat("k", 32)))),
		"another key under the name":     signed(jose.RS256, "a", stranger, claims()),
		"a key in the token":             raw(`{"alg":"RS256","kid":"a","jwk":`+string(jwk)+`}`, claims(), func(b []byte) []byte { return rsaSign(stranger, b) }),
		"an algorithm that is not meant": signed(jose.RS512, "a", rsaKey, claims()),
		"an algorithm of another key":    signed(jose.RS256, "pinned", rsaKey, claims()),
		"EdDSA":                          signed(jose.EdDSA, "a", edKey, claims()),
		"a key for encryption":           signed(jose.RS256, "sealing", rsaKey, claims()),
		"no key id":                      raw(`{"alg":"RS256"}`, claims(), func(b []byte) []byte { return rsaSign(rsaKey, b) }),
		"an unknown critical header":     raw(`{"alg":"RS256","kid":"a","crit":["x"],"x":1}`, claims(), func(b []byte) []byte { return rsaSign(rsaKey, b) }),
		"expired":                        signed(jose.RS256, "a", rsaKey, claims("exp", time.Now().Add(-2*time.Minute).Unix())),
		"without an expiry":              signed(jose.RS256, "a", rsaKey, claims("exp", nil)),
		"not yet":                        signed(jose.RS256, "a", rsaKey, claims("nbf", time.Now().Add(time.Hour).Unix())),
		"issued later":                   signed(jose.RS256, "a", rsaKey, claims("iat", time.Now().Add(time.Hour).Unix())),
		"another issuer":                 signed(jose.RS256, "a", rsaKey, claims("iss", "https://evil.example/")),
		"no issuer":                      signed(jose.RS256, "a", rsaKey, claims("iss", nil)),
		"another audience":               signed(jose.RS256, "a", rsaKey, claims("aud", "billing")),
		"no audience":                    signed(jose.RS256, "a", rsaKey, claims("aud", nil)),
		"nobody":                         signed(jose.RS256, "a", rsaKey, claims("sub", nil)),
		"changed":                        changed(good),
	} {
		var refused *server.AuthError
		if u, err := ask(auth, token); !errors.As(err, &refused) {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
	if n := i.fetched.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
	for name, change := range map[string]func(*server.JWTOptions){
		"no issuer":   func(o *server.JWTOptions) { o.Issuer = "" },
		"no audience": func(o *server.JWTOptions) { o.Audience = nil },
		"any":         func(o *server.JWTOptions) { o.Audience = []string{""} },
		"no keys":     func(o *server.JWTOptions) { o.KeysURL = "" },
		"http":        func(o *server.JWTOptions) { o.KeysURL = "http://issuer.example/keys" },
		"none":        func(o *server.JWTOptions) { o.Algorithms = []string{"none"} },
		"HS256":       func(o *server.JWTOptions) { o.Algorithms = []string{"RS256", "HS256"} },
	} {
		o := jwtOptions(i)
		change(&o)
		if _, err := server.JWT(o); err == nil {
			t.Errorf("%s: options were taken", name)
		}
	}
}

func rsaSign(key *rsa.PrivateKey, text []byte) []byte {
	sum := sha256.Sum256(text)
	return must(rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]))
}

// changed is a token with the claims of another, and its own signature.
func changed(token string) string {
	parts := strings.Split(token, ".")
	parts[1] = base64.RawURLEncoding.EncodeToString(must(json.Marshal(claims("sub", "bob"))))
	return strings.Join(parts, ".")
}

// TestJWTKeys: keys come and go. Each step says how often the issuer was asked until then.
func TestJWTKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{}
		auth := must(server.JWT(jwtOptions(i)))
		const known, unavailable, invalid = "known", "unavailable", "invalid"
		step := func(what, id string, want string, fetches int32) {
			t.Helper()
			got := invalid
			switch _, err := ask(auth, signed(jose.RS256, id, rsaKey, claims())); {
			case err == nil:
				got = known
			case errors.Is(err, server.ErrAuthUnavailable):
				got = unavailable
			}
			synctest.Wait() // a fetch beside the request ends
			if n := i.fetched.Load(); got != want || n != fetches {
				t.Errorf("%s: %s after %d fetches, want %s after %d", what, got, n, want, fetches)
			}
		}
		i.set(true)
		step("the issuer is down from the start", "a", unavailable, 1)
		step("it is not asked again at once", "a", unavailable, 1)
		time.Sleep(10 * time.Second)
		i.set(false, public("a", &rsaKey.PublicKey))
		step("it is there", "a", known, 2)
		for range 100 {
			step("an unknown key does not make it asked each time", "x", invalid, 2)
		}
		time.Sleep(10 * time.Second)
		step("but later", "x", invalid, 3)
		time.Sleep(10 * time.Second)
		i.set(false, public("a", &rsaKey.PublicKey), public("b", &rsaKey.PublicKey))
		step("a new key", "b", known, 4)
		step("and the one before", "a", known, 4)
		i.set(false, public("b", &rsaKey.PublicKey))
		step("a key that is withdrawn, while the keys are fresh", "a", known, 4)
		time.Sleep(10 * time.Minute)
		step("is used once more, while others are fetched", "a", known, 5)
		step("and not any more", "a", invalid, 5)
		i.set(true)
		time.Sleep(30 * time.Minute)
		step("the issuer is down", "b", known, 6)
		step("so of another key nothing can be said", "c", unavailable, 6)
		time.Sleep(29*time.Minute + 59*time.Second)
		step("an hour long", "b", known, 7)
		time.Sleep(time.Second)
		step("and no longer", "b", unavailable, 7)
		time.Sleep(10 * time.Second)
		i.set(false, public("b", &rsaKey.PublicKey))
		step("it is back", "b", known, 8)
	})
}

// TestJWTFetchIsShared: many requests wait for one fetch, and one whose client leaves does not
// end it.
func TestJWTFetchIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{}
		i.set(false, public("a", &rsaKey.PublicKey))
		held := make(chan struct{})
		o := jwtOptions(i)
		o.Client.Transport = transport(func(r *http.Request) (*http.Response, error) {
			<-held
			return i.RoundTrip(r)
		})
		auth := must(server.JWT(o))
		token := signed(jose.RS256, "a", rsaKey, claims())
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := ask(auth, token); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(held)
		wg.Wait()
		if n := i.fetched.Load(); n != 1 {
			t.Errorf("%d fetches", n)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestJWTServed: users with tokens are users like others, and without keys nobody gets in.
func TestJWTServed(t *testing.T) {
	i := &issuer{}
	i.set(false, public("a", &rsaKey.PublicKey))
	var log bytes.Buffer
	auth := must(server.JWT(jwtOptions(i)))
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Auth = auth
		c.Logger = logTo(&log)
	})
	ann, bob := []string{"Authorization", "Bearer " + signed(jose.RS256, "a", rsaKey, claims())}, []string{"Authorization", "Bearer " + signed(jose.RS256, "a", rsaKey, claims("sub", "auth0|bob"))}
	id := h.ok("POST", "/threads", object{}, ann...).text1("thread_id")
	h.refused(404, "GET", "/threads/"+id, nil, bob...)
	h.ok("GET", "/threads/"+id, nil, ann...)
	h.equal(h.refused(401, "GET", "/threads/"+id, nil, "Authorization", "Bearer x"), `{"detail":"Invalid token"}`)

	i.set(true)
	auth = must(server.JWT(jwtOptions(i)))
	h = open(t, t.TempDir(), func(c *server.Config) {
		c.Auth = auth
		c.Logger = logTo(&log)
	})
	h.refused(503, "POST", "/threads", object{}, ann...)
	h.refused(401, "POST", "/threads", object{})
	if !strings.Contains(log.String(), "no route to host") {
		t.Errorf("the reason is not logged: %s", log.String())
	}
}

// The set of an issuer that redirects, is too long, or has no keys, is none.
func TestJWTWrongKeys(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/keys" {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
				return
			}
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public("a", &rsaKey.PublicKey)}})
		},
		"no JSON":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"no keys":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"keys":[{"kty":"?"}]}`) },
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"too long": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), 1<<20+1)) },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(answer)
			defer srv.Close()
			o := jwtOptions(nil)
			o.KeysURL, o.Client = srv.URL+"/keys", nil
			if _, err := ask(must(server.JWT(o)), signed(jose.RS256, "a", rsaKey, claims())); !errors.Is(err, server.ErrAuthUnavailable) {
				t.Error(err)
			}
		})
	}
}
