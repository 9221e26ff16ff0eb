package serde

import "unicode/utf8"

// Similar is a small cache of short strings, for decoding many similar values. Decoded values
// share the strings in it and nothing else. It takes at most about 4 KB. The zero Similar is
// ready for use. It is not safe for concurrent use.
type Similar struct {
	texts [similarTexts]any // strings, or nil
}

const (
	similarTexts = 32
	// similarText is the length of the longest string that is cached.
	similarText = 64
)

// SimilarDecoder decodes similar values. It is safe for concurrent use, but concurrent calls
// need different Similars.
type SimilarDecoder interface {
	// DecodeSimilar is Serializer.Decode. It is cheaper if m was used for similar values.
	DecodeSimilar(t Typed, m *Similar) (any, error)
}

// SimilarDecoderOf returns the SimilarDecoder that decodes as s does; false if there is none. A
// serializer of another package provides one with a method SimilarDecoder() (SimilarDecoder,
// bool). Embedding a Codec is not enough, because the type may have another Decode.
func SimilarDecoderOf(s Serializer) (SimilarDecoder, bool) {
	switch s := s.(type) {
	case *Codec:
		return s, true
	case interface {
		SimilarDecoder() (SimilarDecoder, bool)
	}:
		return s.SimilarDecoder()
	}
	return nil, false
}

// DecodeSimilar implements SimilarDecoder.
func (c *Codec) DecodeSimilar(t Typed, m *Similar) (any, error) {
	v, _, err := c.decode(t, m)
	return v, err
}

// text is b as a string in an interface; nil if b is not valid UTF-8.
func (m *Similar) text(b []byte) any {
	n := len(b)
	at := &m.texts[(n+int(b[0])*7+int(b[n/2])*5+int(b[n-1])*3)%similarTexts]
	if was, ok := (*at).(string); ok && was == string(b) {
		return *at
	}
	if !utf8.Valid(b) {
		return nil
	}
	*at = string(b)
	return *at
}

// text returns the string that starts at the cursor, in an interface.
func (d *decoder) text(it item) (any, error) {
	if d.similar == nil || it.n == 0 || it.n > similarText {
		return d.str(it)
	}
	b := d.cur.data[d.cur.off : d.cur.off+it.n]
	d.cur.off += it.n
	if s := d.similar.text(b); s != nil {
		return s, nil
	}
	return nil, errUTF8
}

// keyText is text for a key of a map.
func (d *decoder) keyText(it item) (string, error) {
	if d.similar == nil {
		return d.str(it)
	}
	s, err := d.text(it)
	if err != nil {
		return "", err
	}
	return s.(string), nil
}
