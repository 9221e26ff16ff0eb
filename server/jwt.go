package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// JWTOptions say which tokens JWT takes.
type JWTOptions struct {
	// Issuer is who issues the tokens: their claim iss. Required.
	Issuer string
	// Audience is whom the tokens are for: their claim aud has one of these. Required, so
	// that a token for another service is refused.
	Audience []string
	// KeysURL is where the issuer publishes its public keys, as a JSON Web Key Set. It must
	// be https; http is taken for loopback addresses. Required.
	KeysURL string
	// Algorithms are those that a token may be signed with; nil is RS256 and ES256. All must
	// be asymmetric.
	Algorithms []string
	// Leeway is by how much the clock of the issuer may differ; 0 is a minute.
	Leeway time.Duration
	// User makes a user of the claims of a token; an error, or a nil user, refuses it. Nil
	// takes sub as the Identity, name as the DisplayName, and as Permissions the claim
	// permissions, or the words of scope.
	User func(ctx context.Context, claims map[string]any) (*User, error)
	// Client fetches the keys. Nil is one that waits 10 seconds and follows no redirects.
	Client *http.Client
}

// JWT authenticates by a JSON Web Token in the header Authorization, as Bearer does. A token
// must be signed by a key of the issuer, by one of the algorithms; it must be of the issuer,
// for the audience, not before its time, and not expired. One without an expiry is refused.
//
// The keys are fetched when the first token comes, and again when they are older than 10
// minutes, or a token names a key that is not among them, but not more often than every 10
// seconds. While they cannot be fetched, those that were are used until they are an hour old:
// so long does a key that the issuer withdraws count at most. Then, and when no key was ever
// fetched, requests are refused with 503.
//
// It returns an error if the options are not complete.
func JWT(o JWTOptions) (*Auth, error) {
	switch {
	case o.Issuer == "":
		return nil, errors.New("server: JWT needs an Issuer")
	case len(o.Audience) == 0 || slices.Contains(o.Audience, ""):
		return nil, errors.New("server: JWT needs an Audience")
	}
	if len(o.Algorithms) == 0 {
		o.Algorithms = []string{string(jose.RS256), string(jose.ES256)}
	}
	algorithms := make([]jose.SignatureAlgorithm, len(o.Algorithms))
	for i, a := range o.Algorithms {
		// With HS256 a public key would be a secret; "none" signs nothing.
		if !slices.Contains(asymmetric, jose.SignatureAlgorithm(a)) {
			return nil, fmt.Errorf("server: JWT: %q is no asymmetric algorithm; there are %s", a, asymmetric)
		}
		algorithms[i] = jose.SignatureAlgorithm(a)
	}
	if o.Leeway == 0 {
		o.Leeway = time.Minute
	}
	if o.User == nil {
		o.User = userOfClaims
	}
	keys, err := newKeySet(o.KeysURL, o.Client)
	if err != nil {
		return nil, err
	}
	return Bearer(func(ctx context.Context, token string) (*User, error) {
		claims, err := verified(ctx, token, algorithms, keys, o)
		if err != nil {
			return nil, err
		}
		return o.User(ctx, claims)
	}), nil
}

var asymmetric = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384,
	jose.ES512, jose.EdDSA}

// errToken is the error for a wrong token. Clients are not told what is wrong with it.
var errToken = &AuthError{"Invalid token"}

// verified are the claims of a token that holds.
func verified(ctx context.Context, text string, algorithms []jose.SignatureAlgorithm, keys *keySet, o JWTOptions) (map[string]any, error) {
	token, err := jwt.ParseSigned(text, algorithms)
	if err != nil || len(token.Headers) != 1 || token.Headers[0].KeyID == "" {
		return nil, errToken
	}
	head := token.Headers[0]
	candidates, err := keys.named(ctx, head.KeyID)
	if err != nil {
		return nil, err
	}
	for _, key := range candidates {
		var claims map[string]any
		var registered jwt.Claims
		if key.Algorithm != "" && key.Algorithm != head.Algorithm || token.Claims(key.Key, &claims, &registered) != nil {
			continue
		}
		expected := jwt.Expected{Issuer: o.Issuer, AnyAudience: o.Audience, Time: time.Now()}
		switch err := registered.ValidateWithLeeway(expected, o.Leeway); {
		case errors.Is(err, jwt.ErrExpired):
			return nil, &AuthError{"The token has expired"}
		case err != nil || registered.Expiry == nil:
			return nil, errToken
		}
		return claims, nil
	}
	return nil, errToken
}

// userOfClaims makes a user from the usual claims.
func userOfClaims(_ context.Context, claims map[string]any) (*User, error) {
	sub, _ := claims["sub"].(string)
	if sub == "" || strings.ContainsRune(sub, utf8.RuneError) { // JSON that is no text becomes this rune, for whatever it was
		return nil, errToken
	}
	u := &User{Identity: sub, Claims: claims}
	u.DisplayName, _ = claims["name"].(string)
	if list, ok := claims["permissions"].([]any); ok {
		u.Permissions = body{"": list}.texts("")
	} else if scope, ok := claims["scope"].(string); ok {
		u.Permissions = strings.Fields(scope)
	}
	return u, nil
}
