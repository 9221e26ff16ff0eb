package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stele-go/stele/store"
)

// usersSpace is the first label of the places of users. It keeps the items of users apart from those of
// programs and of the server, whatever a user is called.
const usersSpace = "__stele_users__"

// placeMost bounds the label of a place in bytes: most of the 2 KiB that a namespace may have are left
// to the labels below it.
const placeMost = 255

// ItemsOf is the place of a user: the namespace of the store below which the items are that this
// user, and no other, sees under OwnThings. A client's namespace ("facts") is ItemsOf(identity) with
// "facts" behind it. So a node that stores something for the user whose run it is stores it there:
//
//	user, ok := server.UserOf(ctx)
//	err := task.Store.Put(ctx, append(server.ItemsOf(user.Identity), "facts"), key, value)
//
// Any identity has a place, and no two have one. The place has two labels: "__stele_users__", and the
// identity, in which "%XX" stands for each byte of "%", ".", "*", U+0000 and what is not UTF-8. In the
// place of a longer one than 255 bytes it is "%sha256-" and the digest of the identity, and "%" in that
// of the empty one, which nobody has: under NoAuth clients see places by their whole namespaces.
func ItemsOf(identity string) store.Namespace {
	return store.Namespace{usersSpace, placeLabel(identity)}
}

// placeLabel is an identity as a label that every store takes, injectively: behind each "%" that an
// escape writes come two upper-case hexadecimal digits, and behind no other.
func placeLabel(identity string) string {
	if identity == "" {
		return "%"
	}
	var b strings.Builder
	for i := 0; i < len(identity); {
		r, n := utf8.DecodeRuneInString(identity[i:])
		if r == utf8.RuneError && n == 1 || strings.ContainsRune("%.*\x00", r) {
			fmt.Fprintf(&b, "%%%02X", identity[i])
		} else {
			b.WriteString(identity[i : i+n])
		}
		i += n
	}
	if b.Len() > placeMost {
		sum := sha256.Sum256([]byte(identity))
		return "%sha256-" + hex.EncodeToString(sum[:])
	}
	return b.String()
}

// formerPlace returns the namespace that OwnThings of earlier versions granted an identity: at the root
// of the store, where programs store as well.
func formerPlace(identity string) store.Namespace {
	if identity == "*" {
		return store.Namespace{"%2A"}
	}
	return store.Namespace{strings.NewReplacer("%", "%25", ".", "%2E").Replace(identity)}
}

// signalsSpace is the namespace of package pregel's signals.
const signalsSpace = "__stele_signals__"

// reserved reports whether a namespace is not for clients: that of the server, the places of users, signals,
// and, as their labels have dots, those of a queue in the same store.
func reserved(ns store.Namespace) bool {
	return len(ns) > 0 && (ns[0] == space || ns[0] == usersSpace || ns[0] == signalsSpace || strings.Contains(ns[0], "."))
}

// ownPlace reports whether a namespace is the place of an identity, or below it.
func ownPlace(ns store.Namespace, identity string) bool {
	own := ItemsOf(identity)
	return len(ns) >= len(own) && slices.Equal(ns[:len(own)], own)
}
