package bucket

import (
	"fmt"
	"strings"
)

const (
	maxKey  = 512
	maxPart = 200 // what file systems allow in a name, with room for what Dir adds
)

// CheckKey returns ErrRefused, with what is wrong, unless key can be that of an object: 1 to
// 512 bytes of a-z, 0-9, "-", "_", "." and "/", in which no part between slashes is empty, begins
// with a dot or has more than 200 bytes.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("%w: a key of %d bytes; 1 to %d are allowed", ErrRefused, len(key), maxKey)
	}
	for part := range strings.SplitSeq(key, "/") {
		if !isPart(part) {
			return fmt.Errorf("%w: key %q: %q is no part of a key", ErrRefused, key, part)
		}
	}
	return nil
}

// CheckPut returns ErrRefused for what no Bucket puts: a key that is none, or two conditions.
func CheckPut(key string, cond Condition) error {
	if cond.IfAbsent && cond.IfMatch != "" {
		return fmt.Errorf("%w: key %q: IfAbsent and IfMatch exclude each other", ErrRefused, key)
	}
	return CheckKey(key)
}

// CheckGet returns ErrRefused for what no Bucket gets: a key that is none, or a negative range.
func CheckGet(key string, o GetOptions) error {
	if o.Offset < 0 || o.Length < 0 {
		return fmt.Errorf("%w: key %q: %d bytes from %d", ErrRefused, key, o.Length, o.Offset)
	}
	return CheckKey(key)
}

// isPart reports whether s can stand between the slashes of a key.
func isPart(s string) bool {
	if s == "" || s[0] == '.' || len(s) > maxPart {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
