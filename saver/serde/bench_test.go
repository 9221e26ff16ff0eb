package serde

import (
	"fmt"
	"strings"
	"testing"
)

// chat is a list of n messages as a Go program holds them.
func chat(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = map[string]any{
			"id": fmt.Sprintf("run-%08d", i), "role": []string{"user", "assistant"}[i%2],
			"content":  strings.Repeat("The quick brown fox jumps over the lazy dog. ", 10),
			"metadata": map[string]any{"tokens": 117 + i, "finish_reason": "stop", "model": "m-large", "cost": 0.00125},
			"tools":    []any{}, "name": nil,
		}
	}
	return out
}

// pythonChat is the same as LangGraph stores it: a list of pydantic models.
func pythonChat(n int) []any {
	out := make([]any, n)
	for i := range out {
		fields := map[string]any{
			"content": strings.Repeat("The quick brown fox jumps over the lazy dog. ", 10), "additional_kwargs": map[string]any{},
			"response_metadata": map[string]any{}, "type": "human", "name": nil, "id": fmt.Sprintf("run-%08d", i),
		}
		x := NewExt(ExtPydanticV2, "langchain_core.messages.human", "HumanMessage", fields, "")
		// The field order of the class, which is not the sorted one.
		e := encoder{c: Default()}
		_ = e.fields(fieldList{
			{"content", fields["content"]}, {"additional_kwargs", fields["additional_kwargs"]}, {"response_metadata", fields["response_metadata"]},
			{"type", fields["type"]}, {"name", nil}, {"id", fields["id"]},
		})
		x.order = e.buf
		out[i] = x
	}
	return out
}

type benchMessage struct {
	ID       string         `json:"id"`
	Role     string         `json:"role"`
	Content  string         `json:"content"`
	Metadata map[string]any `json:"metadata"`
	Tools    []any          `json:"tools"`
	Name     *string        `json:"name"`
}

func benchTyped(b *testing.B, v any) Typed {
	b.Helper()
	t, err := Default().Encode(v)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(t.Data)))
	b.ReportAllocs()
	return t
}

func benchEncode(b *testing.B, v any) {
	benchTyped(b, v)
	for b.Loop() {
		if _, err := Default().Encode(v); err != nil {
			b.Fatal(err)
		}
	}
}

func benchDecode(b *testing.B, v any) {
	t := benchTyped(b, v)
	for b.Loop() {
		if _, err := Default().Decode(t); err != nil {
			b.Fatal(err)
		}
	}
}

func structChat(b *testing.B) []benchMessage {
	b.Helper()
	t, err := Default().Encode(chat(220))
	if err != nil {
		b.Fatal(err)
	}
	var out []benchMessage
	if err := Default().DecodeInto(t, &out); err != nil {
		b.Fatal(err)
	}
	return out
}

func BenchmarkEncodeMaps(b *testing.B)     { benchEncode(b, chat(220)) }
func BenchmarkEncodeStructs(b *testing.B)  { benchEncode(b, structChat(b)) }
func BenchmarkEncodeMessages(b *testing.B) { benchEncode(b, pythonChat(220)) }
func BenchmarkDecodeMaps(b *testing.B)     { benchDecode(b, chat(220)) }
func BenchmarkDecodeMessages(b *testing.B) { benchDecode(b, pythonChat(220)) }

func BenchmarkDecodeIntoStructs(b *testing.B) {
	t := benchTyped(b, chat(220))
	for b.Loop() {
		var out []benchMessage
		if err := Default().DecodeInto(t, &out); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncrypt(b *testing.B) {
	for _, name := range []string{CipherAES, CipherAESGCM} {
		b.Run(name, func(b *testing.B) {
			s, err := NewEncrypted(nil, EncryptedOptions{Key: make([]byte, 32), Cipher: name})
			if err != nil {
				b.Fatal(err)
			}
			v := chat(220)
			benchTyped(b, v)
			for b.Loop() {
				t, err := s.Encode(v)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.decrypt(t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
